// Whether a simulation's arguments may be indexed without asking again.
#pragma once

#include <span>

#include "src/executors/simulator/simulator.h"

namespace tutti::simulator {

/// Checks the plan's and the config's sizes and every index of every program, but where ranges lie in their buffers, which
/// the run does. No fault: all indices are in range.
Fault check_indices(const Plan& plan, std::span<const Program> programs, const SimulatorConfig& config);
/// Likewise of program classes.
Fault check_indices(const Plan& plan, const ProgramClasses& program_classes, const SimulatorConfig& config);

}  // namespace tutti::simulator
