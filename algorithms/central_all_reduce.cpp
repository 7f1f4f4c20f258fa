// Central all-reduce: one server, rank 0, gets everybody's share, folds them in rank order in one sweep, and tells
// everybody.
//
//     1 2 3 … p−1  ─→  0        x_0 + x_1 + … + x_{p−1}
//     0  ─→  1 2 3 … p−1
//
// What a parameter server does, and what the others are measured against: its port carries everything. Time 2α + 2(p−1)mβ +
// (p−1)mγ, and the posting of 2(p−1) messages.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"
#include "algorithms/operands.h"

namespace tutti {
namespace central_all_reduce_detail {

Shape shape(const Problem& problem, const View&, const Parameters&) {
  return {
      .chunks = 1, .lanes = 1, .scratch_blocks = blocks_of_taken(problem), .message_cells = cells_of_message(problem, 1)};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  if (builder.rank() != 0) {
    lane.move({own_operands(builder, 0)}, {lane.to(0)});
    lane.move({lane.from(0)}, {output(0)});
    return;
  }
  std::vector<Ref> results{output(0)};
  for (int r = 1; r < builder.ranks(); ++r) results.push_back(lane.to(r));
  lane.complete(taken_operands(builder, lane, 0, 0), results);
}

Cost cost(const Problem& problem, const View&) {
  const double others = problem.ranks - 1;
  const double edges = tree_messages(problem);
  return {.alphas = 2,
          .betas = others * (problem.local_operands + 1),
          .gammas = others * problem.local_operands,
          .messages = 2 * edges,
          .sent = edges * (problem.local_operands + 1),
          .posted = 2 * (others - 1),
          .pattern = CommunicationPattern::central};
}

}  // namespace central_all_reduce_detail

const Algorithm central_all_reduce = {"central",
                                      Collective::all_reduce,
                                      "one rank sums for all, as a parameter server does; its port carries everything",
                                      always_fits,
                                      central_all_reduce_detail::shape,
                                      central_all_reduce_detail::build,
                                      central_all_reduce_detail::cost,
                                      nullptr,
                                      false,
                                      true};

}  // namespace tutti
