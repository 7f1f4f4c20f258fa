// One rank's end of the transport: listening sockets, peers, and the turn of the wheel that moves everything.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "include/tutti/transport.h"
#include "src/base/handshake.h"
#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "transports/tcp/card.h"
#include "transports/tcp/incoming.h"
#include "transports/tcp/peer.h"

namespace tutti::tcp {

/// An endpoint as include/tutti/transport.h has it. One thread at a time; nothing blocks but the destructor, for at most
/// kLinger, while what was sent is on its way.
class Endpoint {
 public:
  /// Errors: TUTTI_INVALID_ARGUMENT (an interface that is not there), TUTTI_SYSTEM_ERROR (no port, no descriptors).
  static Result<std::unique_ptr<Endpoint>> open(const tutti_endpoint_config& config);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  int rank() const { return rank_; }
  /// Whether that is another rank of this communicator.
  bool is_peer(int rank) const { return rank >= 0 && rank < ranks_ && rank != rank_; }
  const Key& key() const { return key_; }
  const Card& card() const { return card_; }
  std::uint64_t connect_timeout_ns() const { return connect_timeout_ns_; }

  bool reach(int peer, const Card& other, tutti_reach* reach, std::string* why) const;
  /// Errors: TUTTI_INVALID_ARGUMENT, TUTTI_INVALID_USAGE.
  Result<TcpLink*> open_link(int peer, const Card& card, const LinkShape& shape, bool sends);
  bool progress();
  int event_fd() const { return epoll_.get(); }
  void arm(bool sleeping);

  // ---- For its parts.
  /// Calls `watcher` when `fd` has `events`; returns a number for the calls below; 0: it cannot be
  /// watched, which is logged.
  std::uint64_t watch(Watcher& watcher, int fd, std::uint32_t events);
  void rewatch(std::uint64_t number, int fd, std::uint32_t events);
  void unwatch(std::uint64_t number, int fd);
  /// Sets what every connection has: traffic class, keep-alive.
  void dress(int fd) const;
  /// Sockets to connect a peer with.
  std::uint32_t sockets_to(const Card& other) const;
  void attach(const DialIntroduction& other, std::uint32_t index, std::uint32_t count, UniqueFd socket,
              const std::string& remote);
  void add(Stream& stream);
  void log(int level, const std::string& text) const;
  /// Logs that an accepted connection was dropped.
  void dropped(const std::string& remote, const std::string& why) const;

 private:
  static constexpr std::size_t kPolledDirectly = 4;  ///< streams that are read without asking epoll first
  static constexpr std::uint32_t kDoorsEvery = 64;   ///< idle turns between looks at the doors when nobody is expected
  /// After so many, small debts of credit are paid. Many: who waits for an answer pays with its next message, for nothing.
  static constexpr std::uint32_t kIdleTurns = 2048;
  static constexpr std::uint64_t kLinger = 500'000'000;

  Endpoint() = default;
  Peer& peer(int rank);
  /// Few enough streams to read each in every turn.
  bool directly() const { return streams_.size() <= kPolledDirectly; }
  /// Asks epoll about a stream what is to be asked now.
  void ask_epoll(Stream& stream);
  bool move_streams();
  bool look_at_events();
  void drop_broken();
  void expect(Peer& peer);
  void meet_peers();
  void pay_credit();
  void linger();

  int rank_ = 0;
  int ranks_ = 0;
  Key key_{};
  Card card_;
  std::uint64_t connect_timeout_ns_ = 0;
  std::uint32_t traffic_class_ = 0;
  std::uint32_t sockets_per_peer_ = 0;
  void (*log_)(int, const char*) = nullptr;

  UniqueFd epoll_;
  std::unordered_map<std::uint64_t, Watcher*> watchers_;
  std::uint64_t last_watch_ = 0;
  std::unordered_map<int, std::unique_ptr<Peer>> peers_;
  std::vector<Stream*> streams_;  ///< those that are not broken, or were not a turn ago
  std::vector<Peer*> waiting_;    ///< those whose connections are not all there
  std::uint32_t turns_ = 0;
  std::uint32_t idle_turns_ = 0;
  bool sleeping_ = false;   ///< as `arm` said last
  bool look_soon_ = false;  ///< somebody slept on the epoll descriptor: see what woke it
  IncomingConnections incoming_{*this};
};

}  // namespace tutti::tcp
