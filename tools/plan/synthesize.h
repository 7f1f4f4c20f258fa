// `tutti-plan synthesize`: a schedule made for one machine.
#pragma once

#include <string>

#include "src/program/output.h"
#include "src/schedule/problem.h"
#include "tools/plan/networks.h"

namespace tutti::plan_tool {

/// Searches for an all-reduce between the network's first problem.ranks endpoints and tells how it does beside the named
/// algorithms. file: where its text goes, which is proved before; empty: nowhere. Returns the program's exit code:
/// kWrongUse where there is no solver, the network is no such, or the file cannot be written.
int synthesize_schedule(const NamedNetwork& network, const Problem& problem, const std::string& file,
                        program::Output& output);

}  // namespace tutti::plan_tool
