// Which ranks, wires and links of a run go through the same at the same times, so that one of them may stand for all.
//
// Colour refinement. Ranks begin with their program class as colour, wires with their use at both ends (the steps that send
// and take their messages), links with bandwidth and latency. Then, until no colour splits any more,
//
//     a wire's colour    becomes itself, its ranks' colours, and those of the links on its way, in order
//     a link's colour             itself, and how many wires of each colour pass it
//     a rank's colour             itself, and how many wires of each colour it has for each use
//
// What is left is an *equitable partition*: whoever has a colour sees the same colours around it. Then all members of a
// class have the same history. By induction over the events of a run: as long as it holds, ranks of a class stand at the
// same steps, their wires hold the same messages and the links of a class carry the same load, so max-min sharing, which is
// unique, gives the flows of a class the same rate, and they all have the same next event. The engine breaks ties by rank
// and lane, so that within a rank they are broken alike, and between ranks nothing passes but by events.
//
// Colours are hashes while they are refined; the partition that comes out is then checked exactly, by counting.
#pragma once

#include <cstdint>
#include <vector>

#include "src/executors/simulator/rank_links.h"

namespace tutti::simulator {

/// A partition. Classes are numbered in the order of their first members.
struct Classes {
  std::vector<std::uint32_t> rank;  ///< by rank
  std::vector<std::uint32_t> wire;  ///< by wire
  std::vector<std::uint32_t> link;  ///< by link of the network; `nothing` where no wire passes it
  std::uint32_t ranks = 0;          ///< how many classes of each
  std::uint32_t wires = 0;
  std::uint32_t links = 0;
  bool folded = false;  ///< false: every rank, wire and link is a class of its own
};

/// rank_links: with their ways. fold: false gives everything a class of its own, as do ranks that have too little symmetry
/// to be worth it (more than half as many classes as ranks, or more rounds than a few seconds hold). Pure.
Classes classes_of(const RankLinks& rank_links, const Network& network, bool fold);

/// For every end of the ranks the number of its use: equal where the same steps of the same class use it alike.
std::vector<std::uint32_t> uses_of(const RankLinks& rank_links);

}  // namespace tutti::simulator
