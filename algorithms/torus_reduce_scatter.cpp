// Torus reduce-scatter: the first half of torus_all_reduce.cpp, on blocks. Part j is chunk j of every block.
//
// Time Σ(dᵢ−1)α + p/2D·(1−1/p)·mβ + (p−1)mγ for equal dimensions, m a block's bytes.
#include "algorithms/algorithms.h"
#include "algorithms/tori.h"

namespace tutti {
namespace torus_reduce_scatter_detail {

Shape shape(const Problem& problem, const View& view, const Parameters&) {
  const Grid torus = torus_of(view);
  const std::uint32_t most = static_cast<std::uint32_t>(problem.ranks) / smallest_dimension(torus);
  return {.chunks = torus_parts(torus),
          .lanes = torus_parts(torus),
          .credit = 2,
          .scratch_blocks = torus.size() > 1 ? most : 0,
          .message_cells = most};
}

void build(Builder& builder, const View& view, const Parameters&) {
  const Grid torus = torus_of(view);
  const auto axes = *block_axes(torus);
  for (std::uint32_t part = 0; part < torus_parts(torus); ++part) {
    reduce_scatter_over(part_tour(torus, builder.rank(), part), axes, part, [&](int) { return builder.lane(part); });
  }
}

Cost cost(const Problem& problem, const View& view) {
  Cost cost = torus_blocks_cost(problem, view);
  cost.gammas = problem.ranks - 1.0;
  return cost;
}

}  // namespace torus_reduce_scatter_detail

const Algorithm torus_reduce_scatter = {"torus",
                                        Collective::reduce_scatter,
                                        "rings of one dimension after another on all ports of a torus",
                                        on_torus,
                                        torus_reduce_scatter_detail::shape,
                                        torus_reduce_scatter_detail::build,
                                        torus_reduce_scatter_detail::cost,
                                        on_the_torus};

}  // namespace tutti
