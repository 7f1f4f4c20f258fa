// In the place of waiting: nobody ever sleeps or spins, since the model takes the turns.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/poll_hook.h"

namespace tutti {

struct EndpointGroup {
  static bool is_shared() { return false; }
};
struct WaitPolicy {};
struct WaiterOptions {
  bool shared = false;
  bool tells = false;
};

class Waiter {
 public:
  Waiter(EndpointGroup&, const WaitPolicy&, WaiterOptions) {}
  static void begin(std::uint64_t) {}
  static bool spin(std::uint32_t, bool) { return false; }
  static bool idle(std::uint32_t, bool) { return true; }
  static void progress() {}
  static bool shares_core() { return false; }
  static bool yield_briefly(std::uint64_t&) { return false; }
};

struct EndpointTurn {
  EndpointTurn(Waiter&, std::uint64_t) {}
  explicit operator bool() const { return true; }
};

}  // namespace tutti
