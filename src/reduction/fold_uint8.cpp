// The folds of uint8, once per instruction set (see sweep-inl.h).
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/reduction/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/reduction/fold_uint8.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/reduction/sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

const FoldTable& uint8_table() { return kFolds<std::uint8_t>; }

/// Copies are folds of one source of bytes; the operator is never applied.
void copy_everywhere(const FoldArguments& arguments) {
  sweep_any<MixedLanes<std::uint8_t>, ShortMixedLanes<std::uint8_t>, Sum, NoDivider>(arguments);
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {
namespace {

constexpr std::uint64_t most_at_once = 32 * 1024;

}  // namespace

HWY_EXPORT(uint8_table);
const FoldTable& uint8_folds() { return HWY_DYNAMIC_DISPATCH(uint8_table)(); }

HWY_EXPORT(copy_everywhere);
void copy_bytes(const void* from, const FoldDestination* destinations, std::uint32_t destination_count,
                std::uint64_t bytes) {
  const auto streams = [](const FoldDestination& to) { return to.streaming; };
  if (std::none_of(destinations, destinations + destination_count, streams)) {
    // One after the other while the source is in the cache: memcpy writes whole lines without fetching what they held.
    for (std::uint64_t at = 0; at < bytes; at += most_at_once) {
      const auto* const source = static_cast<const std::byte*>(from) + at;
      for (std::uint32_t d = 0; d < destination_count; ++d) {
        if (destinations[d].data == from) continue;
        std::memcpy(static_cast<std::byte*>(destinations[d].data) + at, source, std::min(bytes - at, most_at_once));
      }
    }
    return;
  }
  const FoldSource source = {from};
  HWY_DYNAMIC_DISPATCH(copy_everywhere)({&source, destinations, 1, destination_count, bytes});
}

}  // namespace tutti
#endif
