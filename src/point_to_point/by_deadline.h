// Items ordered by deadline as far as needed to find those that have passed: a radix heap.
//
// Time is counted in ticks. A bucket holds the items whose deadline's tick first differs from the current tick in one bit.
// When that bit is set in the current tick, the bucket's items move to buckets of lower bits.
//
// So an item moves at most once per bit, and an item that ends soon never moves. Adding and removing are O(1) for any mix
// of limits. A binary heap would move log n items per removal; a list per limit degenerates where every call has its own
// limit.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>

#include "src/base/clock.h"

namespace tutti {

/// Owns the items. T has `deadline`, a Deadline, and for this class alone `bucket`, a std::uint8_t, and `listed`, a
/// std::list<T>::iterator. Needs no memory: items come and go as nodes of lists.
template <typename T>
class ByDeadline {
 public:
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }

  /// Takes over the first of `from`. Where its deadline's point in time is 0, that is counted from the next look.
  T& add(std::list<T>& from) {
    std::list<T>& fresh = buckets_[uncounted];
    fresh.splice(fresh.end(), from, from.begin());
    T& item = fresh.back();
    item.bucket = uncounted;
    item.listed = std::prev(fresh.end());
    ++count_;
    return item;
  }

  /// Gives an item up, to the end of `to`.
  void remove(T& item, std::list<T>& to) {
    to.splice(to.end(), buckets_[item.bucket], item.listed);
    --count_;
  }

  /// Gives an item another deadline.
  void postpone(T& item, const Deadline& deadline) {
    std::list<T>& fresh = buckets_[uncounted];
    fresh.splice(fresh.end(), buckets_[item.bucket], item.listed);
    item.bucket = uncounted;
    item.deadline = deadline;
  }

  /// Some item that `is_it` is true of, or nullptr. Looks at all.
  template <typename Predicate>
  T* find(const Predicate& is_it) {
    for (std::list<T>& bucket : buckets_) {
      for (T& item : bucket) {
        if (is_it(item)) return &item;
      }
    }
    return nullptr;
  }

  /// Some item. There is one.
  T& any() {
    auto bucket = buckets_.begin();
    while (bucket->empty()) ++bucket;
    return bucket->front();
  }

  /// Calls `each` with every item whose deadline has passed. It may remove that item or postpone it, and no other. now_ns
  /// does not go back, nor in `look`.
  template <typename Each>
  void each_passed(std::uint64_t now_ns, const Each& each) {
    move_on(now_ns);
    for (auto next = buckets_[due].begin(); next != buckets_[due].end();) {
      T& item = *next++;
      ++steps_;
      if (item.deadline.at_ns <= now_ns) each(item);
    }
  }

  /// The item whose deadline has passed first, or nullptr.
  T* look(std::uint64_t now_ns) {
    move_on(now_ns);
    T* passed = nullptr;
    for (T& item : buckets_[due]) {
      ++steps_;
      if (item.deadline.at_ns <= now_ns && (passed == nullptr || item.deadline.at_ns < passed->deadline.at_ns))
        passed = &item;
    }
    return passed;
  }

  /// Items that all looks together have touched.
  std::uint64_t steps() const { return steps_; }

 private:
  static constexpr int tick_bits = 20;  ///< a tick is about a millisecond
  static constexpr std::uint8_t uncounted = 0;
  static constexpr std::uint8_t due = 1;  ///< of the current tick, or before
  static constexpr std::uint8_t later = 2;

  std::uint8_t bucket_of(const T& item) const {
    const std::uint64_t at = item.deadline.at_ns >> tick_bits;
    return at <= tick_ ? due : static_cast<std::uint8_t>(due + std::bit_width(at ^ tick_));
  }

  void move_on(std::uint64_t now_ns) {
    for (T& item : buckets_[uncounted]) {
      if (item.deadline.at_ns == 0) item.deadline = Deadline::in(item.deadline.limit_ns);
    }
    advance(now_ns >> tick_bits);
    distribute(uncounted);
  }

  /// Moves a bucket's items to where they belong.
  void distribute(std::uint8_t bucket) {
    std::list<T>& from = buckets_[bucket];
    while (!from.empty()) {
      T& item = from.front();
      item.bucket = bucket_of(item);
      buckets_[item.bucket].splice(buckets_[item.bucket].end(), from, from.begin());
      ++steps_;
    }
  }

  void advance(std::uint64_t tick) {
    for (std::uint8_t bucket = later; bucket < buckets_.size() && tick_ < tick; ++bucket) {
      if (buckets_[bucket].empty()) continue;
      // Its first tick: the bit set, which it was not, and those below it 0.
      const int bit = bucket - later;
      const std::uint64_t begins = (tick_ >> bit | 1) << bit;
      if (begins > tick) break;  // and all of its bits from there on stay as they are, as those of later buckets' ticks
      tick_ = begins;
      distribute(bucket);
      bucket = due;  // its items are in buckets below, whose time may have come, too
    }
    if (tick_ < tick) tick_ = tick;
  }

  std::array<std::list<T>, later + 64 - tick_bits> buckets_;
  std::size_t count_ = 0;
  std::uint64_t tick_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace tutti
