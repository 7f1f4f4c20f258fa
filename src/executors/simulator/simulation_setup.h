// What a run runs: one rank for each class of ranks, one wire for each class of wires, and the links that flows share.
#pragma once

#include <cstdint>
#include <vector>

#include "src/executors/simulator/flows.h"
#include "src/executors/simulator/fold.h"
#include "src/executors/simulator/rank_links.h"

namespace tutti::simulator {

/// Plain data. Where nothing is folded, each rank and each wire is a class of its own.
struct SimulationSetup {
  /// The first rank of its class.
  struct RankClass {
    const Program* program = nullptr;
    int rank = 0;
    std::uint64_t members = 1;
    std::uint32_t first_end = 0;  ///< in wire_of_end
  };
  struct WireClass {
    int from = 0;  ///< ranks: of the first wire of the class
    int to = 0;
    std::uint32_t channel = 0;
    std::uint32_t sender = nothing;  ///< rank classes
    std::uint32_t receiver = nothing;
    std::uint64_t members = 1;
    double latency = 0;  ///< seconds of the links on its way
  };

  std::vector<RankClass> rank_classes;
  std::vector<WireClass> wires;
  /// By rank class and link of its program: the wire of the first strand, or `nothing` where no step uses the link or
  /// another end of the class, which the same steps use, does the same.
  std::vector<std::uint32_t> wire_of_end;
  std::vector<std::uint32_t> class_of_rank;  ///< by rank
  FlowRoutes routes;                         ///< of the wires; empty without a network
  std::vector<std::uint32_t> link_of;        ///< by link of the network: its place in routes, or `nothing`

  std::uint32_t wire_of(std::uint32_t rank_class, std::uint32_t link, std::uint32_t strand) const {
    const std::uint32_t first = wire_of_end[rank_classes[rank_class].first_end + link];
    return first == nothing ? nothing : first + strand;
  }
};

/// Every rank is a class, without a network.
SimulationSetup unfolded_setup(const RankLinks& rank_links);
/// One class for each of `classes`. rank_links: with their ways.
SimulationSetup folded_setup(const RankLinks& rank_links, const Network& network, const Classes& classes);
/// Gives each strand of a program wires of its own: those of a link follow each other.
void add_strands(SimulationSetup& setup, std::uint32_t strands);

}  // namespace tutti::simulator
