// Tutti with CUDA memory in C++: streams and device memory that end with their objects. It includes and links nothing of
// CUDA; the driver is found when the first of them is made.
//
//     tutti::cuda::Stream stream;                    // of the current device
//     tutti::cuda::Memory<float> gradients(1000);    // there
//     stream.copy_in(gradients, std::span<const float>(host));
//     comm.all_reduce(gradients.span(), TUTTI_SUM, stream);
//     stream.copy_out(std::span<float>(host), gradients);
//     stream.wait();
//
// A cudaStream_t of your own does as well: tutti::cuda::on(stream). Objects are movable, not copyable; each is used by one
// thread at a time. What fails throws tutti::Failure.
#ifndef TUTTI_CUDA_HPP_
#define TUTTI_CUDA_HPP_

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "tutti.hpp"

namespace tutti::cuda {

/// Any cudaStream_t or CUstream, for a call's `stream`. Borrowed.
inline tutti_stream on(void* stream) { return {TUTTI_STREAM_CUDA, stream}; }

namespace detail {

/// The driver's functions, by its names: results are 0 or an error's number.
struct Driver {
  int (*cuInit)(unsigned) = nullptr;
  int (*cuCtxGetCurrent)(void**) = nullptr;
  int (*cuCtxSetCurrent)(void*) = nullptr;
  int (*cuCtxPushCurrent)(void*) = nullptr;
  int (*cuCtxPopCurrent)(void**) = nullptr;
  int (*cuDevicePrimaryCtxRetain)(void**, int) = nullptr;
  int (*cuStreamCreateWithPriority)(void**, unsigned, int) = nullptr;
  int (*cuStreamDestroy)(void*) = nullptr;
  int (*cuStreamSynchronize)(void*) = nullptr;
  int (*cuMemcpyHtoDAsync)(std::uintptr_t, const void*, std::size_t, void*) = nullptr;
  int (*cuMemcpyDtoHAsync)(void*, std::uintptr_t, std::size_t, void*) = nullptr;
  const char* missing = nullptr;

  static const Driver& get() {
    static const Driver driver = [] {
      Driver found;
      void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
      const auto put = [&](auto& function, const char* name) {
        if (library != nullptr)
          function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
        if (function == nullptr) found.missing = library != nullptr ? name : "libcuda.so.1";
      };
      put(found.cuInit, "cuInit");
      put(found.cuCtxGetCurrent, "cuCtxGetCurrent");
      put(found.cuCtxSetCurrent, "cuCtxSetCurrent");
      put(found.cuCtxPushCurrent, "cuCtxPushCurrent_v2");
      put(found.cuCtxPopCurrent, "cuCtxPopCurrent_v2");
      put(found.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
      put(found.cuStreamCreateWithPriority, "cuStreamCreateWithPriority");
      put(found.cuStreamDestroy, "cuStreamDestroy_v2");
      put(found.cuStreamSynchronize, "cuStreamSynchronize");
      put(found.cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
      put(found.cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
      return found;
    }();
    if (driver.missing != nullptr)
      throw Failure(TUTTI_UNSUPPORTED, std::string("there is no CUDA driver that has ") + driver.missing,
                    "Install one of R525 or later, or use host memory.");
    return driver;
  }
  static void check(int result, const char* entry) {
    if (result != 0)
      throw Failure(TUTTI_UNHANDLED_CUDA_ERROR, std::string(entry) + " failed with " + std::to_string(result),
                    "See CUresult for the number.");
  }
};

/// A context that is the thread's current one for as long as this lives.
class Current {
 public:
  explicit Current(void* context) { Driver::check(Driver::get().cuCtxPushCurrent(context), "cuCtxPushCurrent"); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    void* popped = nullptr;
    Driver::get().cuCtxPopCurrent(&popped);
  }
};

}  // namespace detail

/// Makes a device's primary context this thread's current one, as cudaSetDevice does. Errors: TUTTI_UNSUPPORTED,
/// TUTTI_UNHANDLED_CUDA_ERROR.
inline void set_device(int device) {
  const detail::Driver& driver = detail::Driver::get();
  detail::Driver::check(driver.cuInit(0), "cuInit");
  void* context = nullptr;
  detail::Driver::check(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  detail::Driver::check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

/// Memory of a device for `size()` elements, contents undefined. Freed with the object, when nothing uses it any more.
template <typename T>
class Memory {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Memory() = default;  ///< none
  /// device: its number, below 0: the current one. Errors: tutti_memory_alloc_kind's.
  explicit Memory(std::size_t size, int device = -1) : size_(size) {
    void* memory = nullptr;
    constexpr std::size_t most = static_cast<std::size_t>(-1);  // bytes, which no device has
    const std::size_t bytes = size > most / sizeof(T) ? most : size * sizeof(T);
    tutti::detail::check(tutti_memory_alloc_kind(&memory, bytes, TUTTI_MEMORY_CUDA, device + 1));
    data_ = static_cast<T*>(memory);
  }
  Memory(Memory&& from) noexcept : data_(std::exchange(from.data_, nullptr)), size_(std::exchange(from.size_, 0)) {}
  Memory& operator=(Memory&& from) noexcept {
    std::swap(data_, from.data_);
    std::swap(size_, from.size_);
    return *this;
  }
  ~Memory() { static_cast<void>(tutti_memory_free(data_)); }

  /// The device's address: not for the host to look at.
  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// For a Communicator's verbs.
  std::span<T> span() const { return {data_, size_}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A stream of the current device, which does not wait for the legacy one. Destruction waits for nothing: what was enqueued
/// still runs.
class Stream {
 public:
  /// Errors: TUTTI_UNSUPPORTED, TUTTI_UNHANDLED_CUDA_ERROR.
  Stream() {
    const detail::Driver& driver = detail::Driver::get();
    if (driver.cuCtxGetCurrent(&context_) != 0 || context_ == nullptr) {
      set_device(0);
      detail::Driver::check(driver.cuCtxGetCurrent(&context_), "cuCtxGetCurrent");
    }
    constexpr unsigned non_blocking = 1;
    detail::Driver::check(driver.cuStreamCreateWithPriority(&stream_, non_blocking, 0), "cuStreamCreateWithPriority");
  }
  Stream(Stream&& from) noexcept
      : context_(std::exchange(from.context_, nullptr)), stream_(std::exchange(from.stream_, nullptr)) {}
  Stream& operator=(Stream&& from) noexcept {
    std::swap(context_, from.context_);
    std::swap(stream_, from.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_ != nullptr) detail::Driver::get().cuStreamDestroy(stream_);
  }

  /// A cudaStream_t.
  void* get() const { return stream_; }
  operator tutti_stream() const { return on(stream_); }  // NOLINT: a verb's `stream` is what it is for

  /// Enqueue copies; the host's memory lives until they are done. Sizes are those of `from`. Errors: TUTTI_INVALID_ARGUMENT
  /// (`to` is shorter), TUTTI_UNHANDLED_CUDA_ERROR.
  template <typename T>
  void copy_in(const Memory<T>& to, std::span<const std::type_identity_t<T>> from) {
    fit(to.size(), from.size());
    const detail::Current current(context_);
    detail::Driver::check(detail::Driver::get().cuMemcpyHtoDAsync(reinterpret_cast<std::uintptr_t>(to.data()), from.data(),
                                                                  from.size_bytes(), stream_),
                          "cuMemcpyHtoDAsync");
  }
  template <typename T>
  void copy_out(std::span<std::type_identity_t<T>> to, const Memory<T>& from) {
    fit(to.size(), from.size());
    const detail::Current current(context_);
    detail::Driver::check(detail::Driver::get().cuMemcpyDtoHAsync(to.data(), reinterpret_cast<std::uintptr_t>(from.data()),
                                                                  from.size() * sizeof(T), stream_),
                          "cuMemcpyDtoHAsync");
  }
  /// Until all that was enqueued is done. Tutti's operations end by their deadlines. Errors: TUTTI_UNHANDLED_CUDA_ERROR.
  void wait() {
    const detail::Current current(context_);
    detail::Driver::check(detail::Driver::get().cuStreamSynchronize(stream_), "cuStreamSynchronize");
  }

 private:
  static void fit(std::size_t to, std::size_t from) {
    if (to < from)
      throw Failure(TUTTI_INVALID_ARGUMENT, "a copy's target is shorter than its source", "Pass room for all of it.");
  }
  void* context_ = nullptr;  ///< that was current when it was made
  void* stream_ = nullptr;
};

}  // namespace tutti::cuda

#endif  // TUTTI_CUDA_HPP_
