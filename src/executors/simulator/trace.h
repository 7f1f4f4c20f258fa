// A simulation as a timeline in the Chrome trace format, for chrome://tracing and Perfetto.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "src/executors/simulator/simulator.h"

namespace tutti {

/// JSON text: a process per simulated rank, a thread per lane with a slice for each step from its lane's arrival to its
/// end, and a thread for what the rank sends with a slice for each message. Times in microseconds. program_of: of those
/// ranks; report: with its timeline.
std::string chrome_trace(const std::function<const Program&(int rank)>& program_of, const SimulatorReport& report);
/// The same for programs by rank.
std::string chrome_trace(std::span<const Program> programs, const SimulatorReport& report);

}  // namespace tutti
