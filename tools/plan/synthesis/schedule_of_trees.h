// Trees and rings as schedules: whole chunks for each, and the moves.
#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/text.h"
#include "tools/plan/synthesis/packing_lp.h"

namespace tutti::synthesis {

/// A pair of trees, and how many of a window's chunks take it.
struct TreeShare {
  TreePair pair;
  std::uint32_t chunks = 0;  ///< above 0
};

/// Divides `chunks` chunks among pairs of trees: by largest remainder after a packing's rates, and then each chunk in turn
/// goes to the trees that are best for it with all others as they are, of all trees there are, until none goes. What is
/// loaded most counts for nearly all. height_price: by what part of itself a hop of a tree's height makes what a chunk adds
/// dearer; higher, trees are shallow, which takes from the rate and gives to the latency. Deterministic.
std::vector<TreeShare> share_chunks(const Resources& resources, const TreePacking& packing, std::uint32_t chunks,
                                    double height_price = 0);

/// The same for every rank: a breadth-first tree up to it, and one down from it, with so many chunks. Where all hops are
/// equal this is the direct all-reduce.
std::vector<TreeShare> shallow_shares(const Resources& resources, std::uint32_t chunks_each);

/// Bytes per second that such shares reach, as far as the fullest row lets them.
double rate_of(const Resources& resources, const std::vector<TreeShare>& shares);

/// A ring, and how many lanes run it side by side.
struct RingShare {
  std::vector<int> order;  ///< of ranks; the last sends to the first
  std::uint32_t lanes = 1;
};

/// Each pair of trees on two lanes, one on which its chunks' sums climb and one on which results come down, so that later
/// passes climb while earlier ones come down; a chunk is a message. No memory but the output. problem: an all-reduce.
/// message_bytes: of a whole chunk, which with the number of chunks gives the window. The plan's credit is what the
/// library's links hold. Pure.
Schedule schedule_of_trees(const Problem& problem, const std::vector<TreeShare>& shares, std::uint64_t message_bytes);

/// The ring all-reduce (algorithms/ring_all_reduce.cpp) along rings of any order, each lane for p chunks of the window.
Schedule schedule_of_rings(const Problem& problem, const std::vector<RingShare>& rings, std::uint64_t message_bytes);

}  // namespace tutti::synthesis
