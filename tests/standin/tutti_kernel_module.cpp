// A libtutti_kernels.so whose image names the stand-in's kernels: what programs load where no compiler makes a real one.
#include "src/executors/cuda/module/module_table.h"
#include "tests/standin/kernels.h"

namespace {

constexpr standin::MarkerImage image = {{'S', 'T', 'A', 'N', 'D', 'I', 'N', '1'}, "libstandin_tutti_kernels.so"};

}  // namespace

TUTTI_KERNEL_MODULE(&image, sizeof(image));
