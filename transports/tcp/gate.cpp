#include "transports/tcp/gate.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/base/socket.h"
#include "transports/tcp/endpoint.h"

namespace tutti::tcp {

namespace {

std::vector<unsigned char> introduction(const Endpoint& endpoint) {
  DialIntroduction self;
  self.self = endpoint.card().id;
  self.rank = endpoint.rank();
  return self.pack();
}

}  // namespace

Guest::Guest(Endpoint& endpoint, UniqueFd socket, std::string remote, std::uint64_t until_ns)
    : endpoint_(endpoint),
      socket_(std::move(socket)),
      remote_(std::move(remote)),
      until_ns_(until_ns),
      handshake_(Handshake::Role::kAcceptor, endpoint.key(), kPurpose, introduction(endpoint)) {
  endpoint_.dress(socket_.get());
  watch_ = endpoint_.watch(*this, socket_.get(), EPOLLIN);
}

Guest::~Guest() {
  if (watch_ != 0) endpoint_.unwatch(watch_, socket_.get());
}

void Guest::ready(std::uint32_t) {
  if (done_) return;
  if (!proved_) shake();
  if (proved_ && !done_) take_attach();
}

void Guest::shake() {
  spoke_ = advance(handshake_, socket_.get()) || spoke_;
  if (handshake_.state() == Handshake::State::kFailed) return refuse(handshake_.explain());
  if (!handshake_.complete()) return;
  const auto other = DialIntroduction::unpack(handshake_.peer_payload());
  if (!other || other->other != endpoint_.card().id) return refuse("it looked for somebody else");
  if (!endpoint_.is_peer(other->rank)) return refuse("it claims a rank that cannot be its own");
  other_ = *other;
  proved_ = true;
  until_ns_ = UINT64_MAX;  // a peer; the connection's end will tell if it goes another way
}

void Guest::take_attach() {
  auto* const bytes = reinterpret_cast<std::byte*>(&attach_);
  const ssize_t n = ::recv(socket_.get(), bytes + attach_bytes_, sizeof attach_ - attach_bytes_, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (n <= 0) {
    done_ = true;  // another way was faster
    return;
  }
  attach_bytes_ += static_cast<std::size_t>(n);
  if (attach_bytes_ < sizeof attach_) return;
  if (header_fault(attach_) != nullptr || !attach_.is(FrameKind::kAttach) || attach_.sequence > UINT32_MAX) {
    return refuse("it did not say which of its connections this is");
  }
  done_ = true;
  endpoint_.unwatch(watch_, socket_.get());
  watch_ = 0;
  endpoint_.attach(other_, attach_.channel, static_cast<std::uint32_t>(attach_.sequence), std::move(socket_), remote_);
}

void Guest::refuse(const std::string& why) {
  done_ = true;
  endpoint_.log(3, "a connection from " + remote_ + " was dropped: " + why);
}

void Gate::open(std::vector<UniqueFd> sockets) {
  for (auto& socket : sockets) {
    doors_.push_back(std::make_unique<Door>(*this, std::move(socket)));
    doors_.back()->watch = endpoint_.watch(*doors_.back(), doors_.back()->fd(), EPOLLIN);
  }
}

void Gate::resume() {
  paused_until_ns_ = 0;
  for (const auto& door : doors_) endpoint_.rewatch(door->watch, door->fd(), EPOLLIN);
}

// Nobody can be let in: who stands at the door would end every nap at once until that changes.
void Gate::pause() {
  for (const auto& door : doors_) endpoint_.rewatch(door->watch, door->fd(), 0);
  paused_until_ns_ = now_ns() + kPauseNs;
  if (std::exchange(short_, true)) return;
  endpoint_.log(2, std::string("tcp: ") + kKeepsPeersOut);
}

void Gate::accept(int socket) {
  std::size_t before = guests_.size();  // who comes in now makes no room for the next
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    SocketAddress remote;
    UniqueFd accepted = accept_one(socket, &remote);
    if (!accepted && keeps_out(socket, errno)) {
      if (!drop_stranger(before)) return pause();
      --before;
      continue;
    }
    if (!accepted) return;
    short_ = false;
    make_room();
    guests_.push_back(std::make_unique<Guest>(endpoint_, std::move(accepted), remote.text(), now_ns() + kStrangerLimit));
    guests_.back()->ready(0);  // who is a peer has spoken already, as a rule
  }
}

void Gate::make_room() {
  std::erase_if(guests_, [](const auto& guest) { return guest->done(0); });
  const auto strangers = std::count_if(guests_.begin(), guests_.end(), [](const auto& guest) { return !guest->proved(); });
  if (static_cast<std::size_t>(strangers) >= kMostGuests) drop_stranger(guests_.size());
}

bool Gate::drop_stranger(std::size_t among) {
  const auto last = guests_.begin() + static_cast<std::ptrdiff_t>(std::min(among, guests_.size()));
  auto victim = std::find_if(guests_.begin(), last, [](const auto& guest) { return guest->silent(); });
  if (victim == last) {
    victim = std::find_if(guests_.begin(), last, [](const auto& guest) { return !guest->proved(); });
  }
  if (victim == last) return false;
  guests_.erase(victim);
  return true;
}

void Gate::sweep(std::uint64_t now) {
  if (paused_until_ns_ != 0 && now >= paused_until_ns_) resume();
  std::erase_if(guests_, [&](const auto& guest) { return guest->done(now); });
}

}  // namespace tutti::tcp
