// tutti-plan: shows, proves, costs, simulates and makes schedules.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/base/dimensions.h"
#include "src/base/text_file.h"
#include "src/program/files.h"
#include "src/program/options.h"
#include "src/program/output.h"
#include "src/reduction/reduction.h"
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
/// Steps of all ranks' programs that are held at once: some gigabytes.
constexpr double most_steps = 2e7;
constexpr std::int64_t most_ranks = 1 << 20;

struct Request {
  std::string command;
  std::string collective = "all_reduce";
  std::string algorithm;
  std::string type = "float32";
  std::string op = "sum";
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
  std::int64_t ranks = 4;
  std::int64_t root = 0;
  std::int64_t rank = -1;
  std::int64_t lanes = 0;
  std::int64_t local_operands = 1;
  bool one_fold = false;
  std::uint64_t bytes = std::uint64_t{1} << 20;
  std::uint64_t slice = slot_bytes;
  bool one_collective = false;  ///< --collective was given
};

void declare(program::Options& options, Request& request) {
  options.positional("COMMAND", &request.command, "one of show, verify, cost, simulate and synthesize", true,
                     {"show", "verify", "cost", "simulate", "synthesize"});
  options.text("--collective", &request.collective, "NAME",
               "all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, gather, scatter or barrier");
  options.text("--algorithm", &request.algorithm, "NAME",
               "the algorithm, of those that cost lists; without it, the one that selection chooses");
  options.integer("--ranks", &request.ranks, 1, most_ranks,
                  "number of ranks; on a --topology, all its endpoints unless given");
  options.integer("--root", &request.root, 0, most_ranks - 1, "root of a broadcast, reduce, gather or scatter");
  options.integer("--rank", &request.rank, 0, most_ranks - 1, "show: this rank's program alone");
  options.integer("--lanes", &request.lanes, 0, 64, "lanes; 0 leaves the choice to the algorithm");
  options.size("--bytes", &request.bytes, "bytes of one block, as the API counts");
  options.size("--slice", &request.slice, "bytes of the longest message: longer chunks go in several passes");
  options.text("--type", &request.type, "NAME", "element type");
  options.text("--op", &request.op, "NAME", "operator");
  options.flag("--one-fold", &request.one_fold,
               "algorithms alone that fold all ranks' operands at once, in rank order, as reproducible sums do");
  options.integer("--local-operands", &request.local_operands, 1, most_total_operands,
                  "operands that each rank folds, of an all_reduce or reduce; several go by --one-fold");
  options.text("--schedule", &request.schedule, "FILE",
               "show, verify, simulate: a schedule as `show` prints it, instead of an algorithm");
  options.text("--tuning", &request.tuning, "FILE", "a tuning table, see perf/tune; without it the built-in estimates");
  options.text("--csv", &request.csv, "FILE",
               "cost: writes what is chosen for every size, of all collectives unless one is given, and by which "
               "constants, as a tuning table in CSV form");
  options.integer("--cores", &request.cores, 1, 65536,
                  "cores of each machine, which its ranks share; without it one for every rank");
  options.integer("--machines", &request.machines, 1, 65536, "machines, with as many consecutive ranks on each");
  options.text("--torus", &request.torus, "SIZES", "the torus that the ranks lie on, as 16x16; the last varies fastest");
  options.text(
      "--topology", &request.topology, "FILE|NETWORK",
      "simulate, cost, synthesize: a machine's file (hwloc's or NCCL's XML), whose GPUs are the ranks, or a network, see "
      "below");
  options.text("--msccl", &request.msccl, "FILE",
               "show, verify, simulate: an MSCCL algorithm file, instead of an algorithm; --bytes, --type and --op count");
  options.text("--output", &request.output, "FILE", "synthesize: writes the schedule, for --schedule");
  options.text("--svg", &request.svg, "FILE",
               "show: draws the schedule in space and time, of up to 64 ranks and 4096 moves");
  options.text("--trace", &request.trace, "FILE", "simulate: writes a timeline in the Chrome trace format");
  options.text("--link-load-svg", &request.link_load_svg, "FILE",
               "simulate on a --topology: draws what each of its links carried");
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
  options.example("tutti-plan verify --msccl allreduce.xml", "the proof of somebody else's schedule, or who is wrong");
  options.example(
      "tutti-plan simulate --algorithm ring --topology fat_tree:8x16,oversubscription=4 --link-load-svg load.svg",
      "on a network whose links are shared");
  options.example("tutti-plan synthesize --topology dgx1.xml --bytes 64M --output dgx1.schedule",
                  "an all-reduce for one machine, beside the named algorithms");
  options.note("Networks for --topology, with options as ,NAME=NUMBER behind the sizes:\n" +
               std::string(generators_help()));
}

int refuse(program::Output& output, const std::string& sentence) {
  return output.fail(static_cast<int>(program::kWrongUse), sentence);
}

/// What is too much for `synthesize`, which simulates every pass of many drafts.
constexpr std::uint64_t most_synthesized = std::uint64_t{1} << 30;
/// Elements of a block, and ranks, that schedules and the verifier take.
constexpr std::uint64_t most_elements = std::uint64_t{1} << 42;
constexpr std::int64_t most_proved = 65536;

/// The same for `synthesize`.
std::optional<std::string> wrong_with_synthesis(const Request& request, const program::Options& options) {
  if (request.topology.empty()) return "`synthesize` makes a schedule for a machine; give its file by --topology";
  if (request.collective != "all_reduce") return "`synthesize` makes all-reduces; leave out --collective";
  if (request.bytes > most_synthesized) {
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

/// The same where a file says what the schedule is: it says more than that.
std::optional<std::string> wrong_with_file(const Request& request, const program::Options& options) {
  const char* const said_by = request.schedule.empty() ? "--msccl" : "--schedule";
  for (const std::string& name : options.given()) {
    const bool of_both = name == "COMMAND" || name == said_by || name == "--trace" || name == "--topology" ||
                         name == "--link-load-svg" || name == "--svg" || name == "--rank";
    const bool of_msccl = name == "--bytes" || name == "--slice" || name == "--type" || name == "--op";
    if (of_both || (request.schedule.empty() && of_msccl)) continue;
    return fmt::format("{} is what {} says already; leave it out", name, said_by);
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

/// What is wrong with the options: they belong to another command, or to no other that was given.
std::optional<std::string> wrong_with(const Request& request, const program::Options& options) {
  if (auto sentence = misplaced(request, options)) return sentence;
  if (request.command == "synthesize") return wrong_with_synthesis(request, options);
  const bool places = options.given("--machines") || options.given("--torus") || options.given("--cores");
  const std::pair<bool, std::string> wrongs[] = {
      {!request.topology.empty() && places, "--topology says where ranks are; leave out --machines, --torus and --cores"},
      {request.command == "verify" && request.ranks > most_proved,
       fmt::format("`verify` takes up to {} ranks, and not {}; take fewer, or `simulate`", most_proved, request.ranks)},
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
  if (request.schedule.empty() && request.msccl.empty()) return std::nullopt;
  return wrong_with_file(request, options);
}

Status unknown(const char* what, const std::string& name, const std::vector<std::string>& known) {
  return {TUTTI_INVALID_ARGUMENT,
          fmt::format("there is no {} \"{}\"; choose from {}", what, name, program::listing(known))};
}

/// What the type has instead of the operator, or else who has the operator.
Status no_fold(const Request& request, tutti_type type, tutti_op op) {
  std::vector<std::string> names;
  for (const std::string& name : op_names()) {
    if (find_fold(type, *op_of(name)) != nullptr) names.push_back(name);
  }
  const bool of_type = !names.empty();
  for (const std::string& name : type_names()) {
    if (!of_type && find_fold(*type_of(name), op) != nullptr) names.push_back(name);
  }
  const std::string instead = names.empty()
                                  ? std::string("no type has it yet")
                                  : fmt::format("{} has {}", of_type ? request.type : request.op, program::listing(names));
  return {TUTTI_INVALID_ARGUMENT, fmt::format("there is no {} of {}; {}", request.op, request.type, instead)};
}

/// Whether the collective may be asked for one fold, and the ranks have so many operands.
Status check_fold(const Request& request, Collective collective) {
  if (request.one_fold && !reduces(collective)) {
    return {TUTTI_INVALID_ARGUMENT,
            fmt::format("{} folds nothing; leave --one-fold out, or give another --collective", name_of(collective))};
  }
  if (request.local_operands == 1) return {};
  if (!takes_several_operands(collective)) {
    return {TUTTI_INVALID_ARGUMENT,
            fmt::format("{} has no more than one operand a rank; leave --local-operands out, or give all_reduce or reduce",
                        name_of(collective))};
  }
  if (request.local_operands * request.ranks <= most_total_operands) return {};
  return {TUTTI_INVALID_ARGUMENT, fmt::format("--local-operands {} of {} ranks are more than {} operands; give fewer",
                                              request.local_operands, request.ranks, most_total_operands)};
}

Result<Problem> problem_of(const Request& request) {
  const auto collective = collective_of(request.collective);
  const auto type = type_of(request.type);
  const auto op = op_of(request.op);
  if (!collective) return unknown("collective", request.collective, collective_names());
  if (!type || element_bytes(*type) == 0) return unknown("element type", request.type, type_names());
  if (!op) return unknown("operator", request.op, op_names());
  if (reduces(*collective) && find_fold(*type, *op) == nullptr) return no_fold(request, *type, *op);
  if (Status status = check_fold(request, *collective); !status.ok()) return status;
  if (request.root >= request.ranks) {
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("root {} is outside {} ranks; choose 0 to {}", request.root,
                                                      request.ranks, request.ranks - 1));
  }
  const std::size_t element = element_bytes(*type);
  if (*collective != Collective::barrier && request.bytes % element != 0) {
    const std::uint64_t below = request.bytes / element * element;
    return Status(
        TUTTI_INVALID_ARGUMENT,
        fmt::format("--bytes {} is no whole number of elements of {}, {} bytes each; give {}{}, or another --type",
                    request.bytes, request.type, element, below == 0 ? "" : fmt::format("{} or ", below), below + element));
  }
  if (request.bytes / element > most_elements) {
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("--bytes {} are {} elements of {}, and a schedule takes up to 2^42; "
                                                      "give fewer",
                                                      request.bytes, request.bytes / element, request.type));
  }
  Problem problem;
  problem.collective = *collective;
  problem.type = *type;
  problem.op = reduces(*collective) ? *op : TUTTI_SUM;
  problem.root = rooted(*collective) ? static_cast<std::int32_t>(request.root) : 0;
  problem.ranks = static_cast<std::int32_t>(request.ranks);
  problem.count = request.bytes / element;
  problem.local_operands = static_cast<std::uint32_t>(request.local_operands);
  problem.one_fold = request.one_fold || request.local_operands > 1;
  if (*collective == Collective::barrier) {
    problem.type = TUTTI_UINT8;
    problem.op = TUTTI_MAX;
    problem.count = 1;
  }
  return problem;
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
  if (const double steps = static_cast<double>(of_one) * problem.ranks; steps > most_steps) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("the programs of {} ranks of {} have about {:.1e} steps, more than the {:.0e} that memory is "
                              "asked for; take fewer ranks, or `simulate` or `show --rank`, which make them one by one",
                              problem.ranks, choice.algorithm->name, steps, most_steps));
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

/// seconds: what selection expects, where it was asked.
int prove(const Schedule& schedule, std::optional<double> seconds, program::Output& output) {
  const Plan& plan = schedule.plan;
  const Verdict verdict = verify(plan, schedule.programs);
  if (!verdict.proved()) return output.fail(static_cast<int>(program::kWrongData), "not proved: " + verdict.fault.text());
  const double per_rank = bytes_sent(schedule) / plan.problem.ranks;
  output.line(
      fmt::format("proved: {} by {} on {} ranks", name_of(plan.problem.collective), plan.algorithm, plan.problem.ranks));
  output.line(
      fmt::format("  every output element is the promised combination, out of place and in place, for every count;"));
  output.line(
      fmt::format("  messages pair up, nothing is overwritten that may still be read, no deadlock at a credit of {}",
                  plan.shape.credit));
  output.line(fmt::format("  {} lanes, {} steps, {} messages a pass, {} passes run symbolically", plan.shape.lanes,
                          verdict.proof.steps, verdict.proof.messages, verdict.proof.passes));
  if (reduces(plan.problem.collective)) {
    output.line(fmt::format("  association {:016x}{}", verdict.proof.association,
                            verdict.proof.rank_order ? ", folded in rank order" : ""));
  }
  program::JsonObject record;
  record.add("verdict", std::string("proved")).add("collective", std::string(name_of(plan.problem.collective)));
  record.add("algorithm", plan.algorithm).add("ranks", std::int64_t{plan.problem.ranks});
  record.add("lanes", static_cast<std::int64_t>(plan.shape.lanes))
      .add("steps", static_cast<std::int64_t>(verdict.proof.steps));
  record.add("messages", static_cast<std::int64_t>(verdict.proof.messages));
  record.add("bytes_per_rank", per_rank).add_json("seconds", seconds ? fmt::format("{}", *seconds) : "null");
  output.record(record);
  return output.result(static_cast<int>(program::kGood));
}

/// network: the one that was named, if any; outlives what is returned.
plan_tool::Simulation simulation_of(const Request& request, View view, const plan_tool::NamedNetwork& network) {
  return {std::move(view), network.network.get(), network.name, request.trace, request.link_load_svg};
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

int cost(const Request& request, const Problem& problem, const View& view, const Tuning& tuning,
         const plan_tool::NamedNetwork& network, program::Output& output) {
  std::string constants = request.tuning.empty() ? "built-in estimates" : request.tuning;
  const std::vector<std::string> unsaid = tuning.unsaid_links(view);
  if (!request.tuning.empty() && !unsaid.empty()) {
    constants += fmt::format(", which says nothing of {}: built-in estimates", fmt::join(unsaid, ", "));
  }
  if (network.network)
    constants = "the network's links" + (request.tuning.empty() ? "" : ", and what else is in " + request.tuning);
  if (view.oversubscription > 1) constants += fmt::format(", {} ranks to a core", view.oversubscription);
  return plan_tool::tell_costs({problem, static_cast<std::uint32_t>(request.lanes), request.slice, request.algorithm,
                                tuning.use(problem), constants},
                               simulation_of(request, view, network), output);
}

/// `show`, `verify` or `simulate`; the last of a schedule that is proved. seconds: what selection expects, where it was
/// asked.
int tell(const Request& request, const Schedule& schedule, const View& view, const plan_tool::NamedNetwork& network,
         std::optional<double> seconds, program::Output& output) {
  if (!request.svg.empty()) return plan_tool::draw_schedule(schedule, view, request.svg, output);
  if (request.command == "show" && request.rank < 0)
    return show_text(print_schedule(schedule.plan, schedule.programs), output);
  if (request.command == "show") {
    const auto program_of = [&](int rank) -> const Program& { return schedule.programs[static_cast<std::size_t>(rank)]; };
    return show_one(request, schedule.plan, program_of, output);
  }
  if (request.command == "verify") return prove(schedule, seconds, output);
  return plan_tool::simulate_schedule(schedule, true, simulation_of(request, view, network), output);
}

/// Simulates a schedule that may be wrong: such a one, too, may come to an end, and its time is of use to who mends it.
int simulate_unproved(const Request& request, const Schedule& schedule, const plan_tool::NamedNetwork& network,
                      program::Output& output) {
  const Verdict verdict = verify(schedule.plan, schedule.programs);
  const View view = flat_view(schedule.plan.problem.ranks);
  const int told = plan_tool::simulate_schedule(schedule, verdict.proved(), simulation_of(request, view, network), output);
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
  asked.collective = name_of(file->collective);
  asked.ranks = file->ranks;
  asked.root = file->root;
  const auto problem = problem_of(asked);
  if (!problem.ok()) return refuse(output, problem.status().text());
  if (const std::string wrong = too_many(file->ranks, request.msccl, network); !wrong.empty()) {
    return refuse(output, wrong);
  }
  return tell(request, file->schedule(*problem, request.slice), flat_view(file->ranks), network, std::nullopt, output);
}

/// The command on an algorithm. network: the one that was named, if any.
int run_algorithm(const Request& request, const plan_tool::NamedNetwork& network, program::Output& output) {
  const auto problem = problem_of(request);
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
  if (request.command == "cost") {
    // The file first: whoever reads the table may not read it to its end.
    const int written = request.csv.empty()
                            ? static_cast<int>(program::kGood)
                            : write_choices(request, *problem, *tuning, simulation_of(request, *view, network), output);
    if (written != static_cast<int>(program::kGood)) return written;
    return cost(request, *problem, *view, *tuning, network, output);
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
    return tell(request, *schedule, *view, network, choice->seconds, output);
  }
  return plan_tool::simulate_algorithm(*choice->algorithm, plan, simulation_of(request, *view, network), output);
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
    if (!options.given("--ranks")) request.ranks = endpoints;
    if (request.ranks > endpoints) {
      return refuse(output, fmt::format("--ranks {} are more than the {} endpoints of {}; take fewer or a larger network",
                                        request.ranks, endpoints, request.topology));
    }
  }
  if (!request.msccl.empty()) return tell_msccl(request, network, output);
  if (request.schedule.empty()) return run_algorithm(request, network, output);
  const auto schedule = read_schedule(request.schedule);
  if (!schedule.ok()) return refuse(output, schedule.status().text());
  if (const std::string wrong = too_many(schedule->plan.problem.ranks, request.schedule, network); !wrong.empty()) {
    return refuse(output, wrong);
  }
  if (request.command == "simulate") return simulate_unproved(request, *schedule, network, output);
  return tell(request, *schedule, flat_view(schedule->plan.problem.ranks), network, std::nullopt, output);
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
