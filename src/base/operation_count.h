// How many operations of a communicator are under way elsewhere: whoever wants to free it waits until there are none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace tutti {

class SharedOperation;
class ScopedOperation;

/// Thread safe. Outlived by the operations that it admitted, so that letting go of the last one touches nothing that its
/// waiter frees.
class OperationCount {
 public:
  /// One operation under way, until what is returned is let go of; nullptr once closed. Throws std::bad_alloc.
  std::shared_ptr<SharedOperation> admit() const;
  /// From now on no operation is admitted.
  void close() const;
  /// Whether it is closed. Acquire: who sees it sees why, as that was written before.
  bool closed() const { return (count_->visits.load(std::memory_order_acquire) & Count::shut) != 0; }
  /// From now on nothing begins that has not begun, and nobody waits for that: it may be behind others on a queue.
  void abandon() const;
  /// Waits at most ns until nothing is under way; whether that is so.
  bool wait(std::uint64_t ns) const;

 private:
  friend class SharedOperation;
  friend class ScopedOperation;
  struct Count {
    /// With the mutex held.
    bool settled() const {
      // Acquire: what visits did happened before whoever waits goes on.
      return (visits.load(std::memory_order_acquire) & ~shut) == 0 && (admitted == 0 || (abandoned && begun == 0));
    }
    /// With the mutex held.
    void close() { visits.fetch_or(shut, std::memory_order_release); }  // release: pairs with ScopedOperation
    /// Relaxed: the mutex orders it.
    bool closed() const { return (visits.load(std::memory_order_relaxed) & shut) != 0; }
    /// With the mutex held.
    void leave(bool had_begun) {
      --admitted;
      if (had_begun) --begun;
      if (settled()) zero.notify_all();
    }

    std::mutex mutex;
    std::condition_variable zero;
    std::uint64_t admitted = 0;
    std::uint64_t begun = 0;  ///< of those
    bool abandoned = false;
    /// How many there are, and whether more are refused: in one word, so that each visit is either counted before a wait
    /// for all or refused.
    static constexpr std::uint64_t shut = std::uint64_t{1} << 63;
    std::atomic<std::uint64_t> visits{0};
  };
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

/// That one operation is under way.
class SharedOperation {
 public:
  explicit SharedOperation(std::shared_ptr<OperationCount::Count> count);
  ~SharedOperation();
  SharedOperation(const SharedOperation&) = delete;
  SharedOperation& operator=(const SharedOperation&) = delete;

  /// To be called before the operation touches its communicator. False: that was destroyed, and is gone.
  bool begin();

 private:
  const std::shared_ptr<OperationCount::Count> count_;
  bool begun_ = false;
};

/// That the caller is in an operation, which has begun: a shared operation without memory of its own, and without a lock,
/// as the shortest operations take no longer than some of those. Outlived by its OperationCount, whose waiter looks every
/// millisecond.
class ScopedOperation {
 public:
  explicit ScopedOperation(const OperationCount& operations_under_way) : visits_(operations_under_way.count_->visits) {
    // Acquire: who is refused sees why, as that was written before the word was shut.
    admitted_ = (visits_.fetch_add(1, std::memory_order_acquire) & OperationCount::Count::shut) == 0;
  }
  /// Within a lock in which it was not closed, and which whoever closes it takes once before waiting: it is waited for.
  struct Within {};
  ScopedOperation(const OperationCount& operations_under_way, Within)
      : visits_(operations_under_way.count_->visits), admitted_(true) {
    visits_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the lock orders it
  }
  // Release: pairs with settled. The last that is touched here: whoever waits may free it at once.
  ~ScopedOperation() { visits_.fetch_sub(1, std::memory_order_release); }
  ScopedOperation(const ScopedOperation&) = delete;
  ScopedOperation& operator=(const ScopedOperation&) = delete;

  /// False: closed, so nothing may begin.
  bool admitted() const { return admitted_; }

 private:
  std::atomic<std::uint64_t>& visits_;
  bool admitted_;
};

}  // namespace tutti
