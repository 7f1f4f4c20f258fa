// Where ranks share cores, what is better than handing the core over at once: looking for a while.
#pragma once

#include <cstdint>

#include "src/base/clock.h"
#include "src/base/pause.h"
#include "src/executors/host/host_link.h"

namespace tutti {

/// Looks for what a link's peer is about to bring (`here` answers true) for as long as handing the core over and getting it
/// back would take, about; unless `even_if_descheduled`, only while the peer runs: whoever waits for a rank that does not
/// had better let others have the core. False: it did not come.
template <typename Here>
bool spin_briefly(const HostLink& link, bool even_if_descheduled, Here&& here) {
  constexpr std::uint64_t two_switches = 4'000;  // ns; a bare yield between two processes takes 1.4 us (Zen 4)
  const std::uint64_t until = now_ns() + two_switches;
  do {
    if (!even_if_descheduled && !link.peer_runs()) return here();  // what it sent before it said so is here
    pause_core();
    if (here()) return true;
  } while (now_ns() < until);
  return false;
}

}  // namespace tutti
