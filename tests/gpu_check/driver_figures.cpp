#include <algorithm>
#include <array>
#include <atomic>

#include "tests/gpu_check/figures.h"
#include "tests/standin/test_kernels.h"

namespace tutti::gpu_check {
namespace {

using nlohmann::json;

constexpr int kWarmUp = 3;
constexpr double kPatienceUs = 5e6;  // for what a sound device does in microseconds

// Threads of a block: a warp, or fewer where the stand-in has fewer.
unsigned block_threads(const Gpu& gpu) {
  return static_cast<unsigned>(std::min(32, gpu.attribute(cuda::DeviceAttribute::max_threads_per_block)));
}

void launch(const Gpu& gpu, cuda::FunctionHandle function, const cuda::OwnedStream& stream, void* parameters) {
  std::array<void*, 1> given = {parameters};
  gpu.call(gpu.api().cuLaunchKernel, function, 1u, 1u, 1u, block_threads(gpu), 1u, 1u, 0u, stream.handle(), given.data(),
           nullptr);
}

// Asks until the condition holds.
template <typename Condition>
void wait_until(const Condition& condition, const char* what) {
  for (const double until = now_us() + kPatienceUs; !condition();) {
    if (now_us() > until) throw Failure(std::string(what) + " did not happen within 5 s.");
  }
}

}  // namespace

json describe(const Gpu& gpu) {
  std::array<char, 128> name = {};
  std::size_t bytes = 0;
  gpu.call(gpu.api().cuDeviceGetName, name.data(), static_cast<int>(name.size()), gpu.device());
  gpu.call(gpu.api().cuDeviceTotalMem_v2, &bytes, gpu.device());
  return {{"device", name.data()},
          {"compute_capability", std::to_string(gpu.attribute(cuda::DeviceAttribute::compute_capability_major)) + "." +
                                     std::to_string(gpu.attribute(cuda::DeviceAttribute::compute_capability_minor))},
          {"memory_bytes", bytes},
          {"multiprocessors", gpu.attribute(cuda::DeviceAttribute::multiprocessor_count)},
          {"devices", gpu.context().driver().device_count()},
          {"driver_api", gpu.context().driver().version()},
          {"standin", is_standin()}};
}

json measure_copy(const Gpu& gpu, const Asked& asked) {
  const cuda::OwnedStream stream = gpu.make_stream();
  const TimedEvent begin(gpu);
  const TimedEvent end(gpu);
  const cuda::DeviceMemory from = gpu.make_memory(asked.bytes, 0x3f9e0652);
  const cuda::DeviceMemory to = gpu.make_memory(asked.bytes, 0xc0490fdb);
  std::vector<double> us;
  for (int round = -kWarmUp; round < asked.rounds; ++round) {
    begin.record(gpu, stream);
    gpu.call(gpu.api().cuMemcpyDtoDAsync_v2, to.address(), from.address(), asked.bytes, stream.handle());
    end.record(gpu, stream);
    gpu.finish(stream);
    if (round >= 0) us.push_back(end.us_since(gpu, begin));
  }
  const Times times = summarize(us);
  return {{"bytes", asked.bytes},
          {"least_us", times.least},
          {"median_us", times.median},
          {"copy_GBps", 2e-3 * static_cast<double>(asked.bytes) / times.median}};
}

json measure_launch(const Gpu& gpu, const Asked& asked) {
  const TestKernels kernels(gpu);
  const cuda::FunctionHandle function = kernels.find("copy");
  const cuda::OwnedStream stream = gpu.make_stream();
  const cuda::OwnedEvent event = value_of(cuda::OwnedEvent::create(gpu.context()));
  standin::CopyParameters nothing = {nullptr, nullptr, 0};
  std::vector<double> call_us;
  std::vector<double> us;
  for (int round = -kWarmUp; round < asked.rounds; ++round) {
    const double begin = now_us();
    launch(gpu, function, stream, &nothing);
    const double called = now_us();
    gpu.call(gpu.api().cuEventRecord, event.handle(), stream.handle());
    gpu.call(gpu.api().cuEventSynchronize, event.handle());
    const double end = now_us();
    if (round < 0) continue;
    call_us.push_back(called - begin);
    us.push_back(end - begin);
  }
  const Times times = summarize(us);
  return {{"median_us", times.median},
          {"least_us", times.least},
          {"p99_us", times.p99},
          {"call_us", summarize(call_us).median}};
}

json measure_release(const Gpu& gpu, const Asked& asked) {
  const TestKernels kernels(gpu);
  const cuda::FunctionHandle function = kernels.find("count_blocks");
  const cuda::OwnedStream stream = gpu.make_stream();
  const cuda::PinnedMemory memory = gpu.make_pinned(sizeof(std::uint64_t));
  auto* const word = static_cast<std::uint32_t*>(memory.data());
  std::vector<double> us;
  for (int round = -kWarmUp; round < asked.rounds; ++round) {
    // Release and acquire, as they meet the kernel's. The kernel adds 1 when it runs, and ends when it reads 2.
    std::atomic_ref(*word).store(0, std::memory_order_release);
    standin::WordParameters parameters = {reinterpret_cast<unsigned*>(memory.address()), 2};
    launch(gpu, function, stream, &parameters);
    wait_until([&] { return std::atomic_ref(*word).load(std::memory_order_acquire) == 1; }, "A kernel's start");
    const double begin = now_us();
    std::atomic_ref(*word).store(2, std::memory_order_release);
    wait_until([&] { return gpu.has_finished(stream); }, "The end of a kernel that was let go");
    if (round >= 0) us.push_back(now_us() - begin);
  }
  const Times times = summarize(us);
  return {{"median_us", times.median}, {"least_us", times.least}, {"p99_us", times.p99}};
}

}  // namespace tutti::gpu_check
