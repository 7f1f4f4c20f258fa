// Where a sender puts its messages, and with which stores. What it costs to write lines that the peer has read depends on
// where they are now, and that on the processor and on which of its cores the two ranks run on; the system of a virtual
// machine moves them from second to second. There are three ways, and none is the quickest one everywhere (Zen 4,
// 2026-11-23, 32 KiB both ways at once, written and read, in us):
//
//     cores                            reuse slot   rotate   non-temporal
//     share their first caches              2.6        2.8
//     share the last cache                  6.0        2.0        4.5
//     share none                             21         11        4.6
//
// Where both ends send, slots pass to and fro, and a message may lie in one that the sender itself has read last: that is
// better than the rotation area, and such messages choose apart, between plain and non-temporal stores. Where several are
// under way each way, only some find such a slot.
//
// So all are tried now and then, and what takes both ends together least time is done until the next trial. That comes
// sooner where what is done takes half as long again as it did, two times running: one message of a cycle of 32 is timed.
// Otherwise trials rest so long that they cost a fiftieth of the time that passes, with whatever else the ranks do in it,
// and an eighth of that of the messages at most, and for four times a trial's messages. That is long only where messages
// are few and short: one of 4 KiB every 100 ms may live for three minutes with what a bad moment chose.
//
//     messages of about one size:   a trial │ 8 │ compare │ 23, one timed, 8 │ watch │ 23, one timed, 8 │ watch …
//     a trial:                      4 and 4 timed in reused slots │ a lap of the rotation area and 4 timed there │
//                                   4 timed with non-temporal stores
//
// A way whose first messages take the sender alone twice as long as both ends take now is given up at once: most of what
// trials cost is the way that is worst.
//
// Of an area that has not been gone through lately nothing is left in the last cache, which on a host with neighbours may
// cost twice what it does later on.
//
// A link begins with reused slots. The rotation area is tried once so much has been sent that its pages, which are touched
// for the first time then and before anything is timed, do not count; what needs none is tried before.
//
// The receiver learns from a message's kind that it is timed, and leaves the time of its reading in the link's memory,
// where the sender takes it away. Of a trial's messages the quickest counts there, and the second quickest here: waits that
// have nothing to do with the way of writing do not. Nothing is carried over from one trial to the next, as cores move
// apart within a second.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace tutti::shm {

/// The ways; they are indices.
enum class WritePolicy : std::uint8_t {
  reuse_slot,    ///< plain stores, into a slot that was read a few messages ago: its lines are the peer's
  rotate,        ///< plain stores, into the place that was read longest ago: its lines have left both cores' own caches
  non_temporal,  ///< as reuse_slot, by stores past the caches
};
inline constexpr std::size_t kWritePolicies = 3;

/// Shorter messages always reuse a slot: their stores wait in the core's own buffers for the most part.
inline constexpr std::uint64_t kLeastTuned = 4096;
/// Of messages of at least kLeastTuned: powers of two; the last class has all that are longer.
inline constexpr std::uint32_t kSizeClasses = 8;
constexpr std::uint32_t size_class(std::uint64_t bytes) {
  return std::min<std::uint32_t>(kSizeClasses, static_cast<std::uint32_t>(std::bit_width(bytes / kLeastTuned))) - 1;
}

/// Choices of a link: for each size class, and apart for messages in slots that the sender has read last.
inline constexpr std::uint32_t kChoices = 2 * kSizeClasses;
constexpr std::uint32_t choice_of(std::uint64_t bytes, bool passed) {
  return size_class(bytes) + (passed ? kSizeClasses : 0);
}

/// Nanoseconds of one end's part in a message, for each kLeastTuned bytes of it, by its write policy; 0: not
/// known.
using WriteTimes = std::array<std::uint32_t, kWritePolicies>;

/// The least time known, 0 where there is none, after one more. Never 0.
constexpr std::uint32_t least_time(std::uint32_t known, std::uint64_t ns) {
  constexpr std::uint64_t longest = 1'000'000'000;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(ns, 1, known == 0 ? longest : known));
}

/// What a message of that length took, as WriteTimes count it: lengths of a class differ by a factor of two.
constexpr std::uint64_t per_least(std::uint64_t ns, std::uint64_t bytes) { return ns * kLeastTuned / bytes; }

/// Of messages in the rotation area.
struct RotationLap {
  std::uint32_t messages;  ///< until the place of the first is given to another one; 0: there is none yet
  bool touched;            ///< no message meets a page for the first time
};

/// One of a link's kChoices. Not thread safe.
class WritePolicyTuner {
 public:
  static constexpr std::uint32_t kTimed = 4;           ///< messages of a trial that are timed, for each way
  static constexpr std::uint32_t kSettling = 4;        ///< before them, until the slots are reused
  static constexpr std::uint32_t kCycle = 32;          ///< messages of which one is timed, between trials
  static constexpr std::uint32_t kTrialsRest = 4;      ///< messages between trials at least, for each message of a trial
  static constexpr std::uint32_t kPart = 50;           ///< what trials may cost, a part of all time
  static constexpr std::uint32_t kPartOfMessages = 8;  ///< and of that of the messages
  static constexpr std::uint64_t kLeastRest = 100'000'000;  ///< ns: cores do not move more often
  static constexpr std::uint32_t kSoonest = 8;              ///< a trial may be called for after such a part of the rest
  /// No way counts for more, or one that was disturbed would not come again.
  static constexpr std::uint32_t kMostFactor = 64;

  /// slots: messages that may be under way.
  explicit WritePolicyTuner(std::uint32_t slots) : until_read_(std::max(slots, 8u)) {}

  /// How to write the next message.
  WritePolicy next() const { return stage_ == Stage::trial ? tried_ : chosen_; }
  /// Whether both ends are to time that.
  bool timed() const { return (stage_ == Stage::rest && left_ == 1) || (stage_ == Stage::trial && left_ <= kTimed); }
  /// Whether the sender is.
  bool timed_here() const { return timed() || stage_ == Stage::trial; }

  /// It was written, in `ns` (per_least) where it was timed here, and is on its way. True: `compare` is due.
  bool written(std::uint64_t ns) {
    if (timed()) note(ns);
    if (stage_ == Stage::trial && is_too_dear(ns)) {
      given_up_[index(tried_)] = least_time(0, ns);
      left_ = 1;
    }
    if (--left_ != 0) return false;
    if (stage_ == Stage::watching || stage_ == Stage::reading) return true;
    if (stage_ == Stage::rest) {
      enter(Stage::watching, until_read_);
    } else if (tried_ == WritePolicy::non_temporal) {
      enter(Stage::reading, until_read_);
    } else {
      // Without a rotation area there is nothing to try.
      try_way(tried_ == WritePolicy::reuse_slot && lap_ != 0 ? WritePolicy::rotate : WritePolicy::non_temporal);
    }
    return false;
  }

  /// Decides what to do next by what it took the receiver since it was last asked. bytes: of the last message; settled: a
  /// trial may begin; area: as it is now.
  void compare(const WriteTimes& receiver, std::uint64_t bytes, bool settled, const RotationLap& area,
               std::uint64_t now_ns) {
    const WriteTimes both = together(receiver);
    own_ = {};
    if (stage_ == Stage::reading) {
      choose(both, bytes, now_ns);
    } else if ((trial_is_due(both[index(chosen_)], now_ns) || (lap_ == 0 && area.messages != 0)) && settled) {
      lap_ = area.messages;
      touched_ = area.touched;
      sent_ = {};
      given_up_ = {};
      return try_way(WritePolicy::reuse_slot);
    }
    enter(Stage::rest, kRest);
  }

 private:
  static constexpr std::uint32_t kRest = kCycle - 8;
  static constexpr std::uint32_t kGlimpse = 6;  ///< messages within which a way is given up
  static constexpr std::uint32_t kDearRun = 3;  ///< of them, one after the other, that take too long
  enum class Stage : std::uint8_t {
    rest,      ///< what is chosen is done; the last message is timed
    watching,  ///< likewise, until that is read
    trial,
    reading,  ///< what was chosen is done, until the last of the trial is read
  };
  static constexpr std::size_t index(WritePolicy way) { return static_cast<std::size_t>(way); }

  void try_way(WritePolicy way) {
    constexpr std::uint32_t none = 0;
    tried_ = way;
    dear_run_ = 0;
    const std::uint32_t before = way == WritePolicy::reuse_slot ? kSettling : way == WritePolicy::rotate ? lap_ : none;
    enter(Stage::trial, before + kTimed);
  }

  /// A time of ours. Of a trial's the second least counts: one message may have found a slot that was not as the others.
  void note(std::uint64_t ns) {
    const std::uint32_t taken = least_time(0, ns);
    std::uint32_t& known = own_[index(next())];
    if (stage_ != Stage::trial || left_ == kTimed) {
      known = least_ = taken;
    } else {
      known = left_ == kTimed - 1 ? std::max(least_, taken) : std::clamp(taken, least_, known);
      least_ = std::min(least_, taken);
    }
  }

  /// Whether the way that is tried is given up after its last message. What is done now never is, since all may have become
  /// dearer.
  bool is_too_dear(std::uint64_t ns) {
    dear_run_ = ns > 2 * std::uint64_t{taken_} ? dear_run_ + 1 : 0;
    return ++sent_[index(tried_)] <= kGlimpse && dear_run_ == kDearRun && taken_ != 0 && tried_ != chosen_ &&
           (touched_ || tried_ != WritePolicy::rotate);
  }

  /// What messages took both ends; 0: not known.
  WriteTimes together(const WriteTimes& receiver) const {
    WriteTimes both{};
    for (std::size_t f = 0; f < kWritePolicies; ++f) {
      // Nothing that it has read yet, or nothing that it measured. What we measured is far below that.
      if (receiver[f] != 0 && receiver[f] <= UINT32_MAX / 2 && own_[f] != 0) both[f] = own_[f] + receiver[f];
    }
    return both;
  }

  /// Another way than the first where it takes an eighth less, and past the caches where that takes half. Where many ranks
  /// share few cores, ways that seem the same in a trial are not, as memory has to carry for all of them at once what is in
  /// no cache.
  void choose(WriteTimes both, std::uint64_t bytes, std::uint64_t now_ns) {
    for (std::size_t f = 0; f < kWritePolicies; ++f) {
      if (given_up_[f] != 0 || sent_[f] == 0) both[f] = UINT32_MAX;
    }
    const auto& [reuse_slot, rotate, non_temporal] = both;
    const WritePolicy before = chosen_;
    chosen_ = WritePolicy::reuse_slot;
    taken_ = expected_ = 0;
    if (*std::min_element(both.begin(), both.end()) == 0) return rest_for(0, bytes, now_ns);
    if (rotate < reuse_slot / 8 * 7) chosen_ = WritePolicy::rotate;
    if (non_temporal < reuse_slot / 2 && non_temporal < rotate / 4 * 3) chosen_ = WritePolicy::non_temporal;
    taken_ = expected_ = both[index(chosen_)];
    if (chosen_ != before) {
      sooner_ = kSoonest;
    } else if (was_called_) {
      sooner_ = std::max(1u, sooner_ / 2);
    }
    rest_for(cost_of(both, both[index(before)]), bytes, now_ns);
  }

  /// What a trial took beyond what its messages would have taken without it. usual: each of them.
  std::uint64_t cost_of(const WriteTimes& both, std::uint64_t usual) const {
    std::uint64_t lost = 0;
    for (std::size_t f = 0; f < kWritePolicies; ++f) {
      const std::uint64_t taken = given_up_[f] != 0 ? given_up_[f] : both[f];
      lost += sent_[f] * (std::clamp(taken, usual, kMostFactor * usual) - usual);
    }
    return lost;
  }

  /// After a trial that cost so much, for kLeastTuned bytes of each message.
  void rest_for(std::uint64_t lost, std::uint64_t bytes, std::uint64_t now_ns) {
    const std::uint64_t tried = sent_[0] + sent_[1] + sent_[2];
    const std::uint64_t messages = std::max(kTrialsRest * tried, kPartOfMessages * lost / std::max(1u, expected_));
    rest_ = messages / kCycle + 1;
    rest_ns_ = std::max(kLeastRest, kPart * lost * bytes / kLeastTuned);
    since_ns_ = now_ns;
    cycles_ = 0;
    was_dear_ = was_called_ = false;
  }

  /// Whether 1 / part of the rest is over.
  bool rested(std::uint64_t part, std::uint64_t now_ns) const {
    return cycles_ * part >= rest_ && (now_ns - since_ns_) * part >= rest_ns_;
  }

  /// After one more cycle, whose timed message took both ends that long, or 0. Twice running, as one may have waited for
  /// something else; and not at once after a trial, the later the more often one that was called for so found what it was.
  bool trial_is_due(std::uint32_t taken, std::uint64_t now_ns) {
    if (taken != 0) taken_ = taken;
    const bool dear = taken / 3 > expected_ / 2 && expected_ != 0;
    ++cycles_;
    const bool over = rested(1, now_ns);
    was_called_ = !over && dear && was_dear_ && rested(sooner_, now_ns);
    was_dear_ = dear;
    return over || was_called_;
  }

  void enter(Stage stage, std::uint32_t messages) {
    stage_ = stage;
    left_ = messages;
  }

  WriteTimes own_{};
  std::uint32_t least_ = 0;                           ///< of the way that is tried, whose second least is in own_
  std::array<std::uint32_t, kWritePolicies> sent_{};  ///< messages of the trial
  WriteTimes given_up_{};                             ///< what a message took here when its way was; 0: it was not
  std::uint32_t expected_ = 0;  ///< what a message took in the last trial as it is done since; 0: not known
  std::uint32_t taken_ = 0;     ///< and the last time that one was timed
  std::uint32_t until_read_;    ///< messages after which the receiver has read those that are timed
  std::uint32_t left_ = kRest;  ///< messages until the next stage, or the next way
  std::uint32_t lap_ = 0;       ///< of the trial
  bool touched_ = false;        ///< likewise
  std::uint32_t dear_run_ = 0;
  std::uint32_t sooner_ = kSoonest;
  std::uint64_t cycles_ = 0;    ///< since the last trial
  std::uint64_t rest_ = 1;      ///< cycles, and
  std::uint64_t rest_ns_ = 0;   ///< time until the next one,
  std::uint64_t since_ns_ = 0;  ///< from here on
  Stage stage_ = Stage::rest;
  WritePolicy chosen_ = WritePolicy::reuse_slot;
  WritePolicy tried_ = WritePolicy::reuse_slot;
  bool was_dear_ = false;
  bool was_called_ = false;  ///< the trial came before its time
};

}  // namespace tutti::shm
