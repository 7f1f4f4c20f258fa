#include "src/bootstrap/resolve.h"

#include <netdb.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/background_thread.h"
#include "src/base/clock.h"
#include "src/base/exception_boundary.h"
#include "src/tables/units.h"

namespace tutti {

namespace {

constexpr std::uint64_t kFirstPauseNs = 100 * kMs;
constexpr std::uint64_t kMostPauseNs = 1'000 * kMs;

// One question, shared by its asker and the thread that puts it: whichever lasts longer.
struct Question {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Lookup> answer;  // under the mutex
};

std::string reason_of(const Lookup& answer) {
  return answer.error == EAI_SYSTEM ? std::generic_category().message(answer.system_error)
                                    : std::string(::gai_strerror(answer.error));
}

// Starts asking. The thread owns all that it touches, so that it may outlast everybody who waits for it.
Result<std::shared_ptr<Question>> put(const HostPort& place, const Resolver& resolver) {
  auto question = std::make_shared<Question>();
  auto thread = background_thread("tutti-resolver", [question, place, resolver] {
    Lookup answer;
    const Status asked = catching([&]() -> Status {
      answer = resolver(place);
      return {};
    });
    if (!asked) answer = {EAI_MEMORY, 0, {}};
    const std::lock_guard lock(question->mutex);
    question->answer = std::move(answer);
    question->answered.notify_all();
  });
  if (!thread) return thread.status();
  thread->detach();
  return question;
}

// The answer; nothing where the deadline came first.
Result<std::optional<Lookup>> ask(const HostPort& place, const WaitLimits& wait_limits, const Resolver& resolver) {
  auto question = put(place, resolver);
  if (!question) return question.status();
  std::unique_lock lock((*question)->mutex);
  while (!(*question)->answer) {
    lock.unlock();  // the caller's hook runs without our lock
    if (Status status = wait_limits.check(); !status) return status;
    if (wait_limits.deadline.passed()) return std::optional<Lookup>();
    lock.lock();
    if ((*question)->answer) break;
    (*question)->answered.wait_for(lock, std::chrono::milliseconds(wait_limits.slice_ms()));
  }
  return std::exchange((*question)->answer, {});
}

// Until the resolver is asked again.
Status rest(std::uint64_t ns, const WaitLimits& wait_limits) {
  const Deadline end = Deadline::in(ns);
  WaitLimits slices = wait_limits;
  slices.deadline.at_ns = std::min(end.at_ns, wait_limits.deadline.at_ns);
  while (!slices.deadline.passed()) {
    if (Status status = wait_limits.check(); !status) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(slices.slice_ms()));
  }
  return {};
}

Status too_late(const HostPort& place, const WaitLimits& wait_limits, const std::string& reason) {
  Error error;
  error.status = TUTTI_TIMEOUT;
  error.limit_ns = wait_limits.deadline.limit_ns;
  error.message = "The address of host \"" + place.host + "\" was not found within " +
                  duration_text(wait_limits.deadline.limit_ns) + ": " +
                  (reason.empty() ? "the resolver did not answer" : reason);
  error.remedy = "See that this machine's name server answers (getent hosts " + place.host +
                 "), or write the address as a number; TUTTI_CONNECT_TIMEOUT gives it more time";
  return Status(std::move(error));
}

Status refused(const HostPort& place, const Lookup& answer) {
  const std::string message = "The address of host \"" + place.host + "\" was not found: " + reason_of(answer);
  if (answer.error == EAI_NONAME || answer.error == EAI_NODATA || answer.error == EAI_ADDRFAMILY) {
    return Status(TUTTI_INVALID_ARGUMENT, message,
                  "Write it as name:4242, 10.0.0.1:4242 or [::1]:4242, with a name that this machine knows (getent hosts " +
                      place.host + ")");
  }
  Error error;
  error.status = TUTTI_SYSTEM_ERROR;
  error.system_error = answer.system_error;
  error.message = message;
  error.remedy = "See that this machine's name server answers, or write the address as a number";
  return Status(std::move(error));
}

}  // namespace

Result<std::vector<SocketAddress>> resolve(const HostPort& place, const WaitLimits& wait_limits, const Resolver& resolver) {
  auto number = numeric_address(place);
  if (!number) return number.status();
  if (*number) return std::vector<SocketAddress>{**number};
  std::string reason;  // why the last one that was answered could not tell
  for (std::uint64_t wait_ns = kFirstPauseNs;; wait_ns = std::min(2 * wait_ns, kMostPauseNs)) {
    auto asked = ask(place, wait_limits, resolver);
    if (!asked) return asked.status();
    if (!*asked) return too_late(place, wait_limits, reason);
    Lookup& answer = **asked;
    if (answer.error == 0) return usable_addresses(place, answer.addresses);
    if (answer.error != EAI_AGAIN) return refused(place, answer);
    reason = reason_of(answer);
    if (Status status = rest(wait_ns, wait_limits); !status) return status;
    if (wait_limits.deadline.passed()) return too_late(place, wait_limits, reason);
  }
}

}  // namespace tutti
