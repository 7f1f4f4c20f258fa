// What a loop that polls does between two looks, where a test has more threads than the machine has cores.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace tutti::testing {

/// Gives the core away, and sleeps once in a while: dozens of threads that only yield leave others a fraction of it. A
/// yield that takes as long as a slice means that strangers have the cores. Then it sleeps for a time: who wakes comes
/// before them, and who yields comes behind. One thread's.
class Pause {
 public:
  void operator()() {
    using std::chrono::microseconds;
    if (sleeps_ != 0 || ++pauses_ % 32 == 0) {
      if (sleeps_ != 0) --sleeps_;
      std::this_thread::sleep_for(microseconds(20));
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::yield();
    if (std::chrono::steady_clock::now() - begin > microseconds(1000)) sleeps_ = 64;
  }

 private:
  std::uint32_t pauses_ = 0;
  std::uint32_t sleeps_ = 0;
};

}  // namespace tutti::testing
