#include "src/base/exception_boundary.h"

#include <exception>
#include <new>
#include <string>

namespace tutti {
namespace {

constexpr const char* whose_fault = "Let no exception leave a callback; otherwise please report this.";

// Made while the library is loaded, since there is no memory for a sentence when there is no memory; never destroyed,
// since threads of the library outlive main.
const Status& no_memory = *new Status(TUTTI_SYSTEM_ERROR, "out of memory", "Free memory or use fewer ranks.");
const Status& unknown_exception =
    *new Status(TUTTI_INTERNAL_ERROR, "unexpected failure: an exception of an unknown type", whose_fault);

}  // namespace

const Status& out_of_memory() noexcept { return no_memory; }

Status current_exception_status() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return no_memory;
  } catch (const std::exception& e) {
    try {
      return Status(TUTTI_INTERNAL_ERROR, std::string("unexpected failure: ") + e.what(), whose_fault);
    } catch (...) {
      return no_memory;
    }
  } catch (...) {
    return unknown_exception;
  }
}

}  // namespace tutti
