#include "transports/tcp/dialer.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "src/base/clock.h"
#include "src/base/socket.h"
#include "src/base/wire.h"
#include "transports/tcp/endpoint.h"
#include "transports/tcp/frame.h"
#include "transports/tcp/peer.h"

namespace tutti::tcp {

namespace {

constexpr std::uint64_t kLongestPause = 500'000'000;
constexpr std::uint64_t kSecondChoice = 50'000'000;  // head start of loopback over the other ways to a neighbour

const char* connect_error(int number) {
  switch (number) {
    case ECONNREFUSED:
      return "connection refused";
    case ETIMEDOUT:
      return "no answer";
    case ENETUNREACH:
    case EHOSTUNREACH:
      return "no route";
    case EADDRNOTAVAIL:
      return "no such address here";
    default:
      return "cannot connect";
  }
}

}  // namespace

std::vector<unsigned char> Introduction::pack() const {
  ByteWriter out;
  out.raw(std::span<const unsigned char>(self));
  out.raw(std::span<const unsigned char>(other));
  out.i32(rank);
  std::vector<unsigned char> bytes(out.size());
  std::transform(out.bytes().begin(), out.bytes().end(), bytes.begin(),
                 [](std::byte b) { return std::to_integer<unsigned char>(b); });
  return bytes;
}

std::optional<Introduction> Introduction::unpack(std::span<const unsigned char> bytes) {
  ByteReader in(std::as_bytes(bytes));
  Introduction one;
  in.copy(one.self);
  in.copy(one.other);
  one.rank = in.i32();
  if (!in.complete()) return std::nullopt;
  return one;
}

Attempt::~Attempt() {
  if (watch_ != 0) endpoint_.unwatch(watch_, socket_.get());
}

Descriptor Attempt::take_socket() {
  if (watch_ != 0) endpoint_.unwatch(watch_, socket_.get());
  watch_ = 0;
  return std::move(socket_);
}

std::string Attempt::text() const {
  static constexpr const char* kDoing[] = {"not tried", "no answer", "no proof of the key yet", "connected"};
  return way_.text() + " (" + (last_.empty() ? kDoing[static_cast<int>(phase_)] : last_) + ")";
}

void Attempt::step(std::uint64_t now, const Card& card, Key key) {
  if (phase_ == Phase::kWaiting && now >= retry_ns_ && !hopeless()) begin(card, key);
}

void Attempt::begin(const Card& card, Key key) {
  auto socket = connect_to(way_);
  if (!socket) {
    const int number = socket.status().error().system_error;
    return failed(connect_error(number), number == ECONNREFUSED);
  }
  socket_ = std::move(socket).value();
  endpoint_.dress(socket_.get());
  wanted_ = card.id;
  Introduction self;
  self.self = endpoint_.card().id;
  self.other = card.id;
  self.rank = endpoint_.rank();
  handshake_.emplace(Handshake::Role::kInitiator, key, kPurpose, self.pack());
  phase_ = Phase::kConnecting;
  watch_ = endpoint_.watch(*this, socket_.get(), EPOLLOUT);
}

void Attempt::ready(std::uint32_t) {
  if (phase_ == Phase::kConnecting) {
    if (const int number = connect_result(socket_.get()); number != 0)
      return failed(connect_error(number), number == ECONNREFUSED);
    phase_ = Phase::kShaking;
    endpoint_.rewatch(watch_, socket_.get(), EPOLLIN);
  }
  if (phase_ == Phase::kShaking) shake();
}

void Attempt::shake() {
  advance(*handshake_, socket_.get());
  if (handshake_->state() == Handshake::State::kFailed) return failed(handshake_->explain(), false);
  if (!handshake_->complete()) return;
  const auto other = Introduction::unpack(handshake_->peer_payload());
  // Behind a private address another rank of the same communicator may answer: it knows the key, but is not the one.
  if (!other || other->self != wanted_) return failed("another rank answers there", true);
  phase_ = Phase::kProved;
}

void Attempt::failed(const std::string& why, bool refused) {
  take_socket().reset();
  phase_ = Phase::kWaiting;
  last_ = why;
  refusals_ = refused ? refusals_ + 1 : 0;
  retry_ns_ = now_ns() + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, kLongestPause);
}

Dialer::Dialer(Endpoint& endpoint, Peer& peer, const Card& card)
    : endpoint_(endpoint), peer_(peer), card_(card), sockets_(endpoint.sockets_to(card)) {
  const std::uint64_t now = now_ns();
  const bool beside = card.beside(endpoint.card()) && card.everywhere;
  for (const auto& way : ways_to(card, endpoint.card())) {
    attempts_.push_back(std::make_unique<Attempt>(endpoint, way, 0, beside && !way.loopback() ? now + kSecondChoice : now));
  }
}

std::string Dialer::tried() const {
  std::string text;
  for (const auto& attempt : attempts_) text += (text.empty() ? "" : ", ") + attempt->text();
  return text.empty() ? "it has no address that can be reached from here" : text;
}

bool Dialer::hand_over(Attempt& attempt) {
  const FrameHeader attach = control_frame(FrameKind::kAttach, attempt.index(), sockets_);
  const std::string remote = attempt.way().text();
  Descriptor socket = attempt.take_socket();
  // A connection that has carried only a handshake takes 32 bytes at once, or it is dead.
  const auto sent = ::send(socket.get(), &attach, sizeof attach, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(sizeof attach)) return false;
  return peer_.adopt(card_.id, attempt.index(), sockets_, std::move(socket), remote);
}

// The first way that proved itself is taken for all sockets; the others are closed before they are attached.
void Dialer::settle_first() {
  const auto winner =
      std::find_if(attempts_.begin(), attempts_.end(), [](const auto& attempt) { return attempt->proved(); });
  if (winner == attempts_.end()) return;
  const std::unique_ptr<Attempt> first = std::move(*winner);
  attempts_.clear();
  first_settled_ = true;
  if (!hand_over(*first)) peer_.unreachable(peer_.name() + " at " + first->way().text() + " closed the connection at once");
  for (std::uint32_t i = 1; i < sockets_; ++i)
    attempts_.push_back(std::make_unique<Attempt>(endpoint_, first->way(), i, 0));
}

void Dialer::step(std::uint64_t now) {
  const Key key = endpoint_.key();
  for (auto& attempt : attempts_) attempt->step(now, card_, key);
  if (!first_settled_) {
    settle_first();
  } else {
    for (auto& attempt : attempts_) {
      if (!attempt->proved()) continue;
      if (!hand_over(*attempt))
        peer_.unreachable(peer_.name() + " at " + attempt->way().text() + " refused a further connection");
      attempt.reset();
    }
    std::erase(attempts_, nullptr);
  }
  const bool hopeless =
      std::all_of(attempts_.begin(), attempts_.end(), [](const auto& attempt) { return attempt->hopeless(); });
  const bool all_there = first_settled_ && attempts_.empty();
  if (!all_there && hopeless) {
    peer_.unreachable(peer_.name() + " cannot be reached: " + tried() + "; its process is gone, or a firewall is between");
  }
  if (!all_there && !hopeless && now >= until_ns_)
    peer_.unreachable(peer_.name() + " could not be reached in time: " + tried());
  finished_ = all_there || hopeless || now >= until_ns_;
}

}  // namespace tutti::tcp
