// A libtutti_kernels.so whose image names the stand-in's kernels: what programs load where no compiler makes a real one.
#include "include/tutti/tutti.h"
#include "src/cuda/kernel_module.h"
#include "src/executors/cuda/kernel_list.h"
#include "src/executors/cuda/launch.h"
#include "tests/standin/kernels.h"

namespace {

constexpr standin::MarkerImage image = {{'S', 'T', 'A', 'N', 'D', 'I', 'N', '1'}, "libstandin_tutti_kernels.so"};
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
    &image,
    sizeof(image),
    kernels};
