// What ranks have for each other in calls of v-variants.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "src/schedule/problem.h"
#include "src/tables/block_division.h"

namespace tutti::testing {

/// Elements of all blocks of a call: everybody's share is `share`, or of an all-to-all `each`, by sender and receiver.
struct BlockCounts {
  std::vector<std::uint64_t> share;
  std::vector<std::vector<std::uint64_t>> each;

  /// Those of a rank's buffer.
  std::vector<std::uint64_t> of(const Problem& problem, Buffer buffer, int rank) const {
    const std::uint32_t blocks = blocks_of(problem, buffer, rank);
    std::vector<std::uint64_t> counts(blocks);
    for (std::uint32_t b = 0; b < blocks; ++b) {
      const std::size_t own = static_cast<std::size_t>(rank);
      if (problem.collective == Collective::all_to_all) {
        counts[b] = buffer == Buffer::input ? each[own][b] : each[b][own];
      } else {
        counts[b] = share[blocks == 1 ? own : b];
      }
    }
    return counts;
  }
};

/// Counts of up to three windows, by chance; many of them are 0, a window, or more than two.
inline BlockCounts some_counts(int ranks, std::uint64_t window, std::mt19937_64& random) {
  const auto some = [&] {
    const std::uint64_t dice = random() % 5;
    return dice == 0 ? 0 : dice == 1 ? window : dice == 2 ? 2 * window + random() % window : random() % (3 * window);
  };
  BlockCounts counts;
  const std::size_t n = static_cast<std::size_t>(ranks);
  for (std::size_t r = 0; r < n; ++r) counts.share.push_back(some());
  for (std::size_t r = 0; r < n; ++r) {
    auto& row = counts.each.emplace_back();
    for (std::size_t c = 0; c < n; ++c) row.push_back(some());
  }
  return counts;
}

/// Blocks of `count` elements on average, divided so.
inline BlockCounts divided_counts(BlockDivision division, int ranks, std::uint64_t count) {
  BlockCounts counts;
  const DividedCall shares = {&info_of(Collective::all_gather), division, ranks, count};
  const DividedCall pairs = {&info_of(Collective::all_to_all), division, ranks, count};
  for (int r = 0; r < ranks; ++r) {
    counts.share.push_back(shares.own_count(r));
    auto& row = counts.each.emplace_back();
    for (std::uint64_t c = 0; c < static_cast<std::uint64_t>(ranks); ++c)
      row.push_back(pairs.begin_of(r, c + 1) - pairs.begin_of(r, c));
  }
  return counts;
}

}  // namespace tutti::testing
