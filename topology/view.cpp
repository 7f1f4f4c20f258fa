#include "topology/view.h"

#include <algorithm>

namespace tutti {

int View::machines() const { return machine.empty() ? 0 : 1 + *std::max_element(machine.begin(), machine.end()); }

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
