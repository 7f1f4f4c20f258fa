// Groups on the host: group.h's half for g++ and clang. Each thread of a block is a thread of the process.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/cuda/device/host_thread.h"

#define TUTTI_DEVICE inline
#define TUTTI_DEVICE_NOINLINE inline
/// Defines `name`, a HostKernelFunction: the body with its one struct of parameters.
#define TUTTI_KERNEL(name, Parameters, body)                   \
  void name(tutti::device::HostThread& thread, void** given) { \
    tutti::device::Group group(thread);                        \
    body(group, *static_cast<const Parameters*>(given[0]));    \
  }

namespace tutti::device {

using Word32 = std::uint32_t;
using Word64 = std::uint64_t;
using HostKernelFunction = void (*)(HostThread& thread, void** parameters);

/// See group.h.
class Group {
 public:
  explicit Group(HostThread& thread) : thread_(thread) {}

  std::uint32_t rank() const { return thread_.thread; }
  std::uint32_t size() const { return thread_.threads; }
  std::uint32_t block() const { return thread_.block; }
  std::uint32_t blocks() const { return thread_.blocks; }
  void* shared() const { return thread_.shared; }
  void barrier() { thread_.barrier(); }
  bool any(bool vote) { return thread_.any(vote); }
  std::uint64_t broadcast(std::uint64_t value, std::uint32_t from) { return thread_.broadcast(value, from); }
  std::uint64_t timer_ns() const { return thread_.timer_ns(); }
  void pause() { thread_.pause(); }

 private:
  HostThread& thread_;
};

/// What order.h is made of; the orders are argued there. The host knows one scope.
namespace native {

template <typename T>
T load_relaxed(const T* at) {
  return std::atomic_ref<T>(*const_cast<T*>(at)).load(std::memory_order_relaxed);
}
template <typename T>
T load_acquire(const T* at) {
  return std::atomic_ref<T>(*const_cast<T*>(at)).load(std::memory_order_acquire);
}
template <typename T>
void store_release(T* at, T value) {
  std::atomic_ref<T>(*at).store(value, std::memory_order_release);
}
template <typename T>
void store_relaxed(T* at, T value) {
  std::atomic_ref<T>(*at).store(value, std::memory_order_relaxed);
}
template <typename T>
T load_acquire_on_device(const T* at) {
  return load_acquire(at);
}
template <typename T>
void store_release_on_device(T* at, T value) {
  store_release(at, value);
}
template <typename T>
T add_on_device(T* at, T value) {
  return std::atomic_ref(*at).fetch_add(value, std::memory_order_acq_rel);
}
template <typename T>
T swap_on_device(T* at, T expected, T wanted) {
  std::atomic_ref(*at).compare_exchange_strong(expected, wanted, std::memory_order_acquire, std::memory_order_relaxed);
  return expected;
}
/// Two scalars, as on a device: what is in one of them belongs together, and nothing else does.
inline void load_pair(const std::uint64_t* at, std::uint64_t& first, std::uint64_t& second) {
  first = load_relaxed(at);
  second = load_relaxed(at + 1);
}
inline void store_pair(std::uint64_t* at, std::uint64_t first, std::uint64_t second) {
  store_relaxed(at, first);
  store_relaxed(at + 1, second);
}

}  // namespace native
}  // namespace tutti::device
