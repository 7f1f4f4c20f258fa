// A schedule in space and time, drawn.
#pragma once

#include <span>
#include <string>

#include "src/executors/simulator/simulator.h"
#include "topology/svg.h"

namespace tutti::plan_tool {

/// Where a drawing is no longer one that a person reads.
inline constexpr int kMostRanksDrawn = 64;
inline constexpr std::uint64_t kMostMovesDrawn = 4096;

/// A band for each rank with a row for each lane, time from left to right, a box for each move in the colour of what it
/// does (pale while it waits) with its chunks where they fit, an arrow for each message from the move that sends it to the
/// one that takes it, a legend. programs: by rank; report: of their run, with its timeline; network: what it ran on, for
/// the caption. Pure.
SvgDrawing schedule_svg(const Plan& plan, std::span<const Program> programs, const SimulatorReport& report,
                        const std::string& network);

}  // namespace tutti::plan_tool
