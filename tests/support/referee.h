// A second opinion on schedules: all ranks on real numbers in the simulator, disturbed at random, and a look at what comes
// out. It shares no judgement with the verifier.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "src/schedule/text.h"
#include "tests/support/block_counts.h"

namespace tutti::testing {

/// What varies between runs.
struct Match {
  std::uint64_t count = 1;              ///< elements of a block
  std::uint32_t credit = 1;             ///< messages that a link takes
  double in_place = 0;                  ///< share of the ranks that are called in place
  double pulled = 0;                    ///< share of the messages that stay in the sender's memory until they are taken
  double put = 0;                       ///< share of the messages that are written where the receiver waits for them
  const BlockCounts* counts = nullptr;  ///< of an irregular schedule, in the place of `count`
};

/// Simulates a schedule once. Steps read at one time and write at a later one, and pauses make lanes overtake each other,
/// so lanes that race get wrong numbers in some runs. Numbers are 64-bit and random; folding adds, and the last touch of a
/// fold is x → 3x + 1, so that it shows where it is missing or twice.
/// Returns empty where every output element is right, else what went wrong.
std::string referee(const Schedule& schedule, const Match& match, std::mt19937_64& random);

}  // namespace tutti::testing
