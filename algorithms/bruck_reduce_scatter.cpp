// Logarithmic reduce-scatter: bruck_all_gather.cpp backwards. In each round everybody sends half of the sums it has left to
// the rank they are nearer to, and adds what it gets to the other half.
//
//     rank 0 has  0 1 2 3 4 5 6        sums for the blocks r + 0, r + 1, … ("offsets"), p = 7
//     round       0 1 2 3              offsets 4 5 6 → rank 4, and 0 1 2 += what rank 3 sends
//     round       0 1                  offsets 2 3 → rank 2
//     round       0                    offset 1 → rank 1: block r is complete
//
// Any p. In the second round some sums are still the bare input, which then travels as a message of its own.
// Time hα + (p−1)mβ + (p−1)mγ, h = ⌈log₂ p⌉; one message more for p other than 2^h and 3·2^(h−2).
#include <algorithm>
#include <bit>

#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace bruck_reduce_scatter_detail {

Shape shape(const Problem& problem, const View&, const Parameters&) {
  const auto widest = static_cast<std::uint32_t>(binomial_widest(problem.ranks));
  return {.chunks = 1, .lanes = 1, .credit = 2, .scratch_blocks = problem.ranks > 2 ? widest : 0, .message_cells = widest};
}

/// Offsets [low, high) of one rank: in scratch below `summed`, bare input from there on.
struct Sums {
  int rank, p, summed;

  Ref at(int low, int high) const {
    const auto blocks = static_cast<std::uint32_t>(high - low);
    return low < summed ? scratch(block_range(static_cast<std::uint32_t>(low), blocks))
                        : input(block_range(wrap(rank + low, p), blocks));
  }
  /// Calls visit(low, high) for the parts of [low, high) below and above `border`.
  template <typename Visit>
  static void parts(int low, int high, int border, Visit visit) {
    const int middle = std::clamp(border, low, high);
    if (low < middle) visit(low, middle);
    if (middle < high) visit(middle, high);
  }
};

/// Adds what comes to the sums from offset `low` on.
void fold(const LaneBuilder& lane, const Ref& from, const Ref& own, int low, bool last) {
  if (last) {
    lane.complete({from, own}, {output(0)});
  } else {
    lane.move({from, own}, {scratch(block_range(static_cast<std::uint32_t>(low), own.range.blocks))});
  }
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const int p = builder.ranks();
  const int rank = builder.rank();
  Sums sums{rank, p, 0};
  int left = p;  // offsets [0, left) are here
  for (int distance = 1 << (log2_ceil(p) - 1); distance >= 1; distance /= 2) {
    const Ref to = lane.to(wrap_rank(rank + distance, p));
    const Ref from = lane.from(wrap_rank(rank - distance, p));
    const int kept = left - distance;  // offsets that come in, and those sent were distance higher
    // A message ends where sums end and bare input begins, at the sender or at the receiver.
    Sums::parts(distance, left, sums.summed, [&](int low, int high) {
      Sums::parts(low, high, sums.summed + distance, [&](int begin, int end) { lane.move({sums.at(begin, end)}, {to}); });
    });
    Sums::parts(0, kept, sums.summed - distance, [&](int low, int high) {
      Sums::parts(low, high, sums.summed,
                  [&](int begin, int end) { fold(lane, from, sums.at(begin, end), begin, distance == 1); });
    });
    left = distance;
    sums.summed = std::min(std::max(sums.summed, kept), left);
  }
}

Cost cost(const Problem& problem, const View&) {
  const double others = problem.ranks - 1;
  // The second round sends two messages unless the first one's sums end where the second's halves meet.
  const int summed = problem.ranks - (1 << (log2_ceil(problem.ranks) - 1));
  const bool cut = !std::has_single_bit(static_cast<unsigned>(summed)) || summed < power_floor(problem.ranks) / 2;
  return {log2_ceil(problem.ranks) + (cut && problem.ranks > 2 ? 1.0 : 0.0), others, others};
}

}  // namespace bruck_reduce_scatter_detail

const Algorithm bruck_reduce_scatter = {"bruck",
                                        Collective::reduce_scatter,
                                        "half of the sums sent on each round; the fewest waits",
                                        always_fits,
                                        bruck_reduce_scatter_detail::shape,
                                        bruck_reduce_scatter_detail::build,
                                        bruck_reduce_scatter_detail::cost,
                                        around_a_ring};

}  // namespace tutti
