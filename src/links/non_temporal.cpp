#include "src/links/non_temporal.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/made_once.h"
#include "src/reduction/reduction.h"

namespace tutti {
namespace {

/// Turns that each way gets; the shortest counts, for others may run on this core meanwhile.
constexpr int turns = 4;

std::uint64_t copy_ns(std::byte* to, const std::byte* from, std::uint64_t bytes, bool non_temporal) {
  const FoldSource source = {from};
  const FoldDestination destination = {to, non_temporal};
  const std::uint64_t begun = now_ns();
  find_copy()({&source, &destination, 1, 1, bytes});
  return now_ns() - begun;
}

/// Whether copies between buffers that only the shared cache could keep are faster just now when they are written past it.
/// By a tenth at least: what is written past the caches is not there for whoever reads it next.
bool memory_beats_shared_cache() {
  const std::uint64_t bytes = 2 * cache_sizes().l2_share();
  const auto room = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[2 * bytes]);
  if (room == nullptr) return false;
  std::byte* const from = room.get();
  std::byte* const to = from + bytes;
  // Written, so that its pages are there and are not all the same one.
  std::fill(from, to + bytes, std::byte{1});
  std::uint64_t kept = UINT64_MAX, streamed = UINT64_MAX;
  for (int turn = 0; turn < turns; ++turn) {
    // The first copy of a pair finds what the other way left behind: not counted.
    copy_ns(to, from, bytes, false);
    kept = std::min(kept, copy_ns(to, from, bytes, false));
    copy_ns(to, from, bytes, true);
    streamed = std::min(streamed, copy_ns(to, from, bytes, true));
  }
  if (log_enabled(Level::info)) {
    log(Level::info, "copies of " + std::to_string(bytes) + " B take " + std::to_string(kept) +
                         " ns through the shared cache and " + std::to_string(streamed) + " ns past it");
  }
  return streamed + streamed / 10 < kept;
}

}  // namespace

std::uint64_t cache_sharers(const CacheSizes& sizes, std::uint64_t ranks, std::uint64_t cpus) {
  const auto sharers = static_cast<std::uint64_t>(std::max(1, sizes.l3_sharers));
  return std::max<std::uint64_t>(1, ranks * sharers / std::max(cpus, sharers));
}

// Five eighths of the shared cache for all that its ranks touch in a call: slots need room too, and others use it. Zen 4,
// 32 MiB that 2 ranks share, so 10 MiB each: from there on results past it are faster, all-reduce from 6 MiB of result,
// all-gather from 7, gather from 6 to 8; in place all-reduce from more than 12. A broadcast is faster that way from 4 MiB
// on, half of what this says. Several ranks to a core have no less than 8 times the L2: with 4 and 8 of them on 2 cores 4
// MiB take 1.4 and 1.15 of the time where the results stay in the cache.
StreamingBounds streaming_bounds(const CacheSizes& sizes, std::uint64_t sharers) {
  const std::uint64_t own = sizes.l2_share();
  return {own, std::max(8 * own, sizes.l3 / 8 * 5 / sharers)};
}

bool use_non_temporal(std::uint64_t touched, std::uint64_t ranks) {
  static constinit MadeOnce<std::uint64_t> cpus;
  const std::uint64_t here =
      cpus.get([] { return static_cast<std::uint64_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); });
  const StreamingBounds bounds = streaming_bounds(cache_sizes(), cache_sharers(cache_sizes(), ranks, here));
  if (touched < bounds.never_below) return false;
  if (touched >= bounds.always_from) return true;
  static constinit NonTemporalTrials trials;
  return trials.memory_is_better(now_ns(), memory_beats_shared_cache);
}

}  // namespace tutti
