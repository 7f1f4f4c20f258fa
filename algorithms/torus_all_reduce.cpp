// Torus all-reduce (rotated bucket): every part of the buffer is reduce-scattered round the rings of one dimension after
// another, and gathered the same way back; 2D parts use all ports at once (tori.h).
//
//     2D lanes, lane j:    dimension j: ring reduce-scatter of the part     →  d_j ranks have a share each
//                          dimension j+1: of the share                      →  …   →  complete
//                          all-gathers in reverse
//
// 16×16: 60 waits instead of the flat ring's 510. Right for any dimensions; free of conflicts where they are equal. The
// bucket algorithm of Jain & Sabharwal 2010, rotated as in Sack & Gropp 2015. Time 2Σ(dᵢ−1)α + (m/D)(1−1/p)β + …γ.
#include "algorithms/algorithms.h"
#include "algorithms/tori.h"

namespace tutti {
namespace torus_all_reduce_detail {

Shape shape(const Problem& problem, const View& view, const Parameters&) {
  const Grid torus = torus_of(view);
  const auto ranks = static_cast<std::uint32_t>(problem.ranks);
  return {.chunks = torus_parts(torus) * ranks,
          .lanes = torus_parts(torus),
          .credit = 2,
          .message_cells = ranks / smallest_dimension(torus)};
}

void build(Builder& builder, const View& view, const Parameters&) {
  const Grid torus = torus_of(view);
  const auto ranks = static_cast<std::uint32_t>(builder.ranks());
  for (std::uint32_t part = 0; part < torus_parts(torus); ++part) {
    const auto lane = [&](int) { return builder.lane(part); };
    all_reduce_over(part_tour(torus, builder.rank(), part), {part * ranks, ranks}, lane, lane);
  }
}

Cost cost(const Problem& problem, const View& view) {
  const Grid torus = torus_of(view);
  if (torus.size() == 0) return {};
  return {2 * torus_messages(torus), 2 * torus_share(torus, view), (problem.ranks - 1.0) / problem.ranks};
}

}  // namespace torus_all_reduce_detail

const Algorithm torus_all_reduce = {"torus",
                                    Collective::all_reduce,
                                    "rings of one dimension after another on all ports of a torus; the least bytes a port",
                                    on_torus,
                                    torus_all_reduce_detail::shape,
                                    torus_all_reduce_detail::build,
                                    torus_all_reduce_detail::cost,
                                    on_the_torus};

}  // namespace tutti
