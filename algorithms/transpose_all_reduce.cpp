// Transpose all-reduce: round i swaps with the ranks i away, as in pairwise_all_to_all.cpp; first shares, then sums.
//
//     round i         send x's chunk r+i → r+i,  add r−i's share to chunk r       1 ≤ i < p
//     round p−1+i     send chunk r's sum → r+i,  take r−i's
//
// One message to and from everybody at a time, so no port is overrun, and a loss holds up one round's pairs alone: that of
// OptiReduce (NSDI'25). Where the last share and the sum leave in one step a link holds two. Time 2(p−1)α + 2(p−1)/p·mβ +
// (p−1)/p·mγ.
#include "algorithms/algorithms.h"
#include "algorithms/phases.h"

namespace tutti {
namespace transpose_all_reduce_detail {

Shape shape(const Problem& problem, const View&, const Parameters&) {
  return {.chunks = static_cast<std::uint32_t>(problem.ranks), .lanes = 1, .credit = 2, .message_cells = 1};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const int p = builder.ranks();
  const int rank = builder.rank();
  const auto own = static_cast<std::uint32_t>(rank);
  for (int i = 1; i < p; ++i) {
    const int to = wrap_rank(rank + i, p);
    lane.move({input(static_cast<std::uint32_t>(to))}, {lane.to(to)});
    const Ref sum = i == 1 ? input(own) : output(own);
    fold(lane, i == p - 1 ? SumState::complete : SumState::partial,
         std::initializer_list<Ref>{sum, lane.from(wrap_rank(rank - i, p))}, std::initializer_list<Ref>{output(own)});
  }
  for (int i = 1; i < p; ++i) {
    const int from = wrap_rank(rank - i, p);
    lane.move({output(own)}, {lane.to(wrap_rank(rank + i, p))});
    lane.move({lane.from(from)}, {output(static_cast<std::uint32_t>(from))});
  }
}

Cost cost(const Problem& problem, const View&) {
  const double p = problem.ranks;
  return {2 * (p - 1), 2 * (p - 1) / p, (p - 1) / p};
}

}  // namespace transpose_all_reduce_detail

const Algorithm transpose_all_reduce = {"transpose",
                                        Collective::all_reduce,
                                        "shares, then sums, swapped with one rank after another; the least bytes",
                                        always_fits,
                                        transpose_all_reduce_detail::shape,
                                        transpose_all_reduce_detail::build,
                                        transpose_all_reduce_detail::cost,
                                        around_a_ring};

}  // namespace tutti
