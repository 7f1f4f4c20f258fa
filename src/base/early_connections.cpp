#include "src/base/early_connections.h"

#include <errno.h>

#include <utility>

#include "src/base/clock.h"

namespace tutti {

namespace {
constexpr int kMostAccepted = 256;
}  // namespace

EarlyConnections::EarlyConnections(Listener listener) : listener_(std::move(listener)), in_process_(listener_.addresses) {
  for (std::size_t i = 0; i < listener_.sockets.size(); ++i) poller_.watch(listener_.sockets[i].get(), i, true, false);
}

void EarlyConnections::step() {
  for (const Poller::Event& event : poller_.wait(0)) let_in(listener_.sockets[static_cast<std::size_t>(event.tag)].get());
  const std::uint64_t now = now_ns();
  while (!pending_.empty() && now >= pending_.front().until_ns) pending_.pop_front();
}

void EarlyConnections::let_in(int listening_fd) {
  for (int i = 0; i < kMostAccepted; ++i) {
    UniqueFd fd = accept_one(listening_fd);
    if (fd) {
      if (pending_.size() == kMostPending) pending_.pop_front();
      pending_.push_back({std::move(fd), now_ns() + kStayNs});
      continue;
    }
    if (errno == ECONNABORTED || errno == EINTR) continue;
    // Out of descriptors, or worse: the acceptor will see to it, with more care. Watching on would only spin.
    if (errno != EAGAIN && errno != EWOULDBLOCK) close();
    return;
  }
}

void EarlyConnections::close() {
  for (const UniqueFd& socket : listener_.sockets) poller_.forget(socket.get());
}

EarlyConnections::Contents EarlyConnections::take() {
  close();
  Contents contents{std::move(listener_), {}, std::move(in_process_)};
  for (Pending& guest : pending_) contents.pending.push_back(std::move(guest.fd));
  pending_.clear();
  return contents;
}

}  // namespace tutti
