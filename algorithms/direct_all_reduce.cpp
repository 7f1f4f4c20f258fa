// Direct all-reduce: every rank owns one chunk, gets everybody's share of it, folds once, and hands the sum to all
// (direct_fold.h). The ring's bytes in two waits, and floats of 8 and 16 bits are rounded once. Time 2α + 2(p−1)/p·mβ +
// (p−1)/p·mγ, and the posting of 2(p−1) messages.
#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"
#include "algorithms/direct_fold.h"

namespace tutti {
namespace direct_all_reduce_detail {

Cost cost(const Problem& problem, const View&) {
  const double p = problem.ranks;
  const double messages = 2 * filled(problem, problem.ranks) * (p - 1) / p;
  const double local_operands = problem.local_operands;
  return {.alphas = 2,
          .betas = (local_operands + 1) * (p - 1) / p,
          .gammas = local_operands * (p - 1) / p,
          .messages = messages,
          .posted = 2 * (p - 2)};
}

}  // namespace direct_all_reduce_detail

const Algorithm direct_all_reduce = {"direct",
                                     Collective::all_reduce,
                                     "two exchanges with everybody; the least bytes in two waits",
                                     always_fits,
                                     direct_fold_shape,
                                     build_direct_fold,
                                     direct_all_reduce_detail::cost,
                                     nullptr,
                                     false,
                                     true};

}  // namespace tutti
