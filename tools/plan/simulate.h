// `tutti-plan simulate`: a schedule in virtual time.
#pragma once

#include <string>

#include "src/program/output.h"
#include "src/schedule/text.h"
#include "topology/view.h"

namespace tutti::plan_tool {

/// Simulates a schedule on the places of `view` and tells seconds and traffic; trace: a file for its timeline, or empty.
/// Returns the program's exit code: kWrongData where the schedule does not come to a good end.
int simulate_schedule(const Schedule& schedule, const View& view, const std::string& trace, program::Output& output);

}  // namespace tutti::plan_tool
