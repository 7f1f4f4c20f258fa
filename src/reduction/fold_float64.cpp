// The folds of float64, once per instruction set (see sweep-inl.h).
#include "src/reduction/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/reduction/fold_float64.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/reduction/sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

const FoldTable& float64_table() { return kFolds<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(float64_table);
template <>
const FoldTable& folds_of<double>() {
  return HWY_DYNAMIC_DISPATCH(float64_table)();
}

}  // namespace tutti
#endif
