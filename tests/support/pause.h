// What a loop that polls does between two looks, where a test has more threads than the machine has cores.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace tutti::testing {

/// Gives the core away, and sleeps once in a while: dozens of threads that only yield leave those that have something to do
/// a fraction of it. One thread's.
class Pause {
 public:
  void operator()() {
    if (++pauses_ % 32 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    } else {
      std::this_thread::yield();
    }
  }

 private:
  std::uint32_t pauses_ = 0;
};

}  // namespace tutti::testing
