// One thing that the driver has given: the base of the room's holders.
#pragma once

#include <utility>

#include "src/cuda/driver.h"

namespace tutti::cuda {

/// Owns one handle of the driver's, and gives it back by `Release(driver, handle)` upon destruction. Movable, not copyable.
/// Not thread safe. Release may not throw, and may not wait for the device: what could wait goes to Driver::defer.
template <typename T, void (*Release)(const Driver&, const T&)>
class DriverHandle {
 public:
  DriverHandle() = default;
  DriverHandle(const Driver& driver, T value) : driver_(&driver), value_(value) {}
  DriverHandle(DriverHandle&& other) noexcept : driver_(std::exchange(other.driver_, nullptr)), value_(other.value_) {}
  DriverHandle& operator=(DriverHandle&& other) noexcept {
    if (this != &other) {
      reset();
      driver_ = std::exchange(other.driver_, nullptr);
      value_ = other.value_;
    }
    return *this;
  }
  DriverHandle(const DriverHandle&) = delete;
  DriverHandle& operator=(const DriverHandle&) = delete;
  ~DriverHandle() { reset(); }

  explicit operator bool() const { return driver_ != nullptr; }
  const T& get() const { return value_; }
  /// Only where there is one.
  const Driver& driver() const { return *driver_; }
  /// Gives it up without giving it back.
  T release() {
    driver_ = nullptr;
    return value_;
  }
  void reset() {
    const Driver* const driver = std::exchange(driver_, nullptr);
    if (driver != nullptr && driver->own_process()) Release(*driver, value_);
  }

 private:
  const Driver* driver_ = nullptr;
  T value_{};
};

}  // namespace tutti::cuda
