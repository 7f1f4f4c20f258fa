// All ranks of a run with their links joined to wires, and the network's links that each wire's messages pass.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "src/executors/simulator/program_classes.h"
#include "topology/network.h"

namespace tutti::simulator {

inline constexpr std::uint32_t nothing = std::numeric_limits<std::uint32_t>::max();

/// Every rank, its program and its ends: end e of rank r is link e - first_end[r] of its program.
struct RankLinks {
  /// One ordered direction between two ranks.
  struct Wire {
    std::int32_t from = 0;
    std::int32_t to = 0;
    std::uint32_t channel = 0;
    std::uint32_t sending = nothing;    ///< end; `nothing` where no program names it
    std::uint32_t receiving = nothing;  ///< end
  };

  std::vector<const Program*> program;       ///< by rank; outlive this
  std::vector<std::uint32_t> program_class;  ///< by rank: equal where the program is the same object
  std::vector<std::uint32_t> first_end;      ///< by rank, and the end
  std::vector<std::uint32_t> wire_of;        ///< by end; `nothing` where no step uses the link
  std::vector<Wire> wires;                   ///< in the order in which programs name them
  std::vector<std::uint64_t> first_hop;      ///< by wire, and the end; empty without a network
  std::vector<std::uint32_t> hops;           ///< links of the network

  int ranks() const { return static_cast<int>(program.size()); }
  std::span<const std::uint32_t> way(std::uint32_t wire) const {
    return {hops.data() + first_hop[wire], hops.data() + first_hop[wire + 1]};
  }
};

/// Of programs, one per rank; indices checked.
RankLinks rank_links_of(std::span<const Program> programs);
/// Of program classes; indices checked.
RankLinks rank_links_of(const ProgramClasses& program_classes);

/// Finds each wire's way; ranks are the network's endpoints. Returns an empty string, or why there is none.
std::string find_ways(RankLinks& rank_links, const Network& network);

}  // namespace tutti::simulator
