#include "src/executors/simulator/wires.h"

#include <algorithm>

namespace tutti::simulator {

double Server::serve(double now, double seconds) {
  const double begin = std::max(now, free);
  free = begin + seconds;
  return begin;
}

Wires::Wires(const Stage& stage, const SimulatorConfig& config)
    : stage_(stage),
      shared_ports_(config.shared_ports),
      wires_(stage.wires.size()),
      egress_(stage.players.size()),
      ingress_(stage.players.size()),
      use_(stage.players.size()) {
  for (std::size_t w = 0; w < wires_.size(); ++w) {
    const Stage::Wire& facts = stage.wires[w];
    wires_[w].traffic = {facts.from, facts.to, facts.channel, facts.members, 0, 0};
    wires_[w].estimate =
        config.network != nullptr ? LinkEstimate{facts.latency, 0} : config.view.estimate(facts.from, facts.to);
  }
}

double Wires::depart(std::uint32_t index, Message& message, double now, double late) {
  Wire& wire = wires_[index];
  const std::uint32_t from = stage_.wires[index].sender;
  Server& egress = shared_ports_ ? egress_[from] : wire.egress;
  const double seconds = wire.estimate.beta * static_cast<double>(message.bytes);
  use_[from].egress += seconds;
  message.begin = egress.serve(now, seconds);
  message.left = message.begin + seconds;
  // A link keeps its order, whatever delays its messages.
  wire.last_head = std::max(wire.last_head, message.begin + wire.estimate.alpha + late);
  return wire.last_head;
}

double Wires::land(std::uint32_t index, std::uint64_t bytes, double now) {
  Wire& wire = wires_[index];
  const std::uint32_t to = stage_.wires[index].receiver;
  Server& ingress = shared_ports_ ? ingress_[to] : wire.ingress;
  const double seconds = wire.estimate.beta * static_cast<double>(bytes);
  use_[to].ingress += seconds;
  return ingress.serve(now, seconds) + seconds;
}

}  // namespace tutti::simulator
