// The words of protocol.h in kernels: accesses of src/cuda/device/order.h.
#pragma once

#include "src/cuda/device/order.h"

namespace tutti {

/// Words that lie on one device and only its blocks look at: claims, turns, departures, how far tasks have come.
struct DeviceWords {
  using Number = device::Word64;

  TUTTI_DEVICE static Number load_acquire(const Number& number) { return device::acquire_on_device(&number); }
  /// Of the system's scope, which is no dearer where nothing is ordered.
  TUTTI_DEVICE static Number load_relaxed(const Number& number) { return device::poll(&number); }
  TUTTI_DEVICE static void store_release(Number& number, Number value) { device::publish_on_device(&number, value); }
  /// Stronger than it need be: there is one counting instruction.
  TUTTI_DEVICE static Number add_relaxed(Number& number, Number value) { return add_acq_rel(number, value); }
  TUTTI_DEVICE static Number add_acq_rel(Number& number, Number value) {
    return device::native::add_on_device(&number, value);
  }
  TUTTI_DEVICE static bool exchange_acquire(Number& number, Number expected, Number desired) {
    return device::claim(&number, expected, desired);
  }
};

/// Words that other devices or the host look at, too: links, records.
struct SystemWords {
  using Number = device::Word64;

  TUTTI_DEVICE static Number load_acquire(const Number& number) { return device::acquire(&number); }
  TUTTI_DEVICE static Number load_relaxed(const Number& number) { return device::poll(&number); }
  TUTTI_DEVICE static void store_release(Number& number, Number value) { device::publish(&number, value); }
  TUTTI_DEVICE static void store_relaxed(Number& number, Number value) { device::native::store_relaxed(&number, value); }
  TUTTI_DEVICE static void load_pair(const Number* at, std::uint64_t& first, std::uint64_t& second) {
    Number low = 0, high = 0;
    device::read_line(at, low, high);
    first = low;
    second = high;
  }
  TUTTI_DEVICE static void store_pair(Number* at, std::uint64_t first, std::uint64_t second) {
    device::write_line(at, static_cast<Number>(first), static_cast<Number>(second));
  }
};

}  // namespace tutti
