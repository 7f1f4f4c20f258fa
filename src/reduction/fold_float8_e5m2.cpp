// The folds of float8_e5m2, once per instruction set (see sweep-inl.h).
#include "src/reduction/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/reduction/fold_float8_e5m2.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/reduction/sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

const FoldTable& float8_e5m2_table() { return kFolds<Float8E5M2>; }

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(float8_e5m2_table);
template <>
const FoldTable& folds_of<Float8E5M2>() {
  return HWY_DYNAMIC_DISPATCH(float8_e5m2_table)();
}

}  // namespace tutti
#endif
