// What a run runs: a player for each class of ranks, a wire for each class of wires, and the links that flows share.
#pragma once

#include <cstdint>
#include <vector>

#include "src/executors/simulator/company.h"
#include "src/executors/simulator/flows.h"
#include "src/executors/simulator/fold.h"

namespace tutti::simulator {

/// Plain data. Where nothing is folded, players are the ranks, and wires the company's.
struct Stage {
  /// The first rank of its class.
  struct Player {
    const Program* program = nullptr;
    int rank = 0;
    std::uint64_t members = 1;
    std::uint32_t first_end = 0;  ///< in wire_of_end
  };
  struct Wire {
    int from = 0;  ///< ranks: of the first wire of the class
    int to = 0;
    std::uint32_t channel = 0;
    std::uint32_t sender = nothing;  ///< players
    std::uint32_t receiver = nothing;
    std::uint64_t members = 1;
    double latency = 0;  ///< seconds of the links on its way
  };

  std::vector<Player> players;
  std::vector<Wire> wires;
  /// By player and link of its program: the wire, or `nothing` where no step uses the link or another end of the player,
  /// which the same steps use, does the same.
  std::vector<std::uint32_t> wire_of_end;
  std::vector<std::uint32_t> player_of;  ///< by rank
  FlowRoutes routes;                     ///< of the wires; empty without a network
  std::vector<std::uint32_t> link_of;    ///< by link of the network: its place in routes, or `nothing`

  std::uint32_t wire_of(std::uint32_t player, std::uint32_t link) const {
    return wire_of_end[players[player].first_end + link];
  }
};

/// Everybody plays, without a network.
Stage full_stage(const Company& company);
/// A player for each class. company: with its ways.
Stage folded_stage(const Company& company, const Network& network, const Classes& classes);

}  // namespace tutti::simulator
