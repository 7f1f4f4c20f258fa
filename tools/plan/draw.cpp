#include "tools/plan/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/executors/simulator/simulator.h"
#include "src/program/files.h"
#include "tools/plan/schedule_svg.h"
#include "tools/plan/simulate.h"

namespace tutti::plan_tool {
namespace {

/// Moves of all ranks and passes.
std::uint64_t moves_of(const Schedule& schedule, const DividedBlocks& blocks) {
  std::uint64_t steps = 0;
  for (const Program& program : schedule.programs) steps += program.steps.size();
  if (schedule.plan.window == 0) return steps;  // the simulator says what is wrong with that
  const Problem& problem = schedule.plan.problem;
  const std::uint64_t passes = schedule.plan.passes(problem.irregular ? blocks.longest() : problem.count);
  return passes > UINT64_MAX / std::max<std::uint64_t>(1, steps) ? UINT64_MAX : steps * passes;
}

/// What messages take by the view, between all classes of links that its ranks have.
std::string links_text(const View& view) {
  const std::set<LinkClass> found = classes_between(view);
  if (found.empty()) return "one rank";
  std::vector<std::string> each;
  for (const LinkClass c : found) {
    const LinkEstimate& link = view.link(c);
    each.push_back(fmt::format("{}{:.4g} us a message, {:.4g} ns a byte",
                               found.size() == 1 ? "" : fmt::format("{} ", name_of(c)), link.alpha * 1e6, link.beta * 1e9));
  }
  return fmt::format("{}: {}", found.size() == 1 ? "a uniform network" : "links", fmt::join(each, "; "));
}

}  // namespace

std::string too_large_to_draw(int ranks, std::uint64_t moves) {
  if (ranks <= kMostRanksDrawn && moves <= kMostMovesDrawn) return {};
  const std::string what = ranks > kMostRanksDrawn ? fmt::format("{} ranks", ranks) : fmt::format("{} moves", moves);
  return fmt::format("--svg draws up to {} ranks and {} moves, and these are {}; take fewer --ranks or --bytes",
                     kMostRanksDrawn, kMostMovesDrawn, what);
}

int draw_schedule(const Schedule& schedule, const View& view, const DividedBlocks& blocks, const std::string& file,
                  program::Output& output) {
  std::string wrong = too_large_to_draw(schedule.plan.problem.ranks, moves_of(schedule, blocks));
  if (wrong.empty()) wrong = program::check_writable("--svg", file);
  if (!wrong.empty()) return output.fail(static_cast<int>(program::kWrongUse), wrong);
  SimulatorConfig config;
  config.view = view;
  config.timeline = true;
  config.irregular = blocks.all();
  config.credit = link_credit(schedule.plan);
  const SimulatorReport report = simulate(schedule.plan, schedule.programs, config);
  if (report.verdict != SimulatorReport::Verdict::completed) {
    return output.fail(static_cast<int>(program::kWrongData), "not completed: " + report.why);
  }
  const Problem& problem = schedule.plan.problem;
  const std::string network = links_text(view) + (problem.irregular ? "; " + blocks_text(problem, blocks) : "");
  const SvgDrawing drawing = schedule_svg(schedule.plan, schedule.programs, report, network);
  const int code = output.file(file, drawing.svg);
  if (code != static_cast<int>(program::kGood)) return code;
  output.line(fmt::format("{} moves and {} messages are drawn in {}", report.steps.size(), report.messages, file));
  program::JsonObject record;
  record.add("svg", file).add("collective", kind_of(problem));
  record.add("algorithm", schedule.plan.algorithm).add("ranks", std::int64_t{problem.ranks});
  record.add("moves", std::uint64_t{report.steps.size()}).add("messages", report.messages).add("seconds", report.seconds);
  output.record(record);
  return output.result(static_cast<int>(program::kGood));
}

}  // namespace tutti::plan_tool
