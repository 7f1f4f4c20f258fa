// What a network's links carried, drawn.
#pragma once

#include <string>

#include "src/executors/simulator/simulator.h"
#include "topology/network.h"
#include "topology/svg.h"

namespace tutti::plan_tool {

/// The busiest links as bars, all links in the network's order as squares (a square is the busiest of several
/// where there are thousands), coloured by the share of
/// their bandwidth that the run used, and a legend. report: of a run
/// over `network`. Pure.
SvgDrawing link_load_svg(const std::string& title, const Network& network, const SimulatorReport& report);

}  // namespace tutti::plan_tool
