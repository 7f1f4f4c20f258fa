// A simulation as a timeline in the Chrome trace format, for chrome://tracing and Perfetto.
#pragma once

#include <span>
#include <string>

#include "src/executors/simulator/simulator.h"

namespace tutti {

/// JSON text: a process per rank, a thread per lane with a slice for each step from its lane's arrival to its end, and a
/// thread for the rank's egress with a slice for each message. Times in microseconds. report: with its timeline.
std::string chrome_trace(std::span<const Program> programs, const SimulatorReport& report);

}  // namespace tutti
