// Bruck all-to-all: ⌈log₂ p⌉ rounds. A block that has to go i ranks up takes the steps of i's binary digits.
//
//     slots        1 2 3 4 5 6 7       slot i of rank r: what goes from r − (steps taken) to r + (steps left)
//     round 0      ↑   ↑   ↑   ↑       slots with bit 0 go to rank r + 1
//     round 1        ↑ ↑     ↑ ↑       slots with bit 1 go to r + 2
//     round 2              ↑ ↑ ↑ ↑     slots with bit 2 go to r + 4; then slot i is block r − i of the output
//
// What is sent is packed, and kept from where a peer may pull it, while its slots are being overwritten. Each block travels
// h/2 times on average: for small blocks. Any p. Bruck et al. 1997. Time hα + about h·p/2·mβ
// + (h·p/2 + 2(p−1))·mγ: what is packed, and copied into the slots and out of them.
#include <algorithm>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"

namespace tutti {
namespace bruck_all_to_all_detail {

/// How many i in 1 … p−1 have this bit.
std::uint32_t with_bit(int bit, int p) {
  std::uint32_t count = 0;
  for (int i = 1; i < p; ++i) count += (i & bit) != 0 ? 1 : 0;
  return count;
}

std::uint32_t widest(int p) {
  std::uint32_t most = 0;
  for (int bit = 1; bit < p; bit *= 2) most = std::max(most, with_bit(bit, p));
  return most;
}

/// Slots 1 … p−1 are scratch blocks 0 … p−2; the packed messages of even and odd rounds follow.
Shape shape(const Problem& problem, const View&, const Parameters&) {
  const std::uint32_t slots = static_cast<std::uint32_t>(problem.ranks) - 1;
  return {
      .chunks = 1, .lanes = 1, .scratch_blocks = slots + 2 * widest(problem.ranks), .message_cells = widest(problem.ranks)};
}

/// Scratch blocks of the slots with this bit: runs of `bit` slots, every other one.
Range slots_with(int bit, int p) {
  Range range = block_range(static_cast<std::uint32_t>(bit - 1), with_bit(bit, p));
  range.run = static_cast<std::uint32_t>(bit);
  range.stride = 2 * range.run;
  return range;
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const int p = builder.ranks();
  const int rank = builder.rank();
  const auto others = static_cast<std::uint32_t>(p - 1);
  lane.move({input(block_range(wrap(rank, p)))}, {output(block_range(wrap(rank, p)))});
  lane.move({input(block_range(wrap(rank + 1, p), others))}, {scratch(block_range(0, others))});
  for (int bit = 1, round = 0; bit < p; bit *= 2, ++round) {
    const Range slots = slots_with(bit, p);
    const Range packed = block_range(others + (round % 2 == 0 ? 0 : widest(p)), slots.blocks);
    lane.move({scratch(slots)}, {scratch(packed), lane.to(wrap_rank(rank + bit, p))});
    lane.move({lane.from(wrap_rank(rank - bit, p))}, {scratch(slots)});
  }
  Range downwards = block_range(wrap(rank - 1, p), others);
  downwards.stride = others;  // p − 1: one block down, around the end
  lane.move({scratch(block_range(0, others))}, {output(downwards)});
}

Cost cost(const Problem& problem, const View&) {
  double blocks = 0;
  for (int bit = 1; bit < problem.ranks; bit *= 2) blocks += with_bit(bit, problem.ranks);
  const double copies = 2.0 * (problem.ranks - 1) + blocks;  // into the slots and out of them
  const double h = log2_ceil(problem.ranks);
  return {h, blocks + copies, 0, h, blocks};
}

}  // namespace bruck_all_to_all_detail

const Algorithm bruck_all_to_all = {"bruck",
                                    Collective::all_to_all,
                                    "blocks travel by their binary digits; the fewest waits, more bytes",
                                    always_fits,
                                    bruck_all_to_all_detail::shape,
                                    bruck_all_to_all_detail::build,
                                    bruck_all_to_all_detail::cost,
                                    around_a_ring};

}  // namespace tutti
