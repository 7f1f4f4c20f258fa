// Sizes of the caches, which slices of large messages are cut to fit.
#pragma once

#include <cstdint>

#include "topology/sysfs.h"

namespace tutti {

/// The data caches that one CPU sees. Bytes; 0 where there is none or nobody knows.
struct CacheSizes {
  std::uint64_t l1d = 0;
  std::uint64_t l2 = 0;
  std::uint64_t l3 = 0;
  int l2_sharers = 1;       ///< CPUs that share that L2, itself included
  int l3_sharers = 1;       ///< CPUs that share that L3
  std::uint64_t line = 64;  ///< bytes of a cache line

  /// What one core may count as its own of the L2: its size shared out, and 1 MiB where nobody knows.
  std::uint64_t l2_share() const;
};

/// The caches of `cpu` by sysfs, else by sysconf (which then speaks of the machine). Thread safe.
CacheSizes read_cache_sizes(const Sysfs& files, int cpu);

/// Those of the CPU that first asks; read once, some tens of microseconds. Thread safe.
const CacheSizes& cache_sizes();

}  // namespace tutti
