#include "src/base/authenticated_connector.h"

#include <errno.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "src/base/clock.h"
#include "src/base/in_process.h"

namespace tutti {

namespace {
constexpr std::uint64_t kStagger = 100 * kMs;
constexpr std::uint64_t kFirstBackoff = 5 * kMs;
constexpr std::uint64_t kMostBackoff = 200 * kMs;
constexpr std::uint64_t kAttemptNs = 5'000 * kMs;
}  // namespace

Connector::Connector(std::vector<SocketAddress> addresses, const Key& key, std::string purpose,
                     std::vector<unsigned char> payload)
    : key_(key), purpose_(std::move(purpose)), payload_(std::move(payload)), backoff_ns_(kFirstBackoff) {
  for (const SocketAddress& address : addresses) {
    for (const SocketAddress& scoped : with_scopes(address)) addresses_.push_back(scoped);
  }
  answers_.resize(addresses_.size());
  if (addresses_.empty()) next_start_ns_ = UINT64_MAX;
}

std::uint64_t Connector::next_ns() const {
  std::uint64_t next = next_start_ns_;
  for (const Attempt& catching : attempts_) next = std::min(next, catching.until_ns);
  return next;
}

bool Connector::step() {
  for (const Poller::Event& event : poller_.wait(0)) {
    if (advance_attempt(event.tag)) return true;
  }
  const std::uint64_t now = now_ns();
  for (auto i = attempts_.begin(); i != attempts_.end();) {
    const Attempt& catching = *i++;
    if (now >= catching.until_ns) fail(catching.id, "no answer within 5 s", false, false);
  }
  // A start may fail at once, and then the next address has its turn at once.
  while (now >= next_start_ns_ && next_address_ < addresses_.size()) start_next();
  if (next_address_ == addresses_.size() && attempts_.empty()) {
    if (now >= next_start_ns_) next_address_ = 0;
    while (now >= next_start_ns_ && next_address_ < addresses_.size()) start_next();
  }
  return false;
}

// Without loopback this process's own listeners are reached within it, and those of others of this machine not at all.
Result<UniqueFd> Connector::connect(const SocketAddress& address) {
  if (!loopback_is_down_for(address)) {
    round_loopback_down_ = false;
    return connect_to(address);
  }
  UniqueFd here = connect_in_process(address);
  if (!here) return Status(TUTTI_SYSTEM_ERROR, kLoopbackDown, kLoopbackRemedy);
  round_loopback_down_ = false;
  return here;
}

void Connector::start_next() {
  if (next_address_ == 0) {
    round_refused_by_system_ = round_starved_ = round_loopback_down_ = true;
    shortage_ = 0;
  }
  const std::size_t address = next_address_++;
  const std::uint64_t id = next_id_++;
  const std::uint64_t now = now_ns();
  next_start_ns_ = next_address_ < addresses_.size() ? now + kStagger : UINT64_MAX;
  auto socket = connect(addresses_[address]);
  Attempt catching{address,         id, {}, false, Handshake(Handshake::Role::kInitiator, key_, purpose_, payload_),
                   now + kAttemptNs};
  if (socket) catching.fd = std::move(socket).value();
  attempts_.push_back(std::move(catching));
  if (!socket) {
    const Error& error = socket.status().error();
    const int number = error.system_error;
    return fail(id, number != 0 ? std::generic_category().message(number) : error.message, number == ECONNREFUSED, false,
                is_shortage(number) ? number : 0);
  }
  if (!poller_.watch(attempts_.back().fd.get(), id, false, true)) {
    fail(id, "no descriptor left to wait for it", false, false, EMFILE);
  }
}

bool Connector::advance_attempt(std::uint64_t id) {
  const auto place = std::find_if(attempts_.begin(), attempts_.end(), [id](const Attempt& a) { return a.id == id; });
  if (place == attempts_.end()) return false;
  Attempt& catching = *place;
  if (!catching.connected) {
    const int error = connect_result(catching.fd.get());
    if (error != 0) {
      fail(id, std::generic_category().message(error), error == ECONNREFUSED, false);
      return false;
    }
    catching.connected = true;
    poller_.watch(catching.fd.get(), id, true, false);
  }
  advance(catching.handshake, catching.fd.get());
  if (catching.handshake.state() == Handshake::State::kFailed) {
    fail(id, catching.handshake.explain(), false, catching.handshake.failure() == Handshake::Failure::kRefused);
    return false;
  }
  if (!catching.handshake.complete()) return false;
  for (const Attempt& any : attempts_) poller_.forget(any.fd.get());
  const auto payload = catching.handshake.peer_payload();
  connected_ = {std::move(catching.fd), {payload.begin(), payload.end()}};
  attempts_.clear();
  next_address_ = addresses_.size();  // should the owner want another one
  next_start_ns_ = now_ns() + backoff_ns_;
  return true;
}

void Connector::fail(std::uint64_t id, std::string why, bool refused_by_system, bool refused_our_key, int shortage) {
  const auto place = std::find_if(attempts_.begin(), attempts_.end(), [id](const Attempt& a) { return a.id == id; });
  answers_[place->address] = {std::move(why), refused_our_key};
  if (place->fd) poller_.forget(place->fd.get());  // a copy of it, in a forked child, would stay ready in there
  attempts_.erase(place);
  round_refused_by_system_ = round_refused_by_system_ && refused_by_system;
  key_was_refused_ = key_was_refused_ || refused_our_key;
  round_starved_ = round_starved_ && shortage != 0;
  if (shortage != 0) shortage_ = shortage;
  if (next_address_ < addresses_.size()) {
    next_start_ns_ = now_ns();
  } else if (attempts_.empty()) {
    end_round();
  }
}

void Connector::end_round() {
  const std::uint64_t now = now_ns();
  if (!every_port_refused_key()) {
    key_refused_since_ns_ = UINT64_MAX;
  } else if (key_refused_since_ns_ == UINT64_MAX) {
    key_refused_since_ns_ = now;
  }
  if (!round_refused_by_system_) refused_since_ns_ = UINT64_MAX;
  if (round_refused_by_system_ && refused_since_ns_ == UINT64_MAX) refused_since_ns_ = now;
  if (!round_loopback_down_) loopback_down_since_ns_ = UINT64_MAX;
  if (round_loopback_down_ && loopback_down_since_ns_ == UINT64_MAX) loopback_down_since_ns_ = now;
  starved_ = round_starved_ ? shortage_ : 0;
  next_start_ns_ = now + backoff_ns_;
  backoff_ns_ = std::min(backoff_ns_ * 2, kMostBackoff);
}

// A host may have several addresses of which the peer listens at one: whoever has the port there speaks for it.
bool Connector::every_port_refused_key() const {
  std::map<std::uint16_t, bool> refused;
  for (std::size_t i = 0; i < addresses_.size(); ++i) refused[addresses_[i].port()] |= answers_[i].refused_key;
  return std::all_of(refused.begin(), refused.end(), [](const auto& port) { return port.second; });
}

std::string Connector::explain() const {
  if (addresses_.empty()) return "it has no address but link-local ones, and no interface here has such";
  std::string text;
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    if (answers_[i].text.empty()) continue;
    text += (text.empty() ? "" : "; ") + addresses_[i].text() + ": " + answers_[i].text;
  }
  return text.empty() ? "no answer from " + addresses_.front().text() : text;
}

}  // namespace tutti
