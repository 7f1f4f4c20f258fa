// The folds of uint16, once per instruction set (see sweep-inl.h).
#include "src/reduction/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/reduction/fold_uint16.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/reduction/sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

const FoldTable& uint16_table() { return kFolds<std::uint16_t>; }

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(uint16_table);
template <>
const FoldTable& folds_of<std::uint16_t>() {
  return HWY_DYNAMIC_DISPATCH(uint16_table)();
}

}  // namespace tutti
#endif
