// The executor's kernels: one for each fold, and one for collectives that fold nothing. The same source for nvcc, for clang
// and, as threads of the host, for the stand-in driver.
#include "src/cuda/device/group.h"
#include "src/executors/cuda/interpreter.h"
#include "src/executors/cuda/kernel_list.h"

namespace tutti {

template <class Fold>
TUTTI_DEVICE void interpret(device::Group& group, const Launch& launch) {
  Interpreter<Fold>(group, launch).run();
}

#define TUTTI_FOLD_KERNEL(T, type, Op, op)                                                \
  TUTTI_DEVICE void interpret_##type##_##op(device::Group& group, const Launch& launch) { \
    interpret<FoldBy<T, Op>>(group, launch);                                              \
  }                                                                                       \
  TUTTI_KERNEL(tutti_##type##_##op, Launch, interpret_##type##_##op)
TUTTI_FOLDS(TUTTI_FOLD_KERNEL)
TUTTI_KERNEL(tutti_copy, Launch, interpret<CopyOnly>)

}  // namespace tutti
