#include "tests/standin/faults.h"

#include <signal.h>

namespace standin {
namespace {

struct sigaction before_segv;
struct sigaction before_bus;

/// Hands a fault that is not ours to the handler before us; where there is none, the instruction faults again and ends us.
void pass_on(int number, siginfo_t* info, void* machine) {
  const struct sigaction& before = number == SIGSEGV ? before_segv : before_bus;
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(number, info, machine);
    return;
  }
  ::sigaction(number, &before, nullptr);
}

void on_fault(int number, siginfo_t* info, void* machine) {
  if (sigjmp_buf* const exit = fault_exit(); exit != nullptr) siglongjmp(*exit, 1);
  pass_on(number, info, machine);
}

}  // namespace

sigjmp_buf*& fault_exit() {
  static thread_local sigjmp_buf* exit = nullptr;
  return exit;
}

void catch_faults() {
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  ::sigaction(SIGSEGV, &action, &before_segv);
  ::sigaction(SIGBUS, &action, &before_bus);
}

}  // namespace standin
