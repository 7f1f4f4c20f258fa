// The folds of uint8, once per instruction set (see sweep-inl.h).
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

HWY_EXPORT(uint8_table);
const FoldTable& uint8_folds() { return HWY_DYNAMIC_DISPATCH(uint8_table)(); }

HWY_EXPORT(copy_everywhere);
void copy_bytes(const void* from, const FoldDestination* destinations, std::uint32_t destination_count,
                std::uint64_t bytes) {
  if (destination_count == 1 && !destinations[0].streaming) {
    if (destinations[0].data != from) std::memcpy(destinations[0].data, from, bytes);
    return;
  }
  const FoldSource source = {from};
  HWY_DYNAMIC_DISPATCH(copy_everywhere)({&source, destinations, 1, destination_count, bytes});
}

}  // namespace tutti
#endif
