// Pairwise all-to-all: p−1 rounds, each a permutation, in pairs of rounds that are each other's way back.
//
//     rounds i and p−i    r ─→ r+i,  r ─→ r−i,  then  r ←─ r−i,  r ←─ r+i
//
// In place, block q of rank r is overwritten by what q sends, and q's by what r sends: each must let go of its block first.
// So what is sent is kept in scratch, from where a peer may pull it at leisure. An executor that copies into slots, or that
// runs out of place, need not write that scratch, as no step reads it. Time (p−1)(α + mβ).
#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"

namespace tutti {
namespace {

/// Pairs of rounds whose messages may be under way at once.
constexpr int rounds_ahead = 2;

Shape shape(const Problem&, const View&, const Parameters&) {
  return {.chunks = 1, .lanes = 1, .scratch_blocks = 2 * rounds_ahead, .message_cells = 1};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const int p = builder.ranks();
  const int rank = builder.rank();
  const auto send = [&](int peer, int slot) {
    const Ref kept = scratch(block_range(static_cast<std::uint32_t>(slot)));
    lane.move({input(block_range(wrap(peer, p)))}, {kept, lane.to(wrap_rank(peer, p))});
  };
  const auto take = [&](int peer) { lane.move({lane.from(wrap_rank(peer, p))}, {output(block_range(wrap(peer, p)))}); };

  lane.move({input(block_range(wrap(rank, p)))}, {output(block_range(wrap(rank, p)))});
  for (int i = 1; 2 * i <= p; ++i) {
    const int slot = 2 * (i % rounds_ahead);
    const bool alone = 2 * i == p;
    send(rank + i, slot);
    if (!alone) send(rank - i, slot + 1);
    take(rank - i);
    if (!alone) take(rank + i);
  }
}

Cost cost(const Problem& problem, const View&) {
  const double others = problem.ranks - 1;
  return {others, others, 0};
}

}  // namespace

const Algorithm pairwise_all_to_all = {
    "pairwise", Collective::all_to_all, "one permutation a round; the least bytes", always_fits, shape, build,
    cost,       around_a_ring};

}  // namespace tutti
