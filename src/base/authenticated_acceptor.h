// Where connections of peers and strangers come in: accepts, lets them prove the key, hands over those that did.
//
// Strangers cost little: a bounded number of handshakes is under way, each for at most kHandshakeNs. Where more come, the
// oldest is dropped, as a peer that knows the key is through in one round trip. Nothing here is ever fatal.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/base/byte_codec.h"
#include "src/base/handshake.h"
#include "src/base/in_process.h"
#include "src/base/poller.h"
#include "src/base/socket.h"

namespace tutti {

/// What a handshake is to carry, from what was written.
inline std::vector<unsigned char> handshake_payload(const ByteWriter& out) {
  const auto* const first = reinterpret_cast<const unsigned char*>(out.bytes().data());
  return {first, first + out.size()};
}

/// A connection whose other side has proved to know the key.
struct AuthenticatedConnection {
  UniqueFd fd;
  std::vector<unsigned char> payload;  ///< what the other side said within the handshake
  SocketAddress remote;                ///< where it is; not valid within this process, or over a Unix socket
};

/// What acceptors differ in.
struct AcceptorOptions {
  /// Handshakes under way at most; 0: a quarter of the descriptors that this process may have, 64 to 1024.
  std::size_t most_pending = 0;
  /// Told of each connection whose handshake failed, and why (one half-sentence); may be empty.
  std::function<void(const SocketAddress& remote, const char* why)> on_failure;
};

/// Accepts on some listening sockets. Connections from within this process come in without a network, too, where the
/// listener has addresses. Not thread safe.
class Acceptor {
 public:
  static constexpr std::uint64_t kHandshakeNs = 5'000'000'000;

  /// Has no key yet, and lets nobody through before `set_key`. A peer may come that early, so whoever comes may stay for
  /// 20 ms. Who has stayed longer is a stranger, and is dropped: strangers are out of the way before the first peer is due.
  explicit Acceptor(Listener listener, AcceptorOptions options = {});
  /// payload: what this side says within each handshake, at most Handshake::kMaxPayload bytes.
  Acceptor(Listener listener, const Key& key, std::string purpose, std::vector<unsigned char> payload,
           AcceptorOptions options = {});
  /// For several keys: `recognize` tells by what a client says which it must prove, and what to say to it.
  Acceptor(Listener listener, Handshake::Recognize recognize, std::string purpose);

  /// Gives an acceptor without a key one. Who came early begins its handshake with the next `step`.
  void set_key(const Key& key, std::string purpose, std::vector<unsigned char> payload);
  const std::vector<SocketAddress>& addresses() const { return listener_.addresses; }
  /// Polls readable when `step` has something to do; -1: there was no descriptor for it.
  int fd() const { return poller_.fd(); }
  /// When `step` wants to be called even if fd() is quiet; UINT64_MAX: never. CLOCK_MONOTONIC.
  std::uint64_t next_ns() const;
  /// Accepts and moves handshakes; never waits. Returns who got through.
  std::vector<AuthenticatedConnection> step();
  /// In a forked child, which lets go of its copies: the parent listens on.
  void leave_listening_to_parent() { listener_.sockets.clear(); }
  /// The error number for which connections have been turned away, this process or its system being out of descriptors or
  /// memory, and nobody got through since; 0: not so.
  int shortage() const { return shortage_; }
  /// Since when somebody has been kept out without a break, nobody who could be dropped being there; UINT64_MAX: nobody is.
  /// CLOCK_MONOTONIC.
  std::uint64_t shut_since_ns() const;
  /// Connections that were dropped without having proved the key.
  std::uint64_t strangers() const { return strangers_; }
  /// Those among them that spoke the protocol but had another key: most likely a peer with a wrong secret.
  std::uint64_t wrong_keys() const { return wrong_keys_; }

 private:
  struct Pending {
    UniqueFd fd;
    SocketAddress remote;
    Handshake handshake;
    std::uint64_t until_ns;
  };

  struct Early {
    UniqueFd fd;
    SocketAddress remote;
    std::uint64_t until_ns;
  };

  void accept_from(std::size_t index, std::vector<AuthenticatedConnection>& accepted);
  void admit(UniqueFd fd, const SocketAddress& remote, std::vector<AuthenticatedConnection>& accepted);
  bool make_room();
  void drop(std::uint64_t id);
  void resume();
  void shake_hands_by(std::function<Handshake()> new_handshake);
  void step_early(std::vector<AuthenticatedConnection>& accepted);
  void advance_pending(std::uint64_t id, std::vector<AuthenticatedConnection>& accepted);

  Listener listener_;
  InProcessListener in_process_;
  std::function<Handshake()> new_handshake_;  // empty: there is no key yet
  Poller poller_;
  AcceptorOptions options_;
  std::map<std::uint64_t, Pending> pending_;  // by number of arrival: the oldest first
  std::uint64_t next_id_;
  std::deque<Early> early_;            // while there is no key
  std::uint64_t paused_until_ns_ = 0;  // not 0: out of descriptors, the listening sockets are not watched
  int shortage_ = 0;
  std::uint64_t shut_since_ns_ = UINT64_MAX;
  std::uint64_t shut_seen_ns_ = 0;  // when that was seen last
  std::uint64_t strangers_ = 0;
  std::uint64_t wrong_keys_ = 0;
};

}  // namespace tutti
