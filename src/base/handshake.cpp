#include "src/base/handshake.h"

#include <errno.h>
#include <sodium.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/random.h"

namespace tutti {

namespace {

constexpr std::array<unsigned char, 8> kMagic = {'T', 'u', 't', 't', 'i', 'H', 'S', '1'};
constexpr unsigned char kIsProof = 'P';
constexpr unsigned char kIsRefusal = 'R';

static_assert(crypto_generichash_KEYBYTES == kKeyBytes);

// BLAKE2b over pieces, each preceded by its length so that no two lists of pieces hash the same bytes.
class Hash {
 public:
  Hash(std::span<const unsigned char> key, std::size_t size) {
    random_ready();
    ::crypto_generichash_init(&state_, key.empty() ? nullptr : key.data(), key.size(), size);
  }
  Hash& add(std::span<const unsigned char> piece) {
    const std::uint64_t size = piece.size();
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(size >> (8 * i));
    ::crypto_generichash_update(&state_, length, sizeof length);
    ::crypto_generichash_update(&state_, piece.data(), piece.size());
    return *this;
  }
  Hash& add(std::string_view text) {
    return add(std::span(reinterpret_cast<const unsigned char*>(text.data()), text.size()));
  }
  void finish(std::span<unsigned char> out) { ::crypto_generichash_final(&state_, out.data(), out.size()); }

 private:
  crypto_generichash_state state_;
};

}  // namespace

Key random_key() {
  Key key;
  random_bytes(key);
  return key;
}

Key derive_key(std::span<const unsigned char, kKeyBytes> key, std::string_view purpose) {
  Key derived;
  Hash(key, derived.size()).add("derived key").add(purpose).finish(derived);
  return derived;
}

Key key_from_secret(std::string_view secret) {
  Key key;
  Hash({}, key.size()).add("tutti secret").add(secret).finish(key);
  return key;
}

Handshake::Handshake(Role role, std::span<const unsigned char, kKeyBytes> key, std::string_view purpose,
                     std::span<const unsigned char> payload)
    : role_(role), key_(derive_key(key, purpose)) {
  say(payload);
  auto at = std::copy(kMagic.begin(), kMagic.end(), own_hello_.begin());
  std::array<unsigned char, 16> tag;  // 16 is the least that BLAKE2b gives here; 8 are sent
  Hash({}, tag.size()).add("purpose").add(purpose).finish(tag);
  at = std::copy_n(tag.begin(), 8, at);
  *at++ = acceptor() ? 'a' : 'i';
  random_bytes({&*at, kNonce});
  std::copy(own_hello_.begin(), own_hello_.end(), out_.begin());
  out_end_ = kHello;
}

Handshake::Handshake(Recognize recognize, std::string_view purpose) : Handshake(Role::kAcceptor, random_key(), purpose) {
  recognize_ = std::move(recognize);
  purpose_ = purpose;
}

void Handshake::say(std::span<const unsigned char> payload) {
  const std::size_t size = std::min(payload.size(), kMaxPayload);
  own_payload_.fill(0);
  own_payload_[0] = static_cast<unsigned char>(size);
  std::copy_n(payload.begin(), size, own_payload_.begin() + 1);
}

Handshake::~Handshake() {
  ::sodium_memzero(key_.data(), key_.size());
  ::sodium_memzero(session_key_.data(), session_key_.size());
}

const char* Handshake::explain() const {
  switch (failure_) {
    case Failure::kNone:
      return "no failure";
    case Failure::kGarbage:
      return "the peer does not speak this protocol";
    case Failure::kOtherPurpose:
      return "the peer serves another purpose, so this is the wrong port or another version";
    case Failure::kSameRole:
      return "the connection leads back to its own side";
    case Failure::kWrongKey:
      return "the peer does not know the key";
    case Failure::kRefused:
      return "the peer has another key";
    case Failure::kClosed:
      return "the peer closed the connection before it had proved to know the key";
  }
  return "unknown failure";
}

std::size_t Handshake::wanted() const {
  if (state_ != State::kRunning) return 0;
  return (have_hello_ ? kProof : kHello) - in_size_;
}

std::size_t Handshake::feed(std::span<const unsigned char> bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && state_ == State::kRunning) {
    const std::size_t n = std::min(wanted(), bytes.size() - used);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(used), n, in_.begin() + static_cast<std::ptrdiff_t>(in_size_));
    used += n;
    in_size_ += n;
    if (have_hello_ ? !plausible_proof() : !plausible_hello()) {
      if (failure_ == Failure::kNone) fail(Failure::kGarbage);
      break;
    }
    if (wanted() > 0) break;
    have_hello_ ? take_proof() : take_hello();
  }
  return used;
}

void Handshake::closed() {
  if (state_ == State::kRunning || (state_ == State::kDone && !complete())) fail(Failure::kClosed);
}

void Handshake::fail(Failure failure) {
  state_ = State::kFailed;
  failure_ = failure;
}

// Compares what has come of the hello with what it must be; a stranger fails at its first wrong byte.
bool Handshake::plausible_hello() {
  for (std::size_t i = 0; i < std::min<std::size_t>(in_size_, 17); ++i) {
    if (i == 16) {
      const unsigned char opposite = acceptor() ? 'i' : 'a';
      if (in_[i] == opposite) continue;
      fail(in_[i] == own_hello_[i] ? Failure::kSameRole : Failure::kGarbage);
      return false;
    }
    if (in_[i] == own_hello_[i]) continue;
    fail(i < kMagic.size() ? Failure::kGarbage : Failure::kOtherPurpose);
    return false;
  }
  return true;
}

bool Handshake::plausible_proof() const {
  if (in_[0] != kIsProof && (acceptor() || in_[0] != kIsRefusal)) return false;
  return in_size_ < 2 || in_[1] <= kMaxPayload;
}

void Handshake::take_hello() {
  std::copy_n(in_.begin(), kHello, peer_hello_.begin());
  in_size_ = 0;
  have_hello_ = true;
  if (!acceptor()) emit_proof();
}

void Handshake::take_proof() {
  if (in_[0] == kIsRefusal) return fail(Failure::kRefused);
  const std::span payload_field(in_.data() + 1, 1 + kMaxPayload);
  // One that no key is known for is refused below as any other that does not prove the key: ours is then a random one.
  if (recognize_) recognize();
  const Mac expected = mac(!acceptor(), payload_field);
  if (::sodium_memcmp(expected.data(), in_.data() + kProof - kMac, kMac) != 0) {
    fail(Failure::kWrongKey);
    if (acceptor()) emit_refusal();
    return;
  }
  (acceptor() ? initiator_mac_ : acceptor_mac_) = expected;
  peer_payload_size_ = in_[1];
  std::copy_n(in_.begin() + 2, kMaxPayload, peer_payload_.begin());
  if (acceptor()) emit_proof();
  derive_session();
  state_ = State::kDone;
}

void Handshake::recognize() {
  const auto known = std::exchange(recognize_, {})({in_.data() + 2, in_[1]});
  if (!known) return;
  key_ = derive_key(known->key, purpose_);
  say(known->payload);
}

void Handshake::emit_proof() {
  const Mac proof = mac(acceptor(), own_payload_);
  (acceptor() ? acceptor_mac_ : initiator_mac_) = proof;
  auto at = out_.begin() + static_cast<std::ptrdiff_t>(out_end_);
  *at++ = kIsProof;
  at = std::copy(own_payload_.begin(), own_payload_.end(), at);
  std::copy(proof.begin(), proof.end(), at);
  out_end_ += kProof;
}

// As long as a proof, so that the initiator reads it the same way. It is not authenticated, as the two share no key;
// whoever can forge it could cut the connection as well.
void Handshake::emit_refusal() {
  std::fill_n(out_.begin() + static_cast<std::ptrdiff_t>(out_end_), kProof, static_cast<unsigned char>(0));
  out_[out_end_] = kIsRefusal;
  out_end_ += kProof;
}

Handshake::Mac Handshake::mac(bool of_acceptor, std::span<const unsigned char> payload_field) const {
  const Hello& initiator = acceptor() ? peer_hello_ : own_hello_;
  const Hello& other = acceptor() ? own_hello_ : peer_hello_;
  Mac result;
  Hash hash(key_, result.size());
  hash.add(of_acceptor ? "acceptor" : "initiator").add(initiator).add(other).add(payload_field);
  if (of_acceptor) hash.add(initiator_mac_);
  hash.finish(result);
  return result;
}

void Handshake::derive_session() {
  const Hello& initiator = acceptor() ? peer_hello_ : own_hello_;
  const Hello& other = acceptor() ? own_hello_ : peer_hello_;
  Hash(key_, session_key_.size())
      .add("session")
      .add(initiator)
      .add(other)
      .add(initiator_mac_)
      .add(acceptor_mac_)
      .finish(session_key_);
}

namespace {

bool send_some(Handshake& handshake, int fd) {
  const auto out = handshake.output();
  if (out.empty()) return false;
  const ssize_t n = ::send(fd, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) handshake.sent(static_cast<std::size_t>(n));
  // Before it closed, the peer may have said why: while something is awaited, reading decides.
  const bool broken = n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN;
  if (broken && handshake.wanted() == 0) handshake.closed();
  return n > 0;
}

bool receive_some(Handshake& handshake, int fd) {
  unsigned char buffer[256];
  const std::size_t wanted = std::min(handshake.wanted(), sizeof buffer);
  if (wanted == 0) return false;
  const ssize_t n = ::recv(fd, buffer, wanted, MSG_DONTWAIT);
  if (n > 0) handshake.feed({buffer, static_cast<std::size_t>(n)});
  const bool ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN);
  if (ended) handshake.closed();
  return n > 0 || ended;
}

}  // namespace

bool advance(Handshake& handshake, int fd) {
  bool moved = false;
  for (bool again = true; again;) {
    again = send_some(handshake, fd);
    again = receive_some(handshake, fd) || again;
    moved = moved || again;
  }
  return moved;
}

}  // namespace tutti
