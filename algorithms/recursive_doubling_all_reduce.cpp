// Recursive-doubling all-reduce: in round j everybody swaps all it has with the member 2^j away, and adds.
//
//     round 0     0 ⇄ 1   2 ⇄ 3   4 ⇄ 5   6 ⇄ 7
//     round 1     0 ⇄ 2   1 ⇄ 3   4 ⇄ 6   5 ⇄ 7       the lower side stands first in every fold:
//     round 2     0 ⇄ 4   1 ⇄ 5   2 ⇄ 6   3 ⇄ 7       all results have the same bits, in rank order
//
// Sums alternate between two blocks of scratch, so that nobody overwrites what its partner may still be reading. Other
// than powers of two: powers.h. Time h(α + mβ + mγ) for 2^h ranks; others two messages more.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/powers.h"

namespace tutti {
namespace recursive_doubling_all_reduce_detail {

Shape shape(const Problem&, const View&, const Parameters&) {
  return {.chunks = 1, .lanes = 1, .scratch_blocks = 3, .message_cells = 1};
}

Ref half(int round) { return scratch(block_range(static_cast<std::uint32_t>(round % 2))); }

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const int rank = builder.rank();
  const PowerMember me(rank, builder.ranks());
  if (me.extra) {
    lane.move({input(0)}, {lane.to(rank + 1)});
    lane.move({lane.from(rank + 1)}, {output(0)});
    return;
  }
  Ref sum = input(0);
  if (me.helps) {
    sum = half(1);
    lane.move({lane.from(rank - 1), input(0)}, {sum});
  }
  for (int round = 0, distance = 1; distance < me.size; ++round, distance *= 2) {
    const int member = me.member ^ distance;
    const int partner = me.rank_of(member);
    if (sum.place == Place::input) {
      // In place the result overwrites the input: what peers may pull is a copy.
      lane.move({sum}, {scratch(block_range(2)), lane.to(partner)});
    } else {
      lane.move({sum}, {lane.to(partner)});
    }
    const Ref first = member < me.member ? lane.from(partner) : sum;
    const Ref second = member < me.member ? sum : lane.from(partner);
    if (distance * 2 == me.size) {
      lane.complete({first, second}, {output(0)});
    } else {
      lane.move({first, second}, {half(round)});
      sum = half(round);
    }
  }
  if (me.helps) lane.move({output(0)}, {lane.to(rank - 1)});
}

Cost cost(const Problem& problem, const View&) {
  const int members = power_floor(problem.ranks);
  const double h = log2_ceil(members);
  const double around = members == problem.ranks ? 0 : 1;
  const double messages = (members * h + 2 * (problem.ranks - members)) / problem.ranks;
  return {h + 2 * around, h + 2 * around, h + around, messages, messages};
}

}  // namespace recursive_doubling_all_reduce_detail

const Algorithm recursive_doubling_all_reduce = {"recursive_doubling",
                                                 Collective::all_reduce,
                                                 "everybody swaps all it has, log2 p times; the fewest waits",
                                                 always_fits,
                                                 recursive_doubling_all_reduce_detail::shape,
                                                 recursive_doubling_all_reduce_detail::build,
                                                 recursive_doubling_all_reduce_detail::cost,
                                                 hypercube_symmetry};

}  // namespace tutti
