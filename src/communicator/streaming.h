// Results that are best written past the caches: from which size on, on this processor.
//
// A result that stays in a core's own cache is written there; one that no cache will keep is written past them, which
// spares memory the reading of lines that are about to be overwritten. Between the two, the cache that cores share
// decides: where it is near (one core complex's) it beats memory; where it is a mesh away, or other guests of the machine
// fill it, it does not, whatever size it says it has. That no topology tells, so it is measured.
#pragma once

#include <cstdint>

#include "topology/caches.h"

namespace tutti {

/// What of the answer is known without measuring. Bytes that a call touches: its operand and its result.
struct StreamingBounds {
  std::uint64_t never_below;  ///< they fit into what a core has to itself
  std::uint64_t always_from;  ///< more than one of the ranks that share a cache may count on of it
};

/// How many of `ranks` of one machine, which has so many CPUs, share a cache, where they are spread evenly. Pure; at
/// least 1.
std::uint64_t cache_sharers(const CacheSizes& sizes, std::uint64_t ranks, std::uint64_t cpus);

/// Pure. sharers: ranks that share the last cache, at least 1. Sizes that nobody knows count as usual ones; never_below <=
/// always_from.
StreamingBounds streaming_bounds(const CacheSizes& sizes, std::uint64_t sharers);

/// Whether a call that touches so many bytes had best write its result past the caches, where `ranks` of this machine make
/// such calls together. Measures, the first time that it is asked about bytes between the bounds: a few milliseconds and 4
/// times the L2 cache in memory for that long, once a process; others who ask meanwhile wait for it. Where that memory
/// cannot be had, no. Thread safe; never fails.
bool past_caches(std::uint64_t touched, std::uint64_t ranks);

}  // namespace tutti
