#include "src/base/authenticated_acceptor.h"

#include <errno.h>
#include <sys/resource.h>

#include <algorithm>

#include "src/base/clock.h"

namespace tutti {

namespace {
constexpr int kAcceptsPerStep = 64;
constexpr std::uint64_t kPauseNs = 10'000'000;

std::size_t most_pending() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 4, 64, 1024));
}
}  // namespace

Acceptor::Acceptor(Listener listener, const Key& key, std::string purpose, std::vector<unsigned char> payload,
                   AcceptorOptions options)
    : Acceptor(std::move(listener), InProcessListener(), {}, key, std::move(purpose), std::move(payload),
               std::move(options)) {}

Acceptor::Acceptor(Listener listener, InProcessListener in_process, std::deque<UniqueFd> early, const Key& key,
                   std::string purpose, std::vector<unsigned char> payload, AcceptorOptions options)
    : listener_(std::move(listener)),
      in_process_(in_process.fd() >= 0 ? std::move(in_process) : InProcessListener(listener_.addresses)),
      key_(key),
      purpose_(std::move(purpose)),
      payload_(std::move(payload)),
      options_(std::move(options)),
      next_id_(listener_.sockets.size() + 1),
      early_(std::move(early)) {
  if (options_.most_pending == 0) options_.most_pending = most_pending();
  if (in_process_.fd() >= 0) poller_.watch(in_process_.fd(), listener_.sockets.size(), true, false);
  resume();
}

Acceptor::Acceptor(Listener listener, Handshake::Recognize recognize, std::string purpose)
    : Acceptor(std::move(listener), Key{}, std::move(purpose), {}) {
  recognize_ = std::move(recognize);
}

Handshake Acceptor::handshake() const {
  return recognize_ ? Handshake(recognize_, purpose_) : Handshake(Handshake::Role::kAcceptor, key_, purpose_, payload_);
}

std::uint64_t Acceptor::next_ns() const {
  std::uint64_t next = paused_until_ns_ != 0 ? paused_until_ns_ : UINT64_MAX;
  if (!pending_.empty()) next = std::min(next, pending_.begin()->second.until_ns);
  return next;
}

void Acceptor::resume() {
  paused_until_ns_ = 0;
  for (std::size_t i = 0; i < listener_.sockets.size(); ++i) poller_.watch(listener_.sockets[i].get(), i, true, false);
}

std::vector<AuthenticatedConnection> Acceptor::step() {
  std::vector<AuthenticatedConnection> accepted;
  if (paused_until_ns_ != 0 && now_ns() >= paused_until_ns_) resume();
  for (; !early_.empty(); early_.pop_front()) admit(std::move(early_.front()), {}, accepted);
  for (const Poller::Event& event : poller_.wait(0)) {
    if (event.tag < listener_.sockets.size()) {
      accept_from(static_cast<std::size_t>(event.tag), accepted);
    } else if (event.tag == listener_.sockets.size()) {
      for (UniqueFd& fd : in_process_.accept_all()) admit(std::move(fd), {}, accepted);
    } else {
      advance_pending(event.tag, accepted);
    }
  }
  while (!pending_.empty() && now_ns() >= pending_.begin()->second.until_ns) drop(pending_.begin()->first);
  return accepted;
}

void Acceptor::accept_from(std::size_t index, std::vector<AuthenticatedConnection>& accepted) {
  const int listening = listener_.sockets[index].get();
  const std::uint64_t first_new = next_id_;  // who comes in now makes no room for the next
  for (int i = 0; i < kAcceptsPerStep; ++i) {
    SocketAddress remote;
    UniqueFd fd = accept_one(listening, &remote);
    if (fd) {
      shut_since_ns_ = UINT64_MAX;
      admit(std::move(fd), remote, accepted);
      continue;
    }
    if (errno == ECONNABORTED || errno == EINTR) continue;
    const int number = errno;
    if (!keeps_out(listening, number)) return;
    shortage_ = number;
    if (!pending_.empty() && pending_.begin()->first < first_new && make_room()) continue;
    // Nothing to drop: the process has no descriptor for us now. Look again in a while rather than spin.
    for (const UniqueFd& socket : listener_.sockets) poller_.forget(socket.get());
    const std::uint64_t now = now_ns();
    if (shut_since_ns() == UINT64_MAX) shut_since_ns_ = now;
    shut_seen_ns_ = now;
    paused_until_ns_ = now + kPauseNs;
    return;
  }
}

// Who is kept out is seen again after each pause, unless it has gone.
std::uint64_t Acceptor::shut_since_ns() const {
  return now_ns() < shut_seen_ns_ + 10 * kPauseNs ? shut_since_ns_ : UINT64_MAX;
}

bool Acceptor::make_room() {
  if (pending_.empty()) return false;
  drop(pending_.begin()->first);
  return true;
}

void Acceptor::admit(UniqueFd fd, const SocketAddress& remote, std::vector<AuthenticatedConnection>& accepted) {
  if (pending_.size() >= options_.most_pending) make_room();
  const std::uint64_t id = next_id_++;
  if (!poller_.watch(fd.get(), id, true, false)) {
    shortage_ = errno;
    return;
  }
  pending_.try_emplace(id, Pending{std::move(fd), remote, handshake(), now_ns() + kHandshakeNs});
  // A peer on another core may be through with it right here, and then nothing more would come to tell us.
  advance_pending(id, accepted);
}

void Acceptor::advance_pending(std::uint64_t id, std::vector<AuthenticatedConnection>& accepted) {
  const auto place = pending_.find(id);
  if (place == pending_.end()) return;  // dropped a moment ago, to make room
  Pending& pending = place->second;
  advance(pending.handshake, pending.fd.get());
  if (pending.handshake.state() == Handshake::State::kFailed) {
    if (options_.on_failure) options_.on_failure(pending.remote, pending.handshake.explain());
    return drop(id);
  }
  if (!pending.handshake.complete()) return;
  poller_.forget(pending.fd.get());
  shortage_ = 0;
  const auto payload = pending.handshake.peer_payload();
  accepted.push_back({std::move(pending.fd), {payload.begin(), payload.end()}, pending.remote});
  pending_.erase(place);
}

void Acceptor::drop(std::uint64_t id) {
  const auto place = pending_.find(id);
  ++strangers_;
  wrong_keys_ += place->second.handshake.failure() == Handshake::Failure::kWrongKey ? 1 : 0;
  poller_.forget(place->second.fd.get());  // a copy of it, in a forked child, would stay ready in there
  pending_.erase(place);
}

}  // namespace tutti
