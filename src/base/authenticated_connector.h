// Reaches a peer at one of several addresses and proves the key there. Tries again until told to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/authenticated_acceptor.h"
#include "src/base/handshake.h"
#include "src/base/poller.h"
#include "src/base/socket.h"

namespace tutti {

/// How a connector goes about its addresses.
struct ConnectorOptions {
  /// How long an address may stay without an answer before the next one is tried beside it; 0: all are tried at once.
  std::uint64_t stagger_ns = 100'000'000;
  /// A peer whose machine has taken the connection may answer as late as it likes, instead of within 5 s.
  bool may_answer_late = false;
  /// Sets options of each new socket; may be empty.
  std::function<void(int fd)> prepare;
  /// Whether what the other side said within the handshake comes from the peer that is meant. Empty: the key is enough.
  std::function<bool(std::span<const unsigned char> payload)> is_meant;
};

/// An outgoing connection in the making. Addresses are tried in order, each when the one before failed or has not answered
/// for a while. The first that completes the handshake wins. An address that failed is tried again after a
/// pause (5 ms, doubling up to 200 ms). Not thread safe, never blocks.
class Connector {
 public:
  /// addresses: as the peer told them; link-local ones are tried on each local interface.
  Connector(const std::vector<SocketAddress>& addresses, const Key& key, std::string purpose,
            std::vector<unsigned char> payload, ConnectorOptions options = {});

  /// Polls readable when `step` has something to do; -1: there was no descriptor for it.
  int fd() const { return poller_.fd(); }
  /// When `step` wants to be called even if fd() is quiet. CLOCK_MONOTONIC.
  std::uint64_t next_ns() const;
  /// Moves everything along. True once connected; whoever goes on stepping gets another connection.
  bool step();
  /// The connection; once, after step() returned true.
  AuthenticatedConnection take() { return std::move(connected_); }
  /// What was taken turned out to be of no use: as if the attempt at its address had failed with that answer.
  /// error: the number of the system's, where this process was out of something; 0: it was not.
  void reject(std::string answer, int error = 0) {
    fail(attempts_[connected_at_], is_shortage(error) ? Outcome::kShortage : Outcome::kOther, std::move(answer), error);
  }

  /// Whether some address has taken a connection that the peer has not answered yet.
  bool is_taken() const;
  /// Whether every address turned us away the last `times` times: "connection refused", or by a peer that is not meant.
  bool is_turned_away(int times) const;
  /// Whether every address answered last with something else than the proof of our key.
  bool is_unproved() const;
  /// Since when every port among the addresses has refused our key, attempt after attempt; UINT64_MAX: not so. Where the
  /// peer may be at one of several ports, a refusal at some of them only tells that others use those.
  std::uint64_t key_refused_since_ns() const;
  /// Whether any address has refused our key so far.
  bool key_was_refused() const { return key_was_refused_; }
  /// Since when every address has answered "connection refused", attempt after attempt; UINT64_MAX: not so. A peer that
  /// was listening before and is refused for a while is dead.
  std::uint64_t refused_since_ns() const { return all_since(Outcome::kRefused); }
  /// The error number for which no attempt could so much as begin last time, descriptors or memory being out; 0: not so.
  int starved() const { return all_since(Outcome::kShortage) != UINT64_MAX ? shortage() : 0; }
  /// The same of any attempt.
  int shortage() const;
  /// Since when every address has been this machine's own while its loopback interface is down, attempt after attempt;
  /// UINT64_MAX: not so. A listener of this process is reached all the same.
  std::uint64_t loopback_down_since_ns() const { return all_since(Outcome::kNoLoopback); }
  /// What the addresses answered last, such as "10.0.0.1:4242: Connection refused". One clause.
  std::string explain() const;

 private:
  enum class Outcome { kNone, kRefused, kKeyRefused, kUnproved, kNotMeant, kNoLoopback, kShortage, kOther };

  /// What goes on at one address, and what came of it last.
  struct Attempt {
    SocketAddress address;
    std::uint64_t next_ns = UINT64_MAX;  // when it begins, or while it is under way, is given up
    std::uint64_t pause_ns = 0;          // before the last one
    UniqueFd fd;                         // while it is under way
    std::optional<Handshake> handshake;  // once connected
    Outcome outcome = Outcome::kNone;
    std::uint64_t since_ns = UINT64_MAX;  // when that outcome came first
    int times = 0;                        // how often it came since
    int error = 0;
    std::string answer;
  };

  std::size_t index_of(const Attempt& attempt) const { return static_cast<std::size_t>(&attempt - attempts_.data()); }
  void begin(Attempt& attempt, std::uint64_t now);
  bool look();
  bool advance(Attempt& attempt);
  bool shake(Attempt& attempt);
  static Outcome outcome_of(Handshake::Failure failure);
  void fail(Attempt& attempt, Outcome outcome, std::string answer, int error = 0);
  void stop(Attempt& attempt);
  void start_next(std::uint64_t at_ns);
  Result<UniqueFd> connect(const SocketAddress& address);
  /// Since when all attempts have had that outcome; UINT64_MAX: not all.
  std::uint64_t all_since(Outcome outcome) const;

  Key key_;
  std::string purpose_;
  std::vector<unsigned char> payload_;
  ConnectorOptions options_;
  Poller poller_;
  std::vector<Attempt> attempts_;  // by address
  bool key_was_refused_ = false;
  AuthenticatedConnection connected_;
  std::size_t connected_at_ = 0;  // the attempt that it comes from
};

}  // namespace tutti
