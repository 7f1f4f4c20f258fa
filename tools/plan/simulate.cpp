#include "tools/plan/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <tuple>
#include <vector>

#include "src/base/types.h"
#include "src/executors/simulator/trace.h"

namespace tutti::plan_tool {
namespace {

/// Lines of the human table.
constexpr std::size_t shown = 8;

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.3f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

/// All links, by their ends.
std::vector<LinkTraffic> by_ends(const SimulatorReport& report) {
  std::vector<LinkTraffic> links = report.links;
  std::sort(links.begin(), links.end(), [](const LinkTraffic& a, const LinkTraffic& b) {
    return std::tie(a.from, a.to, a.channel) < std::tie(b.from, b.to, b.channel);
  });
  return links;
}

/// The links that carried most, the busiest first.
void tell_links(const SimulatorReport& report, program::Output& output) {
  std::vector<LinkTraffic> links = by_ends(report);
  std::sort(links.begin(), links.end(), [](const LinkTraffic& a, const LinkTraffic& b) {
    return std::tie(b.bytes, a.from, a.to, a.channel) < std::tie(a.bytes, b.from, b.to, b.channel);
  });
  output.line(fmt::format("{:>8} {:>8} {:>8} {:>12} {:>16}", "from", "to", "channel", "messages", "bytes"));
  for (std::size_t l = 0; l < std::min(shown, links.size()); ++l) {
    output.line(fmt::format("{:>8} {:>8} {:>8} {:>12} {:>16}", links[l].from, links[l].to, links[l].channel,
                            links[l].messages, links[l].bytes));
  }
  if (links.size() > shown)
    output.line(fmt::format("  and {} links more, none of which carried more", links.size() - shown));
}

void tell(const Plan& plan, const SimulatorReport& report, program::Output& output) {
  const Problem& problem = plan.problem;
  RankUse most;
  for (const RankUse& rank : report.ranks) {
    most.processor = std::max(most.processor, rank.processor);
    most.egress = std::max(most.egress, rank.egress);
    most.ingress = std::max(most.ingress, rank.ingress);
  }
  output.line(fmt::format("{} by {} on {} ranks, {} bytes a block: {} in virtual time", name_of(problem.collective),
                          plan.algorithm, problem.ranks, problem.count * element_bytes(problem.type),
                          time_text(report.seconds)));
  output.line(fmt::format("  {} messages of {} bytes in all, {} passes, credit {}", report.messages, report.bytes,
                          plan.passes(problem.count), plan.shape.credit));
  output.line(fmt::format("  the busiest rank's processor works for {}, egress for {}, ingress for {}",
                          time_text(most.processor), time_text(most.egress), time_text(most.ingress)));
  tell_links(report, output);
}

void record(const Schedule& schedule, const SimulatorReport& report, program::Output& output) {
  const Plan& plan = schedule.plan;
  std::uint64_t steps = 0;
  for (const Program& program : schedule.programs) steps += program.steps.size();
  std::string links = "[";
  for (const LinkTraffic& link : by_ends(report)) {
    links += fmt::format("{}{{\"from\":{},\"to\":{},\"channel\":{},\"messages\":{},\"bytes\":{}}}",
                         links.size() > 1 ? "," : "", link.from, link.to, link.channel, link.messages, link.bytes);
  }
  program::JsonObject record;
  record.add("verdict", "completed").add("collective", name_of(plan.problem.collective)).add("algorithm", plan.algorithm);
  record.add("ranks", std::int64_t{plan.problem.ranks}).add("lanes", std::int64_t{plan.shape.lanes}).add("steps", steps);
  record.add("messages", report.messages);
  record.add("bytes_per_rank", static_cast<double>(report.bytes) / plan.problem.ranks);
  record.add("seconds", report.seconds).add_json("links", links + "]");
  output.record(record);
}

}  // namespace

int simulate_schedule(const Schedule& schedule, const View& view, const std::string& trace, program::Output& output) {
  SimulatorConfig config;
  config.view = view;
  config.timeline = !trace.empty();
  std::ofstream file;
  if (config.timeline) {
    file.open(trace);
    if (!file) {
      return output.fail(static_cast<int>(program::kWrongUse),
                         fmt::format("{} cannot be written; give --trace a path in a folder that is there", trace));
    }
  }
  const SimulatorReport report = simulate(schedule.plan, schedule.programs, config);
  if (config.timeline) {
    file << chrome_trace(schedule.programs, report);
    file.close();
    if (!file)
      return output.fail(static_cast<int>(program::kFailed), fmt::format("{} could not be written to its end", trace));
  }
  if (report.verdict != SimulatorReport::Verdict::completed) {
    return output.fail(static_cast<int>(program::kWrongData), "not completed: " + report.why);
  }
  tell(schedule.plan, report, output);
  if (config.timeline) output.line(fmt::format("  timeline in {}, for chrome://tracing or Perfetto", trace));
  if (output.json()) record(schedule, report, output);  // a million links take a while
  return output.result(static_cast<int>(program::kGood));
}

}  // namespace tutti::plan_tool
