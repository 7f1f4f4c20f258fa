// Direct reduce: every rank owns one chunk, gets everybody's share of it, folds once, and hands the sum to the root
// (direct_fold.h). Twice the bytes of a pipeline, in two waits. Floats of 8 and 16 bits are rounded once. Time 2α +
// 2(p−1)/p·mβ + (p−1)/p·mγ, and the posting of 2(p−1) messages.
#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"
#include "algorithms/direct_fold.h"

namespace tutti {
namespace direct_reduce_detail {

Cost cost(const Problem& problem, const View&) {
  const double p = problem.ranks;
  const double messages = filled(problem, problem.ranks) * (p - 1) / p + tree_messages(problem);
  return {.alphas = 2,
          .betas = (problem.local_operands + 1) * (p - 1) / p,
          .gammas = problem.local_operands * (p - 1) / p,
          .messages = messages,
          .sent = (p - 1) / p * (problem.local_operands + 1 / p),
          .posted = 2 * (p - 2)};
}

}  // namespace direct_reduce_detail

const Algorithm direct_reduce = {"direct",
                                 Collective::reduce,
                                 "everybody sums a part, and hands it to the root; twice the bytes in two waits",
                                 always_fits,
                                 direct_fold_shape,
                                 build_direct_fold,
                                 direct_reduce_detail::cost,
                                 nullptr,
                                 false,
                                 true,
                                 true};

}  // namespace tutti
