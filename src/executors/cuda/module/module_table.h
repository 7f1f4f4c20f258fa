// The table that a libtutti_kernels.so exports: the kernels' names, and an image. Included by one source of it.
#pragma once

#include "include/tutti/tutti.h"
#include "src/cuda/kernel_module.h"
#include "src/executors/cuda/kernel_list.h"
#include "src/executors/cuda/launch.h"

namespace tutti {

#define TUTTI_ROW(T, type, Op, op) {TUTTI_FOLD_NAME(type, op), "tutti_" #type "_" #op, sizeof(Launch), launch_layout()},
inline constexpr cuda::KernelName module_kernels[] = {{"copy", "tutti_copy", sizeof(Launch), launch_layout()},
                                                      TUTTI_FOLDS(TUTTI_ROW)};
#undef TUTTI_ROW

}  // namespace tutti

#define TUTTI_TEXT_OF(x) #x
#define TUTTI_TEXT(x) TUTTI_TEXT_OF(x)
/// Defines the table. image: its address. bytes: its length.
#define TUTTI_KERNEL_MODULE(image, bytes)                                                                      \
  extern "C" __attribute__((visibility("default"))) const tutti::cuda::KernelModule tutti_kernel_module = {    \
      tutti::cuda::kKernelModuleAbi,                                                                           \
      sizeof(tutti::module_kernels) / sizeof(tutti::module_kernels[0]),                                        \
      TUTTI_TEXT(TUTTI_VERSION_MAJOR) "." TUTTI_TEXT(TUTTI_VERSION_MINOR) "." TUTTI_TEXT(TUTTI_VERSION_PATCH), \
      image,                                                                                                   \
      bytes,                                                                                                   \
      tutti::module_kernels}
