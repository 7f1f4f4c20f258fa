// The wires between the rank classes of a simulation: what is under way on them, and what time it takes through ranks'
// ports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/executors/simulator/memory.h"
#include "src/executors/simulator/simulation_setup.h"

namespace tutti::simulator {

/// Something that does one thing at a time, in the order of asking.
struct Server {
  double free = 0;  ///< when it has done all it was asked for

  /// Asks for `seconds` of it, from `now` at the earliest. Returns when they begin.
  double serve(double now, double seconds);
};

/// A message that was sent and not yet taken. How its bytes travel: copied, or pulled, or put.
struct Message {
  std::uint64_t bytes = 0;
  std::vector<std::byte> copied;  ///< its data, where there is data
  Pieces pulled;                  ///< where it lies in its sender's memory
  bool put = false;               ///< it is already where its receiver wants it
  double begin = 0;               ///< as in SimulatedFlight
  double left = 0;
};

/// One ordered direction between two ranks. Messages that have arrived are the first ones of the queue; over a network,
/// those that have left follow, and then those that wait to leave, of which the first is on its way.
struct WireQueue {
  LinkTraffic traffic;
  LinkEstimate estimate;  ///< over a network: its latency, and no beta
  std::vector<Message> queue;
  std::uint64_t arrived = 0;           ///< messages of the queue
  std::uint64_t left = 0;              ///< over a network: messages of the queue that have left, and arrived or not
  std::uint64_t under_way = 0;         ///< messages whose room is not back
  double last_head = 0;                ///< when the first byte of the latest message reached the ingress port
  std::vector<std::uint32_t> waiting;  ///< lanes that look again when anything changes here
  Server egress, ingress;              ///< its own ones, where ranks do not share theirs
  // Over a network: the message that is leaving.
  double remaining = 0;       ///< its bytes that have not left at `since`
  double since = 0;           ///< seconds
  double rate = 0;            ///< bytes per second, from then on
  std::uint32_t version = 0;  ///< of the plan for its end: earlier plans do not count
};

/// All wires of a setup, and the ports of its rank classes.
class WireQueues {
 public:
  /// setup, config: outlive this.
  WireQueues(const SimulationSetup& setup, const SimulatorConfig& config);

  std::uint32_t size() const { return static_cast<std::uint32_t>(wires_.size()); }
  WireQueue& operator[](std::uint32_t wire) { return wires_[wire]; }
  const WireQueue& operator[](std::uint32_t wire) const { return wires_[wire]; }

  /// Puts a message of a wire on its way through ports, `late` seconds slower than it might be. Sets its begin and left;
  /// returns when its first byte reaches the ingress port, where `land` must be called.
  double depart(std::uint32_t wire, Message& message, double now, double late);
  /// The first byte of a message of `bytes` is there. Returns when the last byte is through.
  double land(std::uint32_t wire, std::uint64_t bytes, double now);

  /// Seconds that the rank classes' ports were busy.
  const std::vector<RankUse>& use() const { return use_; }

 private:
  const SimulationSetup& setup_;
  bool shared_ports_;
  std::vector<WireQueue> wires_;
  std::vector<Server> egress_, ingress_;  ///< by rank class
  std::vector<RankUse> use_;              ///< by rank class
};

}  // namespace tutti::simulator
