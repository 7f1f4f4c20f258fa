// The table of libstandin_tutti_kernels.so: the executor's kernels, compiled for the host.
#include "src/executors/cuda/kernel_list.h"
#include "src/executors/cuda/launch.h"
#include "tests/standin/kernels.h"

namespace tutti {

#define TUTTI_DECLARE(T, type, Op, op) void tutti_##type##_##op(device::HostThread& thread, void** parameters);
TUTTI_FOLDS(TUTTI_DECLARE)
void tutti_copy(device::HostThread& thread, void** parameters);

namespace {

constexpr std::uint32_t parameter_bytes[] = {sizeof(Launch)};
#define TUTTI_ROW(T, type, Op, op) {"tutti_" #type "_" #op, tutti_##type##_##op, parameter_bytes, 1, 0},
constexpr standin::Kernel kernels[] = {{"tutti_copy", tutti_copy, parameter_bytes, 1, 0}, TUTTI_FOLDS(TUTTI_ROW)};
constexpr standin::KernelTable table = {standin::kKernelTableVersion, sizeof(kernels) / sizeof(kernels[0]), kernels};

}  // namespace
}  // namespace tutti

extern "C" __attribute__((visibility("default"))) const standin::KernelTable* standin_kernel_table();
const standin::KernelTable* standin_kernel_table() { return &tutti::table; }
