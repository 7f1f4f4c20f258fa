#include "topology/caches.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "src/base/made_once.h"
#include "src/tables/units.h"

namespace tutti {
namespace {

std::uint64_t by_sysconf(int name) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

void take(const Sysfs& files, const std::string& folder, CacheSizes& sizes) {
  const std::int64_t level = files.number(folder + "/level").value_or(0);
  if (files.text(folder + "/type").value_or("") == "Instruction") return;
  const std::uint64_t bytes = parse_size(files.text(folder + "/size").value_or("")).value.value_or(0);
  const auto shared = parse_cpu_list(files.text(folder + "/shared_cpu_list").value_or(""));
  const int sharers = shared && !shared->empty() ? static_cast<int>(shared->size()) : 1;
  if (level == 1) {
    sizes.l1d = bytes;
    const std::int64_t line = files.number(folder + "/coherency_line_size").value_or(0);
    if (line > 0) sizes.line = static_cast<std::uint64_t>(line);
  } else if (level == 2) {
    sizes.l2 = bytes;
    sizes.l2_sharers = sharers;
  } else if (level == 3) {
    sizes.l3 = bytes;
    sizes.l3_sharers = sharers;
  }
}

}  // namespace

std::uint64_t CacheSizes::l2_share() const {
  return l2 == 0 ? std::uint64_t{1} << 20 : l2 / static_cast<std::uint64_t>(std::max(1, l2_sharers));
}

CacheSizes read_cache_sizes(const Sysfs& files, int cpu) {
  CacheSizes sizes;
  const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache";
  for (const std::string& name : files.entries(folder)) {
    if (name.starts_with("index")) take(files, folder + "/" + name, sizes);
  }
  if (sizes.l1d != 0 || sizes.l2 != 0 || sizes.l3 != 0) return sizes;
  sizes.l1d = by_sysconf(_SC_LEVEL1_DCACHE_SIZE);
  sizes.l2 = by_sysconf(_SC_LEVEL2_CACHE_SIZE);
  sizes.l3 = by_sysconf(_SC_LEVEL3_CACHE_SIZE);
  return sizes;
}

const CacheSizes& cache_sizes() {
  static constinit MadeOnce<CacheSizes> sizes;
  return sizes.get([] {
    const int here = sched_getcpu();
    return read_cache_sizes(Sysfs(), here < 0 ? 0 : here);
  });
}

}  // namespace tutti
