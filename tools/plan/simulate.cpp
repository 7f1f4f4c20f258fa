#include "tools/plan/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <vector>

#include "src/executors/simulator/trace.h"
#include "src/program/files.h"
#include "src/tables/element_types.h"
#include "src/tables/units.h"
#include "tools/plan/load_svg.h"

namespace tutti::plan_tool {
namespace {

/// Lines of the human table.
constexpr std::size_t shown = 8;
/// Steps of all ranks and passes that are simulated one by one: a quarter of an hour's.
constexpr double most_steps = 1e9;
/// So many are quickly simulated one by one.
constexpr int few_ranks = 8192;
/// From a rank to another, some 75 to 150 bytes each.
constexpr double most_links = 2.5e7;
/// The same as most_steps where algorithms are compared, and ranks of such a comparison: a second's each, about.
constexpr double most_compared_steps = 1e6;
constexpr int most_compared_ranks = 1024;
/// Passes from which on the pace shows.
constexpr std::uint64_t least_passes = 4;

/// What is simulated, whatever it came from.
struct Subject {
  const Plan& plan;
  const char* verdict;  ///< on a schedule that came to its end
  std::uint64_t steps;  ///< of all ranks' programs
  std::function<SimulatorReport(const SimulatorConfig&)> run;
  std::function<const Program&(int rank)> program;
};

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

/// The network's links that carried most, the busiest first.
void tell_loads(const Network& network, const SimulatorReport& report, program::Output& output) {
  std::vector<std::uint32_t> order(report.loads.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto used = std::partition(order.begin(), order.end(), [&](std::uint32_t l) { return report.loads[l] > 0; });
  order.erase(used, order.end());
  const std::size_t count = std::min(shown, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](std::uint32_t a, std::uint32_t b) { return std::tie(report.loads[b], a) < std::tie(report.loads[a], b); });
  output.line(fmt::format("{:<34} {:>16} {:>10} {:>8}", "link of the network", "bytes", "GB/s", "busy"));
  for (std::size_t l = 0; l < count; ++l) {
    const NetworkLink link = network.link(order[l]);
    const auto bytes = static_cast<double>(report.loads[order[l]]);
    output.line(fmt::format("{:<34} {:>16} {:>10.4g} {:>7.1f}%", link.name, report.loads[order[l]],
                            link.bytes_per_second * 1e-9, 100 * bytes / link.bytes_per_second / report.seconds));
  }
  if (order.size() > count) {
    output.line(fmt::format("  and {} links more, none of which carried more", order.size() - count));
  }
}

/// Of links as deep as the library's.
SimulatorConfig config_for(const Plan& plan, const Simulation& simulation) {
  SimulatorConfig config;
  config.view = simulation.view;
  config.network = simulation.network;
  config.credit = link_credit(plan);
  config.irregular = simulation.blocks.all();
  return config;
}

/// Elements of the longest block.
std::uint64_t longest_count(const Problem& problem, const DividedBlocks& blocks) {
  return problem.irregular ? blocks.longest() : problem.count;
}

void tell(const Plan& plan, const Simulation& simulation, const SimulatorReport& report, program::Output& output) {
  const Problem& problem = plan.problem;
  RankUse most;
  for (const RankUse& rank : report.ranks) {
    most.processor = std::max(most.processor, rank.processor);
    most.egress = std::max(most.egress, rank.egress);
    most.ingress = std::max(most.ingress, rank.ingress);
  }
  const bool on_network = simulation.network != nullptr;
  output.line(fmt::format("{} by {} on {} ranks{}, {}: {} in virtual time", kind_of(problem), plan.algorithm, problem.ranks,
                          on_network ? " of " + simulation.network_name : "", blocks_text(problem, simulation.blocks),
                          exact_time_text(report.seconds)));
  output.line(fmt::format("  {} messages of {} bytes in all, {} passes, credit {}", report.messages, report.bytes,
                          plan.passes(longest_count(problem, simulation.blocks)), link_credit(plan)));
  if (!on_network) {
    output.line(fmt::format("  the busiest rank's processor works for {}, egress for {}, ingress for {}",
                            exact_time_text(most.processor), exact_time_text(most.egress), exact_time_text(most.ingress)));
    return tell_links(report, output);
  }
  output.line(fmt::format("  the busiest rank's processor works for {}", exact_time_text(most.processor)));
  if (report.rank_classes.size() < report.ranks.size()) {
    output.line(fmt::format("  {} of the ranks simulated, for all that go through the same", report.rank_classes.size()));
  }
  tell_loads(*simulation.network, report, output);
}

std::string links_json(const SimulatorReport& report) {
  std::string links = "[";
  for (const LinkTraffic& link : by_ends(report)) {
    links += fmt::format("{}{{\"from\":{},\"to\":{},\"channel\":{},\"messages\":{},\"bytes\":{}",
                         links.size() > 1 ? "," : "", link.from, link.to, link.channel, link.messages, link.bytes);
    links += link.alike > 1 ? fmt::format(",\"alike\":{}}}", link.alike) : "}";
  }
  return links + "]";
}

std::string loads_json(const Network& network, const SimulatorReport& report) {
  std::string links = "[";
  for (std::uint32_t l = 0; l < report.loads.size(); ++l) {
    if (report.loads[l] == 0) continue;
    const NetworkLink link = network.link(l);  // names have no characters that JSON escapes
    links += fmt::format("{}{{\"link\":\"{}\",\"bytes\":{},\"bytes_per_second\":{}}}", links.size() > 1 ? "," : "",
                         link.name, report.loads[l], link.bytes_per_second);
  }
  return links + "]";
}

void record(const Subject& subject, const Simulation& simulation, const SimulatorReport& report, program::Output& output) {
  const Plan& plan = subject.plan;
  program::JsonObject record;
  record.add("verdict", subject.verdict).add("collective", kind_of(plan.problem)).add("algorithm", plan.algorithm);
  if (plan.problem.irregular) record.add("division", name_of(simulation.blocks.division()));
  record.add("ranks", std::int64_t{plan.problem.ranks}).add("lanes", std::int64_t{plan.shape.lanes});
  record.add("steps", subject.steps).add("messages", report.messages);
  record.add("bytes_per_rank", static_cast<double>(report.bytes) / plan.problem.ranks);
  record.add("seconds", report.seconds).add_json("links", links_json(report));
  if (simulation.network != nullptr) {
    record.add("topology", simulation.network_name).add("simulated_ranks", std::uint64_t{report.rank_classes.size()});
    record.add_json("network_links", loads_json(*simulation.network, report));
  }
  output.record(record);
}

/// Empty, or why a file that was asked for cannot be written.
std::string check_files(const Simulation& simulation) {
  std::string wrong;
  if (!simulation.trace.empty()) wrong = program::check_writable("--trace", simulation.trace);
  if (wrong.empty() && !simulation.link_load_svg.empty()) {
    wrong = program::check_writable("--link-load-svg", simulation.link_load_svg);
  }
  return wrong;
}

int simulate_subject(const Subject& subject, const Simulation& simulation, program::Output& output) {
  if (const std::string wrong = check_files(simulation); !wrong.empty()) {
    return output.fail(static_cast<int>(program::kWrongUse), wrong);
  }
  SimulatorConfig config = config_for(subject.plan, simulation);
  config.timeline = !simulation.trace.empty();
  const SimulatorReport report = subject.run(config);
  int written = static_cast<int>(program::kGood);
  if (config.timeline) written = output.file(simulation.trace, chrome_trace(subject.program, report));
  if (written != static_cast<int>(program::kGood)) return written;
  if (report.verdict != SimulatorReport::Verdict::completed) {
    return output.fail(static_cast<int>(program::kWrongData), "not completed: " + report.why);
  }
  if (!simulation.link_load_svg.empty()) {
    const std::string title = fmt::format("{} by {} on {} ranks of {}", kind_of(subject.plan.problem),
                                          subject.plan.algorithm, subject.plan.problem.ranks, simulation.network_name);
    written = output.file(simulation.link_load_svg, link_load_svg(title, *simulation.network, report).svg);
    if (written != static_cast<int>(program::kGood)) return written;
  }
  tell(subject.plan, simulation, report, output);
  if (config.timeline) output.line(fmt::format("  timeline in {}, for chrome://tracing or Perfetto", simulation.trace));
  if (output.json()) record(subject, simulation, report, output);  // a million links take a while
  return output.result(static_cast<int>(program::kGood));
}

/// The ranks' symmetry that simulating may use; empty: none.
std::vector<int> symmetry_of(const Algorithm& algorithm, const Plan& plan, const Simulation& simulation) {
  if (algorithm.symmetry == nullptr || simulation.network == nullptr) return {};
  return algorithm.symmetry(plan.problem, simulation.view);
}

/// How to make one rank stand for all that are alike.
std::string even_bytes(const Plan& plan) {
  return fmt::format("give --bytes a multiple of {}, so that all ranks do the same and one stands for all",
                     even_count(plan) * element_bytes(plan.problem.type));
}

/// The programs of all ranks; or, where more steps than `limit` or more links than most_links would be simulated one by
/// one, the sentence that says so.
Result<ProgramClasses> cast_for(const Algorithm& algorithm, const Plan& plan, const Simulation& simulation, double limit) {
  const auto program_of = [&](int rank) { return make_program(algorithm, plan, simulation.view, rank); };
  const int ranks = plan.problem.ranks;
  const std::vector<int> symmetry = symmetry_of(algorithm, plan, simulation);
  if (symmetry.empty() || !chunks_alike(plan)) {
    const Program one = program_of(ranks / 2);
    if (const double links = static_cast<double>(one.links.size()) / 2 * ranks; links > most_links) {
      return Status(
          TUTTI_INVALID_ARGUMENT,
          fmt::format("{} on {} ranks sends over {:.1e} links, more than the {:.1e} that are simulated; take fewer "
                      "ranks or another algorithm",
                      plan.algorithm, ranks, links, most_links));
    }
    const double steps = static_cast<double>(one.steps.size()) * ranks *
                         static_cast<double>(std::max<std::uint64_t>(1, plan.passes(plan.problem.count)));
    if (steps > limit) {
      const std::string remedy = symmetry.empty() ? "take fewer ranks or another algorithm" : even_bytes(plan);
      return Status(TUTTI_INVALID_ARGUMENT,
                    fmt::format("{} on {} ranks takes about {:.1e} steps, more than the {:.0e} that are simulated one by "
                                "one; {}",
                                plan.algorithm, ranks, steps, limit, remedy));
    }
  }
  return classify_programs(plan, program_of, symmetry);
}

/// All ranks' programs of an irregular plan, each simulated by itself; or the sentence that says that they would be more
/// than memory holds, or take more steps than `limit`.
Result<std::vector<Program>> programs_for(const Algorithm& algorithm, const Plan& plan, const Simulation& simulation,
                                          double limit) {
  std::vector<Program> programs;
  double steps = 0;
  for (int r = 0; r < plan.problem.ranks; ++r) {
    programs.push_back(make_program(algorithm, plan, simulation.view, r));
    steps += static_cast<double>(programs.back().steps.size());
    const double expected = steps / (r + 1) * plan.problem.ranks;
    const double all = expected * static_cast<double>(std::max<std::uint64_t>(1, plan.passes(simulation.blocks.longest())));
    if (expected <= most_held_steps && all <= limit) continue;
    return Status(
        TUTTI_INVALID_ARGUMENT,
        fmt::format("{} by {} on {} ranks takes about {:.1e} steps in programs that have {:.1e}, more than the "
                    "{:.0e} and {:.0e} that v-variants are simulated with; take fewer ranks or bytes",
                    kind_of(plan.problem), plan.algorithm, plan.problem.ranks, all, expected, limit, most_held_steps));
  }
  return programs;
}

}  // namespace

std::string blocks_text(const Problem& problem, const DividedBlocks& blocks) {
  const std::uint64_t element = problem.irregular && problem.opaque != 0 ? problem.opaque : element_bytes(problem.type);
  if (!problem.irregular) return fmt::format("{} bytes a block", problem.count * element);
  return fmt::format("{} bytes a block on average, division {}", blocks.mean() * element, name_of(blocks.division()));
}

int simulate_schedule(const Schedule& schedule, bool proved, const Simulation& simulation, program::Output& output) {
  std::uint64_t steps = 0;
  for (const Program& program : schedule.programs) steps += program.steps.size();
  const Subject subject{schedule.plan, proved ? "completed" : "not proved", steps,
                        [&](const SimulatorConfig& config) { return simulate(schedule.plan, schedule.programs, config); },
                        [&](int rank) -> const Program& { return schedule.programs[static_cast<std::size_t>(rank)]; }};
  return simulate_subject(subject, simulation, output);
}

int simulate_algorithm(const Algorithm& algorithm, const Plan& plan, const Simulation& simulation,
                       program::Output& output) {
  if (plan.problem.irregular) {
    auto programs = programs_for(algorithm, plan, simulation, most_steps);
    if (!programs.ok()) return output.fail(static_cast<int>(program::kWrongUse), programs.status().text());
    return simulate_schedule({plan, std::move(*programs)}, true, simulation, output);
  }
  const auto program_classes = cast_for(algorithm, plan, simulation, most_steps);
  if (!program_classes.ok()) return output.fail(static_cast<int>(program::kWrongUse), program_classes.status().text());
  if (plan.problem.ranks > few_ranks && !chunks_alike(plan) && !symmetry_of(algorithm, plan, simulation).empty()) {
    output.line(fmt::format("{} ranks are simulated one by one; to be quicker, {}", plan.problem.ranks, even_bytes(plan)));
  }
  std::uint64_t steps = 0;
  for (int r = 0; r < plan.problem.ranks; ++r) steps += program_classes->program(r).steps.size();
  const Subject subject{plan, "completed", steps,
                        [&](const SimulatorConfig& config) { return simulate(plan, *program_classes, config); },
                        [&](int rank) -> const Program& { return program_classes->program(rank); }};
  return simulate_subject(subject, simulation, output);
}

namespace {

/// Seconds of all passes, each simulated; nothing where those are too many steps.
std::optional<double> seconds_of_all(const Algorithm& algorithm, const Plan& plan, const Simulation& simulation) {
  const auto seconds_of = [](const SimulatorReport& report) {
    return report.verdict == SimulatorReport::Verdict::completed ? std::optional(report.seconds) : std::nullopt;
  };
  if (plan.problem.irregular) {
    const auto programs = programs_for(algorithm, plan, simulation, most_compared_steps);
    return programs.ok() ? seconds_of(simulate(plan, *programs, config_for(plan, simulation))) : std::nullopt;
  }
  const auto program_classes = cast_for(algorithm, plan, simulation, most_compared_steps);
  if (!program_classes.ok()) return std::nullopt;
  return seconds_of(simulate(plan, *program_classes, config_for(plan, simulation)));
}

}  // namespace

std::optional<double> simulated_seconds(const Algorithm& algorithm, const Plan& plan, const Simulation& simulation) {
  const Problem& problem = plan.problem;
  if (problem.ranks > most_compared_ranks) return std::nullopt;
  if (const auto seconds = seconds_of_all(algorithm, plan, simulation)) return seconds;
  if (problem.irregular) return std::nullopt;  // its passes have no pace
  // As many passes as are few enough, and the rest at the pace of their second half.
  const double steps = static_cast<double>(make_program(algorithm, plan, simulation.view, problem.ranks / 2).steps.size());
  const auto most = static_cast<std::uint64_t>(most_compared_steps / std::max(1.0, steps * problem.ranks));
  const std::uint64_t passes = std::min(most, plan.passes(problem.count)) / 2 * 2;
  if (passes < least_passes) return std::nullopt;
  Plan begun = plan;
  begun.problem.count = plan.window * passes;
  const auto whole = seconds_of_all(algorithm, begun, simulation);
  begun.problem.count /= 2;
  const auto half = seconds_of_all(algorithm, begun, simulation);
  if (!whole || !half) return std::nullopt;
  const double left = static_cast<double>(problem.count) / static_cast<double>(plan.window * passes) - 1;
  return *whole + left * 2 * (*whole - *half);
}

}  // namespace tutti::plan_tool
