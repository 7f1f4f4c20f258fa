// How far a sending link may go: what its receiver has released, and which headers that leaves.
//
// Headers are used one after the other, in laps. A lap ends at the last header, or before, where a message says so:
//
//     header            0   1   2   3   4   5
//     last lap          7   8   9  10  11        message 7 had the first header; 11 said that the next one has it again
//     this lap         12  13                    12 was sent when 7 had been released, 13 when 8 had
//
// Until the receiver has released 11, each message that it releases gives back its own header. Then all are this lap's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "transports/shm/layout.h"

namespace tutti::shm {

/// A sending link's count of what was released, and of its laps. It owns nothing, and is its link's alone: not thread safe.
/// Messages count from 0; `next` is the one to be sent next, and `told` what the peer's own messages said of releases.
class SenderCredit {
 public:
  explicit SenderCredit(const LinkLayout& layout) : slots_(layout.slots), headers_(layout.headers) {}

  /// Messages that have been released, as known.
  std::uint64_t consumed() const { return consumed_; }
  /// The first message without a header.
  std::uint64_t inline_limit() const {
    return lap_begin_ + (consumed_ >= lap_begin_ ? headers_ : consumed_ - previous_lap_begin_);
  }
  /// The first message without a payload.
  std::uint64_t limit() const { return std::min(consumed_ + slots_, inline_limit()); }

  /// So many have been released, as was told. False where that is no news: it may be older than what was looked up since,
  /// and nonsense harms whoever tells it.
  bool learn(std::uint64_t told, std::uint64_t next) {
    if (told - consumed_ > next - consumed_) return false;
    consumed_ = told;
    return true;
  }
  /// The same, as the receiver's memory says. False: the memory is damaged.
  bool look_up(std::uint64_t consumed, std::uint64_t next) {
    if (consumed > next || consumed < consumed_) return false;
    consumed_ = consumed;
    return true;
  }

  /// Whether, of so many messages, the peer has answered all but two.
  bool in_turn(std::uint64_t messages, std::uint64_t told) const { return messages - known_released(told) <= 2; }
  /// Whether the message after the next one, which has `bytes`, is to have the first header. Few lines are in use so where
  /// the peer answers each message (kLapLines), since two of ours are under way at most then. Those two are all that lies
  /// in the way of a lap of as many headers as slots. A sender without answers runs far ahead: a short lap would stop it.
  bool wraps_early(std::uint64_t next, std::uint64_t bytes, std::uint64_t told) const {
    const std::uint64_t messages = next + 1 - lap_begin_;
    return messages >= slots_ && messages * header_lines(bytes) >= kLapLines && in_turn(next + 1, told) &&
           known_released(told) > lap_begin_;
  }
  /// `first`, the next message, has the first header. Those before the last lap are released. A lap ends early only where
  /// its first message was, and goes on to its end only where all before it were.
  void begin_lap(std::uint64_t first) {
    previous_lap_begin_ = lap_begin_;
    lap_begin_ = first;
  }
  /// Which header a message has that is not released yet.
  std::uint64_t header_of(std::uint64_t message) const {
    return message - (message >= lap_begin_ ? lap_begin_ : previous_lap_begin_);
  }

 private:
  std::uint64_t known_released(std::uint64_t told) const { return std::min(told, consumed_); }

  std::uint64_t consumed_ = 0;
  std::uint64_t lap_begin_ = 0;           ///< the message that had the first header last
  std::uint64_t previous_lap_begin_ = 0;  ///< the one that had it before; older ones are released
  const std::uint32_t slots_;             ///< messages that may be under way in slots
  const std::uint32_t headers_;
};

}  // namespace tutti::shm
