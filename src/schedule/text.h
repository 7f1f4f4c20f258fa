// Schedules as text: for people, for tests, and to be read back. docs/schedule.md describes the form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/ir.h"

namespace tutti {

/// A plan with the program of every rank.
struct Schedule {
  Plan plan;
  std::vector<Program> programs;
};

/// The text of a schedule whose programs are well-formed. Reading it back gives the same plan and programs.
std::string print_schedule(const Plan& plan, const std::vector<Program>& programs);
/// One rank's part of it.
std::string print_program(const Program& program, int rank);
/// One step, as a line of it.
std::string print_step(const Program& program, const Step& step);
/// What a step is to who reads it, the first word of its line: "copy", "send", …; static.
const char* word_of(const Program& program, const Step& step);
/// A range as it stands in brackets there.
std::string print_range(const Range& range);

/// Reads what print_schedule wrote, or a person. What it gives is well-formed text, not yet a right schedule: see verify.
/// Errors: TUTTI_INVALID_ARGUMENT, naming the line and the reason.
Result<Schedule> parse_schedule(std::string_view text);

}  // namespace tutti
