// Chain reduce: sums travel to the root along a chain, chunk by chunk, while the next is coming in.
//
//     root ←─ root+1 ←─ root+2 ←─ … ←─ root+p−1          x_v + (sum of v+1 …)  →  v−1
//
// Every link carries the buffer once: the least for long messages. Time (p−2+n)(α + m/n·(β + γ)) for n pieces.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace chain_reduce_detail {

constexpr std::uint32_t pieces_per_window = 4;

Shape shape(const Problem&, const View&, const Parameters&) {
  return {.chunks = pieces_per_window, .lanes = 1, .message_cells = 1};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const Rooted chain{builder.problem().root, builder.ranks()};
  const int position = chain.position(builder.rank());
  for (std::uint32_t c = 0; c < pieces_per_window; ++c) {
    std::vector<Ref> sources{input(c)};
    if (position + 1 < chain.p) sources.push_back(lane.from(chain.rank(position + 1)));
    if (position == 0) {
      lane.complete(sources, std::vector{output(c)});
    } else {
      lane.move(sources, std::vector{lane.to(chain.rank(position - 1))});
    }
  }
}

Cost cost(const Problem& problem, const View& view) {
  const double n = pieces(problem, pieces_per_window);
  Cost cost = chain_cost(problem, view, n);
  cost.gammas = cost.alphas / n;
  return cost;
}

}  // namespace chain_reduce_detail

const Algorithm chain_reduce = {"chain",
                                Collective::reduce,
                                "summed from rank to rank in a pipeline; the least bytes",
                                always_fits,
                                chain_reduce_detail::shape,
                                chain_reduce_detail::build,
                                chain_reduce_detail::cost};

}  // namespace tutti
