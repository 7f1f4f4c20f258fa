// A transport around another one that fails when it is told to: for tests of everything above the links.
//
//     TUTTI_FAULTY="shm:rank=1,point=commit,after=40,action=kill;rank=0,point=view,after=3,action=delay,ms=20"
//
// As a plugin (libtutti_faulty.so in TUTTI_PLUGIN_PATH, TUTTI_TRANSPORTS=faulty) it takes its orders from that variable; in
// a test's own process from `configure`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "include/tutti/transport.h"
#include "src/base/status.h"

namespace tutti::faulty {

/// Where a fault strikes: at a call of this operation.
enum class Point { kReserve, kCommit, kOffer, kView, kRelease, kProgress, kOpen, kRegister, kProbe };
inline constexpr int kPoints = 9;

enum class FaultAction {
  kDelay,  ///< reserve, view, progress and probe come to nothing for a while
  kBreak,  ///< the link breaks, with a sentence; the other end sees it closed; open, register and probe fail, likewise
  kKill,   ///< the process ends by SIGKILL
};

struct InjectedFault {
  int rank = -1;  ///< -1: every rank
  Point point = Point::kCommit;
  std::uint64_t after = 0;  ///< that many calls go well first, counted per endpoint
  FaultAction action = FaultAction::kBreak;
  std::uint64_t delay_ns = 0;
};

/// Orders as in TUTTI_FAULTY, behind the transport's name. Errors: TUTTI_INVALID_ARGUMENT, naming the word.
Result<std::vector<InjectedFault>> parse_faults(std::string_view text);

/// What endpoints opened from now on wrap, and what shall befall them. Not thread safe: before any endpoint is opened.
void configure(const tutti_transport* inner, std::vector<InjectedFault> faults);

/// The table; named "faulty"; static. Without `configure` it reads TUTTI_FAULTY when an endpoint is opened.
const tutti_transport* transport();

}  // namespace tutti::faulty
