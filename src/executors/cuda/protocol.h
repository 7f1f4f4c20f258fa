// How blocks of different ranks hand each other messages, tasks and turns: by a few shared words, written and read in a
// certain order. Templates over Words, so that the same lines run in a kernel, in host threads and in a model checker
// (tests/model).
//
// Words has Number, a shared word of 64 bits, and static functions on it. load_acquire, load_relaxed, store_release and
// store_relaxed are what they say. add_relaxed and add_acq_rel return what was there. exchange_acquire(number, expected,
// desired) returns whether it was as expected. load_pair and store_pair are of two words side by side, relaxed, each by
// itself. What is polled is looked at relaxed first: on a device each acquire empties the nearest cache.
//
// A block of many threads calls these from one thread. Its barrier comes between that call and the others' weak loads and
// stores. It comes after has_room, has_come and take, and before publish, release, put_back and pass. Lines need none.
#pragma once

#include <cstdint>

#include "src/cuda/device/group.h"

namespace tutti {

/// The sender's end of a link. Message n lies in slot n mod slots of the receiver, until n is released. A ring of orders to
/// a host thread is one too: its slots hold orders in pinned memory, and the thread has the receiving end.
template <class Words>
struct SendingEnd {
  using Number = typename Words::Number;
  Number* credit = nullptr;        ///< in the sender's memory: messages that the receiver has released
  Number* peer_arrived = nullptr;  ///< in the receiver's memory: messages that have come
  std::uint64_t slots = 0;

  /// Whether message n may be written, once those before it have been published.
  TUTTI_DEVICE bool has_room(std::uint64_t n) const {
    // Acquire: the receiver's loads of what lay in the slot came before its release.
    return n - Words::load_relaxed(*credit) < slots && n - Words::load_acquire(*credit) < slots;
  }
  /// Message n is written.
  TUTTI_DEVICE void publish(std::uint64_t n) const {
    // Release: the message is visible to whoever acquires the count.
    Words::store_release(*peer_arrived, n + 1);
  }
};

/// The receiver's end.
template <class Words>
struct ReceivingEnd {
  using Number = typename Words::Number;
  Number* arrived = nullptr;      ///< in the receiver's memory
  Number* peer_credit = nullptr;  ///< in the sender's

  /// Whether message n has come.
  TUTTI_DEVICE bool has_come(std::uint64_t n) const {
    // Acquire: pairs with publish. Counts only grow.
    return Words::load_relaxed(*arrived) > n && Words::load_acquire(*arrived) > n;
  }
  /// Message n has been read, and those before it.
  TUTTI_DEVICE void release(std::uint64_t n) const {
    // Release: whoever acquires the count may overwrite what was read.
    Words::store_release(*peer_credit, n + 1);
  }
};

/// A line: 8 bytes of data in two words, each of which holds 4 of them and a tag of 4. A word's data and tag are written
/// and read at once, so neither needs an order. The two words may come in any, so both have it. (NCCL's LL takes the four
/// as one access, which PTX does not promise to be one.) Credit is the link's.
template <class Words>
struct Line {
  using Number = typename Words::Number;

  /// Messages after which tags come again. Lines of a slot are cleaned more often: see is_cleaned_behind.
  static constexpr std::uint64_t tags = std::uint64_t{1} << 31;

  /// Never 0, as lines are that no message has used.
  TUTTI_DEVICE static std::uint64_t tag_of(std::uint64_t n) { return (tags | n % tags) << 32; }
  /// line: two words, aligned to 16 bytes.
  TUTTI_DEVICE static void put(Number* line, std::uint64_t n, std::uint64_t data) {
    const std::uint64_t tag = tag_of(n);
    Words::store_pair(line, tag | (data & 0xffffffffu), tag | data >> 32);
  }
  /// Whether message n's data is there. data: only written then.
  TUTTI_DEVICE static bool get(const Number* line, std::uint64_t n, std::uint64_t& data) {
    std::uint64_t low = 0, high = 0;
    Words::load_pair(line, low, high);
    const std::uint64_t tag = tag_of(n);
    if (low >> 32 << 32 != tag || high >> 32 << 32 != tag) return false;
    data = high << 32 | (low & 0xffffffffu);
    return true;
  }
  /// Whether the receiver cleans a slot once it has read message n there, before it releases it. A line that only long
  /// messages use keeps an old one's tag for as long as short ones come. So each slot is cleaned twice before that tag
  /// comes again.
  TUTTI_DEVICE static bool is_cleaned_behind(std::uint64_t n, std::uint64_t slots) {
    return n >= slots && n % (tags / 2) < slots;
  }
  TUTTI_DEVICE static void clean(Number* line) { Words::store_pair(line, 0, 0); }
};

/// A task's claim: whoever has it may read and change the task, no other block.
template <class Words>
struct Claim {
  using Number = typename Words::Number;

  TUTTI_DEVICE static bool take(Number& claim) {
    // Acquire: pairs with put_back, so what the last holder did to the task is seen.
    return Words::exchange_acquire(claim, 0, 1);
  }
  TUTTI_DEVICE static void put_back(Number& claim) {
    // Release: see take.
    Words::store_release(claim, 0);
  }
};

/// How much of a job is finished. Its rank's next job begins once all of it is.
template <class Words>
struct Progress {
  using Number = typename Words::Number;

  /// By whoever retired the last step of one of its tasks. Whether it was the last one's.
  TUTTI_DEVICE static bool finish(Number& finished, std::uint64_t tasks) {
    // Acquire and release: what all tasks did is behind the last one's count, and so behind what it goes on to count.
    return Words::add_acq_rel(finished, 1) + 1 == tasks;
  }
  TUTTI_DEVICE static bool is_finished(const Number& finished, std::uint64_t tasks) {
    // Acquire: pairs with finish. What the job wrote may be read, and what it read may be written. Counts only grow.
    return Words::load_relaxed(finished) == tasks && Words::load_acquire(finished) == tasks;
  }
};

/// Launches of a communicator, one after the other in the order in which they come. Its links' state is one launch's at a
/// time, in replays of graphs too.
template <class Words>
struct Turns {
  using Number = typename Words::Number;
  Number* next = nullptr;     ///< the number of the launch that comes next
  Number* serving = nullptr;  ///< of the one whose turn it is

  /// The number of a launch that has come.
  TUTTI_DEVICE std::uint64_t take() const {
    // Relaxed: numbers only have to differ; has_come orders the rest.
    return Words::add_relaxed(*next, 1);
  }
  TUTTI_DEVICE bool has_come(std::uint64_t number) const {
    // Acquire: pairs with pass, so all that the launch before did is seen.
    return Words::load_relaxed(*serving) == number && Words::load_acquire(*serving) == number;
  }
  /// By the last block to leave.
  TUTTI_DEVICE void pass(std::uint64_t number) const {
    // Release: see has_come.
    Words::store_release(*serving, number + 1);
  }
};

/// Blocks that leave: the last one knows that it is, and sees what all others did.
template <class Words>
struct Departures {
  using Number = typename Words::Number;

  /// Whether all `blocks` have left with this one.
  TUTTI_DEVICE static bool is_last(Number& left, std::uint64_t blocks) {
    // Acquire and release: each block's stores are visible to the last one, which tells the host of all of them.
    return Words::add_acq_rel(left, 1) + 1 == blocks;
  }
};

}  // namespace tutti
