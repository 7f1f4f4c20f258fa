// What lanes-inl.h is on a vector instruction set, on the scalar fallback. Included by sweep-inl.h, which has the
// guard.

#include "src/reduction/scalar_lanes.h"

namespace tutti {
namespace HWY_NAMESPACE {

template <typename T>
using AnyLanes = ScalarLanes<T>;
template <typename T>
using ShortAnyLanes = ScalarLanes<T>;
template <typename T, class Op, bool kTwo = false>
using WideLanes = ScalarLanes<T>;
template <typename T, class Op, bool kTwo = false>
using ShortLanes = ScalarLanes<T>;

}  // namespace HWY_NAMESPACE
}  // namespace tutti
