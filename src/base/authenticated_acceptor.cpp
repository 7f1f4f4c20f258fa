#include "src/base/authenticated_acceptor.h"

#include <errno.h>
#include <sys/resource.h>

#include <algorithm>

#include "src/base/clock.h"

namespace tutti {

namespace {
constexpr int kAcceptsPerStep = 64;
constexpr std::uint64_t kPauseNs = 10'000'000;
constexpr std::uint64_t kEarlyNs = 20'000'000;
constexpr std::size_t kMostEarly = 64;

std::size_t most_pending() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 4, 64, 1024));
}
}  // namespace

Acceptor::Acceptor(Listener listener, AcceptorOptions options)
    : listener_(std::move(listener)),
      in_process_(listener_.addresses),
      options_(std::move(options)),
      next_id_(listener_.sockets.size() + 1) {
  if (options_.most_pending == 0) options_.most_pending = most_pending();
  resume();
}

Acceptor::Acceptor(Listener listener, const Key& key, std::string purpose, std::vector<unsigned char> payload,
                   AcceptorOptions options)
    : Acceptor(std::move(listener), std::move(options)) {
  set_key(key, std::move(purpose), std::move(payload));
}

Acceptor::Acceptor(Listener listener, Handshake::Recognize recognize, std::string purpose) : Acceptor(std::move(listener)) {
  shake_hands_by(
      [recognize = std::move(recognize), purpose = std::move(purpose)] { return Handshake(recognize, purpose); });
}

void Acceptor::set_key(const Key& key, std::string purpose, std::vector<unsigned char> payload) {
  shake_hands_by([key, purpose = std::move(purpose), payload = std::move(payload)] {
    return Handshake(Handshake::Role::kAcceptor, key, purpose, payload);
  });
}

// Who came from within this process is no stranger, and has waited in the listener there.
void Acceptor::shake_hands_by(std::function<Handshake()> new_handshake) {
  new_handshake_ = std::move(new_handshake);
  shortage_ = 0;
  if (in_process_.fd() >= 0) poller_.watch(in_process_.fd(), listener_.sockets.size(), true, false);
}

std::uint64_t Acceptor::next_ns() const {
  std::uint64_t next = paused_until_ns_ != 0 ? paused_until_ns_ : UINT64_MAX;
  if (!early_.empty()) next = std::min(next, new_handshake_ ? 0 : early_.front().until_ns);
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
  step_early(accepted);
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

void Acceptor::step_early(std::vector<AuthenticatedConnection>& accepted) {
  for (; !early_.empty(); early_.pop_front()) {
    Early& early = early_.front();
    if (!new_handshake_ && now_ns() < early.until_ns) return;
    if (new_handshake_) {
      admit(std::move(early.fd), early.remote, accepted);
    } else {
      ++strangers_;
    }
  }
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
  if (!new_handshake_) {
    if (early_.size() == kMostEarly) early_.pop_front();
    early_.push_back({std::move(fd), remote, now_ns() + kEarlyNs});
    return;
  }
  if (pending_.size() >= options_.most_pending) make_room();
  const std::uint64_t id = next_id_++;
  if (!poller_.watch(fd.get(), id, true, false)) {
    shortage_ = errno;
    return;
  }
  pending_.try_emplace(id, Pending{std::move(fd), remote, new_handshake_(), now_ns() + kHandshakeNs});
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
