// tutti-plan: shows, proves, costs, simulates and makes schedules.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/base/dimensions.h"
#include "src/base/plural.h"
#include "src/base/text_file.h"
#include "src/program/files.h"
#include "src/program/options.h"
#include "src/program/output.h"
#include "src/schedule/msccl_file.h"
#include "src/schedule/msccl_xml.h"
#include "src/schedule/text.h"
#include "src/schedule/verifier.h"
#include "src/selection/choices.h"
#include "src/selection/select.h"
#include "src/selection/tuning.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "tools/plan/costs.h"
#include "tools/plan/draw.h"
#include "tools/plan/networks.h"
#include "tools/plan/problem.h"
#include "tools/plan/simulate.h"
#include "tools/plan/simulated_choices.h"
#include "tools/plan/synthesize.h"
#include "topology/generators.h"
#include "topology/grid.h"
#include "topology/oversubscription.h"

namespace {

using namespace tutti;

/// What the library's links take; windows are as large as in a real run.
/// Messages are as long as a slot of the library's links, unless --slice says otherwise, and at least a line of its chunks.
constexpr std::uint64_t slot_bytes = 256 * 1024;
constexpr std::uint64_t least_slice = 128;
constexpr std::uint64_t most_slice = std::uint64_t{1} << 30;
constexpr std::int64_t most_ranks = 1 << 20;

struct Request {
  std::string command;
  plan_tool::ProblemWords problem;
  std::string algorithm;
  std::string division = "even";
  std::string schedule;
  std::string output;
  std::string topology;
  std::string msccl;
  std::string svg;
  std::string trace;
  std::string link_load_svg;
  std::string tuning;
  std::string csv;
  std::string torus;
  std::int64_t machines = 1;
  std::int64_t cores = 0;
  std::int64_t rank = -1;
  std::int64_t lanes = 0;
  std::uint64_t slice = slot_bytes;
  bool one_collective = false;  ///< --collective was given
};

void declare_problem(program::Options& options, Request& request) {
  options.positional("COMMAND", &request.command, "one of show, verify, cost, simulate and synthesize", true,
                     {"show", "verify", "cost", "simulate", "synthesize"});
  options.text("--collective", &request.problem.collective, "NAME",
               "all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, gather, scatter or barrier; or a "
               "v-variant, whose blocks have lengths of their own: all_gather_v, reduce_scatter_v, all_to_all_v, gather_v, "
               "scatter_v");
  options.text("--algorithm", &request.algorithm, "NAME",
               "the algorithm, of those that cost lists; without it, the one that selection chooses");
  options.integer("--ranks", &request.problem.ranks, 1, most_ranks,
                  "number of ranks; on a --topology, all its endpoints unless given");
  options.integer("--root", &request.problem.root, 0, most_ranks - 1, "root of a broadcast, reduce, gather or scatter");
  options.integer("--rank", &request.rank, 0, most_ranks - 1, "show: this rank's program alone");
  options.integer("--lanes", &request.lanes, 0, 64, "lanes; 0 leaves the choice to the algorithm");
  options.size("--bytes", &request.problem.bytes, "bytes of one block, as the API counts; of a v-variant, on average");
  options.text("--division", &request.division, "NAME",
               "simulate, cost, show --svg: how a v-variant's elements are divided into blocks, one of " +
                   listing(division_names()) + "; proofs hold for every division");
  options.size("--slice", &request.slice, "bytes of the longest message: longer chunks go in several passes");
  options.text("--type", &request.problem.type, "NAME", "element type: one of the API's, or opaqueN for N bytes");
  options.text("--op", &request.problem.op, "NAME",
               "operator: one of the API's, pre_mul_sum or user_defined; add --one-fold where that does not commute");
  options.text("--accumulate", &request.problem.accumulate, "NAME",
               "float32: sums of shorter floats are rounded once, and so are one fold");
  options.flag("--one-fold", &request.problem.one_fold,
               "algorithms alone that fold all ranks' operands at once, in rank order, as reproducible sums do");
  options.integer("--local-operands", &request.problem.local_operands, 1, most_total_operands,
                  "operands that each rank folds, of an all_reduce or reduce; several go by --one-fold");
}

void declare_machine(program::Options& options, Request& request) {
  options.integer("--cores", &request.cores, 1, 65536,
                  "cores of each machine, which its ranks share; without it one for every rank");
  options.integer("--machines", &request.machines, 1, 65536, "machines, with as many consecutive ranks on each");
  options.text("--torus", &request.torus, "SIZES", "the torus that the ranks lie on, as 16x16; the last varies fastest");
  options.text(
      "--topology", &request.topology, "FILE|NETWORK",
      "simulate, cost, synthesize: a machine's file (hwloc's or NCCL's XML), whose GPUs are the ranks, or a network, see "
      "below");
}

void declare_files(program::Options& options, Request& request) {
  options.text("--schedule", &request.schedule, "FILE",
               "show, verify, simulate: a schedule as `show` prints it, instead of an algorithm");
  options.text("--tuning", &request.tuning, "FILE", "a tuning table, see perf/tune; without it the built-in estimates");
  options.text("--csv", &request.csv, "FILE",
               "cost: writes what is chosen for every size, of all collectives unless one is given, and by which "
               "constants, as a tuning table in CSV form");
  options.text("--msccl", &request.msccl, "FILE",
               "show, verify, simulate: an MSCCL algorithm file, instead of an algorithm; --bytes, --type and --op count");
  options.text("--output", &request.output, "FILE", "synthesize: writes the schedule, for --schedule");
  options.text("--svg", &request.svg, "FILE",
               "show: draws the schedule in space and time, of up to 64 ranks and 4096 moves");
  options.text("--trace", &request.trace, "FILE", "simulate: writes a timeline in the Chrome trace format");
  options.text("--link-load-svg", &request.link_load_svg, "FILE",
               "simulate on a --topology: draws what each of its links carried");
}

void declare_examples(program::Options& options) {
  options.example("tutti-plan show --collective all_reduce --algorithm ring --ranks 4", "every rank's lanes of moves");
  options.example("tutti-plan show --algorithm double_tree --ranks 16 --bytes 64K --svg tree.svg",
                  "every move and message, drawn over time");
  options.example("tutti-plan verify --collective broadcast --algorithm chain --ranks 9 --root 3",
                  "the proof, or what is wrong");
  options.example("tutti-plan cost --collective all_reduce --ranks 8 --bytes 1M",
                  "all algorithms, quickest first, and why");
  options.example("tutti-plan verify --ranks 4 --local-operands 3",
                  "the proof that twelve operands are folded at once, in order");
  options.example("tutti-plan cost --ranks 8 --csv choices.csv",
                  "all choices for 8 ranks, for a spreadsheet, --tuning or TUTTI_TUNING");
  options.example("tutti-plan simulate --algorithm ring --ranks 8 --trace ring.json",
                  "its time and traffic, and a timeline");
  options.example("tutti-plan simulate --collective all_to_all_v --division skewed --ranks 8",
                  "traffic of blocks that differ in length");
  options.example("tutti-plan verify --msccl allreduce.xml", "the proof of somebody else's schedule, or who is wrong");
  options.example(
      "tutti-plan simulate --algorithm ring --topology fat_tree:8x16,oversubscription=4 --link-load-svg load.svg",
      "on a network whose links are shared");
  options.example("tutti-plan synthesize --topology dgx1.xml --bytes 64M --output dgx1.schedule",
                  "an all-reduce for one machine, beside the named algorithms");
  options.note("Networks for --topology, with options as ,NAME=NUMBER behind the sizes:\n" +
               std::string(generators_help()));
}

void declare(program::Options& options, Request& request) {
  declare_problem(options, request);
  declare_machine(options, request);
  declare_files(options, request);
  declare_examples(options);
}

int refuse(program::Output& output, const std::string& sentence) {
  return output.fail(static_cast<int>(program::kWrongUse), sentence);
}

/// What is too much for `synthesize`, which simulates every pass of many drafts.
constexpr std::uint64_t most_synthesized = std::uint64_t{1} << 30;
/// Ranks that the verifier takes.
constexpr std::int64_t most_proved = 65536;

/// The same for `synthesize`.
std::optional<std::string> wrong_with_synthesis(const Request& request, const program::Options& options) {
  if (request.topology.empty()) return "`synthesize` makes a schedule for a machine; give its file by --topology";
  if (request.problem.collective != "all_reduce") return "`synthesize` makes all-reduces; leave out --collective";
  if (request.problem.bytes > most_synthesized) {
    return "`synthesize` simulates every draft to its end, which takes too long above 1G; give --bytes up to that: what "
           "is best there is best for more";
  }
  for (const std::string& name : options.given()) {
    const bool fits = name == "COMMAND" || name == "--topology" || name == "--output" || name == "--ranks" ||
                      name == "--bytes" || name == "--type" || name == "--op" || name == "--collective";
    if (!fits) return name + " is no matter to `synthesize`; leave it out";
  }
  return std::nullopt;
}

std::string said_already(const std::string& option, const char* file) {
  return fmt::format("{} is what {} says already; leave it out", option, file);
}

/// The same where a file says what the schedule is: it says more than that.
std::optional<std::string> wrong_with_file(const Request& request, const program::Options& options) {
  const char* const said_by = request.schedule.empty() ? "--msccl" : "--schedule";
  if (!request.msccl.empty() && options.given("--division"))
    return "--division is of v-variants, and MSCCL files have none; leave it out";
  for (const std::string& name : options.given()) {
    // Of an irregular schedule they say what it does not.
    if (request.msccl.empty() && (name == "--division" || name == "--bytes")) continue;
    const bool of_both = name == "COMMAND" || name == said_by || name == "--trace" || name == "--topology" ||
                         name == "--link-load-svg" || name == "--svg" || name == "--rank";
    const bool of_msccl = name == "--bytes" || name == "--slice" || name == "--type" || name == "--op";
    if (of_both || (request.schedule.empty() && of_msccl)) continue;
    return said_already(name, said_by);
  }
  return std::nullopt;
}

/// Options that not every command takes.
struct Belongs {
  const char* option;
  std::vector<std::string> commands;
};
const std::vector<Belongs>& belongings() {
  static const std::vector<Belongs> table = {{"--trace", {"simulate"}},
                                             {"--link-load-svg", {"simulate"}},
                                             {"--output", {"synthesize"}},
                                             {"--topology", {"simulate", "cost", "synthesize"}},
                                             {"--csv", {"cost"}},
                                             {"--division", {"simulate", "cost", "show"}},
                                             {"--slice", {"show", "verify", "simulate", "cost"}},
                                             {"--svg", {"show"}},
                                             {"--rank", {"show"}},
                                             {"--msccl", {"show", "verify", "simulate"}},
                                             {"--schedule", {"show", "verify", "simulate"}}};
  return table;
}

/// An option that belongs to another command.
std::optional<std::string> misplaced(const Request& request, const program::Options& options) {
  for (const auto& [option, commands] : belongings()) {
    if (!options.given(option) || std::find(commands.begin(), commands.end(), request.command) != commands.end()) continue;
    std::vector<std::string> quoted;
    for (const std::string& command : commands) quoted.push_back("`" + command + "`");
    return fmt::format("{} belongs to {}; leave it out", option, program::listing(quoted));
  }
  return std::nullopt;
}

/// The same of --division, and of v-variants where it would matter.
std::optional<std::string> wrong_with_division(const Request& request, const program::Options& options) {
  const std::string& collective = request.problem.collective;
  const bool is_v_variant = collective_of_v_variant(collective).has_value();
  if (is_v_variant && !request.csv.empty()) {
    return fmt::format(
        "--csv writes choices by collective, which v-variants go by, too; leave it out, or give --collective {}",
        name_of(*collective_of_v_variant(collective)));
  }
  if (!options.given("--division")) return std::nullopt;
  if (divisions_named(request.division).size() != 1) {
    return fmt::format("there is no division \"{}\"; choose from {}", request.division, listing(division_names()));
  }
  if (request.command == "show" && request.svg.empty())
    return "`show` prints what is the same for every division; leave out --division, or draw one by --svg";
  if (request.command == "cost" && request.topology.empty())
    return "without a --topology `cost` knows blocks of one length alone; leave out --division, or `simulate`";
  if (!request.schedule.empty() || !request.msccl.empty() || is_v_variant) return std::nullopt;
  return fmt::format(
      "--division is of v-variants, and blocks of {} have one length; leave it out, or give --collective "
      "all_gather_v, reduce_scatter_v, all_to_all_v, gather_v or scatter_v",
      collective);
}

/// What is wrong with the options: they belong to another command, or to no other that was given.
std::optional<std::string> wrong_with(const Request& request, const program::Options& options) {
  if (auto sentence = misplaced(request, options)) return sentence;
  if (request.command == "synthesize") return wrong_with_synthesis(request, options);
  const bool places = options.given("--machines") || options.given("--torus") || options.given("--cores");
  const std::pair<bool, std::string> wrongs[] = {
      {!request.topology.empty() && places, "--topology says where ranks are; leave out --machines, --torus and --cores"},
      {request.command == "verify" && request.problem.ranks > most_proved,
       fmt::format("`verify` takes up to {} ranks, and not {}; take fewer, or `simulate`", most_proved,
                   request.problem.ranks)},
      {!request.link_load_svg.empty() && request.topology.empty(),
       "--link-load-svg draws the links of a network that `simulate` is given by --topology"},
      {request.slice < least_slice || request.slice > most_slice,
       fmt::format("--slice {} is no length of a message; give {} to {}", request.slice, least_slice, most_slice)},
      {request.command == "simulate" && options.given("--cores"),
       "`simulate` gives every rank a core; leave out --cores, and name by --algorithm what `cost --cores` chooses"},
      {request.command == "cost" && request.topology.empty() && options.given("--slice"),
       "without a --topology `cost` knows messages as long as the library's alone; leave out --slice, or `simulate`"},
      {!request.csv.empty() && !request.algorithm.empty(),
       "--csv writes what selection chooses; leave out --algorithm, which takes the choice from it"},
      {!request.svg.empty() && request.rank >= 0, "--svg draws all ranks; leave out --rank"}};
  for (const auto& [is_so, sentence] : wrongs) {
    if (is_so) return sentence;
  }
  if (auto sentence = wrong_with_division(request, options)) return sentence;
  if (request.schedule.empty() && request.msccl.empty()) return std::nullopt;
  return wrong_with_file(request, options);
}

/// The table that the request names; an empty one where it names none.
Result<Tuning> tuning_of(const Request& request) {
  return request.tuning.empty() ? Result<Tuning>(Tuning()) : Tuning::read(request.tuning);
}

/// Ranks on machines, or on a torus, as the request has them.
Result<View> view_of(const Request& request, int ranks, const Tuning& tuning) {
  const auto machines = static_cast<int>(request.machines);
  if (ranks % machines != 0) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("{} ranks are not the same number on each of {} machines; give --machines a divisor of {}",
                              ranks, machines, ranks));
  }
  // A torus is one of machines, unless they are numbered.
  View view = uniform_view(request.torus.empty() || machines > 1 ? machines : ranks,
                           request.torus.empty() || machines > 1 ? ranks / machines : 1);
  if (!request.torus.empty()) {
    view.torus = parse_dimensions(request.torus).value_or(std::vector<std::int32_t>());
    if (torus_of(view).size() == 0) {
      return Status(TUTTI_INVALID_ARGUMENT, fmt::format("--torus \"{}\" is no torus of {} ranks; give sizes whose product "
                                                        "is {}, with x between them",
                                                        request.torus, ranks, ranks));
    }
  }
  view.through_memory = view.machines() == 1;
  const double on_one = static_cast<double>(ranks) / view.machines();
  if (request.cores > 0) share_cores(view, std::max(1.0, on_one / static_cast<double>(request.cores)));
  tuning.apply_with_links(view);
  return view;
}

Result<Candidate> choose(const Request& request, const Problem& problem, const View& view, const Tuning& tuning) {
  return select(problem, view, Overrides(), request.algorithm, static_cast<std::uint32_t>(request.lanes), tuning);
}

/// All ranks' programs; or, where they would fill the memory, the sentence that says so.
Result<Schedule> make_schedule(const Candidate& choice, const Problem& problem, const View& view, std::uint64_t slice) {
  Schedule schedule;
  schedule.plan = make_plan(*choice.algorithm, problem, view, choice.parameters, slice);
  const auto of_one = make_program(*choice.algorithm, schedule.plan, view, problem.ranks / 2).steps.size();
  if (const double steps = static_cast<double>(of_one) * problem.ranks; steps > plan_tool::most_held_steps) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("the programs of {} ranks of {} have about {:.1e} steps, more than the {:.0e} that memory is "
                              "asked for; take fewer ranks, or `simulate` or `show --rank`, which make them one by one",
                              problem.ranks, choice.algorithm->name, steps, plan_tool::most_held_steps));
  }
  for (int r = 0; r < problem.ranks; ++r)
    schedule.programs.push_back(make_program(*choice.algorithm, schedule.plan, view, r));
  return schedule;
}

/// The whole of a file. what: what it should be.
Result<std::string> read_text(const std::string& path, const char* what) {
  auto text = read_text_file(path);
  if (text.ok()) return text;
  return Status(TUTTI_INVALID_ARGUMENT,
                fmt::format("{} cannot be read: {}; give the path of {}", path, text.status().error().message, what));
}

Result<Schedule> read_schedule(const std::string& path) {
  const auto text = read_text(path, "a schedule that `tutti-plan show` has written");
  if (!text.ok()) return text.status();
  auto schedule = parse_schedule(*text);
  if (schedule.ok()) return schedule;
  return Status(TUTTI_INVALID_ARGUMENT, fmt::format("{} is refused: {}", path, schedule.status().text()));
}

/// Bytes that all links carry for the plan's whole count.
double bytes_sent(const Schedule& schedule) {
  const Plan& plan = schedule.plan;
  const std::uint64_t passes = plan.passes(plan.problem.count);
  double elements = 0;
  for (const Program& program : schedule.programs) {
    for (const Step& step : program.steps) {
      for (std::uint32_t o = step.operands + step.sources; o < step.operands + step.sources + step.destinations; ++o) {
        const Operand& operand = program.operands[o];
        if (operand.place != Place::link || passes == 0) continue;
        const auto size = [&](std::uint64_t pass) {
          return static_cast<double>(operand.range.blocks) *
                 static_cast<double>(
                     elements_of(plan, plan.problem.count, pass, operand.range.chunk, operand.range.chunks).size());
        };
        // All windows but the last are full.
        elements += size(0) * static_cast<double>(passes - 1) + size(passes - 1);
      }
    }
  }
  return elements * static_cast<double>(element_bytes(plan.problem.type));
}

int show_text(const std::string& text, program::Output& output) {
  output.line(text);
  program::JsonObject record;
  record.add("schedule", text);
  output.record(record);
  return output.result(static_cast<int>(program::kGood));
}

/// The program of --rank. program_of: of a rank.
template <class ProgramOf>
int show_one(const Request& request, const Plan& plan, const ProgramOf& program_of, program::Output& output) {
  const int ranks = plan.problem.ranks;
  if (request.rank >= ranks) {
    return refuse(output, fmt::format("--rank {} is outside {} ranks; choose 0 to {}", request.rank, ranks, ranks - 1));
  }
  const int rank = static_cast<int>(request.rank);
  return show_text(print_program(program_of(rank), rank), output);
}

/// A plan's traffic is told where it knows its blocks. seconds: what selection expects, where it was asked.
int prove(const Schedule& schedule, std::optional<double> seconds, program::Output& output) {
  const Plan& plan = schedule.plan;
  const Verdict verdict = verify(plan, schedule.programs);
  if (!verdict.proved()) return output.fail(static_cast<int>(program::kWrongData), "not proved: " + verdict.fault.text());
  const bool irregular = plan.problem.irregular;
  output.line(fmt::format("proved: {} by {} on {} ranks", kind_of(plan.problem), plan.algorithm, plan.problem.ranks));
  output.line(fmt::format("  every output element is the promised combination, out of place and in place, for every {};",
                          irregular ? "division into blocks" : "count"));
  output.line(
      fmt::format("  messages pair up, nothing is overwritten that may still be read, no deadlock at a credit of {}",
                  plan.shape.credit));
  output.line(fmt::format("  {}, {}, {} a pass, {}", plural(plan.shape.lanes, "lane"), plural(verdict.proof.steps, "step"),
                          plural(verdict.proof.messages, "message"), plural(verdict.proof.passes, "symbolic run")));
  if (reduces(plan.problem.collective)) {
    output.line(fmt::format("  association {:016x}{}", verdict.proof.association,
                            verdict.proof.rank_order ? ", folded in rank order" : ""));
  }
  program::JsonObject record;
  record.add("verdict", std::string("proved")).add("collective", std::string(kind_of(plan.problem)));
  record.add("algorithm", plan.algorithm).add("ranks", std::int64_t{plan.problem.ranks});
  record.add("lanes", static_cast<std::int64_t>(plan.shape.lanes))
      .add("steps", static_cast<std::int64_t>(verdict.proof.steps));
  record.add("messages", static_cast<std::int64_t>(verdict.proof.messages));
  if (irregular) {
    record.add_json("bytes_per_rank", "null");
  } else {
    record.add("bytes_per_rank", bytes_sent(schedule) / plan.problem.ranks);
  }
  record.add_json("seconds", seconds ? fmt::format("{}", *seconds) : "null");
  output.record(record);
  return output.result(static_cast<int>(program::kGood));
}

/// network: the one that was named, if any; outlives what is returned. blocks: of an irregular problem.
plan_tool::Simulation simulation_of(const Request& request, View view, const plan_tool::NamedNetwork& network,
                                    plan_tool::DividedBlocks blocks = {}) {
  return {std::move(view), network.network.get(), network.name, request.trace, request.link_load_svg, std::move(blocks)};
}

/// The blocks of a call of the problem, where they matter to the command.
Result<plan_tool::DividedBlocks> blocks_for(const Request& request, const Problem& problem) {
  const bool matter = request.command == "simulate" || request.command == "cost" || !request.svg.empty();
  if (!matter) return plan_tool::DividedBlocks();
  return plan_tool::blocks_of_call(request.problem, problem, divisions_named(request.division).at(0));
}

/// Writes the choices of all collectives, or of the one that was asked for. Returns kGood, or the code of an error that has
/// been told.
int write_choices(const Request& request, const Problem& problem, const Tuning& tuning,
                  const plan_tool::Simulation& simulation, program::Output& output) {
  std::vector<Collective> wanted = {problem.collective};
  for (const auto& [collective, info] : collectives) {
    if (!request.one_collective && collective != problem.collective) wanted.push_back(collective);
  }
  const View& view = simulation.view;
  const Tuning whole = simulation.network == nullptr
                           ? with_every_choice(tuning, view, wanted)
                           : plan_tool::with_simulated_choices(tuning, simulation, request.slice, wanted);
  const int code = output.file(request.csv, whole.text(','));
  if (code == static_cast<int>(program::kGood)) {
    output.line(fmt::format("all choices on {} ranks are in {}, for --tuning and TUTTI_TUNING", view.ranks(), request.csv));
  }
  return code;
}

int cost(const Request& request, Problem problem, const Candidate& choice, const Tuning& tuning,
         const plan_tool::Simulation& simulation, program::Output& output) {
  std::string constants = request.tuning.empty() ? "built-in estimates" : request.tuning;
  const View& view = simulation.view;
  const std::vector<std::string> unsaid = tuning.unsaid_links(view);
  if (!request.tuning.empty() && !unsaid.empty()) {
    constants += fmt::format(", which says nothing of {}: built-in estimates", fmt::join(unsaid, ", "));
  }
  if (simulation.network != nullptr)
    constants = "the network's links" + (request.tuning.empty() ? "" : ", and what else is in " + request.tuning);
  if (view.oversubscription > 1) constants += fmt::format(", {} ranks to a core", view.oversubscription);
  const std::string_view measured = tuning.use(problem);
  const std::string_view v_choice = problem.irregular ? choice.algorithm->name : std::string_view();
  if (problem.irregular) problem.count = simulation.blocks.mean() * std::max<std::uint32_t>(1, problem.opaque);
  return plan_tool::tell_costs(
      {problem, static_cast<std::uint32_t>(request.lanes), request.slice, request.algorithm, measured, constants, v_choice},
      simulation, output);
}

/// `show`, `verify` or `simulate`; the last of a schedule that is proved. seconds: what selection expects, where it was
/// asked.
int tell(const Request& request, const Schedule& schedule, const plan_tool::Simulation& simulation,
         std::optional<double> seconds, program::Output& output) {
  if (!request.svg.empty())
    return plan_tool::draw_schedule(schedule, simulation.view, simulation.blocks, request.svg, output);
  if (request.command == "show" && request.rank < 0)
    return show_text(print_schedule(schedule.plan, schedule.programs), output);
  if (request.command == "show") {
    const auto program_of = [&](int rank) -> const Program& { return schedule.programs[static_cast<std::size_t>(rank)]; };
    return show_one(request, schedule.plan, program_of, output);
  }
  if (request.command == "verify") return prove(schedule, seconds, output);
  return plan_tool::simulate_schedule(schedule, true, simulation, output);
}

/// Simulates a schedule that may be wrong: such a one, too, may come to an end, and its time is of use to who mends it.
int simulate_unproved(const Schedule& schedule, const plan_tool::Simulation& simulation, program::Output& output) {
  const Verdict verdict = verify(schedule.plan, schedule.programs);
  const int told = plan_tool::simulate_schedule(schedule, verdict.proved(), simulation, output);
  if (verdict.proved() || told != static_cast<int>(program::kGood)) return told;
  return output.fail(static_cast<int>(program::kWrongData), "simulated, but not proved: " + verdict.fault.text());
}

/// Empty, or why ranks of `whose` do not fit on a network.
std::string too_many(int ranks, const std::string& whose, const plan_tool::NamedNetwork& network) {
  if (!network.network || ranks <= network.network->endpoints()) return {};
  return fmt::format("the {} ranks of {} are more than the {} endpoints of {}; take a larger network", ranks, whose,
                     network.network->endpoints(), network.name);
}

/// A command on an MSCCL file, for the request's bytes, type and operator. network: the one that was named, if any.
int tell_msccl(const Request& request, const plan_tool::NamedNetwork& network, program::Output& output) {
  const auto text = read_text(request.msccl, "an MSCCL algorithm file");
  if (!text.ok()) return refuse(output, text.status().text());
  const auto file = parse_msccl(*text);
  if (!file.ok()) {
    const std::string why = file.status().text();
    const bool unproved = request.command == "verify" && msccl::parse(*text).ok();
    if (unproved) return output.fail(static_cast<int>(program::kWrongData), "not proved: " + why);
    return refuse(output, fmt::format("{} is refused: {}", request.msccl, why));
  }
  Request asked = request;
  asked.problem.collective = name_of(file->collective);
  asked.problem.ranks = file->ranks;
  asked.problem.root = file->root;
  const auto problem = plan_tool::problem_of(asked.problem);
  if (!problem.ok()) return refuse(output, problem.status().text());
  if (const std::string wrong = too_many(file->ranks, request.msccl, network); !wrong.empty()) {
    return refuse(output, wrong);
  }
  const plan_tool::Simulation simulation = simulation_of(request, flat_view(file->ranks), network);
  return tell(request, file->schedule(*problem, request.slice), simulation, std::nullopt, output);
}

/// The command on an algorithm. network: the one that was named, if any.
int run_algorithm(const Request& request, const plan_tool::NamedNetwork& network, program::Output& output) {
  const auto problem = plan_tool::problem_of(request.problem);
  if (!problem.ok()) return refuse(output, problem.status().text());
  if (request.command == "synthesize") {
    return plan_tool::synthesize_schedule(network, *problem, request.output, output);
  }
  const auto tuning = tuning_of(request);
  if (!tuning.ok()) return refuse(output, tuning.status().text());
  const auto view =
      network.network ? Result<View>(network.view(problem->ranks)) : view_of(request, problem->ranks, *tuning);
  if (!view.ok()) return refuse(output, view.status().text());
  const auto choice = choose(request, *problem, *view, *tuning);
  if (!choice.ok()) return refuse(output, choice.status().text());
  auto blocks = blocks_for(request, *problem);
  if (!blocks.ok()) return refuse(output, blocks.status().text());
  const plan_tool::Simulation simulation = simulation_of(request, *view, network, std::move(*blocks));
  if (request.command == "cost") {
    // The file first: whoever reads the table may not read it to its end.
    const int written = request.csv.empty() ? static_cast<int>(program::kGood)
                                            : write_choices(request, *problem, *tuning, simulation, output);
    if (written != static_cast<int>(program::kGood)) return written;
    return cost(request, *problem, *choice, *tuning, simulation, output);
  }
  if (!request.svg.empty()) {
    const std::string wrong = plan_tool::too_large_to_draw(problem->ranks, 0);
    if (!wrong.empty()) return refuse(output, wrong);
  }
  const Plan plan = make_plan(*choice->algorithm, *problem, *view, choice->parameters, request.slice);
  if (request.command == "show" && request.rank >= 0) {
    return show_one(request, plan, [&](int rank) { return make_program(*choice->algorithm, plan, *view, rank); }, output);
  }
  if (request.command != "simulate") {
    const auto schedule = make_schedule(*choice, *problem, *view, request.slice);
    if (!schedule.ok()) return refuse(output, schedule.status().text());
    return tell(request, *schedule, simulation, choice->seconds, output);
  }
  return plan_tool::simulate_algorithm(*choice->algorithm, plan, simulation, output);
}

/// The command on a schedule of --schedule. network: the one that was named, if any.
int tell_schedule(const Request& request, const program::Options& options, const plan_tool::NamedNetwork& network,
                  program::Output& output) {
  const auto schedule = read_schedule(request.schedule);
  if (!schedule.ok()) return refuse(output, schedule.status().text());
  const Problem& problem = schedule->plan.problem;
  for (const char* option : {"--division", "--bytes"}) {
    if (!problem.irregular && options.given(option)) return refuse(output, said_already(option, "--schedule"));
  }
  if (problem.irregular && options.given("--bytes") && request.command != "simulate" && request.svg.empty())
    return refuse(output, "--bytes is no matter to a v-variant's schedule; leave it out, or `simulate`");
  if (const std::string wrong = too_many(problem.ranks, request.schedule, network); !wrong.empty()) {
    return refuse(output, wrong);
  }
  auto blocks = blocks_for(request, problem);
  if (!blocks.ok()) return refuse(output, blocks.status().text());
  const plan_tool::Simulation simulation = simulation_of(request, flat_view(problem.ranks), network, std::move(*blocks));
  if (request.command == "simulate") return simulate_unproved(*schedule, simulation, output);
  return tell(request, *schedule, simulation, std::nullopt, output);
}

/// Tells the output which files it is about.
void name_files(const Request& request, program::Output& output) {
  output.writes("--trace", request.trace);
  output.writes("--link-load-svg", request.link_load_svg);
  output.writes("--csv", request.csv);
  output.writes("--svg", request.svg);
  output.writes("--output", request.output);
  output.reads("--topology", request.topology);
  output.reads("--tuning", request.tuning);
  output.reads("--schedule", request.schedule);
  output.reads("--msccl", request.msccl);
}

int run(const Request& given, const program::Options& options, program::Output& output) {
  if (const auto sentence = wrong_with(given, options)) return refuse(output, *sentence);
  if (!given.csv.empty()) {
    if (const std::string wrong = program::check_writable("--csv", given.csv); !wrong.empty()) return refuse(output, wrong);
  }
  Request request = given;
  request.one_collective = options.given("--collective");
  plan_tool::NamedNetwork network;
  if (!request.topology.empty()) {
    auto named = plan_tool::open_network(request.topology);
    if (!named.ok()) return refuse(output, named.status().text());
    network = *std::move(named);
    const int endpoints = network.network->endpoints();
    if (!options.given("--ranks")) request.problem.ranks = endpoints;
    if (request.problem.ranks > endpoints) {
      return refuse(output, fmt::format("--ranks {} are more than the {} endpoints of {}; take fewer or a larger network",
                                        request.problem.ranks, endpoints, request.topology));
    }
  }
  if (!request.msccl.empty()) return tell_msccl(request, network, output);
  if (request.schedule.empty()) return run_algorithm(request, network, output);
  return tell_schedule(request, options, network, output);
}

}  // namespace

int main(int argc, char** argv) {
  program::Output output("tutti-plan");
  program::Options options("tutti-plan", "Shows, proves, costs, simulates and makes schedules.");
  Request request;
  declare(options, request);
  if (const auto code = options.parse(argc, argv, output)) return *code;
  name_files(request, output);
  if (const int code = output.open(); code != 0) return code;
  return run(request, options, output);
}
