#include "transports/near/local_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "src/base/clock.h"
#include "src/base/socket.h"

namespace tutti::near {
namespace {

constexpr std::uint64_t kFirstPauseNs = 1'000'000;
constexpr std::uint64_t kLongestPauseNs = 100'000'000;

const char kNobodyThere[] = " cannot be reached: its socket is closed, so it has ended, or given this communicator up";

}  // namespace

std::string LocalConnection::name() const {
  return "rank " + std::to_string(rank_) + (pid_ != 0 ? " (pid " + std::to_string(pid_) + ")" : "");
}

void LocalConnection::meet(const LocalAddress& address) {
  if (state_ == State::kEnded || address_) return;
  address_ = address;
  if (pid_ == 0) pid_ = address.pid;
  if (state_ != State::kUnmet) return;
  if (rank_ == endpoint_.rank()) return connect_to_self();
  state_ = calls() ? State::kConnecting : State::kWaiting;
  advance();
}

void LocalConnection::connect_to_self() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    end(system_error("cannot create a Unix socket", errno).error().message);
    return;
  }
  to_self_.reset(ends[1]);
  take(UniqueFd(ends[0]));
}

void LocalConnection::adopt(UniqueFd socket) {
  drop();
  take(std::move(socket));
}

void LocalConnection::take(UniqueFd socket) {
  socket_ = std::move(socket);
  state_ = State::kConnected;
  // Where this fails (no memory) the owner looks at the socket when it is told so in another way.
  poller_.watch(socket_.get(), tag_, true, false);
}

bool LocalConnection::advance() {
  if (state_ == State::kWaiting) return probe();
  return state_ == State::kConnecting && connect();
}

bool LocalConnection::connect() {
  if (!connector_ || connector_->fd() < 0) {
    if (now_ns() < retry_at_ns_) return false;
    pause();
    connector_.emplace(endpoint_.connector_to(*address_));
    poller_.watch(connector_->fd(), tag_, true, false);
  }
  if (connector_->step()) {
    AuthenticatedConnection made = connector_->take();
    const int who = endpoint_.introduced(made.payload);
    adopt(std::move(made.fd));
    if (who != rank_) end("rank " + std::to_string(who) + " answered at the socket of rank " + std::to_string(rank_));
    return true;
  }
  if (connector_->is_turned_away(1)) {
    end(name() + kNobodyThere);
  } else if (connector_->is_unproved()) {
    end(name() + " could not be authenticated (" + connector_->explain() + ")");
  }
  return state_ == State::kEnded;
}

// Who waits to be called would not learn that the caller has died before. So it holds a connection to the other's listening
// socket on which it says nothing. The kernel ends that when the socket closes, and then nobody answers there any more.
bool LocalConnection::probe() {
  char unread[128];
  while (probe_) {
    const ssize_t n = ::recv(probe_.get(), unread, sizeof unread, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return false;
    if (n <= 0) forget(probe_);
  }
  if (now_ns() < retry_at_ns_) return false;
  Result<UniqueFd> socket = connect_to(address_->socket());
  if (!socket && socket.status().error().system_error == ECONNREFUSED) {
    end(name() + kNobodyThere);
    return true;
  }
  pause();
  if (!socket) return false;
  probe_ = std::move(*socket);
  poller_.watch(probe_.get(), tag_, true, false);
  return false;
}

void LocalConnection::pause() {
  retry_pause_ns_ = std::clamp(retry_pause_ns_ * 2, kFirstPauseNs, kLongestPauseNs);
  retry_at_ns_ = now_ns() + retry_pause_ns_;
}

void LocalConnection::retry() {
  drop();
  trouble_ = "it closed the connection after the handshake";
  state_ = !address_ ? State::kUnmet : calls() ? State::kConnecting : State::kWaiting;
}

UniqueFd LocalConnection::end(std::string why) {
  why_ = std::move(why);
  state_ = State::kEnded;
  if (socket_) poller_.forget(socket_.get());
  UniqueFd socket = std::move(socket_);
  drop();
  to_self_.reset();
  return socket;
}

void LocalConnection::watch_output(bool wanted) {
  if (wanted == watching_output_ || to_self_ || !socket_) return;
  watching_output_ = wanted;
  poller_.watch(socket_.get(), tag_, true, wanted);
}

// Said aloud, for closing is not enough where a forked child still has the file open.
void LocalConnection::forget(UniqueFd& fd) {
  if (fd) poller_.forget(fd.get());
  fd.reset();
}

void LocalConnection::drop() {
  forget(socket_);
  forget(probe_);
  if (connector_) poller_.forget(connector_->fd());
  connector_.reset();
  watching_output_ = false;
}

}  // namespace tutti::near
