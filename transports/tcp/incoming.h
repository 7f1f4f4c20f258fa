// Where peers come in: the acceptor, and authenticated connections that have not yet said which socket they are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/authenticated_acceptor.h"
#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "transports/tcp/dialer.h"
#include "transports/tcp/frame.h"
#include "transports/tcp/watcher.h"

namespace tutti::tcp {

class Endpoint;

/// An accepted connection of a peer, until its one frame has said which socket it is. A connection that lost against a
/// faster one is closed by its other side in this state.
class IncomingConnection final : public Watcher {
 public:
  IncomingConnection(Endpoint& endpoint, UniqueFd socket, const DialIntroduction& other, std::string remote);
  ~IncomingConnection() override;

  void ready(std::uint32_t events) override;
  /// To be removed: closed, refused or attached.
  bool done() const { return done_; }

 private:
  void unwatch();

  Endpoint& endpoint_;
  UniqueFd socket_;
  DialIntroduction other_;
  std::string remote_;
  std::uint64_t watch_ = 0;
  bool done_ = false;
  FrameHeader attach_;
  std::size_t attach_bytes_ = 0;
};

/// The endpoint's acceptor, and who has come in by it.
class IncomingConnections final : public Watcher {
 public:
  explicit IncomingConnections(Endpoint& endpoint) : endpoint_(endpoint) {}

  /// Takes the sockets over. Errors: TUTTI_SYSTEM_ERROR where descriptors are out.
  Status open(std::vector<UniqueFd> sockets);
  void ready(std::uint32_t events) override;
  /// Does what is due by now, and drops connections that are done.
  void sweep(std::uint64_t now);
  /// Whether `sweep` has something to do before long.
  bool busy() const { return !connections_.empty() || acceptor_->next_ns() != UINT64_MAX; }

 private:
  static constexpr std::size_t kMostPending = 64;

  void take(AuthenticatedConnection accepted);

  Endpoint& endpoint_;
  std::optional<Acceptor> acceptor_;
  std::vector<std::unique_ptr<IncomingConnection>> connections_;
  bool short_ = false;  ///< nobody is let in, for want of descriptors, and that has been said
};

}  // namespace tutti::tcp
