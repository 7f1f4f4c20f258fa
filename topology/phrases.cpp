#include "topology/phrases.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "src/tables/units.h"

namespace tutti::phrases {

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

std::string caches(const Graph& graph, const std::vector<int>& cpus) {
  std::vector<bool> inside(cpus.empty() ? 0 : static_cast<std::size_t>(cpus.back()) + 1);
  for (const int cpu : cpus) inside[static_cast<std::size_t>(cpu)] = true;
  const auto is_inside = [&](int cpu) {
    return static_cast<std::size_t>(cpu) < inside.size() && inside[static_cast<std::size_t>(cpu)];
  };
  std::map<int, std::vector<std::pair<std::uint64_t, int>>> kinds;  // sizes and how many, by level
  std::map<std::pair<int, std::uint64_t>, std::size_t> known;       // place among those of the level
  for (const Cache& cache : graph.caches) {
    if (cache.kind == CacheKind::instruction || !std::all_of(cache.cpus.begin(), cache.cpus.end(), is_inside)) continue;
    auto& sizes = kinds[cache.level];
    const auto [place, is_new] = known.try_emplace({cache.level, cache.bytes}, sizes.size());
    if (is_new) sizes.emplace_back(cache.bytes, 0);
    ++sizes[place->second].second;
  }
  std::vector<std::string> parts;
  for (const auto& [level, sizes] : kinds) {
    for (const auto& [size, count] : sizes) {
      parts.push_back(fmt::format("{} x L{}{} {}", count, level, level == 1 ? "d" : "", bytes_text(size)));
    }
  }
  return joined(parts);
}

int cores_of(const Graph& graph, int package) {
  return static_cast<int>(
      std::count_if(graph.cores.begin(), graph.cores.end(), [&](const Core& core) { return core.package == package; }));
}

std::string architecture(const Node& gpu) {
  if (gpu.sm > 0) return fmt::format("sm_{}", gpu.sm);
  if (gpu.gcn.empty() || gpu.gcn.starts_with("gfx")) return gpu.gcn;
  return gpu.gcn == "910" ? "gfx90a" : "gfx" + gpu.gcn;  // RCCL's older files have the number alone, 910 for gfx90a
}

std::string speed(const Node& nic) {
  return nic.nic.speed_gbps > 0 ? fmt::format("{:g} Gbit/s", nic.nic.speed_gbps) : "speed unknown";
}

const char* link_kind(LinkKind kind) { return kind == LinkKind::nvlink ? "NV" : kind == LinkKind::xgmi ? "XGMI" : "NET"; }

}  // namespace tutti::phrases
