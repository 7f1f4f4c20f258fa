#include "topology/words.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::words {

std::string bytes(std::uint64_t bytes) {
  if (bytes >= 10ull << 30) return fmt::format("{:.0f} GiB", static_cast<double>(bytes) / 0x1p30);
  if (bytes >= 1ull << 30) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / 0x1p30);
  if (bytes >= 1ull << 20) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} KiB", bytes >> 10);
}

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

std::string caches(const Graph& graph, const std::vector<int>& cpus) {
  struct Kind {
    int level;
    std::uint64_t bytes;
    int count;
  };
  std::vector<Kind> kinds;
  for (const Cache& cache : graph.caches) {
    if (cache.kind == CacheKind::instruction) continue;
    if (!std::includes(cpus.begin(), cpus.end(), cache.cpus.begin(), cache.cpus.end())) continue;
    const auto known = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const Kind& k) { return k.level == cache.level && k.bytes == cache.bytes; });
    if (known == kinds.end()) {
      kinds.push_back({cache.level, cache.bytes, 1});
    } else {
      ++known->count;
    }
  }
  std::sort(kinds.begin(), kinds.end(), [](const Kind& a, const Kind& b) { return a.level < b.level; });
  std::vector<std::string> parts;
  for (const Kind& kind : kinds) {
    parts.push_back(fmt::format("{} x L{}{} {}", kind.count, kind.level, kind.level == 1 ? "d" : "", bytes(kind.bytes)));
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

}  // namespace tutti::words
