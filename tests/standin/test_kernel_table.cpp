// The table of libstandin_kernels.so: test_kernels.cu, compiled for the host.
#include "tests/standin/kernels.h"
#include "tests/standin/test_kernels.h"

namespace standin {

using tutti::device::HostThread;

void add_kernel(HostThread& thread, void** parameters);
void copy_kernel(HostThread& thread, void** parameters);
void spin_kernel(HostThread& thread, void** parameters);
void count_blocks_kernel(HostThread& thread, void** parameters);
void order_kernel(HostThread& thread, void** parameters);
void block_sum_kernel(HostThread& thread, void** parameters);
void broken_sum_kernel(HostThread& thread, void** parameters);
void store_kernel(HostThread& thread, void** parameters);
void lines_kernel(HostThread& thread, void** parameters);

namespace {

/// Each kernel has one struct of parameters.
template <typename Parameters>
constexpr std::uint32_t kBytes[] = {sizeof(Parameters)};

template <typename Parameters>
constexpr Kernel one(const char* name, KernelFunction function) {
  return {name, function, kBytes<Parameters>, 1, 0};
}

constexpr Kernel kKernels[] = {
    one<AddParameters>("add_kernel", add_kernel),
    one<CopyParameters>("copy_kernel", copy_kernel),
    one<WordParameters>("spin_kernel", spin_kernel),
    one<WordParameters>("count_blocks_kernel", count_blocks_kernel),
    one<OrderParameters>("order_kernel", order_kernel),
    one<BlockSumParameters>("block_sum_kernel", block_sum_kernel),
    one<BlockSumParameters>("broken_sum_kernel", broken_sum_kernel),
    one<WordParameters>("store_kernel", store_kernel),
    one<LineParameters>("lines_kernel", lines_kernel),
};
constexpr KernelTable kTable = {kKernelTableVersion, sizeof(kKernels) / sizeof(kKernels[0]), kKernels};

}  // namespace
}  // namespace standin

extern "C" __attribute__((visibility("default"))) const standin::KernelTable* standin_kernel_table();
const standin::KernelTable* standin_kernel_table() { return &standin::kTable; }
