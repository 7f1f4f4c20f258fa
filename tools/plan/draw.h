// `tutti-plan show --svg`: a schedule as a drawing.
#pragma once

#include <string>

#include "src/program/output.h"
#include "src/schedule/text.h"
#include "tools/plan/divided_blocks.h"
#include "topology/view.h"

namespace tutti::plan_tool {

/// Why so many ranks, or so many moves of all passes, cannot be drawn; empty where they can. Pure.
std::string too_large_to_draw(int ranks, std::uint64_t moves);

/// Runs a schedule in virtual time and draws it into a file. Returns the program's exit code: kWrongUse where it is too
/// large or the file cannot be written, kWrongData where it does not come to a good end.
/// blocks: of an irregular problem.
int draw_schedule(const Schedule& schedule, const View& view, const DividedBlocks& blocks, const std::string& file,
                  program::Output& output);

}  // namespace tutti::plan_tool
