// Mutual proof that both ends of a byte stream know the same key, before anything else on it is believed.
//
//     both      → hello: magic, purpose, role, fresh nonce                          49 bytes
//     initiator → proof: its payload, MAC(key; role, both hellos, payload)          98 bytes
//     acceptor  → proof: its payload, MAC(key; role, both hellos, both payloads)    98 bytes, or a refusal
//
// The acceptor shows nothing that depends on the key to anybody who has not proved to know it. Fresh nonces of both sides
// make a recording useless, roles make a reflection useless, the purpose keeps one protocol's proofs from another's.
// The MAC is libsodium's keyed BLAKE2b, with a key derived from the shared one and the purpose.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

inline constexpr std::size_t kKeyBytes = 32;
using Key = std::array<unsigned char, kKeyBytes>;

/// 32 bytes that nobody can guess.
Key random_key();
/// A key derived from `key` for `purpose`; different purposes give unrelated keys.
Key derive_key(std::span<const unsigned char, kKeyBytes> key, std::string_view purpose);
/// A key made of text or a file's content, as TUTTI_SECRET gives it.
Key key_from_secret(std::string_view secret);

/// One end of the exchange: a state machine that does no I/O. Feed it what arrives, send what it gives. Not thread safe.
class Handshake {
 public:
  enum class Role { kInitiator, kAcceptor };
  enum class State { kRunning, kDone, kFailed };
  enum class Failure {
    kNone,
    kGarbage,       ///< not this protocol at all: a stranger
    kOtherPurpose,  ///< this protocol, for something else: the wrong port
    kSameRole,      ///< we are talking to ourselves, or to a mirror
    kWrongKey,      ///< the peer does not know our key
    kRefused,       ///< the peer says that we do not know its key
    kClosed,        ///< the stream ended too early (set by `closed`)
  };
  static constexpr std::size_t kMaxPayload = 64;
  /// What an acceptor of several keys knows of one that came with some payload: which key it must prove, and what is to be
  /// said to it. Nothing: no key of ours.
  struct Known {
    Key key{};
    std::vector<unsigned char> payload;
  };
  using Recognize = std::function<std::optional<Known>(std::span<const unsigned char> payload)>;

  /// key: 32 bytes, copied. purpose: such as "tutti shm 1", equal on both sides. payload: at most kMaxPayload bytes that
  /// the peer gets authenticated (but readable by anybody on the wire).
  Handshake(Role role, std::span<const unsigned char, kKeyBytes> key, std::string_view purpose,
            std::span<const unsigned char> payload = {});
  /// An acceptor that learns from the initiator's payload which key it is to prove. `recognize` is called once, within
  /// feed.
  Handshake(Recognize recognize, std::string_view purpose);
  ~Handshake();
  Handshake(const Handshake&) = default;
  Handshake& operator=(const Handshake&) = default;

  State state() const { return state_; }
  Failure failure() const { return failure_; }
  /// One half-sentence about the failure, such as "the peer does not know the key"; static.
  const char* explain() const;

  /// How many bytes to read next; 0 where nothing more is expected. Reading no more than this leaves what follows the
  /// handshake in the stream.
  std::size_t wanted() const;
  /// Takes bytes that arrived; returns how many were its own (less than given only once it is done or has failed).
  /// Fails at the first byte that cannot be right.
  std::size_t feed(std::span<const unsigned char> bytes);
  /// The stream ended.
  void closed();

  /// What to send next; call `sent` with how much of it went. May hold bytes (a refusal) after a failure, too, which are
  /// worth one attempt to send.
  std::span<const unsigned char> output() const { return {out_.data() + out_begin_, out_end_ - out_begin_}; }
  void sent(std::size_t n) { out_begin_ += n; }

  /// Done, and nothing is left to send: the stream belongs to the caller.
  bool complete() const { return state_ == State::kDone && out_begin_ == out_end_; }
  /// The peer's payload; only once done.
  std::span<const unsigned char> peer_payload() const { return {peer_payload_.data(), peer_payload_size_}; }
  /// Secret of this one connection, equal on both sides, different for each; only once done.
  std::span<const unsigned char, kKeyBytes> session_key() const { return session_key_; }

 private:
  static constexpr std::size_t kNonce = 32;
  static constexpr std::size_t kHello = 8 + 8 + 1 + kNonce;
  static constexpr std::size_t kMac = 32;
  static constexpr std::size_t kProof = 1 + 1 + kMaxPayload + kMac;
  using Hello = std::array<unsigned char, kHello>;
  using Mac = std::array<unsigned char, kMac>;

  bool acceptor() const { return role_ == Role::kAcceptor; }
  void fail(Failure failure);
  bool plausible_hello();
  bool plausible_proof() const;
  void take_hello();
  void take_proof();
  void recognize();
  void say(std::span<const unsigned char> payload);
  void emit_proof();
  void emit_refusal();
  Mac mac(bool of_acceptor, std::span<const unsigned char> payload_field) const;
  void derive_session();

  Role role_;
  Recognize recognize_;  // empty: there is one key
  std::string purpose_;  // for that alone
  State state_ = State::kRunning;
  Failure failure_ = Failure::kNone;
  bool have_hello_ = false;
  Key key_{};
  Key session_key_{};
  Hello own_hello_{};
  Hello peer_hello_{};
  std::array<unsigned char, 1 + kMaxPayload> own_payload_{};  // its length, then the bytes, zero padded
  Mac initiator_mac_{};
  Mac acceptor_mac_{};
  std::array<unsigned char, kMaxPayload> peer_payload_{};
  std::size_t peer_payload_size_ = 0;
  std::array<unsigned char, kProof> in_{};
  std::size_t in_size_ = 0;
  std::array<unsigned char, kHello + kProof> out_{};
  std::size_t out_begin_ = 0;
  std::size_t out_end_ = 0;
};

/// Moves a handshake along on a non-blocking stream socket: sends and receives what can be done now, never more than the
/// handshake's own bytes. Returns true where any byte moved or the state changed.
bool advance(Handshake& handshake, int fd);

}  // namespace tutti
