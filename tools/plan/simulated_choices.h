// What is quickest on a network's links, over every size of block, as rows of a tuning table.
#pragma once

#include <cstdint>
#include <span>

#include "src/schedule/problem.h"
#include "src/selection/tuning.h"
#include "tools/plan/simulate.h"

namespace tutti::plan_tool {

/// `tuning` with the view's constants, and with rows in the place of its own that say for each of the collectives what is
/// quickest on the simulation's network, as `tutti-plan cost` finds it there. Sizes of 64 B to 64 MiB are simulated, the
/// powers of two and, where the choice of two neighbours differs, sizes between them until the change is known to a tenth
/// of the size; an algorithm that is quickest between two sizes only is missed. The first row and the last go on. Where no
/// algorithm can be simulated for its steps, the model answers.
Tuning with_simulated_choices(const Tuning& tuning, const Simulation& simulation, std::uint64_t slot_bytes,
                              std::span<const Collective> wanted);

}  // namespace tutti::plan_tool
