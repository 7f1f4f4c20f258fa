// Ranks on a grid go through one dimension after another: a reduce-scatter round the ring of each, on ever smaller shares,
// then the all-gathers the same way back. What hierarchical and torus algorithms share.
//
//     dimension 0 (size 4)      share 1 of 4            dimension 1 (size 2)     share 1 of 4, share 0 of it of 2
//     [0 1|2 3|4 5|6 7]    →    [2 3]              →    [2|3]               →    [2]     and back
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "algorithms/phases.h"
#include "topology/grid.h"

namespace tutti {

/// One rank's way through a grid: the dimensions in their order, each ring forwards or backwards.
struct GridTraversal {
  const Grid& grid;
  int rank;
  std::vector<int> dimensions;
  bool forward = true;

  int phases() const { return static_cast<int>(dimensions.size()); }
  int dimension(int phase) const { return dimensions[static_cast<std::size_t>(phase)]; }
  /// The ring of a phase. Its shares are numbered by coordinates, backwards by their negatives.
  Ring ring(int phase) const {
    const int d = dimension(phase);
    const int x = grid.coordinate(rank, d);
    const int way = forward ? 1 : -1;
    return {grid[d].size, grid.neighbor(rank, d, x - way), grid.neighbor(rank, d, x + way), way * x};
  }
  /// The coordinate of the rank that owns a share.
  std::uint32_t coordinate(int phase, std::uint32_t share) const {
    return forward ? share : wrap(-static_cast<int>(share), grid[dimension(phase)].size);
  }
};

/// All dimensions, from `first` on around.
inline std::vector<int> dimensions_from(const Grid& grid, int first) {
  std::vector<int> dimensions;
  for (int k = 0; k < grid.size(); ++k) dimensions.push_back((first + k) % grid.size());
  return dimensions;
}

/// All-reduce of a part. scatters, gathers: int phase → LaneBuilder that its reduce-scatter and its all-gather run on.
template <typename Scatters, typename Gathers>
void all_reduce_over(const GridTraversal& tour, Part part, const Scatters& scatters, const Gathers& gathers) {
  std::vector<Part> parts;
  const int last = tour.phases() - 1;
  const OwnedShare turn = scatters(last).index() == gathers(last).index() ? OwnedShare::forward : OwnedShare::stays;
  for (int k = 0; k <= last; ++k) {
    const Ring ring = tour.ring(k);
    const auto share = [&](std::uint32_t s) { return part.share(s, static_cast<std::uint32_t>(ring.size)); };
    const Part owned = share(ring.after(0));
    const auto own = [&](std::uint32_t s) { return own_of(k == 0 ? OperandSource::input : OperandSource::sums, share(s)); };
    reduce_scatter_round(scatters(k), ring, own, owned.out(), k == last ? SumState::complete : SumState::partial,
                         k == last ? turn : OwnedShare::stays);
    parts.push_back(part);
    part = owned;
  }
  for (int k = last; k >= 0; --k) {
    const Ring ring = tour.ring(k);
    const Part& whole = parts[static_cast<std::size_t>(k)];
    const auto out = [&](std::uint32_t s) { return whole.share(s, static_cast<std::uint32_t>(ring.size)).out(); };
    all_gather_round(gathers(k), ring, out, k == last ? turn : OwnedShare::stays);
  }
}

/// How blocks of a buffer lie along one dimension of a grid.
struct BlockAxis {
  int size = 1;
  int stride = 1;  ///< blocks
};

/// For each dimension of the grid how far apart its ranks' blocks are, where that is the same everywhere and rank 0 comes
/// first; else nothing. O(ranks).
inline std::optional<std::vector<BlockAxis>> block_axes(const Grid& grid) {
  if (grid.rank_at(0) != 0) return std::nullopt;
  std::vector<BlockAxis> axes;
  int ranks = 1;
  for (const GridDimension& d : grid.dimensions()) {
    axes.push_back({d.size, grid.rank_at(d.stride)});
    ranks *= d.size;
  }
  for (int place = 0; place < ranks; ++place) {
    int block = 0;
    for (int k = 0; k < grid.size(); ++k) {
      const auto& d = grid[k];
      block += place / d.stride % d.size * axes[static_cast<std::size_t>(k)].stride;
    }
    if (block != grid.rank_at(place)) return std::nullopt;
  }
  return axes;
}

/// The blocks at `base` and along `free` axes, in the order of blocks; nothing where one range cannot say so.
inline std::optional<Range> blocks_along(std::vector<BlockAxis> free, int base) {
  std::sort(free.begin(), free.end(), [](const BlockAxis& a, const BlockAxis& b) { return a.stride < b.stride; });
  BlockAxis run;
  BlockAxis repeated{1, 0};
  for (const BlockAxis& axis : free) {
    if (axis.size == 1) continue;
    BlockAxis& last = repeated.size > 1 ? repeated : run;
    if (axis.stride == last.stride * last.size) {
      last.size *= axis.size;
    } else if (repeated.size > 1) {
      return std::nullopt;
    } else {
      repeated = axis;
    }
  }
  if (repeated.size == 1) repeated.stride = run.size;
  Range range;
  range.block = static_cast<std::uint32_t>(base);
  range.run = static_cast<std::uint32_t>(run.size);
  range.stride = static_cast<std::uint32_t>(repeated.stride);
  range.blocks = range.run * static_cast<std::uint32_t>(repeated.size);
  return range;
}

/// Which of a rank's blocks a tour's phases move: of one buffer, of which each phase leaves a share.
class BlockTour {
 public:
  BlockTour(const GridTraversal& tour, std::vector<BlockAxis> axes) : tour_(tour), axes_(std::move(axes)) {}

  /// Share `share` of phase `phase` of what the phases before it left this rank.
  std::optional<Range> share(int phase, std::uint32_t share) const {
    int base = 0;
    for (int k = 0; k < phase; ++k) base += tour_.grid.coordinate(tour_.rank, tour_.dimension(k)) * axis(k).stride;
    base += static_cast<int>(tour_.coordinate(phase, share)) * axis(phase).stride;
    std::vector<BlockAxis> free;
    for (int k = phase + 1; k < tour_.phases(); ++k) free.push_back(axis(k));
    return blocks_along(std::move(free), base);
  }

  /// Whether one range says each share of each phase.
  bool fits() const {
    for (int k = 0; k < tour_.phases(); ++k) {
      if (!share(k, 0)) return false;
    }
    return true;
  }

  /// The same for a buffer that has only what the first phase leaves, in the same order: its axis is gone.
  BlockTour without_first() const {
    std::vector<BlockAxis> dense = axes_;
    dense[first()].stride = 0;
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < dense.size(); ++d) {
      if (d != first()) order.push_back(d);
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return axes_[a].stride < axes_[b].stride; });
    int stride = 1;
    for (const std::size_t d : order) {
      dense[d].stride = stride;
      stride *= dense[d].size;
    }
    return {tour_, std::move(dense)};
  }

 private:
  std::size_t first() const { return static_cast<std::size_t>(tour_.dimension(0)); }
  const BlockAxis& axis(int phase) const { return axes_[static_cast<std::size_t>(tour_.dimension(phase))]; }

  const GridTraversal& tour_;
  std::vector<BlockAxis> axes_;
};

/// The same blocks, chunk `chunk` of each.
inline Range chunk_of(Range blocks, std::uint32_t chunk) {
  blocks.chunk = chunk;
  return blocks;
}

/// Reduce-scatter of chunk `chunk` of all blocks. Sums under way are in scratch, in as many blocks as the first phase
/// leaves. lanes: int phase → LaneBuilder.
template <typename Lanes>
void reduce_scatter_over(const GridTraversal& tour, const std::vector<BlockAxis>& axes, std::uint32_t chunk,
                         const Lanes& lanes) {
  const BlockTour inputs(tour, axes);
  const BlockTour sums = inputs.without_first();
  const int last = tour.phases() - 1;
  for (int k = 0; k <= last; ++k) {
    const Ring ring = tour.ring(k);
    const auto at = [&](std::uint32_t s) {
      return k == 0 ? input(chunk_of(*inputs.share(0, s), chunk)) : scratch(chunk_of(*sums.share(k, s), chunk));
    };
    const Ref total = k == last ? output(chunk) : scratch(chunk_of(*sums.share(k, ring.after(0)), chunk));
    reduce_scatter_round(lanes(k), ring, at, total, k == last ? SumState::complete : SumState::partial);
  }
}

/// All-gather of chunk `chunk` of all blocks, through the tour's dimensions in reverse. lanes: int phase → LaneBuilder.
template <typename Lanes>
void all_gather_over(const GridTraversal& tour, const std::vector<BlockAxis>& axes, std::uint32_t chunk,
                     const Lanes& lanes) {
  const BlockTour blocks(tour, axes);
  const int last = tour.phases() - 1;
  lanes(last).move({input(chunk)}, {output(chunk_of(block_range(static_cast<std::uint32_t>(tour.rank)), chunk))});
  for (int k = last; k >= 0; --k) {
    all_gather_round(lanes(k), tour.ring(k), [&](std::uint32_t s) { return output(chunk_of(*blocks.share(k, s), chunk)); });
  }
}

}  // namespace tutti
