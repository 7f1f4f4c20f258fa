// The executor's kernels: one for each fold, and one for collectives that fold nothing. The same source for nvcc, for clang
// and, as threads of the host, for the stand-in driver.
#include "src/cuda/device/group.h"
#include "src/executors/cuda/interpreter.h"

namespace tutti {

template <class Fold>
TUTTI_DEVICE void interpret(device::Group& group, const Launch& launch) {
  Interpreter<Fold>(group, launch).run();
}

// A kernel's name is the type's and the operator's, as their tables have them.
#define TUTTI_FOLD_KERNEL(T, type, Op, op)                                                \
  TUTTI_DEVICE void interpret_##type##_##op(device::Group& group, const Launch& launch) { \
    interpret<FoldBy<T, Op>>(group, launch);                                              \
  }                                                                                       \
  TUTTI_KERNEL(tutti_##type##_##op, Launch, interpret_##type##_##op)
#define TUTTI_FOLD_KERNELS(T, type)      \
  TUTTI_FOLD_KERNEL(T, type, Sum, sum)   \
  TUTTI_FOLD_KERNEL(T, type, Prod, prod) \
  TUTTI_FOLD_KERNEL(T, type, Max, max)   \
  TUTTI_FOLD_KERNEL(T, type, Min, min)

TUTTI_FOLD_KERNELS(std::int8_t, int8)
TUTTI_FOLD_KERNELS(std::uint8_t, uint8)
TUTTI_FOLD_KERNELS(std::int32_t, int32)
TUTTI_FOLD_KERNELS(std::uint32_t, uint32)
TUTTI_FOLD_KERNELS(std::int64_t, int64)
TUTTI_FOLD_KERNELS(std::uint64_t, uint64)
TUTTI_FOLD_KERNELS(Float16, float16)
TUTTI_FOLD_KERNELS(BFloat16, bfloat16)
TUTTI_FOLD_KERNELS(float, float32)
TUTTI_FOLD_KERNELS(double, float64)
TUTTI_KERNEL(tutti_copy, Launch, interpret<CopyOnly>)

}  // namespace tutti
