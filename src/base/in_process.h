// Connections between threads of one process. They need no network, so that a loopback interface that is down, or a
// firewall, keeps no rank from a rendezvous or a peer of its own process.
#pragma once

#include <memory>
#include <vector>

#include "src/base/addresses.h"
#include "src/base/unique_fd.h"

namespace tutti {

/// Takes connections for the listening sockets at some addresses. One that the system has no descriptor or memory for
/// takes none: the network serves then. Used by one thread; its callers may be others.
class InProcessListener {
 public:
  InProcessListener() = default;
  explicit InProcessListener(const std::vector<SocketAddress>& addresses);
  ~InProcessListener();
  InProcessListener(InProcessListener&&) noexcept;
  InProcessListener& operator=(InProcessListener&&) noexcept;

  /// Polls readable while connections wait; -1 where there is none.
  int fd() const;
  /// The connections that wait, in the order of arrival.
  std::vector<UniqueFd> accept_all();

 private:
  struct State;
  friend UniqueFd connect_in_process(const SocketAddress& address);
  std::shared_ptr<State> state_;
};

/// The other end of a new connection to this process's own listener at `address`. Empty where it has none there, or the
/// system has no descriptor. A forked child reaches none of its parent's. Never blocks; thread safe.
UniqueFd connect_in_process(const SocketAddress& address);

}  // namespace tutti
