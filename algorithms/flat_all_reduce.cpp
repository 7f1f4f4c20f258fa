// Flat all-reduce: everybody publishes all, everybody reduces all. One wait; for small messages and few ranks.
//
//     0 ⇄ 1      every rank folds x_0 + x_1 + … + x_{p−1} in rank order, so all results have the same bits
//      ⤡ ⤢
//     2 ⇄ 3
//
// What is sent is kept in scratch: in place the result overwrites the input, which peers that pull may still be reading
// while each waits for the others. An executor that copies into slots need not write that scratch, as no step reads it.
//
// Time α + (p−1)mβ + (p−1)mγ, and the posting of p−1 messages.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"
#include "algorithms/operands.h"

namespace tutti {
namespace flat_all_reduce_detail {

Shape shape(const Problem& problem, const View&, const Parameters&) {
  return {.chunks = 1,
          .lanes = 1,
          .scratch_blocks = problem.local_operands + blocks_of_taken(problem),
          .message_cells = cells_of_message(problem, 1)};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const std::uint32_t local_operands = builder.problem().local_operands;
  std::vector<Ref> to{scratch(Range{.blocks = local_operands})};
  for (int i = 1; i < builder.ranks(); ++i) to.push_back(lane.to(wrap_rank(builder.rank() + i, builder.ranks())));
  lane.move(std::vector{own_operands(builder, 0)}, to);
  lane.complete(taken_operands(builder, lane, 0, 0, local_operands), std::vector{output(0)});
}

Cost cost(const Problem& problem, const View&) {
  const double others = problem.ranks - 1;
  const double bytes = others * problem.local_operands;
  return {.alphas = 1, .betas = bytes, .gammas = bytes, .messages = others, .posted = others - 1};
}

}  // namespace flat_all_reduce_detail

const Algorithm flat_all_reduce = {"flat",
                                   Collective::all_reduce,
                                   "everybody sends all to everybody; one wait, p-1 times the bytes",
                                   always_fits,
                                   flat_all_reduce_detail::shape,
                                   flat_all_reduce_detail::build,
                                   flat_all_reduce_detail::cost,
                                   nullptr,
                                   false,
                                   true};

}  // namespace tutti
