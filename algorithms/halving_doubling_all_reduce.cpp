// Halving-doubling all-reduce (Rabenseifner): sums of ever smaller parts with partners ever farther away, then back.
//
//     chunks      0 1 2 3        member 0          member 1          member 2          member 3
//     halving     ⇄ distance 1   sums 0 1  ─ swap ─ sums 2 3         sums 0 1  ─ swap ─ sums 2 3
//                 ⇄ distance 2   sums 0    ───── swap with 2         sums 1    ───── swap with 0
//     doubling    the same way back, handing out
//
// Near partners swap the large parts. Partners stand for neighbouring intervals of ranks and the lower is first in every
// fold, so sums are in rank order. Other than powers of two: powers.h. Rabenseifner 2004.
//
// Between machines every swap, there and back, is a lane. On one lane, a rank whose share comes early sends the next one
// while its last still leaves, on the same port: who waits for that is late, and then everybody (8 machines, 16 MiB: 1.4
// times the time). Lanes have another pass to send meanwhile. On one machine ranks move bytes themselves; lanes only cost.
// Time 2hα + 2(p−1)/p·mβ + (p−1)/p·mγ for p = 2^h; others 2α + 2mβ + mγ more.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/phases.h"
#include "algorithms/powers.h"

namespace tutti {
namespace halving_doubling_all_reduce_detail {

Shape shape(const Problem& problem, const View& view, const Parameters& parameters) {
  const int members = power_floor(problem.ranks);
  const auto chunks = static_cast<std::uint32_t>(members);
  if (members < 4 || view.machines() == 1) return {.chunks = chunks, .lanes = 1, .credit = 2, .message_cells = chunks / 2};
  const auto lanes = static_cast<std::uint32_t>(2 * log2_ceil(members) - 1);
  return {.chunks = chunks,
          .lanes = lanes,
          .depth = or_default(parameters.depth, lanes),
          .credit = 2,
          .message_cells = chunks / 2 * shortening(problem, 2)};
}

/// A member's partners, near to far.
std::vector<Swap> swaps_of(const PowerMember& me) {
  std::vector<Swap> swaps;
  for (int distance = 1; distance < me.size; distance *= 2) {
    swaps.push_back({me.rank_of(me.member ^ distance), (me.member & distance) != 0});
  }
  return swaps;
}

void build(Builder& builder, const View&, const Parameters&) {
  const std::uint32_t lanes = builder.shape().lanes;
  const LaneBuilder there = builder.lane(0);
  const LaneBuilder back = builder.lane(lanes - 1);
  const int rank = builder.rank();
  const PowerMember me(rank, builder.ranks());
  const Part all{0, static_cast<std::uint32_t>(me.size)};
  if (me.extra) {
    for (const Part& part : {all.lower(), all.upper()}) there.move({part.in()}, {there.to(rank + 1)});
    for (const Part& part : {all.lower(), all.upper()}) back.move({back.from(rank + 1)}, {part.out()});
    return;
  }
  if (me.helps) {
    for (const Part& part : {all.lower(), all.upper()}) there.move({there.from(rank - 1), part.in()}, {part.out()});
  }
  const auto lane = [&](std::size_t index) { return builder.lane(lanes == 1 ? 0 : static_cast<std::uint32_t>(index)); };
  all_reduce_by_halving(all, swaps_of(me), me.helps ? OperandSource::sums : OperandSource::input, lane,
                        [&](std::size_t swap) { return lane(lanes - 1 - swap); });
  if (me.helps) {
    for (const Part& part : {all.lower(), all.upper()}) back.move({part.out()}, {back.to(rank - 1)});
  }
}

Cost cost(const Problem& problem, const View&) {
  const int members = power_floor(problem.ranks);
  const double h = log2_ceil(members);
  const double share = (members - 1.0) / members;
  const double around = members == problem.ranks ? 0 : 1;
  const double chunks = filled(problem, members);
  const double messages = 2 * (members * std::min(h, chunks * share) + (problem.ranks - members) * std::min(2.0, chunks));
  const double sent = 2 * members * share + 2 * (problem.ranks - members);
  return {2 * h + 2 * around, 2 * share + 2 * around, share + around, messages / problem.ranks, sent / problem.ranks};
}

}  // namespace halving_doubling_all_reduce_detail

const Algorithm halving_doubling_all_reduce = {"halving_doubling",
                                               Collective::all_reduce,
                                               "halves swapped near to far and back; the least bytes in 2 log2 p waits",
                                               always_fits,
                                               halving_doubling_all_reduce_detail::shape,
                                               halving_doubling_all_reduce_detail::build,
                                               halving_doubling_all_reduce_detail::cost,
                                               hypercube_symmetry};

}  // namespace tutti
