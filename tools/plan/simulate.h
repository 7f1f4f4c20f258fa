// `tutti-plan simulate`: a schedule in virtual time.
#pragma once

#include <optional>
#include <string>

#include "algorithms/algorithm.h"
#include "src/program/output.h"
#include "src/schedule/text.h"
#include "tools/plan/divided_blocks.h"
#include "topology/network.h"
#include "topology/view.h"

namespace tutti::plan_tool {

/// Steps of all ranks' programs that are held at once: some gigabytes.
inline constexpr double most_held_steps = 2e7;

/// Where and how a simulation runs, and what it is to write.
struct Simulation {
  View view;                         ///< of all ranks
  const Network* network = nullptr;  ///< nullptr: through ports, with the view's estimates
  std::string network_name;          ///< as it was given
  std::string trace;                 ///< a file for the timeline, or empty
  std::string link_load_svg;         ///< a file for a drawing of what the network's links carried, or empty
  DividedBlocks blocks = {};         ///< of an irregular problem
};

/// "65536 bytes a block", or what blocks of an irregular problem have on average and how they are divided.
std::string blocks_text(const Problem& problem, const DividedBlocks& blocks);

/// Simulates a schedule and tells seconds and traffic. proved: whether it is; one that is not may come to an end, too.
/// Returns the program's exit code: kWrongData where the schedule does not come to a good end, kWrongUse where a file
/// cannot be written or the network does not fit.
int simulate_schedule(const Schedule& schedule, bool proved, const Simulation& simulation, program::Output& output);

/// The same for an algorithm's plan, whose programs need not all exist at once, unless it is irregular: the way to many
/// ranks. kWrongUse, too,
/// where that would take more steps than anybody waits for.
int simulate_algorithm(const Algorithm& algorithm, const Plan& plan, const Simulation& simulation, program::Output& output);

/// Virtual seconds of an algorithm's plan on the simulation's network, for comparisons. Where more than a million steps
/// would have to be simulated one by one, as many passes as that are, and the rest is taken to go on at their pace. Nothing
/// above 1,024 ranks, and where four passes are too many.
std::optional<double> simulated_seconds(const Algorithm& algorithm, const Plan& plan, const Simulation& simulation);

}  // namespace tutti::plan_tool
