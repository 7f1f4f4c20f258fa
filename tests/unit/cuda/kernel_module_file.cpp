// A kernels' module for tests, good or wrong in the way that its definitions say.
#include "src/cuda/kernel_module.h"

namespace {

constexpr char kImage[] = "image";
constexpr tutti::cuda::KernelName kNames[] = {{"copy", "copy", 64, 0}, {"fold float32 sum", "fold_float32_sum", 64, 0}};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tutti::cuda::KernelModule TEST_SYMBOL;
const tutti::cuda::KernelModule TEST_SYMBOL = {TEST_ABI, 2, TEST_VERSION, kImage, TEST_BYTES, kNames};
