#include "src/base/in_process.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "src/base/exception_boundary.h"
#include "src/base/per_process.h"
#include "src/base/poller.h"

namespace tutti {

struct InProcessListener::State {
  explicit State(const std::vector<SocketAddress>& at) : addresses(at) {}

  const std::vector<SocketAddress> addresses;
  const WakeUp wake;
  std::vector<UniqueFd> waiting;  // under the registry's mutex

  // All of this process; see PerProcess for what a fork means.
  struct Registry {
    std::mutex mutex;
    std::vector<std::shared_ptr<State>> listeners;
  };
  static Registry& registry() {
    static constinit PerProcess<Registry> registry;
    return registry.get();
  }
};

InProcessListener::InProcessListener(const std::vector<SocketAddress>& addresses) {
  if (addresses.empty()) return;
  static_cast<void>(catching([&]() -> Status {
    auto state = std::make_shared<State>(addresses);
    if (!state->wake) return {};
    State::Registry& registry = State::registry();
    const std::lock_guard lock(registry.mutex);
    registry.listeners.push_back(state);
    state_ = std::move(state);
    return {};
  }));
}

InProcessListener::InProcessListener(InProcessListener&&) noexcept = default;

InProcessListener& InProcessListener::operator=(InProcessListener&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

InProcessListener::~InProcessListener() {
  if (state_ == nullptr) return;
  State::Registry& registry = State::registry();
  const std::lock_guard lock(registry.mutex);
  std::erase(registry.listeners, state_);
  state_->waiting.clear();  // callers read that nobody is there any more
}

int InProcessListener::fd() const { return state_ != nullptr ? state_->wake.fd() : -1; }

std::vector<UniqueFd> InProcessListener::accept_all() {
  if (state_ == nullptr) return {};
  state_->wake.clear();  // first: who comes after it wakes the thread again
  const std::lock_guard lock(State::registry().mutex);
  return std::exchange(state_->waiting, {});
}

UniqueFd connect_in_process(const SocketAddress& address) {
  InProcessListener::State::Registry& registry = InProcessListener::State::registry();
  const std::lock_guard lock(registry.mutex);
  const auto there = std::ranges::find_if(registry.listeners, [&](const auto& listener) {
    return std::ranges::find(listener->addresses, address) != listener->addresses.end();
  });
  if (there == registry.listeners.end()) return {};
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) return {};
  UniqueFd mine(ends[0]);
  UniqueFd theirs(ends[1]);
  (*there)->waiting.push_back(std::move(theirs));
  (*there)->wake.raise();
  return mine;
}

}  // namespace tutti
