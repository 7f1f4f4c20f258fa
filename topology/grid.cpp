#include "topology/grid.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace tutti {
namespace {

/// From the outermost group to the innermost that a rank is in.
using Groups = std::array<std::int32_t, 3>;

Groups groups_of(const View& view, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return {view.rack.empty() ? 0 : view.rack[r], view.machine[r], view.numa[r]};
}

/// Ranks of a group that is told by the first `levels` of its ranks' Groups, where all such groups have as many; else 0.
int common_size(const std::vector<Groups>& sorted, std::ptrdiff_t levels) {
  std::ptrdiff_t common = 0;
  for (auto group = sorted.begin(); group != sorted.end();) {
    const auto outside = [&](const Groups& other) {
      return !std::equal(group->begin(), group->begin() + levels, other.begin());
    };
    const auto end = std::find_if(group, sorted.end(), outside);
    if (common != 0 && end - group != common) return 0;
    common = end - group;
    group = end;
  }
  return static_cast<int>(common);
}

}  // namespace

Grid::Grid(std::vector<GridDimension> dimensions, std::vector<int> order)
    : dimensions_(std::move(dimensions)), order_(std::move(order)), places_(order_.size()) {
  for (std::size_t place = 0; place < order_.size(); ++place) {
    places_[static_cast<std::size_t>(order_[place])] = static_cast<int>(place);
  }
}

int Grid::neighbor(int rank, int dimension, int coordinate) const {
  const GridDimension& d = (*this)[dimension];
  const int place = place_of(rank);
  const int wrapped = (coordinate % d.size + d.size) % d.size;
  return rank_at(place + (wrapped - place / d.stride % d.size) * d.stride);
}

Grid torus_of(const View& view) {
  std::vector<GridDimension> dimensions;
  std::int64_t stride = 1;
  for (auto size = view.torus.rbegin(); size != view.torus.rend(); ++size) {
    if (*size < 1 || stride * *size > view.ranks()) return Grid({}, {});
    if (*size > 1) dimensions.push_back({*size, static_cast<int>(stride), LinkClass::self});
    stride *= *size;
  }
  if (stride != view.ranks()) return Grid({}, {});
  std::reverse(dimensions.begin(), dimensions.end());
  for (GridDimension& d : dimensions) d.link = view.link_class(0, d.stride);
  return Grid(std::move(dimensions), {});
}

Grid hierarchy_of(const View& view) {
  std::vector<int> order(view.machine.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int a, int b) { return std::pair(groups_of(view, a), a) < std::pair(groups_of(view, b), b); };
  std::sort(order.begin(), order.end(), before);
  std::vector<Groups> sorted;
  sorted.reserve(order.size());
  for (const int rank : order) sorted.push_back(groups_of(view, rank));
  std::vector<GridDimension> dimensions;
  int inner = 1;
  for (std::ptrdiff_t levels = 3; levels >= 0; --levels) {
    const int size = common_size(sorted, levels);
    if (size <= inner) continue;  // unequal, or no other than the level within
    GridDimension dimension{size / inner, inner, LinkClass::self};
    for (int place = inner; place < size; place += inner) {
      dimension.link = std::max(dimension.link, view.link_class(order[0], order[static_cast<std::size_t>(place)]));
    }
    dimensions.push_back(dimension);
    inner = size;
  }
  return Grid(std::move(dimensions), std::move(order));
}

}  // namespace tutti
