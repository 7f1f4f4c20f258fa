#include "transports/shm/write_placement.h"

#include <algorithm>

namespace tutti::shm {

namespace {

// How often a link's messages could have gone through its rotation area before that is tried.
constexpr std::uint64_t kLapsUntilTrial = 8;

}  // namespace

void RotationArea::open(std::uint64_t span) {
  if (end_ == 0) end_ = std::clamp<std::uint64_t>(span, kPage, layout_.payload_bytes - layout_.rotation_offset);
}

bool RotationArea::fits(std::uint32_t size_class) const {
  const std::uint64_t longest = size_class + 1 == kSizeClasses ? layout_.slot_bytes : (2 * kLeastTuned << size_class) - 1;
  return room(std::min(longest, layout_.slot_bytes)) <= end_ / (layout_.slots + 1);
}

Placement RotationArea::take(std::uint64_t bytes) {
  if (end_ - at_ < room(bytes)) {
    at_ = 0;
    touched_ = true;
  }
  const Placement at = Placement::rotated(layout_.rotation_offset + at_);
  at_ += room(bytes);
  return at;
}

RotationLap RotationArea::lap(std::uint64_t bytes) const {
  return {static_cast<std::uint32_t>((touched_ ? 1 : 2) * (end_ / room(bytes))), touched_};
}

bool WritePlacement::rotates(std::uint64_t bytes) const {
  return !passed_ && tuner(bytes).next() == WritePolicy::rotate && area_.fits(size_class(bytes));
}

Placement WritePlacement::choose(std::uint64_t message, std::uint64_t bytes) {
  const bool varies = bytes >= kLeastTuned;
  if (message_ != message) {
    message_ = message;
    longest_ = bytes;
    passed_ = varies && slots_.is_next_recently_read();
    place_ = varies && rotates(bytes) ? area_.take(bytes) : slots_.next();
  } else if (bytes > longest_ && !place_.is_nowhere() && place_.is_rotated()) {
    place_ = slots_.next();
  }
  if (varies && tuner(bytes).timed_here()) reserved_ns_ = now_ns();
  return place_;
}

WrittenMessage WritePlacement::observe(std::uint64_t bytes) {
  const Placement at = place_.is_rotated() ? place_ : slots_.send(message_, bytes);
  if (bytes < kLeastTuned || at.is_nowhere()) return {at};
  written_bytes_ += bytes;
  WritePolicyTuner& tuner = tuners_[choice(bytes)];
  const bool timed = tuner.timed();
  const Placement announced = timed ? at.with(tuner.next(), passed_) : at;
  std::uint64_t taken = 0;
  if (tuner.timed_here()) {
    // Stores that are not done yet are to be paid for. Sequentially consistent, though nobody learns anything by it: an
    // exchange on x86 waits for all stores before it, and on Arm for most.
    const std::uint64_t since = shared(reserved_ns_).exchange(0, std::memory_order_seq_cst);
    taken = per_least(now_ns() - since, bytes);
  }
  return {announced, timed, tuner.written(taken)};
}

void WritePlacement::compare(std::uint64_t bytes, LinkControl& control, std::uint64_t span) {
  area_.open(span);
  WriteTimes receiver{};
  for (std::size_t f = 0; f < kWritePolicies; ++f) {
    // Relaxed: a time that the receiver wrote at some time, and from which nothing else follows. Where it writes one at
    // this moment, that counts now or the next time.
    receiver[f] = shared(control.read_ns[choice(bytes)][f]).exchange(0, std::memory_order_relaxed);
  }
  const bool tries = !passed_ && area_.fits(size_class(bytes)) && written_bytes_ / kLapsUntilTrial >= area_.end();
  tuners_[choice(bytes)].compare(receiver, bytes, written_bytes_ >= area_.end(),
                                 tries ? area_.lap(bytes) : RotationLap{0, area_.is_touched()}, now_ns());
}

void ReadTimer::stop() {
  // Relaxed: a hint of its own, which the sender sets to 0 when it has taken it. A time that comes back because of that is
  // not much older than what it is held against.
  const std::uint32_t known = shared(*least_).load(std::memory_order_relaxed);
  shared(*least_).store(least_time(known, per_least(now_ns() - since_ns_, bytes_)), std::memory_order_relaxed);
  since_ns_ = 0;
}

}  // namespace tutti::shm
