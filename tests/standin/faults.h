// Memory faults of kernels and copies, which become a context's sticky error, as on a GPU, instead of the process's end.
#pragma once

#include <setjmp.h>

namespace standin {

/// Installs handlers of SIGSEGV and SIGBUS. Faults outside of guarded code go on to whoever had them before.
void catch_faults();

/// This thread's way out of a fault; nullptr: it has none.
sigjmp_buf*& fault_exit();

/// Runs `body`; false where it touched memory that it may not. What it had on its stack is dropped without destructors
/// then.
template <typename Body>
bool guarded(const Body& body) {
  sigjmp_buf here;
  sigjmp_buf* const outer = fault_exit();
  if (sigsetjmp(here, 1) != 0) {
    fault_exit() = nullptr;  // guards do not nest around one another's bodies
    return false;
  }
  fault_exit() = &here;
  body();
  fault_exit() = outer;
  return true;
}

}  // namespace standin
