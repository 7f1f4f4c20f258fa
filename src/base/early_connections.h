// A listener before its acceptor has a key: strangers that come meanwhile must not be in the way of peers later.
#pragma once

#include <cstdint>
#include <deque>

#include "src/base/in_process.h"
#include "src/base/poller.h"
#include "src/base/socket.h"

namespace tutti {

/// Holds what connects before this rank was introduced. A peer may come that early, if it was introduced a moment before,
/// so whoever comes may stay for a short while; who has stayed longer is a stranger, and is dropped. (A slow peer's caller
/// tries again.) A thousand strangers are so out of the way before the first peer connects. Not thread safe, never waits.
class EarlyConnections {
 public:
  static constexpr std::uint64_t kStayNs = 20'000'000;
  static constexpr std::size_t kMostPending = 64;

  explicit EarlyConnections(Listener listener);

  /// Polls readable when `step` has something to do.
  int fd() const { return poller_.fd(); }
  /// When `step` wants to be called even if fd() is quiet; UINT64_MAX: never. CLOCK_MONOTONIC.
  std::uint64_t next_ns() const { return pending_.empty() ? UINT64_MAX : pending_.front().until_ns; }
  /// Lets in who waits outside, drops who has stayed too long.
  void step();

  struct Contents {
    Listener listener;
    std::deque<UniqueFd> pending;  ///< in the order of arrival
    InProcessListener in_process;  ///< whose connections have waited in it
  };
  /// Hands all over, to an Acceptor; none are left then.
  Contents take();

 private:
  struct Pending {
    UniqueFd fd;
    std::uint64_t until_ns;
  };
  void let_in(int listening_fd);
  void close();

  Listener listener_;
  InProcessListener in_process_;  // no strangers come by it, so nobody has to be let in and dropped
  Poller poller_;
  std::deque<Pending> pending_;
};

}  // namespace tutti
