#include "src/program/signals.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

namespace tutti::program {
namespace {

constexpr int kShellsOffset = 128;  // a shell's exit code for a command that a signal ended

// Relaxed everywhere: the number is all that is told.
std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);  // a handler may use no other

void remember(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal, std::memory_order_relaxed);
}

// The signal that ends this process once what was registered later has been done; 0: exit() is just an exit.
std::atomic<int> last_signal{0};

void end_if_asked() {
  if (const int signal = last_signal.load(std::memory_order_relaxed); signal != 0) end_by_signal(signal);
}

}  // namespace

PutOffSignals::PutOffSignals() {
  static const int registered = std::atexit(end_if_asked);
  static_cast<void>(registered);  // without it, exit_by_signal ends with an exit code
  first_signal.store(0, std::memory_order_relaxed);
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;  // the library's calls go on
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    sigaction(kEndingSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_DFL) sigaction(kEndingSignals[i], &action, nullptr);
  }
}

int PutOffSignals::release() {
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    if (before_[i].sa_handler == SIG_DFL) sigaction(kEndingSignals[i], &before_[i], nullptr);
  }
  return caught();
}

int PutOffSignals::caught() const { return first_signal.load(std::memory_order_relaxed); }

void end_by_signal(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
  _exit(kShellsOffset + signal);  // where the signal does not end a process by default
}

void exit_by_signal(int signal) {
  last_signal.store(signal, std::memory_order_relaxed);
  std::exit(kShellsOffset + signal);
}

}  // namespace tutti::program
