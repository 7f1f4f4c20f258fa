// A GPU as gpu_figures uses it: driver calls that throw, what a figure needs of streams and memory, and times.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/cuda/context.h"
#include "src/cuda/driver.h"
#include "src/cuda/kernel_library.h"
#include "src/cuda/memory.h"
#include "src/cuda/stream.h"

namespace tutti::gpu_check {

/// A call failed: the program ends with this sentence.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A figure needs what this build does not have. The sentence takes the figure's place.
class Lacking : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The value of a Result, or a Failure.
template <typename T>
T value_of(Result<T> result) {
  if (!result.ok()) throw Failure(result.status().text());
  return std::move(*result);
}

/// Microseconds of one thing that was done several times.
struct Times {
  double least = 0;
  double median = 0;
  double p99 = 0;
};
/// `us` is not empty.
Times summarize(std::vector<double> us);

/// Microseconds since some beginning, by a clock that only goes forward.
inline double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// One context of one device. Const functions are thread safe.
class Gpu {
 public:
  /// The primary context, which becomes this thread's current one. Throws Failure.
  Gpu(const cuda::Driver& driver, int device) : context_(value_of(cuda::Context::primary(driver, device))) { enter(); }
  /// A new context of the same device, this thread's current one. It lives as long as the process. Throws Failure.
  static Gpu beside(const Gpu& other);

  const cuda::DriverApi& api() const { return context_.driver().api(); }
  const cuda::Context& context() const { return context_; }
  int device() const { return context_.device(); }
  int attribute(cuda::DeviceAttribute attribute) const {
    return value_of(context_.driver().attribute(attribute, device()));
  }

  /// Makes the context the calling thread's current one, for as long as that thread runs.
  void enter() const { call(api().cuCtxSetCurrent, context_.handle()); }

  /// Throws Failure, which names entry point and error.
  template <typename... Parameters>
  void call(const cuda::DriverEntry<Parameters...>& entry, std::type_identity_t<Parameters>... given) const {
    const Status status = context_.driver().call(entry, context_.device(), "measuring", given...);
    if (!status.ok()) throw Failure(status.text());
  }

  cuda::OwnedStream make_stream() const { return value_of(cuda::OwnedStream::create(context_)); }
  /// Device memory whose 32-bit words are all `word`.
  cuda::DeviceMemory make_memory(std::size_t bytes, std::uint32_t word) const;
  /// Pinned memory, all zeros.
  cuda::PinnedMemory make_pinned(std::size_t bytes) const;
  /// Waits for what the stream was given.
  void finish(const cuda::OwnedStream& stream) const { call(api().cuStreamSynchronize, stream.handle()); }
  /// Whether the stream has finished; asks once.
  bool has_finished(const cuda::OwnedStream& stream) const;

 private:
  explicit Gpu(cuda::Context context) : context_(std::move(context)) {}

  cuda::Context context_;
};

/// An event that measures. Movable.
class TimedEvent {
 public:
  explicit TimedEvent(const Gpu& gpu);
  cuda::EventHandle handle() const { return event_.get(); }
  void record(const Gpu& gpu, const cuda::OwnedStream& stream) const {
    gpu.call(gpu.api().cuEventRecord, handle(), stream.handle());
  }
  /// From that event's record to this one's, both of which have come to pass.
  double us_since(const Gpu& gpu, const TimedEvent& earlier) const;

 private:
  static void release(const cuda::Driver& driver, const cuda::EventHandle& event) { driver.api().cuEventDestroy_v2(event); }
  cuda::DriverHandle<cuda::EventHandle, release> event_;
};

/// The kernels of the driver's own tests, as tests/standin/test_kernels.cu names them.
class TestKernels {
 public:
  /// Throws Lacking where neither nvcc nor clang has made them.
  explicit TestKernels(const Gpu& gpu);
  /// Code of `name`, loaded, so that no launch loads anything.
  cuda::FunctionHandle find(const std::string& name) const;

 private:
  const Gpu& gpu_;
  cuda::KernelLibrary library_;
};

/// Whether the driver is tests/standin.
bool is_standin();

}  // namespace tutti::gpu_check
