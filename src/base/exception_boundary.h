// Where exceptions end: at the library's entry points and at the outermost function of each of its threads.
#pragma once

#include <cxxabi.h>

#include <utility>

#include "src/base/status.h"

namespace tutti {

/// Inside a catch block: what the exception under way means as a Status. TUTTI_SYSTEM_ERROR for std::bad_alloc,
/// TUTTI_INTERNAL_ERROR with its words for any other. Neither throws nor needs memory for the first. Thread safe.
Status current_exception_status() noexcept;

/// TUTTI_SYSTEM_ERROR, made in advance: there is no memory for a sentence when there is no memory.
const Status& out_of_memory() noexcept;

/// Runs `body`, which answers whether it succeeded; where it throws it did not, and `failure` is
/// current_exception_status(). Only the cancellation of a thread goes on.
template <typename Body>
bool catching_bool(Body&& body, Status& failure) {
  try {
    return std::forward<Body>(body)();
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    failure = current_exception_status();
    return false;
  }
}

/// Likewise of one that answers a Status.
template <typename Body>
Status catching(Body&& body) {
  Status status;
  static_cast<void>(catching_bool(
      [&] {
        status = std::forward<Body>(body)();
        return status.ok();
      },
      status));
  return status;
}

}  // namespace tutti
