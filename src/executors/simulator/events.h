// What is going to happen in a simulation, in order of virtual time; at one time, in the order of planning.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

namespace tutti::simulator {

/// Something that will happen to a lane or a wire.
struct Event {
  enum class Kind : std::uint8_t {
    lane_awake,      ///< a lane looks again at its step
    step_ends,       ///< a lane's step writes and retires
    message_leaves,  ///< over a network: the last byte of a message has entered it
    message_heads,   ///< through ports: the first byte of a message has crossed a wire
    message_there,   ///< its last byte, too
    room_back,       ///< a wire takes another message
  };
  double time = 0;
  std::uint64_t order = 0;
  Kind kind = Kind::lane_awake;
  std::uint32_t index = 0;  ///< of the lane or wire
  std::uint64_t bytes = 0;  ///< message_heads; message_leaves: the version of its plan
};

/// The clock and its plans. Deterministic.
class Events {
 public:
  double now() const { return now_; }
  bool empty() const { return queue_.empty(); }
  /// time: not before now.
  void plan(double time, Event::Kind kind, std::uint32_t index, std::uint64_t bytes = 0) {
    queue_.push({time, order_++, kind, index, bytes});
  }
  /// Of the next event. Not where empty().
  double next_time() const { return queue_.top().time; }
  /// Takes the next event and moves the clock there. Not where empty().
  Event next() {
    const Event event = queue_.top();
    queue_.pop();
    now_ = event.time;
    return event;
  }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time > b.time || (a.time == b.time && a.order > b.order);
    }
  };
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
  double now_ = 0;
  std::uint64_t order_ = 0;
};

}  // namespace tutti::simulator
