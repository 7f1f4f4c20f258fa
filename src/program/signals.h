// The signals that end a program, put off while something is there that must first be cleaned up.
#pragma once

#include <signal.h>

#include <array>

namespace tutti::program {

/// Signals by which people and launchers end a program.
inline constexpr std::array<int, 3> kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

/// Until it is released, kEndingSignals are only remembered. One that is ignored, or has a handler already, stays as it
/// is. One object at a time in a process.
class PutOffSignals {
 public:
  PutOffSignals();
  ~PutOffSignals() { release(); }
  PutOffSignals(const PutOffSignals&) = delete;
  PutOffSignals& operator=(const PutOffSignals&) = delete;

  /// The first signal that came, or 0. Thread safe.
  int caught() const;
  /// From now on they do again what they did before. Returns caught().
  int release();

 private:
  std::array<struct sigaction, kEndingSignals.size()> before_;
};

/// Ends this process by `signal`'s default action, so that whoever started it sees which signal it was.
[[noreturn]] void end_by_signal(int signal);

/// The same after what exit() does, as far as that was registered since the first PutOffSignals of this process.
[[noreturn]] void exit_by_signal(int signal);

}  // namespace tutti::program
