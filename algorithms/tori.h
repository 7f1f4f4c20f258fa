// What torus algorithms share: 2D parts of the buffer, a lane each, part j beginning in dimension j mod D, the first D
// forwards and the others backwards, so that every rank uses all of its 2D ports at once.
//
//     4x4, 4 parts      part 0    → along the last dimension but one, then ↓      in step, no two parts use a link at once,
//                       part 1    ↓ then →                                       where all dimensions are equal
//                       part 2    ← then ↑
//                       part 3    ↑ then ←
#pragma once

#include <vector>

#include "algorithms/algorithm.h"
#include "algorithms/grids.h"

namespace tutti {

/// Algorithm::fits: the view's ranks lie on a torus. One dimension is a ring of two ways.
inline bool on_torus(const Problem&, const View& view) { return torus_of(view).size() > 0; }

/// Algorithm::symmetry of those in which every rank does the same.
inline std::vector<int> on_the_torus(const Problem&, const View& view) { return {view.torus.begin(), view.torus.end()}; }

inline std::uint32_t torus_parts(const Grid& torus) { return static_cast<std::uint32_t>(2 * torus.size()); }

/// A rank's way for one part.
inline GridTraversal part_tour(const Grid& torus, int rank, std::uint32_t part) {
  const int dimension = static_cast<int>(part) % torus.size();
  return {torus, rank, dimensions_from(torus, dimension), part < static_cast<std::uint32_t>(torus.size())};
}

/// Whether every rank has the torus's ports, two in every dimension that carry at the same time. Ranks of one machine,
/// whose messages all pass its memory, have but one.
inline bool has_ports(const View& view) { return view.machines() == view.ranks(); }

/// Messages of a reduce-scatter or an all-gather over the torus: Σ(dᵢ−1).
inline double torus_messages(const Grid& torus) {
  double messages = 0;
  for (const GridDimension& d : torus.dimensions()) messages += d.size - 1;
  return messages;
}

/// What a port carries in it, of the buffer that is scattered or gathered: (1−1/p)/2D where the dimensions are equal. Where
/// they are not, parts meet on links: as much as if each phase waited for the slowest part.
inline double torus_share(const Grid& torus, const View& view) {
  if (!has_ports(view)) return 1 - 1.0 / view.ranks();
  double carried = 0;
  std::vector<double> left(static_cast<std::size_t>(torus.size()), 1);  // of each part
  for (int phase = 0; phase < torus.size(); ++phase) {
    double most = 0;
    for (int part = 0; part < torus.size(); ++part) {
      const int size = torus[(part + phase) % torus.size()].size;
      double& share = left[static_cast<std::size_t>(part)];
      most = std::max(most, share * (size - 1) / size);
      share /= size;
    }
    carried += most;
  }
  return carried / torus_parts(torus);
}

/// What carrying the blocks of a reduce-scatter or an all-gather takes; nothing where there is no torus.
inline Cost torus_blocks_cost(const Problem& problem, const View& view) {
  const Grid torus = torus_of(view);
  if (torus.size() == 0) return {};
  return {torus_messages(torus), problem.ranks * torus_share(torus, view), 0};
}

/// The smallest dimension's size: a part's longest messages are the buffer's share of it.
inline std::uint32_t smallest_dimension(const Grid& torus) {
  int smallest = torus[0].size;
  for (const GridDimension& d : torus.dimensions()) smallest = std::min(smallest, d.size);
  return static_cast<std::uint32_t>(smallest);
}

}  // namespace tutti
