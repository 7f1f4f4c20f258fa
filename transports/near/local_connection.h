// The one connection of two ranks on a machine: comes about, passes descriptors, and tells of the peer's death.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/authenticated_connector.h"
#include "src/base/poller.h"
#include "src/base/unique_fd.h"
#include "transports/near/descriptor_message.h"
#include "transports/near/local_address.h"
#include "transports/near/local_endpoint.h"

namespace tutti::near {

/// A connection to one peer. Used by its endpoint's thread.
///
///     unmet → connecting → connected → ended        the higher rank calls
///     unmet → waiting → connected → ended           the lower rank waits, and notices where the other has ended
///
/// The end of a connected one's socket is the peer's death, or its leave. The kernel closes it behind the mappings of a
/// process that ends, killed or not. A child that the peer has forked keeps it open.
class LocalConnection {
 public:
  enum class State { kUnmet, kWaiting, kConnecting, kConnected, kEnded };

  /// Events of the connection come from `poller` by `tag`; `advance` is to be called then.
  LocalConnection(const LocalEndpoint& endpoint, Poller& poller, std::uint64_t tag, int rank)
      : endpoint_(endpoint), poller_(poller), tag_(tag), rank_(rank) {}
  LocalConnection(const LocalConnection&) = delete;
  LocalConnection& operator=(const LocalConnection&) = delete;

  State state() const { return state_; }
  int rank() const { return rank_; }
  /// "rank 3 (pid 4711)".
  std::string name() const;
  /// As the peer says.
  void set_pid(std::uint32_t pid) { pid_ = pid; }
  /// It is there, connected or about to be: one that does not answer is late, not lost.
  bool is_reached() const { return state_ == State::kConnected || probe_ || (connector_ && connector_->is_taken()); }
  /// What went wrong last while connecting; may be empty.
  std::string trouble() const { return connector_ ? connector_->explain() : trouble_; }
  /// This process had nothing left to call the peer with, last time.
  bool is_starved() const { return connector_ && connector_->starved() != 0; }
  const std::string& why_ended() const { return why_; }

  /// Names the peer's address; begins to connect where that is ours to do. A rank is connected with itself at once.
  void meet(const LocalAddress& address);
  /// Takes a connection that has come in, perhaps in the place of an older one that the peer gave up.
  void adopt(UniqueFd socket);
  /// Goes on with connecting, or looks whether the peer that is waited for has ended. True where the state changed. To be
  /// called at events, and now and then without: a pause ends without an event.
  bool advance();
  /// The socket has ended before the peer was heard of: it is called or waited for again.
  void retry();
  /// For good. Returns the socket, whose end tells the peer.
  UniqueFd end(std::string why);

  /// Sends from byte `begun` of the packet on. Errors: SocketResult's.
  template <typename Message>
  SocketResult send(const DescriptorMessage<Message>& packet, std::size_t& begun) const {
    const int fd = to_self_ ? to_self_.get() : socket_.get();
    return send_message(fd, std::as_bytes(std::span(&packet.message, 1)), packet.descriptors, begun);
  }
  /// Receives into the packet, of which `begun` bytes are there already.
  template <typename Message>
  SocketResult receive(DescriptorMessage<Message>& packet, std::size_t& begun) const {
    const auto message = std::as_writable_bytes(std::span(&packet.message, 1));
    return receive_message(socket_.get(), message, packet.descriptors, packet.lost, begun);
  }
  /// Whether there shall be an event, too, when the socket takes output again.
  void watch_output(bool wanted);

 private:
  bool calls() const { return rank_ < endpoint_.rank(); }
  bool connect();
  bool probe();
  void pause();
  void take(UniqueFd socket);
  void drop();
  void forget(UniqueFd& fd);
  void connect_to_self();

  const LocalEndpoint& endpoint_;
  Poller& poller_;
  const std::uint64_t tag_;
  const int rank_;
  State state_ = State::kUnmet;
  std::uint32_t pid_ = 0;
  std::optional<LocalAddress> address_;  ///< once met
  std::optional<Connector> connector_;   ///< while connecting
  UniqueFd socket_;
  UniqueFd probe_;    ///< see `probe`
  UniqueFd to_self_;  ///< a rank's connection to itself has both ends here
  bool watching_output_ = false;
  std::uint64_t retry_at_ns_ = 0;
  std::uint64_t retry_pause_ns_ = 0;
  std::string trouble_;
  std::string why_;
};

}  // namespace tutti::near
