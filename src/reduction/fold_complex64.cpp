// The folds of complex64, once per instruction set (see sweep-inl.h).
#include "src/reduction/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/reduction/fold_complex64.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/reduction/sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

const FoldTable& complex64_table() { return kFolds<Complex<float>>; }

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(complex64_table);
template <>
const FoldTable& folds_of<Complex<float>>() {
  return HWY_DYNAMIC_DISPATCH(complex64_table)();
}

}  // namespace tutti
#endif
