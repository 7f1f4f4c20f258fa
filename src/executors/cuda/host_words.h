// Shared words for blocks that are threads of the host: in tests, and in kernels that are compiled for the stand-in driver.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

/// Words of protocol.h in the host's memory. Each function has the order that its name says.
struct HostWords {
  using Number = std::uint64_t;

  static std::uint64_t load_acquire(const Number& number) { return shared(number).load(std::memory_order_acquire); }
  static std::uint64_t load_relaxed(const Number& number) { return shared(number).load(std::memory_order_relaxed); }
  static void store_release(Number& number, std::uint64_t value) { shared(number).store(value, std::memory_order_release); }
  static void store_relaxed(Number& number, std::uint64_t value) { shared(number).store(value, std::memory_order_relaxed); }
  static std::uint64_t add_relaxed(Number& number, std::uint64_t value) {
    return shared(number).fetch_add(value, std::memory_order_relaxed);
  }
  static std::uint64_t add_acq_rel(Number& number, std::uint64_t value) {
    return shared(number).fetch_add(value, std::memory_order_acq_rel);
  }
  static bool exchange_acquire(Number& number, std::uint64_t expected, std::uint64_t desired) {
    return shared(number).compare_exchange_strong(expected, desired, std::memory_order_acquire, std::memory_order_relaxed);
  }

 private:
  // atomic_ref takes no const before C++26; nothing is written through it.
  static std::atomic_ref<std::uint64_t> shared(const Number& number) {
    return std::atomic_ref(const_cast<std::uint64_t&>(number));
  }
};

}  // namespace tutti
