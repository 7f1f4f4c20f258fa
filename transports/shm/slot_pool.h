// Which slots of a sending link are free.
//
//     free ──→ taken ──→ under way ──→ free           where the receiver released the message
//                            └───────→ away ──→ free  where it kept the slot (layout.h), and its own message there was read
//
// A sender learns of released messages from the messages that come back, and of kept slots from the control page alone. It
// looks at that page only where it has no slot otherwise, since the receiver writes there with each message.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "transports/shm/layout.h"

namespace tutti::shm {

/// The slots that a receiver has kept ever, by number, in the memory of the link: a count and a ring (LinkControl). A view
/// of memory that both ends map; the receiver alone writes.
class KeptSlots {
 public:
  KeptSlots() = default;
  KeptSlots(unsigned char* memory, const LinkLayout& layout)
      : count_(&reinterpret_cast<LinkControl*>(memory)->retained),
        ring_(reinterpret_cast<std::uint32_t*>(memory + layout.retained_offset)),
        places_(layout.places) {}

  // Acquire: pairs with the release of `add`, behind the slots' numbers.
  std::uint64_t count() const { return shared(*count_).load(std::memory_order_acquire); }
  // Relaxed: ordered by the count. The entry is not written again before that slot is back.
  std::uint32_t at(std::uint64_t n) const { return shared(ring_[n % places_]).load(std::memory_order_relaxed); }
  /// Number `n` is `slot`. Before the message in it is said to be released.
  void add(std::uint64_t n, std::uint32_t slot) const {
    // Relaxed: the next store tells of it.
    shared(ring_[n % places_]).store(slot, std::memory_order_relaxed);
    // Release: the number before the count. Only we write it.
    shared(*count_).store(n + 1, std::memory_order_release);
  }

 private:
  std::uint64_t* count_ = nullptr;
  std::uint32_t* ring_ = nullptr;
  std::uint32_t places_ = 1;
};

/// The slots of one sending link. `consumed` counts the link's messages that are known as released. The link's memory is
/// its owner's, and outlives it. Not thread safe.
class SlotPool {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;  ///< no slot

  explicit SlotPool(const LinkLayout& layout) : state_(layout.places) {}
  void open(const KeptSlots& kept) { kept_ = kept; }

  /// One to write to: the one that was returned last, else the first that is free. There are more than can be in use, so
  /// kNone is given only where the receiver's memory is damaged.
  std::uint32_t take(std::uint64_t consumed) {
    std::uint32_t slot = std::exchange(last_returned_, kNone);
    if (slot == kNone) {
      slot = 0;
      while (!is_free(slot, consumed)) {
        if (++slot == state_.size()) return kNone;
      }
    }
    state_[slot] = kTaken;
    return slot;
  }
  void send(std::uint32_t slot, std::uint64_t message) { state_[slot] = message + 1; }
  /// The receiver had kept it, and what it wrote there was read.
  void put_back(std::uint32_t slot) {
    ++returned_;
    state_[slot] = 0;
    last_returned_ = slot;
  }
  /// Whether `take` gives one that this end has read last.
  bool has_returned() const { return last_returned_ != kNone; }
  /// Whether the receiver has none of the slots, all messages being released.
  bool is_whole() const { return kept_.count() == returned_; }

  /// Looks up what the receiver has kept of the slots of released messages. It counts a slot before it says that the
  /// message is released, be it in the control page or in a message of its own.
  void find_kept(std::uint64_t consumed) {
    const std::uint64_t kept = kept_.count();
    known_ = consumed;
    seen_ = std::max(seen_, returned_);
    if (kept - seen_ > state_.size()) return;  // nonsense, which harms whoever tells it
    for (; seen_ != kept; ++seen_) {
      if (const std::uint32_t slot = kept_.at(seen_); slot < state_.size()) state_[slot] = kAway;
    }
  }

 private:
  static constexpr std::uint64_t kAway = UINT64_MAX;
  static constexpr std::uint64_t kTaken = UINT64_MAX - 1;

  bool is_free(std::uint32_t slot, std::uint64_t consumed) {
    if (state_[slot] <= known_) return true;
    if (state_[slot] > consumed) return false;
    find_kept(consumed);
    return state_[slot] != kAway;
  }

  /// Of each slot the number, and one, of the message that had it last. kTaken: that is not sent yet. kAway: the receiver
  /// keeps it.
  std::vector<std::uint64_t> state_;
  KeptSlots kept_;
  std::uint64_t known_ = 0;              ///< messages of which it is known whether their slots were kept
  std::uint64_t seen_ = 0;               ///< slots that were kept ever, as far as that was looked up
  std::uint64_t returned_ = 0;           ///< of them, those that are back; they come back in order
  std::uint32_t last_returned_ = kNone;  ///< the one that came last, while it is free
};

}  // namespace tutti::shm
