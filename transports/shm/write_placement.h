// Where a sending link writes a message that does not lie behind its header: to a slot, or to a room of the rotation area.
// Why there are both, and what the tuners do, is said in write_policy.h.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/clock.h"
#include "transports/shm/channel_pair.h"
#include "transports/shm/layout.h"
#include "transports/shm/write_policy.h"

namespace tutti::shm {

/// Rooms one behind the other, each the one that was read longest ago. The layout outlives it. Not thread safe.
class RotationArea {
 public:
  explicit RotationArea(const LinkLayout& layout) : layout_(layout) {}

  /// Decides, once, how many bytes are gone through. Nothing fits before.
  void open(std::uint64_t span);
  std::uint64_t end() const { return end_; }
  /// Whether all messages of that size class may lie here.
  bool fits(std::uint32_t size_class) const;
  /// The next room. No room that may still be read is given out. What is under way, and this message, are at most `slots`
  /// rooms one behind the other, of at most a part in slots + 1 each. What is left over at the end is less than one room.
  Placement take(std::uint64_t bytes);
  /// For messages of that length. All is written to once before anything is timed there, and then gone through.
  RotationLap lap(std::uint64_t bytes) const;
  /// It has begun anew once: all its pages are there.
  bool is_touched() const { return touched_; }

 private:
  static std::uint64_t room(std::uint64_t bytes) { return (bytes + kPair - 1) / kPair * kPair + kPair; }

  const LinkLayout& layout_;
  std::uint64_t at_ = 0;   ///< where the next room begins
  std::uint64_t end_ = 0;  ///< where they begin anew; 0: not decided yet
  bool touched_ = false;
};

/// A message that was written.
struct WrittenMessage {
  Placement place;        ///< with its policy where it is timed
  bool timed = false;     ///< the receiver shall time its reading
  bool compares = false;  ///< WritePlacement::compare is due
};

/// Decides where each message of a sending link is written, and by which stores, and learns from what that takes. Belongs
/// to its link; the slots, and the layout, outlive it. Not thread safe.
class WritePlacement {
 public:
  WritePlacement(const LinkLayout& layout, SenderSlots& slots)
      : slots_(slots), tuners_(kChoices, WritePolicyTuner(layout.slots)), area_(layout) {}

  /// Where that message, the next one, is written. The same place however often its room is asked for, but for one that is
  /// longer than was said. Nowhere: as SenderSlots::next.
  Placement choose(std::uint64_t message, std::uint64_t bytes);
  /// Whether it is to be written by stores past the caches.
  bool streams(std::uint64_t bytes) const {
    return bytes >= kLeastTuned && tuner(bytes).next() == WritePolicy::non_temporal;
  }
  /// The message was written there, and is sent. Place: nowhere as SenderSlots::send.
  WrittenMessage observe(std::uint64_t bytes);
  /// Decides how to go on after a message of that length. span: what the rotation area may have of the caches.
  void compare(std::uint64_t bytes, LinkControl& control, std::uint64_t span);

 private:
  std::uint32_t choice(std::uint64_t bytes) const { return choice_of(bytes, passed_); }
  const WritePolicyTuner& tuner(std::uint64_t bytes) const { return tuners_[choice(bytes)]; }
  bool rotates(std::uint64_t bytes) const;

  SenderSlots& slots_;
  std::vector<WritePolicyTuner> tuners_;  ///< see choice_of
  RotationArea area_;
  std::uint64_t message_ = UINT64_MAX;  ///< the one that `place_` is for
  std::uint64_t longest_ = 0;           ///< its length when that was chosen
  Placement place_ = Placement::nowhere();
  bool passed_ = false;              ///< it is a slot that this end has read last
  std::uint64_t reserved_ns_ = 0;    ///< when the room of a message whose writing is timed was given
  std::uint64_t written_bytes_ = 0;  ///< of all messages of kLeastTuned or more
};

/// Times how long a receiver reads a message. Not thread safe.
class ReadTimer {
 public:
  bool is_running() const { return since_ns_ != 0; }
  /// least: of LinkControl::read_ns, which outlives the timing.
  void start(std::uint32_t& least, std::uint64_t bytes) {
    least_ = &least;
    bytes_ = bytes;
    since_ns_ = now_ns();
  }
  void stop();

 private:
  std::uint64_t since_ns_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t* least_ = nullptr;
};

}  // namespace tutti::shm
