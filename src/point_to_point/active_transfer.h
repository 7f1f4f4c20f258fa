// A transfer under way, and whom its end is told to.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "src/base/clock.h"
#include "src/base/status.h"
#include "src/base/work.h"
#include "src/point_to_point/lines.h"
#include "src/point_to_point/transfer.h"
#include "src/point_to_point/wire.h"

namespace tutti {

/// The transfers of one blocking call, on its caller's stack.
class TransferBatch {
 public:
  /// transfers: how many.
  explicit TransferBatch(std::size_t transfers) : left_(transfers) {}
  /// One has ended. Called by one thread at a time, which holds the engine's lock. After the last one the caller may be
  /// gone.
  void end(const Status& status) {
    if (!status.ok() && first_.ok()) first_ = status;
    // Relaxed: the lock orders it with what others ended. Release: what the transfer and those before it wrote is seen by
    // whoever sees that all have ended.
    left_.store(left_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  }
  /// Whether all have ended.
  bool over() const { return left_.load(std::memory_order_acquire) == 0; }  // acquire: pairs with end
  /// The first failure, once all have ended.
  const Status& result() const { return first_; }

 private:
  std::atomic<std::size_t> left_;
  Status first_;
};

/// How far a transfer is: whether it can be taken back.
enum class Stage : std::uint8_t {
  waiting,  ///< this process alone knows of it
  asked,    ///< a send whose receiver has its request, and has not answered
  met,      ///< it has met its match, or may have
};

/// A transfer under way, which tells its work or its batch of its end. One that has told it is a *ghost*: a send that was
/// taken back, which the receiver's answer is still to come for, or one whose bytes are still to leave this process.
struct ActiveTransfer {
  Transfer transfer;
  std::shared_ptr<Work> work;
  TransferBatch* batch = nullptr;
  Deadline deadline;          ///< at 0: to be counted from the first look at it
  std::uint64_t id = 0;       ///< its number, in the order of posting
  std::uint64_t message = 0;  ///< the number of what it sends, which is its own, or receives
  std::uint64_t done = 0;     ///< bytes sent or received so far
  std::uint64_t total = 0;    ///< receiving: bytes that the sender announced
  tutti_type type = {};       ///< receiving: that the sender named
  bool streams = false;       ///< receiving a long one: it is written past the caches
  std::uint64_t last = 0;     ///< the number of the last message that it sends, once that is committed
  Stage stage = Stage::waiting;
  bool extended = false;                    ///< it goes on although its own limit has passed
  tutti_status taken_back = TUTTI_SUCCESS;  ///< asked: what it ends with, where its receiver was told to forget it
  Deadline own_deadline;                    ///< as it was when it was taken back
  std::uint8_t bucket = 0;                  ///< this and the next are for ByDeadline
  std::list<ActiveTransfer>::iterator listed = {};
  LineNode<ActiveTransfer> node;  ///< in the line that it stands in

  /// What its messages say of it.
  Trailer trailer(MessageKind kind) const { return {message, transfer.bytes, transfer.tag, kind, transfer.type}; }
  bool is_ghost() const { return work == nullptr && batch == nullptr; }
  /// Whether it alone ends, or goes on, where its deadline has passed. Ghosts have none.
  bool expires() const { return !extended && (taken_back != TUTTI_SUCCESS || transfer.soft); }
};

/// First come, first served. A transfer stands in one line at most, of this kind or among Lines.
class TransferLine {
 public:
  bool empty() const { return first_ == nullptr; }
  /// The one that came first. There is one.
  ActiveTransfer& front() const { return *first_; }
  void push(ActiveTransfer& active) {
    active.node.next = nullptr;
    (empty() ? first_ : last_->node.next) = &active;
    last_ = &active;
  }
  /// Takes out the one that came first. There is one.
  ActiveTransfer& pop() { return *std::exchange(first_, first_->node.next); }
  /// Takes out one that stands in it.
  void remove(ActiveTransfer& active) {
    for (TransferLine all = std::exchange(*this, {}); !all.empty();) {
      if (ActiveTransfer& next = all.pop(); &next != &active) push(next);
    }
  }

 private:
  ActiveTransfer* first_ = nullptr;
  ActiveTransfer* last_ = nullptr;
};

}  // namespace tutti
