// The folds of int16, once per instruction set (see sweep-inl.h).
#include "src/reduction/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/reduction/fold_int16.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/reduction/sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

const FoldTable& int16_table() { return kFolds<std::int16_t>; }

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(int16_table);
template <>
const FoldTable& folds_of<std::int16_t>() {
  return HWY_DYNAMIC_DISPATCH(int16_table)();
}

}  // namespace tutti
#endif
