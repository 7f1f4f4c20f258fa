// Torus all-gather: the second half of torus_all_reduce.cpp, on blocks. Part j is chunk j of every block.
//
// Time Σ(dᵢ−1)α + p/2D·(1−1/p)·mβ for equal dimensions, m a block's bytes.
#include "algorithms/algorithms.h"
#include "algorithms/tori.h"

namespace tutti {
namespace torus_all_gather_detail {

Shape shape(const Problem& problem, const View& view, const Parameters&) {
  const Grid torus = torus_of(view);
  return {.chunks = torus_parts(torus),
          .lanes = torus_parts(torus),
          .credit = 2,
          .message_cells = static_cast<std::uint32_t>(problem.ranks) / smallest_dimension(torus)};
}

void build(Builder& builder, const View& view, const Parameters&) {
  const Grid torus = torus_of(view);
  const auto axes = *block_axes(torus);
  for (std::uint32_t part = 0; part < torus_parts(torus); ++part) {
    all_gather_over(part_tour(torus, builder.rank(), part), axes, part, [&](int) { return builder.lane(part); });
  }
}

}  // namespace torus_all_gather_detail

const Algorithm torus_all_gather = {"torus",
                                    Collective::all_gather,
                                    "rings of one dimension after another on all ports of a torus",
                                    on_torus,
                                    torus_all_gather_detail::shape,
                                    torus_all_gather_detail::build,
                                    torus_blocks_cost,
                                    on_the_torus};

}  // namespace tutti
