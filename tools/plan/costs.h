// `tutti-plan cost`: all algorithms of a problem, quickest first, and why the first is.
#pragma once

#include <cstdint>
#include <string>

#include "src/program/output.h"
#include "src/selection/select.h"
#include "tools/plan/simulate.h"

namespace tutti::plan_tool {

/// What is compared, and by which wishes.
struct Comparison {
  const Problem& problem;     ///< of a v-variant, with its blocks' mean in the place of `count`
  std::uint32_t lanes = 0;    ///< 0 leaves the choice to the algorithm
  std::uint64_t slot_bytes;   ///< of every link
  std::string wish;           ///< the algorithm that the user named, or empty
  std::string_view measured;  ///< the one that a tuning table says was quickest, or empty
  std::string constants;      ///< where they come from, for people
  std::string_view v_choice;  ///< of a v-variant, what ranks choose, who go by less than the mean; else empty
};

/// Tells what every algorithm takes and which one is chosen. Without a network that is the cost model's say. On a network,
/// whose links are shared, each is simulated, and the quickest in virtual time is chosen; those that take too many steps
/// for that follow, by the model. Returns the program's exit code.
int tell_costs(const Comparison& comparison, const Simulation& simulation, program::Output& output);

}  // namespace tutti::plan_tool
