// Where a sender puts its messages, and with which stores. What it costs to write lines that the peer has read depends on
// where they are now, and that on the processor and on which of its cores the two ranks run on; the system of a virtual
// machine moves them from second to second. There are three ways, and none is the quickest one everywhere (Zen 4,
// 2026-11-23, 32 KiB both ways at once, written and read, in us):
//
//     cores                            warm   cold   streaming
//     share their first caches          2.6    2.8
//     share the last cache              6.0    2.0     4.5
//     share none                         21     11     4.6
//
// So all are tried now and then, and what takes both ends together least time is done until the next trial. That comes
// sooner where what is done takes half as long again as it did, two times running: one message of a cycle of 32 is timed.
// Trials rest so long that they cost a fiftieth.
//
//     messages of about one size:   a trial │ 8 │ compare │ 23, one timed, 8 │ watch │ 23, one timed, 8 │ watch …
//     a trial:                      4 and 4 timed warm │ a round of the cold room and 4 timed cold │ 4 timed streaming
//
// Of a room that has not been gone through lately nothing is left in the last cache, which on a host with neighbours may
// cost twice what it does later on.
//
// A link begins with warm messages. The first trial comes once so much has been sent that the pages of the cold room, which
// are touched for the first time then and before anything is timed, do not count.
//
// The receiver learns from a message's kind that it is timed, and leaves the time of its reading in the link's memory,
// where the sender takes it away. Of a trial's messages the quickest counts, at either end: waits that have nothing to do
// with the way of writing do not. Nothing is carried over from one trial to the next, as cores move apart within a second.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace tutti::shm {

/// The ways; they are indices.
enum class Filling : std::uint8_t {
  warm,       ///< plain stores, into a slot that was read a few messages ago: its lines are the peer's
  cold,       ///< plain stores, into the room that was read longest ago: its lines have left both cores' own caches
  streaming,  ///< as warm, by stores past the caches
};
inline constexpr std::size_t kFillings = 3;

/// Shorter messages are always warm: their stores wait in the core's own buffers for the most part.
inline constexpr std::uint64_t kLeastFilled = 4096;
/// Of messages of at least kLeastFilled: powers of two; the last class has all that are longer.
inline constexpr std::uint32_t kSizeClasses = 8;
constexpr std::uint32_t size_class(std::uint64_t bytes) {
  return std::min<std::uint32_t>(kSizeClasses, static_cast<std::uint32_t>(std::bit_width(bytes / kLeastFilled))) - 1;
}

/// Nanoseconds of one end's part in a message, for each kLeastFilled bytes of it, by the way in which it was filled; 0: not
/// known.
using FillingTimes = std::array<std::uint32_t, kFillings>;

/// The least time known, 0 where there is none, after one more. Never 0.
constexpr std::uint32_t least_time(std::uint32_t known, std::uint64_t ns) {
  constexpr std::uint64_t longest = 1'000'000'000;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(ns, 1, known == 0 ? longest : known));
}

/// What a message of that length took, as FillingTimes count it: lengths of a class differ by a factor of two.
constexpr std::uint64_t per_least(std::uint64_t ns, std::uint64_t bytes) { return ns * kLeastFilled / bytes; }

/// A sender's choice for one link and one size class. Not thread safe.
class FillingChoice {
 public:
  static constexpr std::uint32_t kTimed = 4;        ///< messages of a trial that are timed, for each way
  static constexpr std::uint32_t kWarming = 4;      ///< before them, so that warm slots are
  static constexpr std::uint32_t kCycle = 32;       ///< messages of which one is timed, between trials
  static constexpr std::uint32_t kTrialsRest = 16;  ///< messages between trials, for each message of a trial
  static constexpr std::uint32_t kPart = 50;        ///< what trials may cost, a part of all
  static constexpr std::uint32_t kMostFactor =
      64;                                       ///< no way counts for more, or one that was disturbed would not come again
  static constexpr std::uint32_t kSoonest = 8;  ///< a trial may be called for after such a part of the rest

  /// slots: messages that may be under way.
  explicit FillingChoice(std::uint32_t slots) : until_read_(std::max(slots, 8u)) {}

  /// How to fill the next message.
  Filling next() const {
    if (stage_ != Stage::trial) return chosen_;
    return left_ > until_cold() ? Filling::warm : left_ > kTimed ? Filling::cold : Filling::streaming;
  }
  /// Whether both ends are to time that.
  bool timed() const {
    if (stage_ == Stage::rest) return left_ == 1;
    return stage_ == Stage::trial && (left_ <= 2 * kTimed || (left_ > until_cold() && left_ <= until_cold() + kTimed));
  }

  /// It was filled, in `ns` (per_least) where it was timed, and is on its way. True: `compare` is due.
  bool filled(std::uint64_t ns) {
    if (timed()) {
      std::uint32_t& known = own_[static_cast<std::size_t>(next())];
      known = least_time(known, ns);
    }
    if (--left_ != 0) return false;
    if (stage_ == Stage::watching || stage_ == Stage::reading) return true;
    enter(stage_ == Stage::trial ? Stage::reading : Stage::watching, until_read_);
    return false;
  }

  /// Decides what to do next by what it took the receiver since it was last asked. settled: a trial may begin. round: cold
  /// messages until the room of the first is given to another one.
  void compare(const FillingTimes& receiver, bool settled, std::uint32_t round) {
    const FillingTimes both = together(receiver);
    own_ = {};
    if (stage_ == Stage::reading) {
      choose(both);
    } else if (trial_is_due(both[static_cast<std::size_t>(chosen_)]) && settled) {
      round_ = round;
      return enter(Stage::trial, trial_messages());
    }
    enter(Stage::rest, kRest);
  }

 private:
  static constexpr std::uint32_t kRest = kCycle - 8;
  enum class Stage : std::uint8_t {
    rest,      ///< what is chosen is done; the last message is timed
    watching,  ///< likewise, until that is read
    trial,
    reading,  ///< what was chosen is done, until the last of the trial is read
  };

  /// What messages took both ends; 0: not known.
  FillingTimes together(const FillingTimes& receiver) const {
    FillingTimes both{};
    for (std::size_t f = 0; f < kFillings; ++f) {
      // Nothing that it has read yet, or nothing that it measured. What we measured is far below that.
      if (receiver[f] != 0 && receiver[f] <= UINT32_MAX / 2 && own_[f] != 0) both[f] = own_[f] + receiver[f];
    }
    return both;
  }

  /// Another way than the first where it takes a quarter less, and past the caches where that takes half. Where many ranks
  /// share few cores, ways that seem the same in a trial are not, as memory has to carry for all of them at once what is in
  /// no cache.
  void choose(FillingTimes both) {
    auto& [warm, cold, streaming] = both;
    if (round_ == 0) cold = warm;  // there is no such room
    const Filling before = chosen_;
    chosen_ = Filling::warm;
    if (*std::min_element(both.begin(), both.end()) == 0) {
      expected_ = 0;
      return rest_for(0);
    }
    if (cold < warm / 4 * 3) chosen_ = Filling::cold;
    if (streaming < warm / 2 && streaming < cold / 4 * 3) chosen_ = Filling::streaming;
    expected_ = both[static_cast<std::size_t>(chosen_)];
    if (chosen_ != before) {
      sooner_ = kSoonest;
    } else if (was_called_) {
      sooner_ = std::max(1u, sooner_ / 2);
    }
    rest_for(cost_of(both));
  }

  /// Messages that could have been sent for what a trial took beyond them.
  std::uint64_t cost_of(const FillingTimes& both) const {
    const std::array<std::uint64_t, kFillings> messages{kWarming + kTimed, round_ + kTimed, kTimed};
    const std::uint64_t best = expected_;
    std::uint64_t lost = 0;
    for (std::size_t f = 0; f < kFillings; ++f) {
      lost += messages[f] * (std::clamp<std::uint64_t>(both[f], best, kMostFactor * best) - best);
    }
    return lost / best + 1;
  }

  /// So long that trials cost a fiftieth, and are one message in so many.
  void rest_for(std::uint64_t cost) {
    const std::uint64_t messages = std::max<std::uint64_t>(kTrialsRest * trial_messages(), kPart * cost);
    cycles_ = rest_ = static_cast<std::uint32_t>(messages / kCycle);
    was_dear_ = was_called_ = false;
  }

  /// After one more cycle, whose timed message took both ends that long, or 0. Twice running, as one may have waited for
  /// something else; and not at once after a trial, the later the more often one that was called for so found what it was.
  bool trial_is_due(std::uint32_t taken) {
    const bool dear = taken / 3 > expected_ / 2 && expected_ != 0;
    if (cycles_ != 0) --cycles_;
    was_called_ = cycles_ != 0 && dear && was_dear_ && rest_ - cycles_ >= rest_ / sooner_;
    if (was_called_) cycles_ = 0;
    was_dear_ = dear;
    return cycles_ == 0;
  }

  /// Messages of a trial that are left when the cold ones begin.
  std::uint32_t until_cold() const { return round_ + 2 * kTimed; }
  std::uint32_t trial_messages() const { return kWarming + kTimed + until_cold(); }
  void enter(Stage stage, std::uint32_t messages) {
    stage_ = stage;
    left_ = messages;
  }

  FillingTimes own_{};
  std::uint32_t expected_ = 0;  ///< what a message took in the last trial as it is done since; 0: not known
  std::uint32_t until_read_;    ///< messages after which the receiver has read those that are timed
  std::uint32_t left_ = kRest;  ///< messages until the next stage
  std::uint32_t cycles_ = 1;    ///< until the next trial
  std::uint32_t rest_ = 1;      ///< cycles from the last trial until then
  std::uint32_t sooner_ = kSoonest;
  std::uint32_t round_ = 0;  ///< of the trial
  Stage stage_ = Stage::rest;
  Filling chosen_ = Filling::warm;
  bool was_dear_ = false;
  bool was_called_ = false;  ///< the trial came before its time
};

}  // namespace tutti::shm
