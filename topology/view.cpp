#include "topology/view.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tutti {

int View::machines() const { return machine.empty() ? 0 : 1 + *std::max_element(machine.begin(), machine.end()); }

const char* name_of(LinkClass c) {
  constexpr std::array<const char*, kLinkClasses> names = {"self", "same_numa", "same_machine", "other_machine",
                                                           "other_rack"};
  return names[static_cast<std::size_t>(c)];
}

LinkClass dearest_links(const View& view) {
  // Where any two ranks are in two racks, or machines, or nodes, rank 0 is not with one of them.
  LinkClass dearest = LinkClass::self;
  for (int r = 1; r < view.ranks(); ++r) dearest = std::max(dearest, view.link_class(0, r));
  return dearest;
}

std::set<LinkClass> classes_between(const View& view) {
  const auto place = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return std::tuple(view.rack.empty() ? 0 : view.rack[r], view.machine[r], view.numa[r]);
  };
  std::vector<int> order(static_cast<std::size_t>(view.ranks()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
  std::set<LinkClass> found;
  for (std::size_t r = 1; r < order.size(); ++r) found.insert(view.link_class(order[r - 1], order[r]));
  return found;
}

std::uint64_t hash_with_order(std::uint64_t hash, const View& view) {
  const auto add = [&hash](std::int32_t value) {  // FNV-1a's step
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3u;
  };
  add(view.barrier_ways);
  for (const std::int32_t rank : view.ring_order) add(rank);
  for (const std::int32_t core : view.core) add(core);
  return hash;
}

View flat_view(int ranks) { return uniform_view(1, ranks, 1); }

View uniform_view(int machines, int ranks_per_machine, int numa_nodes) {
  View view;
  const auto total = static_cast<std::size_t>(machines) * static_cast<std::size_t>(ranks_per_machine);
  view.machine.reserve(total);
  view.numa.reserve(total);
  for (int m = 0; m < machines; ++m) {
    for (int r = 0; r < ranks_per_machine; ++r) {
      view.machine.push_back(m);
      view.numa.push_back(static_cast<std::int32_t>(std::int64_t{r} * numa_nodes / ranks_per_machine));
    }
  }
  return view;
}

}  // namespace tutti
