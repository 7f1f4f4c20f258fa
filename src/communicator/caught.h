// Where exceptions end: at the library's entry points and at the outermost function of each of its threads.
#pragma once

#include <cxxabi.h>

#include <utility>

#include "src/base/status.h"

namespace tutti {

/// Inside a catch block: what the exception under way means as a Status. TUTTI_SYSTEM_ERROR for std::bad_alloc,
/// TUTTI_INTERNAL_ERROR with its words for any other. Neither throws nor needs memory for the first. Thread safe.
Status caught() noexcept;

/// TUTTI_SYSTEM_ERROR, made in advance: there is no memory for a sentence when there is no memory.
const Status& out_of_memory() noexcept;

/// Runs `body`, which answers a Status; one that throws answers `caught`. Only the cancellation of a thread goes on.
template <typename Body>
Status attempt(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return caught();
  }
}

/// Runs `body`, which answers whether it succeeded; where it throws it did not, and `failure` says as in `attempt` why.
template <typename Body>
bool succeeds(Body&& body, Status& failure) {
  try {
    return std::forward<Body>(body)();
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    failure = caught();
    return false;
  }
}

}  // namespace tutti
