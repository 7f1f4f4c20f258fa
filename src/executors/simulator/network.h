// The links between the ranks of a simulation, and what time messages take on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "src/executors/simulator/memory.h"

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

/// One ordered direction between two ranks. Messages that have arrived are the first ones of the queue.
struct Wire {
  LinkTraffic traffic;
  LinkEstimate estimate;
  std::list<Message> queue;
  std::uint64_t arrived = 0;           ///< messages of the queue
  std::uint64_t under_way = 0;         ///< messages whose room is not back
  double last_head = 0;                ///< when the first byte of the latest message reached the ingress port
  std::vector<std::uint32_t> waiting;  ///< lanes that look again when anything changes here
  Server egress, ingress;              ///< its own ones, where ranks do not share theirs
};

/// All wires of a schedule, and the ports of its ranks.
class Network {
 public:
  /// programs: indices checked. config: outlives this.
  Network(std::span<const Program> programs, const SimulatorConfig& config);

  std::uint32_t size() const { return static_cast<std::uint32_t>(wires_.size()); }
  Wire& operator[](std::uint32_t wire) { return wires_[wire]; }
  const Wire& operator[](std::uint32_t wire) const { return wires_[wire]; }
  /// The wire that a rank's link is.
  std::uint32_t wire_of(int rank, std::uint32_t link) const { return wires_of_[static_cast<std::size_t>(rank)][link]; }

  /// Puts a message of a wire on its way, `late` seconds slower than it might be. Sets its begin and left; returns when its
  /// first byte reaches the ingress port, where `land` must be called.
  double depart(Wire& wire, Message& message, double now, double late);
  /// The first byte of a message of `bytes` is there. Returns when the last byte is through.
  double land(Wire& wire, std::uint64_t bytes, double now);

  /// Seconds that the ranks' ports were busy.
  const std::vector<RankUse>& use() const { return use_; }

 private:
  bool shared_ports_;
  std::vector<Wire> wires_;
  std::vector<std::vector<std::uint32_t>> wires_of_;  ///< by rank and link of its program
  std::vector<Server> egress_, ingress_;              ///< by rank
  std::vector<RankUse> use_;                          ///< by rank
};

}  // namespace tutti::simulator
