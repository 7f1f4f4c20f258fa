#include "tests/gpu_check/gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/standin/kernels.h"
#include "tests/unit/cuda/beside.h"

namespace tutti::gpu_check {

using cuda::DriverResult;

Times summarize(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  return {us.front(), us[us.size() / 2], us[us.size() * 99 / 100]};
}

Gpu Gpu::beside(const Gpu& other) {
  cuda::ContextHandle made = nullptr;
  other.call(other.api().cuCtxCreate_v2, &made, 0u, other.device());
  return Gpu(value_of(cuda::Context::current_or_primary(other.context().driver(), other.device())));
}

cuda::DeviceMemory Gpu::make_memory(std::size_t bytes, std::uint32_t word) const {
  cuda::DeviceMemory memory = value_of(cuda::DeviceMemory::allocate(context_, bytes));
  call(api().cuMemsetD32Async, memory.address(), word, bytes / sizeof word, nullptr);
  call(api().cuStreamSynchronize, nullptr);
  return memory;
}

cuda::PinnedMemory Gpu::make_pinned(std::size_t bytes) const {
  cuda::PinnedMemory memory = value_of(cuda::PinnedMemory::allocate(context_, bytes));
  std::memset(memory.data(), 0, bytes);
  return memory;
}

bool Gpu::has_finished(const cuda::OwnedStream& stream) const {
  const DriverResult result = api().cuStreamQuery(stream.handle());
  if (result == DriverResult::success) return true;
  if (result == DriverResult::not_ready) return false;
  throw Failure(context_.driver().failure(result, "cuStreamQuery", device(), "measuring").text());
}

TimedEvent::TimedEvent(const Gpu& gpu) {
  cuda::EventHandle event = nullptr;
  gpu.call(gpu.api().cuEventCreate, &event, 0u);
  event_ = {gpu.context().driver(), event};
}

double TimedEvent::us_since(const Gpu& gpu, const TimedEvent& earlier) const {
  float ms = 0;
  gpu.call(gpu.api().cuEventElapsedTime, &ms, earlier.handle(), handle());
  return 1000.0 * static_cast<double>(ms);
}

TestKernels::TestKernels(const Gpu& gpu) : gpu_(gpu) {
  if (is_standin()) {
    library_ = value_of(cuda::KernelLibrary::load(gpu.context(), &standin::kTestKernelsImage));
    return;
  }
  const std::ifstream file(cuda::beside("standin/test_kernels.image"), std::ios::binary);
  std::ostringstream bytes;
  if (file) bytes << file.rdbuf();
  const std::string image = bytes.str();
  if (image.empty()) throw Lacking("The tests' kernels were built by neither nvcc nor clang-19.");
  library_ = value_of(cuda::KernelLibrary::load(gpu.context(), image.data()));
}

cuda::FunctionHandle TestKernels::find(const std::string& name) const {
  return value_of(library_.kernel(gpu_.context(), name + "_kernel")).function;
}

bool is_standin() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library != nullptr && ::dlsym(library, "standin_fail") != nullptr;
}

}  // namespace tutti::gpu_check
