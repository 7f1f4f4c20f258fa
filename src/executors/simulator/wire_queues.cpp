#include "src/executors/simulator/wire_queues.h"

#include <algorithm>

namespace tutti::simulator {

double Server::serve(double now, double seconds) {
  const double begin = std::max(now, free);
  free = begin + seconds;
  return begin;
}

WireQueues::WireQueues(const SimulationSetup& setup, const SimulatorConfig& config)
    : setup_(setup),
      shared_ports_(config.shared_ports),
      wires_(setup.wires.size()),
      egress_(setup.rank_classes.size()),
      ingress_(setup.rank_classes.size()),
      use_(setup.rank_classes.size()) {
  for (std::size_t w = 0; w < wires_.size(); ++w) {
    const SimulationSetup::WireClass& facts = setup.wires[w];
    wires_[w].traffic = {facts.from, facts.to, facts.channel, facts.members, 0, 0};
    wires_[w].estimate =
        config.network != nullptr ? LinkEstimate{facts.latency, 0} : config.view.estimate(facts.from, facts.to);
  }
}

double WireQueues::depart(std::uint32_t index, Message& message, double now, double late) {
  WireQueue& wire = wires_[index];
  const std::uint32_t from = setup_.wires[index].sender;
  Server& egress = shared_ports_ ? egress_[from] : wire.egress;
  const double seconds = wire.estimate.beta * static_cast<double>(message.bytes);
  use_[from].egress += seconds;
  message.begin = egress.serve(now, seconds);
  message.left = message.begin + seconds;
  // A link keeps its order, whatever delays its messages.
  wire.last_head = std::max(wire.last_head, message.begin + wire.estimate.alpha + late);
  return wire.last_head;
}

double WireQueues::land(std::uint32_t index, std::uint64_t bytes, double now) {
  WireQueue& wire = wires_[index];
  const std::uint32_t to = setup_.wires[index].receiver;
  Server& ingress = shared_ports_ ? ingress_[to] : wire.ingress;
  const double seconds = wire.estimate.beta * static_cast<double>(bytes);
  use_[to].ingress += seconds;
  return ingress.serve(now, seconds) + seconds;
}

}  // namespace tutti::simulator
