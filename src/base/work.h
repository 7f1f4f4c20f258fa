// Work: an operation under way, and the thread that tells of its end.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "src/base/poll_hook.h"
#include "src/base/status.h"

namespace tutti {

/// Whether a wait of so long a limit, as callers give it, has none.
constexpr bool is_unlimited(std::uint64_t timeout_ns) { return timeout_ns == 0 || timeout_ns >= TUTTI_NO_TIMEOUT; }

/// What is known of an operation before it begins.
struct WorkDescription {
  const char* kind = "";  ///< static; "": of several operations
  std::uint64_t bytes = 0;
  std::uint64_t user_tag = 0;
};

/// One operation's state, shared by whoever posted it and whoever runs it. Thread safe.
class Work {
 public:
  struct Info {
    std::uint64_t sequence = 0;
    std::int32_t source = -1;
    std::uint64_t received_count = 0;
    std::uint64_t start_ns = 0;
    std::uint64_t end_ns = 0;
    std::array<char, 32> algorithm{};  ///< NUL-terminated
  };
  using Callback = std::function<void(tutti_status)>;
  /// A callback and what it will be told; in a list, so that handing it on when an operation ends needs no memory.
  struct Call {
    Callback fn;
    tutti_status code = TUTTI_IN_PROGRESS;
  };
  /// Whoever can run the operation, and what comes before it, in the thread that waits for it.
  class Helper {
   public:
    virtual ~Helper() = default;
    /// Runs what it can, up to `work`; nothing, where that has begun already, or another thread runs what is before it.
    virtual void help(const Work& work) = 0;
  };
  /// Whoever can take the operation back.
  class Canceller {
   public:
    virtual ~Canceller() = default;
    /// Takes it back where it has been posted, and that is possible. Throws std::bad_alloc, and then nothing has happened.
    virtual void cancel(const Work& work) = 0;
  };
  /// How long `wait` lasts beyond an operation's own deadline: it ends itself, and needs a moment to find out why.
  static constexpr std::uint64_t grace_ns = 5'000'000'000;

  /// hook: called within waits for this work. canceller: nullptr where nobody can take it back; used as long as what
  /// `issue` was given to hold.
  explicit Work(PollHook hook = {}, const WorkDescription& description = {}, Canceller* canceller = nullptr)
      : hook_(hook), description_(description), canceller_(canceller) {}

  /// It is on its stream from now on, and may take limit_ns once it is ready; 0: it ends with others, which their deadlines
  /// bound. `hold` is let go of when it ends.
  void issue(std::uint64_t limit_ns, std::shared_ptr<void> hold);
  /// From now on `followers` end with `leader`: as it does, in their order, and before anybody sees that it has ended.
  /// Until then they know of its start and its number, and waits for them help with it. Before it can begin.
  static void tie(const std::shared_ptr<Work>& leader, std::vector<std::shared_ptr<Work>> followers);
  /// Waits without a limit of their own, and without a hook, ask it for help first. Before the operation can begin.
  void set_helper(std::weak_ptr<Helper> helper);
  void start(std::uint64_t sequence);
  /// By which it runs.
  void set_algorithm(std::string_view name);
  /// Ends the operation, once; callbacks go to the notifier's thread.
  void complete(Status status);
  void set_received(std::int32_t source, std::uint64_t count);

  /// The outcome, or nothing while it runs.
  std::optional<Status> test() const;
  /// Whether there is an outcome.
  bool over() const { return over_.load(std::memory_order_acquire); }  // acquire: pairs with the release in complete
  /// Waits at most timeout_ns; nothing where the operation runs on, TUTTI_ABORTED where the hook ended the wait. With 0
  /// until its deadline and grace_ns have passed: a started one's count from its start; one that is behind others on its
  /// stream, or ends with others, has as long as those, which their deadlines bound; one that is not issued yet (an open
  /// group) counts from now.
  std::optional<Status> wait(std::uint64_t timeout_ns) const;
  /// Waits at most ns, without a word to the hook; nothing where the operation runs on.
  std::optional<Status> sleep(std::uint64_t ns) const;
  Info info() const;
  const WorkDescription& description() const { return description_; }
  /// See tutti_work_cancel. Errors: TUTTI_INVALID_USAGE.
  Status cancel();
  /// Whether `cancel` was asked before it was posted. Relaxed: the locks of whoever posts it order both.
  bool is_cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  const PollHook& hook() const { return hook_; }
  /// `fn` is called exactly once, on the notifier's thread, also where the operation has ended already. Errors, and `fn`
  /// is not called: TUTTI_SYSTEM_ERROR where the system has no thread for the notifier.
  Status on_complete(Callback fn);
  /// `fn` is called exactly once, by the thread that ends the operation, or by this one where it has ended already. Throws
  /// nothing.
  void notify(Callback fn);

 private:
  void help() const;
  void end_with(const Info& leader, const Status& status);
  std::uint64_t left_ns(std::uint64_t timeout_ns, std::uint64_t called_ns) const;

  const PollHook hook_;
  const WorkDescription description_;
  Canceller* const canceller_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;  ///< guards what follows
  mutable std::condition_variable ended_;
  std::optional<Status> status_;
  std::atomic<bool> over_{false};  ///< status_ is set; for looks without the lock
  Info info_;
  std::list<Call> callbacks_;
  std::list<Call> notices_;  ///< of notify
  std::uint64_t limit_ns_ = 0;
  bool issued_ = false;
  std::shared_ptr<void> hold_;
  std::weak_ptr<Helper> helper_;
  std::weak_ptr<const Work> leader_;              ///< that it ends with
  std::vector<std::shared_ptr<Work>> followers_;  ///< that end with it
  bool ending_ = false;                           ///< they do; its own end is next
};

}  // namespace tutti
