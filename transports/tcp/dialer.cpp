#include "transports/tcp/dialer.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "src/base/byte_codec.h"
#include "transports/tcp/endpoint.h"
#include "transports/tcp/frame.h"
#include "transports/tcp/peer.h"

namespace tutti::tcp {

namespace {

constexpr std::uint64_t kLoopbackHeadStart = 50'000'000;  // of loopback over the other ways to a rank of this machine

}  // namespace

std::vector<unsigned char> DialIntroduction::pack() const {
  ByteWriter out;
  out.raw(std::span<const unsigned char>(self));
  out.raw(std::span<const unsigned char>(other));
  out.i32(rank);
  return handshake_payload(out);
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

Attempt::Attempt(Endpoint& endpoint, const Card& card, std::vector<SocketAddress> ways, std::uint32_t index)
    : endpoint_(endpoint),
      wanted_(card.id),
      ways_(std::move(ways)),
      stagger_ns_(card.beside(endpoint.card()) && card.everywhere ? kLoopbackHeadStart : 0),
      index_(index) {
  restart();
}

Attempt::~Attempt() { take_socket(); }

UniqueFd Attempt::take_socket() {
  if (watch_ != 0) endpoint_.unwatch(watch_, phase_ == Phase::kConnecting ? connector_->fd() : socket_.get());
  watch_ = 0;
  return std::move(socket_);
}

void Attempt::restart() {
  DialIntroduction self;
  self.self = endpoint_.card().id;
  self.other = wanted_;
  self.rank = endpoint_.rank();
  ConnectorOptions options;
  options.stagger_ns = stagger_ns_;
  options.may_answer_late = true;
  options.prepare = [this](int fd) { endpoint_.dress(fd); };
  // Behind a private address another rank of the same communicator may answer: it knows the key, but is not the one.
  options.is_meant = [this](std::span<const unsigned char> payload) {
    const auto other = DialIntroduction::unpack(payload);
    return other && other->self == wanted_;
  };
  connector_.emplace(ways_, endpoint_.key(), kPurpose, self.pack(), std::move(options));
  if (connector_->fd() >= 0) watch_ = endpoint_.watch(*this, connector_->fd(), EPOLLIN);
}

std::string Attempt::text() const {
  return phase_ == Phase::kConnecting ? connector_->explain() : way_.text() + ": connected, but not taken yet";
}

// A connector that nobody watches, for want of memory, is looked at each time.
void Attempt::step(std::uint64_t now) {
  if (phase_ != Phase::kConnecting || (watch_ != 0 && now < connector_->next_ns())) return;
  if (connector_->fd() < 0 && now >= connector_->next_ns()) restart();
  ready(0);
}

void Attempt::ready(std::uint32_t) {
  if (phase_ == Phase::kConnecting && connector_->step()) proved();
  if (phase_ == Phase::kAttaching) take_answer();
}

void Attempt::proved() {
  take_socket();
  AuthenticatedConnection made = connector_->take();
  socket_ = std::move(made.fd);
  way_ = made.remote;
  phase_ = Phase::kProved;
}

void Attempt::attach(std::uint32_t sockets) {
  const FrameHeader attach = control_frame(FrameKind::kAttach, index_, sockets);
  // A connection that has carried only a handshake takes 32 bytes at once, or it is dead.
  const auto sent = ::send(socket_.get(), &attach, sizeof attach, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(sizeof attach)) return failed("it closed the connection");
  answer_bytes_ = 0;
  phase_ = Phase::kAttaching;
  watch_ = endpoint_.watch(*this, socket_.get(), EPOLLIN);
  if (watch_ == 0) failed("no memory to watch it", ENOMEM);  // nobody would ever hear of it
}

void Attempt::take_answer() {
  auto* const bytes = reinterpret_cast<std::byte*>(&answer_);
  const ssize_t n = ::recv(socket_.get(), bytes + answer_bytes_, sizeof answer_ - answer_bytes_, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (n <= 0) return failed("it does not take this connection now");
  answer_bytes_ += static_cast<std::size_t>(n);
  if (answer_bytes_ < sizeof answer_) return;
  if (header_fault(answer_) != nullptr || !answer_.is(FrameKind::kAttach)) return failed("its answer makes no sense");
  phase_ = Phase::kAttached;
}

// From here on all sockets keep to the way that proved itself, whatever becomes of it.
void Attempt::failed(const char* why, int error) {
  take_socket().reset();
  phase_ = Phase::kConnecting;
  if (ways_.size() > 1) {
    ways_ = {way_};
    return restart();
  }
  connector_->reject(why, error);
  watch_ = endpoint_.watch(*this, connector_->fd(), EPOLLIN);
}

Dialer::Dialer(Endpoint& endpoint, Peer& peer, const Card& card)
    : endpoint_(endpoint), peer_(peer), card_(card), sockets_(endpoint.sockets_to(card)) {
  attempts_.push_back(std::make_unique<Attempt>(endpoint, card, ways_to(card, endpoint.card()), 0));
}

std::string Dialer::tried() const {
  std::string text;
  for (const auto& attempt : attempts_) text += (text.empty() ? "" : "; ") + attempt->text();
  return text;
}

bool Dialer::starved() const {
  return std::ranges::all_of(attempts_, [](const auto& attempt) { return attempt->starved(); });
}

bool Dialer::connected() const {
  return std::ranges::any_of(attempts_, [](const auto& attempt) { return attempt->connected(); });
}

// The first way that proved itself is taken for all sockets.
void Dialer::choose_way() {
  if (attempts_.front()->phase() != Attempt::Phase::kProved) return;
  chosen_ = true;
  const std::vector<SocketAddress> way{attempts_.front()->way()};
  for (std::uint32_t i = 1; i < sockets_; ++i) attempts_.push_back(std::make_unique<Attempt>(endpoint_, card_, way, i));
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
  for (auto& attempt : attempts_) attempt->step(now);
  if (!chosen_) choose_way();
  if (chosen_) take_attached();
  const bool hopeless = std::ranges::all_of(attempts_, [](const auto& attempt) { return attempt->hopeless(); });
  const bool all_there = chosen_ && attempts_.empty();
  if (!all_there && hopeless) {
    peer_.unreachable(peer_.name() + " cannot be reached (" + tried() + "); its process is gone, or a firewall is between");
  }
  finished_ = all_there || hopeless;
}

}  // namespace tutti::tcp
