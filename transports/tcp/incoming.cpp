#include "transports/tcp/incoming.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "transports/tcp/endpoint.h"

namespace tutti::tcp {

IncomingConnection::IncomingConnection(Endpoint& endpoint, UniqueFd socket, const DialIntroduction& other,
                                       std::string remote)
    : endpoint_(endpoint), socket_(std::move(socket)), other_(other), remote_(std::move(remote)) {
  endpoint_.dress(socket_.get());
  watch_ = endpoint_.watch(*this, socket_.get(), EPOLLIN);
}

IncomingConnection::~IncomingConnection() { unwatch(); }

void IncomingConnection::unwatch() {
  if (watch_ != 0) endpoint_.unwatch(std::exchange(watch_, 0), socket_.get());
}

void IncomingConnection::ready(std::uint32_t) {
  if (done_) return;
  auto* const bytes = reinterpret_cast<std::byte*>(&attach_);
  const ssize_t n = ::recv(socket_.get(), bytes + attach_bytes_, sizeof attach_ - attach_bytes_, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  done_ = n <= 0;  // another way was faster
  attach_bytes_ += static_cast<std::size_t>(done_ ? 0 : n);
  if (attach_bytes_ < sizeof attach_) return;
  done_ = true;
  unwatch();
  if (header_fault(attach_) != nullptr || !attach_.is(FrameKind::kAttach) || attach_.sequence > UINT32_MAX) {
    return endpoint_.dropped(remote_, "it did not say which of its connections this is");
  }
  endpoint_.attach(other_, attach_.channel, static_cast<std::uint32_t>(attach_.sequence), std::move(socket_), remote_);
}

Status IncomingConnections::open(std::vector<UniqueFd> sockets) {
  DialIntroduction self;
  self.self = endpoint_.card().id;
  self.rank = endpoint_.rank();
  AcceptorOptions options;
  options.most_pending = kMostPending;
  options.on_failure = [this](const SocketAddress& remote, const char* why) { endpoint_.dropped(remote.text(), why); };
  acceptor_.emplace(Listener{std::move(sockets), {}}, endpoint_.key(), kPurpose, self.pack(), std::move(options));
  if (acceptor_->fd() < 0) return system_error("Opening an epoll descriptor failed", EMFILE);
  if (endpoint_.watch(*this, acceptor_->fd(), EPOLLIN) != 0) return {};
  return system_error("Watching an epoll descriptor failed", errno);
}

void IncomingConnections::ready(std::uint32_t) {
  for (AuthenticatedConnection& accepted : acceptor_->step()) take(std::move(accepted));
  const bool is_short = acceptor_->shut_since_ns() != UINT64_MAX;
  if (is_short && !short_) endpoint_.log(2, std::string("tcp: ") + kKeepsPeersOut);
  short_ = is_short;
}

void IncomingConnections::take(AuthenticatedConnection accepted) {
  const std::string remote = accepted.remote.text();
  const auto other = DialIntroduction::unpack(accepted.payload);
  if (!other || other->other != endpoint_.card().id) return endpoint_.dropped(remote, "it looked for somebody else");
  if (!endpoint_.is_peer(other->rank)) return endpoint_.dropped(remote, "it claims a rank that cannot be its own");
  connections_.push_back(std::make_unique<IncomingConnection>(endpoint_, std::move(accepted.fd), *other, remote));
  connections_.back()->ready(0);  // it may have said so already
}

void IncomingConnections::sweep(std::uint64_t now) {
  if (now >= acceptor_->next_ns()) ready(0);
  std::erase_if(connections_, [](const auto& connection) { return connection->done(); });
}

}  // namespace tutti::tcp
