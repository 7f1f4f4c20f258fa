#include "tests/standin/state.h"

#include <time.h>

#include <algorithm>

namespace standin {

State& state() {
  static State& only = *new State;
  return only;
}

Device* find_device(DeviceOrdinal ordinal) {
  const auto& devices = state().devices;
  const auto at = static_cast<std::size_t>(ordinal);
  return ordinal >= 0 && at < devices.size() ? devices[at].get() : nullptr;
}

void lose(Context& context, DriverResult error) {
  if (context.error == DriverResult::success) context.error = error;
  context.lost.store(true, std::memory_order_relaxed);  // relaxed: see there
  state().changed.notify_all();
}

std::uint64_t draw(std::uint64_t limit) { return limit == 0 ? 0 : state().random() % limit; }

std::uint64_t now_ns() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace standin
