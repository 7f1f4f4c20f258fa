// Where peers of this machine come in: a listening Unix socket whose acceptor lets in who proves the communicator's key.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/authenticated_acceptor.h"
#include "src/base/authenticated_connector.h"
#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "transports/near/local_address.h"

namespace tutti::near {

/// What a LocalEndpoint is to be.
struct LocalEndpointConfig {
  Service service{};
  std::string purpose;  ///< of handshakes, such as "tutti shm 2"
  std::string name;     ///< begins lines of the log
  int rank = 0;
  int ranks = 1;
  std::uint32_t endpoint_class = 0;  ///< a communicator's endpoints of different classes are no peers
  Key key{};
  std::function<void(int level, const std::string& text)> log;  ///< may be empty
};

/// A peer's connection that has come in: authenticated, and of a higher rank.
struct LocalArrival {
  int rank;
  UniqueFd socket;
};

/// One rank's end. Of two ranks the higher one calls, so that a pair has one connection. Used by one thread at a time.
class LocalEndpoint {
 public:
  /// Errors: TUTTI_SYSTEM_ERROR.
  static Result<std::unique_ptr<LocalEndpoint>> open(LocalEndpointConfig config);

  int rank() const { return config_.rank; }
  const LocalAddress& address() const { return address_; }
  /// Polls readable when `accept` has something to do.
  int fd() const { return acceptor_->fd(); }
  /// When `accept` wants to be called even if fd() is quiet; UINT64_MAX: never. CLOCK_MONOTONIC.
  std::uint64_t next_ns() const { return acceptor_->next_ns(); }
  /// Since when no peer can be let in, for want of descriptors; UINT64_MAX: they can.
  std::uint64_t shut_since_ns() const { return acceptor_->shut_since_ns(); }
  /// Moves handshakes along; never waits. Returns who got through.
  std::vector<LocalArrival> accept();

  /// A connector to the endpoint behind `there`.
  Connector connector_to(const LocalAddress& there) const;
  /// The rank that introduced itself by that payload of a handshake; -1: none of this communicator and class.
  int introduced(std::span<const unsigned char> payload) const;
  void log(int level, const std::string& text) const;

 private:
  static constexpr std::size_t kMostPending = 256;

  explicit LocalEndpoint(LocalEndpointConfig config) : config_(std::move(config)) {}
  Status listen();
  std::vector<unsigned char> introduction() const;

  LocalEndpointConfig config_;
  LocalAddress address_;
  std::optional<Acceptor> acceptor_;
};

}  // namespace tutti::near
