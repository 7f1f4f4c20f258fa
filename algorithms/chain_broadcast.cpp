// Chain broadcast: every rank hands on what it gets, chunk by chunk, while the next is coming in.
//
//     root ─→ root+1 ─→ root+2 ─→ … ─→ root+p−1
//
// Every link carries the buffer once: the least for long messages. Time (p−2+n)(α + m/n·β) for n pieces.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace chain_broadcast_detail {

constexpr std::uint32_t pieces_per_window = 4;

Shape shape(const Problem&, const View&, const Parameters&) {
  return {.chunks = pieces_per_window, .lanes = 1, .message_cells = 1};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const Rooted chain{builder.problem().root, builder.ranks()};
  const int position = chain.position(builder.rank());
  for (std::uint32_t c = 0; c < pieces_per_window; ++c) {
    std::vector<Ref> destinations{output(c)};
    if (position + 1 < chain.p) destinations.push_back(lane.to(chain.rank(position + 1)));
    lane.move(std::vector{position == 0 ? input(c) : lane.from(chain.rank(position - 1))}, destinations);
  }
}

Cost cost(const Problem& problem, const View& view) {
  return chain_cost(problem, view, pieces(problem, pieces_per_window));
}

}  // namespace chain_broadcast_detail

const Algorithm chain_broadcast = {"chain",
                                   Collective::broadcast,
                                   "handed on from rank to rank in a pipeline; the least bytes",
                                   always_fits,
                                   chain_broadcast_detail::shape,
                                   chain_broadcast_detail::build,
                                   chain_broadcast_detail::cost};

}  // namespace tutti
