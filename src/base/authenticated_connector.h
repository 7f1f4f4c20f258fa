// Reaches a peer at one of several addresses and proves the key there. Tries again until told to stop.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "src/base/authenticated_acceptor.h"
#include "src/base/handshake.h"
#include "src/base/poller.h"
#include "src/base/socket.h"

namespace tutti {

/// An outgoing connection in the making. Addresses are tried in order, each started when the one before failed or has
/// not answered for 100 ms; the first that completes the handshake wins. After a round without success it waits (5 ms,
/// doubling up to 200 ms) and starts again. Not thread safe, never blocks.
class Connector {
 public:
  /// addresses: as the peer told them; link-local ones are tried on each local interface.
  Connector(std::vector<SocketAddress> addresses, const Key& key, std::string purpose, std::vector<unsigned char> payload);

  /// Polls readable when `step` has something to do.
  int fd() const { return poller_.fd(); }
  /// When `step` wants to be called even if fd() is quiet. CLOCK_MONOTONIC.
  std::uint64_t next_ns() const;
  /// Moves everything along. True once connected.
  bool step();
  /// The connection; once, after step() returned true.
  AuthenticatedConnection take() { return std::move(connected_); }

  /// Since when every port among the addresses has refused our key, round after round; UINT64_MAX: not so. Where the peer
  /// may be at one of several ports, a refusal at some of them only tells that others use those.
  std::uint64_t key_refused_since_ns() const { return key_refused_since_ns_; }
  /// Whether any address has refused our key so far.
  bool key_was_refused() const { return key_was_refused_; }
  /// Since when every address has answered "connection refused", round after round; UINT64_MAX: not so. A peer that was
  /// listening before and is refused for a while is dead.
  std::uint64_t refused_since_ns() const { return refused_since_ns_; }
  /// The error number for which a whole round of attempts could not so much as begin, since this process or its system is
  /// out of descriptors or memory; 0: not so.
  int starved() const { return starved_; }
  /// The same of any attempt of the last round.
  int shortage() const { return shortage_; }
  /// Since when every address has been this machine's own while its loopback interface is down, and none of a listener of
  /// this process, round after round; UINT64_MAX: not so.
  std::uint64_t loopback_down_since_ns() const { return loopback_down_since_ns_; }
  /// What the addresses answered last, such as "10.0.0.1:4242: Connection refused". One clause.
  std::string explain() const;

 private:
  struct Attempt {
    std::size_t address;
    std::uint64_t id;
    UniqueFd fd;
    bool connected = false;
    Handshake handshake;
    std::uint64_t until_ns;
  };

  void start_next();
  void end_round();
  bool every_port_refused_key() const;
  bool advance_attempt(std::uint64_t id);
  Result<UniqueFd> connect(const SocketAddress& address);
  void fail(std::uint64_t id, std::string why, bool refused_by_system, bool refused_our_key, int shortage = 0);

  std::vector<SocketAddress> addresses_;
  struct Answer {
    std::string text;
    bool refused_key = false;
  };
  std::vector<Answer> answers_;  // by address, the last one each
  Key key_;
  std::string purpose_;
  std::vector<unsigned char> payload_;
  Poller poller_;
  std::list<Attempt> attempts_;
  std::size_t next_address_ = 0;
  std::uint64_t next_id_ = 0;
  std::uint64_t next_start_ns_ = 0;
  std::uint64_t backoff_ns_;
  bool round_refused_by_system_ = true;
  bool key_was_refused_ = false;
  bool round_starved_ = true;
  int shortage_ = 0;
  int starved_ = 0;
  std::uint64_t key_refused_since_ns_ = UINT64_MAX;
  std::uint64_t refused_since_ns_ = UINT64_MAX;
  bool round_loopback_down_ = true;
  std::uint64_t loopback_down_since_ns_ = UINT64_MAX;
  AuthenticatedConnection connected_;
};

}  // namespace tutti
