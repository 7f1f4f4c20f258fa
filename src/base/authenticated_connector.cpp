#include "src/base/authenticated_connector.h"

#include <errno.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "src/base/clock.h"
#include "src/base/in_process.h"

namespace tutti {

namespace {
constexpr std::uint64_t kFirstPause = 5 * kMs;
constexpr std::uint64_t kMostPause = 200 * kMs;
constexpr std::uint64_t kAttemptNs = 5'000 * kMs;

// EAGAIN: a Unix socket's.
std::string text_of(int error) {
  return error == EAGAIN ? "its queue of connections is full" : std::generic_category().message(error);
}
}  // namespace

Connector::Connector(const std::vector<SocketAddress>& addresses, const Key& key, std::string purpose,
                     std::vector<unsigned char> payload, ConnectorOptions options)
    : key_(key), purpose_(std::move(purpose)), payload_(std::move(payload)), options_(std::move(options)) {
  for (const SocketAddress& address : addresses) {
    for (const SocketAddress& scoped : with_scopes(address)) attempts_.emplace_back().address = scoped;
  }
  start_next(0);
}

std::uint64_t Connector::next_ns() const {
  std::uint64_t next = UINT64_MAX;
  for (const Attempt& attempt : attempts_) next = std::min(next, attempt.next_ns);
  return next;
}

bool Connector::step() {
  if (look()) return true;
  const std::uint64_t now = now_ns();
  bool begun = false;
  for (Attempt& attempt : attempts_) {
    if (now < attempt.next_ns) continue;
    begun = begun || !attempt.fd;
    attempt.fd ? fail(attempt, Outcome::kOther, "no answer within 5 s") : begin(attempt, now);
  }
  return begun && look();  // on this machine a connection stands at once
}

bool Connector::look() {
  const auto events = poller_.wait(0);
  return std::ranges::any_of(events, [this](const Poller::Event& event) { return advance(attempts_[event.tag]); });
}

// The first address that has not been tried yet has its turn then.
void Connector::start_next(std::uint64_t at_ns) {
  const auto next = std::ranges::find_if(
      attempts_, [](const Attempt& attempt) { return !attempt.fd && attempt.outcome == Outcome::kNone; });
  if (next != attempts_.end()) next->next_ns = at_ns;
}

// Without loopback this process's own listeners are reached within it, and those of others of this machine not at all.
Result<UniqueFd> Connector::connect(const SocketAddress& address) {
  if (!loopback_is_down_for(address)) return connect_to(address);
  UniqueFd here = connect_in_process(address);
  if (!here) return Status(TUTTI_SYSTEM_ERROR, kLoopbackDown, kLoopbackRemedy);
  return here;
}

void Connector::begin(Attempt& attempt, std::uint64_t now) {
  auto socket = connect(attempt.address);
  if (!socket) {
    const Error& error = socket.status().error();
    const int number = error.system_error;
    if (number == 0) return fail(attempt, Outcome::kNoLoopback, error.message);
    const Outcome outcome = number == ECONNREFUSED ? Outcome::kRefused : Outcome::kOther;
    return fail(attempt, is_shortage(number) ? Outcome::kShortage : outcome, text_of(number), number);
  }
  attempt.fd = std::move(socket).value();
  if (attempt.outcome == Outcome::kShortage) {  // no longer
    attempt.outcome = Outcome::kNone;
    attempt.answer.clear();
  }
  attempt.next_ns = now + kAttemptNs;
  start_next(now + options_.stagger_ns);
  if (options_.prepare) options_.prepare(attempt.fd.get());
  if (!poller_.watch(attempt.fd.get(), index_of(attempt), false, true)) {
    fail(attempt, Outcome::kShortage, "no descriptor left to wait for it", EMFILE);
  }
}

bool Connector::advance(Attempt& attempt) {
  if (!attempt.fd) return false;
  if (attempt.handshake) return shake(attempt);
  if (const int error = connect_result(attempt.fd.get()); error != 0) {
    fail(attempt, error == ECONNREFUSED ? Outcome::kRefused : Outcome::kOther, text_of(error));
    return false;
  }
  attempt.handshake.emplace(Handshake::Role::kInitiator, key_, purpose_, payload_);
  if (options_.may_answer_late) attempt.next_ns = UINT64_MAX;
  poller_.watch(attempt.fd.get(), index_of(attempt), true, false);
  return shake(attempt);
}

// Who closes has most likely dropped us among too many strangers: that passes.
Connector::Outcome Connector::outcome_of(Handshake::Failure failure) {
  if (failure == Handshake::Failure::kRefused) return Outcome::kKeyRefused;
  return failure == Handshake::Failure::kClosed ? Outcome::kOther : Outcome::kUnproved;
}

bool Connector::shake(Attempt& attempt) {
  Handshake& handshake = *attempt.handshake;
  tutti::advance(handshake, attempt.fd.get());
  if (handshake.state() == Handshake::State::kFailed) {
    const Outcome outcome = outcome_of(handshake.failure());
    key_was_refused_ = key_was_refused_ || outcome == Outcome::kKeyRefused;
    fail(attempt, outcome, handshake.explain());
    return false;
  }
  if (!handshake.complete()) return false;
  const auto payload = handshake.peer_payload();
  if (options_.is_meant && !options_.is_meant(payload)) {
    fail(attempt, Outcome::kNotMeant, "another rank answers there");
    return false;
  }
  poller_.forget(attempt.fd.get());
  connected_ = {std::move(attempt.fd), {payload.begin(), payload.end()}, attempt.address};
  connected_at_ = index_of(attempt);
  const std::uint64_t now = now_ns();
  for (Attempt& each : attempts_) {
    stop(each);
    each.next_ns = now + std::max(each.pause_ns, kFirstPause);  // should the owner want another one
  }
  return true;
}

void Connector::stop(Attempt& attempt) {
  if (attempt.fd) poller_.forget(attempt.fd.get());  // a copy of it, in a forked child, would stay ready in there
  attempt.fd.reset();
  attempt.handshake.reset();
}

void Connector::fail(Attempt& attempt, Outcome outcome, std::string answer, int error) {
  const std::uint64_t now = now_ns();
  stop(attempt);
  attempt.answer = std::move(answer);
  attempt.error = error;
  if (attempt.outcome != outcome) {
    attempt.outcome = outcome;
    attempt.since_ns = now;
    attempt.times = 0;
  }
  ++attempt.times;
  attempt.pause_ns = std::clamp(2 * attempt.pause_ns, kFirstPause, kMostPause);
  attempt.next_ns = now + attempt.pause_ns;
  start_next(0);
}

bool Connector::is_taken() const {
  return std::ranges::any_of(attempts_, [](const Attempt& attempt) { return attempt.fd && attempt.handshake; });
}

bool Connector::is_turned_away(int times) const {
  return std::ranges::all_of(attempts_, [times](const Attempt& attempt) {
    return (attempt.outcome == Outcome::kRefused || attempt.outcome == Outcome::kNotMeant) && attempt.times >= times;
  });
}

bool Connector::is_unproved() const {
  return std::ranges::all_of(attempts_, [](const Attempt& attempt) {
    return attempt.outcome == Outcome::kKeyRefused || attempt.outcome == Outcome::kUnproved;
  });
}

std::uint64_t Connector::all_since(Outcome outcome) const {
  std::uint64_t since = attempts_.empty() ? UINT64_MAX : 0;
  for (const Attempt& attempt : attempts_) {
    since = std::max(since, attempt.outcome == outcome ? attempt.since_ns : UINT64_MAX);
  }
  return since;
}

// A host may have several addresses of which the peer listens at one: whoever has the port there speaks for it.
std::uint64_t Connector::key_refused_since_ns() const {
  std::map<std::uint16_t, std::uint64_t> by_port;
  for (const Attempt& attempt : attempts_) {
    std::uint64_t& since = by_port.try_emplace(attempt.address.port(), UINT64_MAX).first->second;
    if (attempt.outcome == Outcome::kKeyRefused) since = std::min(since, attempt.since_ns);
  }
  std::uint64_t all = attempts_.empty() ? UINT64_MAX : 0;
  for (const auto& [port, since] : by_port) all = std::max(all, since);
  return all;
}

int Connector::shortage() const {
  const auto found =
      std::ranges::find_if(attempts_, [](const Attempt& attempt) { return attempt.outcome == Outcome::kShortage; });
  return found != attempts_.end() ? found->error : 0;
}

std::string Connector::explain() const {
  if (attempts_.empty()) return "it has no address that can be reached from here";
  std::string text;
  for (const Attempt& attempt : attempts_) {
    if (attempt.answer.empty() && !attempt.fd) continue;
    const char* const so_far = attempt.handshake ? "no proof of the key yet" : "no answer";
    text += (text.empty() ? "" : "; ") + attempt.address.text() + ": " + (attempt.answer.empty() ? so_far : attempt.answer);
  }
  return text.empty() ? "no answer from " + attempts_.front().address.text() : text;
}

}  // namespace tutti
