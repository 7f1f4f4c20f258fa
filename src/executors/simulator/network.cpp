#include "src/executors/simulator/network.h"

#include <algorithm>
#include <unordered_map>

namespace tutti::simulator {

double Server::serve(double now, double seconds) {
  const double begin = std::max(now, free);
  free = begin + seconds;
  return begin;
}

Network::Network(std::span<const Program> programs, const SimulatorConfig& config)
    : shared_ports_(config.shared_ports),
      wires_of_(programs.size()),
      egress_(programs.size()),
      ingress_(programs.size()),
      use_(programs.size()) {
  // Ranks have 16 bits, see check_indices.
  const auto key = [](int from, int to, std::uint32_t channel) {
    return static_cast<std::uint64_t>(from) << 48 | static_cast<std::uint64_t>(to) << 32 | channel;
  };
  std::unordered_map<std::uint64_t, std::uint32_t> known;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    const int own = static_cast<int>(r);
    for (const Link& link : programs[r].links) {
      const int from = link.sends ? own : link.peer;
      const int to = link.sends ? link.peer : own;
      const auto [entry, added] = known.try_emplace(key(from, to, link.channel), size());
      if (added) {
        Wire& wire = wires_.emplace_back();
        wire.traffic = {from, to, link.channel, 0, 0};
        wire.estimate = config.view.estimate(from, to);
      }
      wires_of_[r].push_back(entry->second);
    }
  }
}

double Network::depart(Wire& wire, Message& message, double now, double late) {
  const auto from = static_cast<std::size_t>(wire.traffic.from);
  Server& egress = shared_ports_ ? egress_[from] : wire.egress;
  const double seconds = wire.estimate.beta * static_cast<double>(message.bytes);
  use_[from].egress += seconds;
  message.begin = egress.serve(now, seconds);
  message.left = message.begin + seconds;
  ++wire.under_way;
  ++wire.traffic.messages;
  wire.traffic.bytes += message.bytes;
  // A link keeps its order, whatever delays its messages.
  wire.last_head = std::max(wire.last_head, message.begin + wire.estimate.alpha + late);
  return wire.last_head;
}

double Network::land(Wire& wire, std::uint64_t bytes, double now) {
  const auto to = static_cast<std::size_t>(wire.traffic.to);
  Server& ingress = shared_ports_ ? ingress_[to] : wire.ingress;
  const double seconds = wire.estimate.beta * static_cast<double>(bytes);
  use_[to].ingress += seconds;
  return ingress.serve(now, seconds) + seconds;
}

}  // namespace tutti::simulator
