// libtutti_kernels.so: the kernels' image and their names, data alone. cmake/kernels.cmake compiles the image, and says
// where it is and how long.
#include "include/tutti/tutti.h"
#include "src/cuda/kernel_module.h"
#include "src/executors/cuda/kernel_list.h"
#include "src/executors/cuda/launch.h"

__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden tutti_kernel_image\n"
    ".globl tutti_kernel_image\n"
    "tutti_kernel_image:\n"
    ".incbin \"" TUTTI_KERNEL_IMAGE
    "\"\n"
    ".byte 0\n"  // an image that is text ends with it
    ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const unsigned char tutti_kernel_image[];

namespace {

#define TUTTI_ROW(T, type, Op, op) \
  {TUTTI_FOLD_NAME(type, op), "tutti_" #type "_" #op, sizeof(tutti::Launch), tutti::launch_layout()},
constexpr tutti::cuda::KernelName kernels[] = {{"copy", "tutti_copy", sizeof(tutti::Launch), tutti::launch_layout()},
                                               TUTTI_FOLDS(TUTTI_ROW)};

}  // namespace

#define TUTTI_TEXT_OF(x) #x
#define TUTTI_TEXT(x) TUTTI_TEXT_OF(x)
extern "C" __attribute__((visibility("default"))) const tutti::cuda::KernelModule tutti_kernel_module = {
    tutti::cuda::kKernelModuleAbi,
    sizeof(kernels) / sizeof(kernels[0]),
    TUTTI_TEXT(TUTTI_VERSION_MAJOR) "." TUTTI_TEXT(TUTTI_VERSION_MINOR) "." TUTTI_TEXT(TUTTI_VERSION_PATCH),
    tutti_kernel_image,
    TUTTI_KERNEL_IMAGE_BYTES,
    kernels};
