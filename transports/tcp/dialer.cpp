#include "transports/tcp/dialer.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <system_error>

#include "src/base/byte_codec.h"
#include "src/base/clock.h"
#include "src/base/socket.h"
#include "transports/tcp/endpoint.h"
#include "transports/tcp/frame.h"
#include "transports/tcp/peer.h"

namespace tutti::tcp {

namespace {

constexpr std::uint64_t kLongestPause = 500'000'000;
constexpr std::uint64_t kSecondChoice = 50'000'000;  // head start of loopback over the other ways to a neighbour

constexpr char kShortage[] = "no descriptor or memory for a socket here";

std::string connect_error(int number) {
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
      return is_shortage(number) ? kShortage : "cannot connect: " + std::generic_category().message(number);
  }
}

}  // namespace

std::vector<unsigned char> DialIntroduction::pack() const {
  ByteWriter out;
  out.raw(std::span<const unsigned char>(self));
  out.raw(std::span<const unsigned char>(other));
  out.i32(rank);
  std::vector<unsigned char> bytes(out.size());
  std::transform(out.bytes().begin(), out.bytes().end(), bytes.begin(),
                 [](std::byte b) { return std::to_integer<unsigned char>(b); });
  return bytes;
}

std::optional<DialIntroduction> DialIntroduction::unpack(std::span<const unsigned char> bytes) {
  ByteReader in(std::as_bytes(bytes));
  DialIntroduction one;
  in.copy(one.self);
  in.copy(one.other);
  one.rank = in.i32();
  if (!in.complete()) return std::nullopt;
  return one;
}

Attempt::~Attempt() {
  if (watch_ != 0) endpoint_.unwatch(watch_, socket_.get());
}

UniqueFd Attempt::take_socket() {
  if (watch_ != 0) endpoint_.unwatch(watch_, socket_.get());
  watch_ = 0;
  return std::move(socket_);
}

std::string Attempt::text() const {
  static constexpr const char* kDoing[] = {
      "not tried", "no answer", "no proof of the key yet", "connected", "connected, but not taken yet", "connected"};
  return way_.text() + " (" + (last_.empty() ? kDoing[static_cast<int>(phase_)] : last_) + ")";
}

bool Attempt::starved() const { return last_ == kShortage; }

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
  DialIntroduction self;
  self.self = endpoint_.card().id;
  self.other = card.id;
  self.rank = endpoint_.rank();
  handshake_.emplace(Handshake::Role::kInitiator, key, kPurpose, self.pack());
  phase_ = Phase::kConnecting;
  watch_ = endpoint_.watch(*this, socket_.get(), EPOLLOUT);
  if (watch_ == 0) failed(kShortage, false);  // nobody would ever hear of it
}

void Attempt::ready(std::uint32_t) {
  if (phase_ == Phase::kConnecting) {
    if (const int number = connect_result(socket_.get()); number != 0)
      return failed(connect_error(number), number == ECONNREFUSED);
    phase_ = Phase::kShaking;
    endpoint_.rewatch(watch_, socket_.get(), EPOLLIN);
  }
  if (phase_ == Phase::kShaking) shake();
  if (phase_ == Phase::kAttaching) take_answer();
}

void Attempt::shake() {
  advance(*handshake_, socket_.get());
  if (handshake_->state() == Handshake::State::kFailed) return failed(handshake_->explain(), false);
  if (!handshake_->complete()) return;
  const auto other = DialIntroduction::unpack(handshake_->peer_payload());
  // Behind a private address another rank of the same communicator may answer: it knows the key, but is not the one.
  if (!other || other->self != wanted_) return failed("another rank answers there", true);
  phase_ = Phase::kProved;
}

void Attempt::attach(std::uint32_t sockets) {
  const FrameHeader attach = control_frame(FrameKind::kAttach, index_, sockets);
  // A connection that has carried only a handshake takes 32 bytes at once, or it is dead.
  const auto sent = ::send(socket_.get(), &attach, sizeof attach, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(sizeof attach)) return failed("it closed the connection", false);
  answer_bytes_ = 0;
  phase_ = Phase::kAttaching;
}

void Attempt::take_answer() {
  auto* const bytes = reinterpret_cast<std::byte*>(&answer_);
  const ssize_t n = ::recv(socket_.get(), bytes + answer_bytes_, sizeof answer_ - answer_bytes_, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (n <= 0) return failed("it does not take this connection now", false);
  answer_bytes_ += static_cast<std::size_t>(n);
  if (answer_bytes_ < sizeof answer_) return;
  if (header_fault(answer_) != nullptr || !answer_.is(FrameKind::kAttach))
    return failed("its answer makes no sense", false);
  phase_ = Phase::kAttached;
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

bool Dialer::starved() const {
  return !attempts_.empty() && std::ranges::all_of(attempts_, [](const auto& attempt) { return attempt->starved(); });
}

bool Dialer::connected() const {
  return std::any_of(attempts_.begin(), attempts_.end(),
                     [](const auto& attempt) { return attempt->phase() >= Attempt::Phase::kShaking; });
}

// The first way that proved itself is taken for all sockets; connections over the others are closed, never attached.
void Dialer::choose_way() {
  const auto winner = std::find_if(attempts_.begin(), attempts_.end(),
                                   [](const auto& attempt) { return attempt->phase() == Attempt::Phase::kProved; });
  if (winner == attempts_.end()) return;
  std::unique_ptr<Attempt> first = std::move(*winner);
  attempts_.clear();
  chosen_ = true;
  const SocketAddress way = first->way();
  attempts_.push_back(std::move(first));
  for (std::uint32_t i = 1; i < sockets_; ++i) attempts_.push_back(std::make_unique<Attempt>(endpoint_, way, i, 0));
}

// The first socket is attached before the others, so that it alone decides whose connections stay.
void Dialer::take_attached() {
  for (auto& attempt : attempts_) {
    const bool may_attach = attempt->index() == 0 || first_taken_;
    if (may_attach && attempt->phase() == Attempt::Phase::kProved) attempt->attach(sockets_);
    if (attempt->phase() != Attempt::Phase::kAttached) continue;
    first_taken_ = true;
    const std::uint32_t index = attempt->index();
    const std::string remote = attempt->way().text();
    UniqueFd socket = attempt->take_socket();
    attempt.reset();
    peer_.adopt(index, sockets_, std::move(socket), remote);
  }
  std::erase(attempts_, nullptr);
}

void Dialer::step(std::uint64_t now) {
  const Key key = endpoint_.key();
  for (auto& attempt : attempts_) attempt->step(now, card_, key);
  if (!chosen_) choose_way();
  if (chosen_) take_attached();
  const bool hopeless =
      std::all_of(attempts_.begin(), attempts_.end(), [](const auto& attempt) { return attempt->hopeless(); });
  const bool all_there = chosen_ && attempts_.empty();
  if (!all_there && hopeless) {
    peer_.unreachable(peer_.name() + " cannot be reached: " + tried() + "; its process is gone, or a firewall is between");
  }
  finished_ = all_there || hopeless;
}

}  // namespace tutti::tcp
