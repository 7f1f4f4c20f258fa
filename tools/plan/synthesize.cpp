#include "tools/plan/synthesize.h"

#include <fmt/format.h>

#include "src/program/files.h"
#include "src/schedule/text.h"
#include "src/tables/element_types.h"
#include "src/tables/units.h"
#include "tools/plan/synthesis/synthesize.h"

namespace tutti::plan_tool {
namespace {

using synthesis::Contender;
using synthesis::Synthesis;

void tell(const NamedNetwork& network, const Synthesis& found, program::Output& output) {
  const Problem& problem = found.schedule.plan.problem;
  const double bytes = static_cast<double>(problem.count * element_bytes(problem.type));
  const auto row = [&](const Contender& contender) {
    output.line(fmt::format("  {:<20} {:>12.2f} {:>10.2f}   {}", contender.name, contender.seconds * 1e6,
                            bytes / contender.seconds * 1e-9, contender.how));
  };
  output.line(fmt::format("all_reduce of {} bytes on {} ranks of {}", bytes, problem.ranks, network.name));
  output.line(fmt::format("  {:<20} {:>12} {:>10}   {}", "simulated", "us", "GB/s", "as"));
  for (const Contender& contender : found.made) row(contender);
  for (const Contender& contender : found.named) row(contender);
  output.line(
      fmt::format("packed trees reach {} with very many bytes, and no algorithm exceeds {}: {:.2f} us and {:.2f} us",
                  rate_text(found.bytes_per_second), rate_text(found.limit), bytes / found.bytes_per_second * 1e6,
                  bytes / found.limit * 1e6));
  if (found.named.empty()) return;
  const double gain = found.named[0].seconds / found.winner.seconds;
  constexpr double as_fast = 0.9995;  // what is shown as 1.000
  output.line(gain >= as_fast
                  ? fmt::format("proved; {:.3f} times as fast as {}, the best named one", gain, found.named[0].name)
                  : fmt::format("proved; but {} is {:.3f} times as fast: use that for so many bytes", found.named[0].name,
                                1 / gain));
}

std::string contenders_json(const std::vector<Contender>& contenders) {
  std::string list = "[";
  for (const Contender& contender : contenders) {
    program::JsonObject one;
    one.add("algorithm", contender.name).add("as", contender.how).add("seconds", contender.seconds);
    list += (list.size() > 1 ? "," : "") + one.text();
  }
  return list + "]";
}

void record(const NamedNetwork& network, const Synthesis& found, program::Output& output) {
  const Plan& plan = found.schedule.plan;
  const double bytes = static_cast<double>(plan.problem.count * element_bytes(plan.problem.type));
  std::uint64_t steps = 0;
  for (const Program& program : found.schedule.programs) steps += program.steps.size();
  program::JsonObject record;
  record.add("verdict", "proved").add("collective", "all_reduce").add("algorithm", plan.algorithm);
  record.add("ranks", std::int64_t{plan.problem.ranks}).add("lanes", std::int64_t{plan.shape.lanes}).add("steps", steps);
  record.add("topology", network.name).add("bytes", static_cast<std::uint64_t>(bytes));
  record.add("seconds", found.winner.seconds);
  record.add("packing_seconds", bytes / found.bytes_per_second).add("bound_seconds", bytes / found.limit);
  record.add_json("made", contenders_json(found.made)).add_json("named", contenders_json(found.named));
  output.record(record);
}

}  // namespace

int synthesize_schedule(const NamedNetwork& network, const Problem& problem, const std::string& file,
                        program::Output& output) {
  if (!file.empty()) {
    const std::string wrong = program::check_writable("--output", file);
    if (!wrong.empty()) return output.fail(static_cast<int>(program::kWrongUse), wrong);
  }
  const auto found = synthesis::synthesize(*network.network, network.view(problem.ranks), problem);
  if (!found.ok()) {
    const bool ours = found.status().code() == TUTTI_INTERNAL_ERROR;
    return output.fail(static_cast<int>(ours ? program::kFailed : program::kWrongUse), found.status().text());
  }
  if (!file.empty()) {
    const int written = output.file(file, print_schedule(found->schedule.plan, found->schedule.programs));
    if (written != static_cast<int>(program::kGood)) return written;
  }
  tell(network, *found, output);
  if (!file.empty()) output.line(fmt::format("the schedule is in {}, for `tutti-plan verify|simulate --schedule`", file));
  record(network, *found, output);
  return output.result(static_cast<int>(program::kGood));
}

}  // namespace tutti::plan_tool
