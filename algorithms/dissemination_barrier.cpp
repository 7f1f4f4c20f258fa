// Dissemination barrier, four ways: in round j everybody tells three ranks above, 4^j, 2·4^j and 3·4^j away, all that it
// has heard of.
//
//     round 0     r ─→ r+1, r+2, r+3
//     round 1     r ─→ r+4, r+8, r+12       after ⌈log₄ p⌉ rounds everybody has heard of everybody
//
// To post three messages takes less than to wait twice. Where waits are dearer, the view has eight ways, so seven messages.
// What is said is one byte of scratch, folded by max. Block 0 holds what was heard; copies of it, from where a peer may
// pull, are sent. Hensgen, Finkel & Manber 1988; n ways: Hoefler, Mehlan, Mietke & Rehm 2006. Time hα and the posting of 3h
// messages, h = ⌈log₄ p⌉, or 7h, h = ⌈log₈ p⌉.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"

namespace tutti {
namespace dissemination_barrier_detail {

/// Calls visit(distance, messages of each rank) for each round.
template <typename Visit>
void each_round(int ranks, const View& view, const Visit& visit) {
  const int ways = view.barrier_ways;
  for (std::int64_t distance = 1; distance < ranks; distance *= ways) {
    visit(static_cast<int>(distance), static_cast<int>(std::min<std::int64_t>(ways - 1, (ranks - 1) / distance)));
  }
}

Shape shape(const Problem&, const View&, const Parameters&) {
  return {.chunks = 1, .lanes = 1, .scratch_blocks = 3, .message_cells = 1};
}

void build(Builder& builder, const View& view, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const int p = builder.ranks();
  const int rank = builder.rank();
  const Ref heard = scratch(0);
  std::uint32_t block = 1;
  each_round(p, view, [&](int distance, int messages) {
    std::vector<Ref> said{scratch(block_range(block))};
    std::vector<Ref> told{heard};
    for (int i = 1; i <= messages; ++i) {
      said.push_back(lane.to(wrap_rank(rank + i * distance, p)));
      told.push_back(lane.from(wrap_rank(rank - i * distance, p)));
    }
    lane.move(std::vector{heard}, said);
    lane.move(told, std::vector{heard});
    block = 3 - block;
  });
}

Cost cost(const Problem& problem, const View& view) {
  Cost cost;
  each_round(problem.ranks, view, [&](int, int messages) {
    cost.alphas += 1;
    cost.messages += messages;
    cost.posted += messages - 1;
  });
  return cost;
}

}  // namespace dissemination_barrier_detail

const Algorithm dissemination_barrier = {"dissemination",
                                         Collective::barrier,
                                         "hearsay, four or eight times as far each round; the fewest waits",
                                         always_fits,
                                         dissemination_barrier_detail::shape,
                                         dissemination_barrier_detail::build,
                                         dissemination_barrier_detail::cost,
                                         around_a_ring};

}  // namespace tutti
