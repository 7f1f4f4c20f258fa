// Pairwise all-to-all: p−1 rounds, each a permutation, in pairs of rounds that are each other's way back.
//
//     rounds i and p−i    r ─→ r+i,  r ─→ r−i,  and later  r ←─ r−i,  r ←─ r+i
//
// Four pairs are sent before the first is waited for, so that one wait is for up to 8 others.
//
// In place, block q of rank r is overwritten by what q sends, and q's by what r sends: each must let go of its block first.
// So what is sent is kept in scratch, from where a peer may pull it at leisure. An executor that copies into slots, or that
// runs out of place, need not write that scratch, as no step reads it. Time ⌈(p−1)/8⌉α and the
// posting of p−1 messages, + (p−1)mβ.
#include <algorithm>
#include <cmath>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"

namespace tutti {
namespace pairwise_all_to_all_detail {

/// Pairs of rounds whose messages are under way at once.
constexpr int most_ahead = 4;
int pairs_ahead(int ranks) { return std::min(most_ahead, ranks / 2); }

Shape shape(const Problem& problem, const View&, const Parameters&) {
  const auto kept = static_cast<std::uint32_t>(2 * pairs_ahead(problem.ranks));
  return {.chunks = 1, .lanes = 1, .scratch_blocks = kept, .message_cells = 1};
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

  // The two of one pair of rounds, or the one where going on and going back come to the same.
  const auto has_way_back = [&](int i) { return 2 * i != p; };
  const auto give = [&](int i) {
    const int slot = 2 * ((i - 1) % pairs_ahead(p));
    send(rank + i, slot);
    if (has_way_back(i)) send(rank - i, slot + 1);
  };
  const auto receive = [&](int i) {
    take(rank - i);
    if (has_way_back(i)) take(rank + i);
  };

  lane.move({input(block_range(wrap(rank, p)))}, {output(block_range(wrap(rank, p)))});
  for (int i = 1; i < p / 2 + pairs_ahead(p); ++i) {
    if (i <= p / 2) give(i);
    if (i >= pairs_ahead(p)) receive(i - pairs_ahead(p) + 1);
  }
}

Cost cost(const Problem& problem, const View&) {
  constexpr int at_once = 2 * most_ahead;
  const double others = problem.ranks - 1;
  const double waits = std::ceil(others / at_once);
  return {.alphas = waits, .betas = others, .messages = others, .posted = others - waits};
}

}  // namespace pairwise_all_to_all_detail

const Algorithm pairwise_all_to_all = {"pairwise",
                                       Collective::all_to_all,
                                       "one permutation a round; the least bytes",
                                       always_fits,
                                       pairwise_all_to_all_detail::shape,
                                       pairwise_all_to_all_detail::build,
                                       pairwise_all_to_all_detail::cost,
                                       around_a_ring,
                                       true};

}  // namespace tutti
