#include "perf/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include "perf/data.h"
#include "perf/names.h"
#include "perf/nccl_options.h"
#include "src/program/files.h"
#include "src/program/launcher_detection.h"
#include "src/program/plot.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/units.h"

namespace tutti::perf {
namespace {

constexpr size_t kMostSizes = 1'000'000;
constexpr int64_t kMostOperands = 4096;  // the library's limit

// What the command line says before it is understood.
struct CommandLine {
  std::string collective;
  std::string elements;
  std::string type = "float32";
  std::string op = "sum";
  std::string root = "0";
  std::string division = "even";
  std::string memory = "host";
  std::string stream = "blocking";
  std::string flush;
  int64_t out_of_place = -1;
  int64_t local_register = -1;
  int64_t average = 3;
  int64_t blocking = 0;
  int64_t cpu_time = 0;
  int64_t timestamps = 0;
  int64_t memory_use = 0;
  bool only_out_of_place = false;
  bool both_places = false;
  NcclWords nccl;
};

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const BenchedCollective& collective : collectives()) names.emplace_back(collective.name);
  return names;
}

void declare_what(program::Options& options, Request& request, CommandLine& words) {
  options.positional(
      "COLLECTIVE", &words.collective,
      "One of " + program::listing(collective_names()) + "; nccl-tests' names too (alltoall, all_reduce_perf)", false);
  options.group("What is measured");
  options.size("-b,--minbytes", &request.min_bytes, "Smallest size; bytes are counted as in nccl-tests");
  options.size("-e,--maxbytes", &request.max_bytes, "Largest size");
  options.integer("-f,--stepfactor", &request.step_factor, 1, 1 << 30,
                  "Each size is this many times the one before; 1: --stepbytes more");
  options.size("-i,--stepbytes", &request.step_bytes,
               "Each size is this much more than the one before, where there is no -f");
  options.text("--elements", &words.elements, "LIST",
               "Counts as the API takes them (0,1,17,1M), instead of -b, -e, -f and -i");
  options.text("-d,--datatype", &words.type, "TYPE",
               "One of " + program::listing(all_type_names()) +
                   "; opaqueN: N bytes (up to 1 MiB) that are moved, or folded by -o user");
  options.text("-o,--op", &words.op, "OP",
               "One of " + program::listing(all_op_names()) +
                   "; user and user_ordered: tutti_op_create_user's, on host memory; the second does not commute");
  options.flag("--reproducible", &request.reproducible,
               "Sums whose bits depend on the operands and their order alone, as TUTTI_REPRODUCIBLE");
  options.flag("--accumulate", &request.accumulate, "Floats of 8 and 16 bits are folded in float32, and rounded once");
  options.integer("--canonical", &request.canonical, 1, kMostOperands,
                  "Operands of the whole fold, which the ranks share evenly, of all_reduce, all_reduce_v and reduce");
  options.text("-r,--root", &words.root, "RANK", "Root of broadcast, reduce, gather and scatter, or all");
  options.text("--division", &words.division, "NAME",
               "How a v-variant's elements are divided into blocks: one of " + program::listing(all_division_names()) +
                   " (default: even)");
  options.flag("--out-of-place", &words.only_out_of_place, "Leaves the measurements in place out");
  options.integer("-O,--out_of_place", &words.out_of_place, 0, 1, "As rccl-tests: 1 out of place alone, 0 in place alone");
  options.flag("--in-place", &words.both_places, "Out of place and in place, as without it");
  options.text("--memory", &words.memory, "KIND",
               "host, registered: from tutti_memory_alloc, or cuda: a device's, with --threads (default: host)");
  options.integer("--device", &request.device, 0, 1023,
                  "All ranks' CUDA device; without it ranks take the devices in turn");
  options.text("--stream", &words.stream, "KIND",
               "blocking, or cuda: operations run on a CUDA stream, which is waited for after several (default: blocking)");
  options.integer("-R,--local_register", &words.local_register, 0, 2,
                  "As nccl-tests: 1 is --memory registered; 2 (symmetric windows) is not there yet");
}

void declare_ranks(program::Options& options, Request& request) {
  options.group("Ranks");
  program::add_rank_options(options, request.ranks);
  options.integer("-t,--nthreads", &request.threads, 1, 4096,
                  "Ranks of each process, as threads; with it --ranks is 1 by default");
  options.integer("-g,--ngpus", &request.devices, 1, 4096, "The same, times -t: ranks are processes x threads x devices");
  options.text("--algorithm", &request.algorithm, "NAME", "Overrides the library's choice");
  options.text("--transport", &request.transports, "NAMES",
               "Transports that may be used, comma-separated; each pair of ranks takes the quickest");
  options.integer("-T,--timeout", &request.timeout_s, 0, 1'000'000,
                  "Seconds that one operation may take at most (0: the library's limit)");
}

void declare_how(program::Options& options, Request& request, CommandLine& words) {
  options.group("How it is measured");
  options.integer("-n,--iters", &request.iterations, 1, 1'000'000'000, "Iterations (default: what takes about 0.3 s)");
  options.integer("-w,--warmup_iters", &request.warmup, 0, 1'000'000'000, "Iterations before the first that counts");
  options.integer("-m,--agg_iters", &request.aggregated, 1, 1'000'000,
                  "Operations in one group each iteration; times are of one of them");
  options.flag("--fuse", &request.fuse,
               "With -m: small all_reduces of a group, and its broadcasts, whose roots take turns, are one operation");
  options.integer("-N,--run_cycles", &request.cycles, 0, 1'000'000'000,
                  "Sweeps over all sizes; 0: until it is interrupted");
  options.integer("-c,--check", &request.checks, 0, 1'000'000, "Operations whose every element is checked, for each size");
  options.integer("-a,--average", &words.average, 0, 3,
                  "An iteration's time: 0 rank 0's, 1 the ranks' mean, 2 the quickest rank's, 3 the slowest's");
  options.integer("-z,--blocking", &words.blocking, 0, 1, "1: a barrier follows each iteration, and is timed with it");
  options.integer("-C,--report_cputime", &words.cpu_time, 0, 1,
                  "1: times the call that posts an operation to a queue, without waiting for the operation");
  options.flag("--fresh", &request.fresh, "Every rank rewrites its input between operations, which is not timed");
  options.text("-F,--cache_flush", &words.flush, "N|FILE",
               "As rccl-tests: N above 0 is --fresh; as older nccl-tests: the name of a .csv file");
  options.text("--measure-links", &request.links, "FILE",
               "Instead of a collective: measures messages between the ranks, by pairs, and writes a tuning table");
}

void declare_output(program::Options& options, Request& request, CommandLine& words) {
  options.group("Output");
  options.integer("-S,--report_timestamps", &words.timestamps, 0, 1, "1: each row ends with date and time");
  options.integer("-M,--memory_report", &words.memory_use, 0, 1,
                  "1: below the rows, what memory each rank's communicator takes, as tutti_comm_memory tells it");
  options.text("-J,--output_file", &request.output_file, "FILE",
               "Also writes what nccl-tests writes: a .json or a .csv file");
  options.text("--plot", &request.plot, "FILE", "Draws bus bandwidth over size, into an .svg or a .png");
}

void declare_examples(program::Options& options) {
  options.example("tutti-perf all_reduce -b 8 -e 64M -f 4 --ranks 4", "four local processes, from 8 bytes to 64 MiB");
  options.example("tutti-perf all_reduce -b 8 -e 128M -f 2 -g 2",
                  "a line of nccl-tests: two ranks, threads of one process");
  options.example("mpirun -n 4 tutti-perf all_gather -d bfloat16",
                  "ranks that mpirun starts; srun and torchrun do as well");
  options.example("tutti-perf reduce_scatter -d all -o all --elements 0,1,17,1000 --ranks 3 --json",
                  "every type and operator checked, a JSON line each");
  options.example("tutti-perf all_reduce -o user_ordered -d opaque24 --ranks 4",
                  "an operator of the user's own, in the order of ranks");
  options.example("tutti-perf all_reduce --canonical 12 --ranks 4",
                  "three operands a rank, folded in one order whatever the ranks");
  options.example("tutti-perf all_reduce -m 16 --fuse -b 8 -e 16K --ranks 4", "16 small sums in one message");
  options.example("tutti-perf all_gather -d opaque12 --ranks 4", "elements of 12 bytes that are moved as they are");
  options.example("tutti-perf all_to_all_v --division skewed --ranks 4", "blocks of 1, 2, 3 and 4 parts");
  options.example("tutti-perf all_reduce --ranks 2 --bind core --fresh --plot bandwidth.svg",
                  "pinned, inputs rewritten, drawn");
  options.example("tutti-perf --measure-links links.tuning --ranks 4 --transport tcp",
                  "a tuning table, for TUTTI_TUNING and tutti-plan --tuning");
  options.note(
      "Time is the median over iterations of the slowest rank's time. Exit code: 0 good, 1 failed, 2 wrong use, 3 wrong\n"
      "data, 4 a peer was lost or a deadline passed. Where the reader of a pipe goes (`| head -1`), all ranks end without\n"
      "a word by SIGPIPE, as other tools do; any other stdout that takes no more is an error, exit code 1.\n"
      "Started by a name such as all_reduce_perf (a symbolic link), it measures that collective. Of nccl-tests' "
      "environment\n"
      "NCCL_TESTS_SPLIT, NCCL_TESTS_SPLIT_MASK (groups of processes, side by side) and NCCL_TESTS_MIN_BW (exit code 1 "
      "where\n"
      "the average is below nine tenths of it) are taken.");
}

// The sentence that refuses the words, or empty.
std::string read_types(const CommandLine& words, Request& request) {
  request.types = types_named(words.type);
  if (request.types.empty()) {
    return fmt::format("--datatype was given '{}', which is no type; use one of {}", words.type,
                       program::listing(all_type_names()));
  }
  request.ops = ops_named(words.op);
  if (request.ops.empty()) {
    return fmt::format("--op was given '{}', which this version does not have; use one of {}", words.op,
                       program::listing(all_op_names()));
  }
  return "";
}

// What folds the elements where they lie; pairs of other types are the library's to refuse.
std::string check_operators(Request& request) {
  const bool on_device = request.memory == MemoryKind::cuda;
  if (on_device && request.ops.size() == 1 && is_users_own(request.ops.front())) {
    return fmt::format(
        "--op {} was given with --memory cuda, but operators of the user's own fold host memory alone; leave "
        "one of them out",
        text_of_op(request.ops.front()));
  }
  if (on_device) std::erase_if(request.ops, is_users_own);
  // Most algorithms keep no order of ranks, and the library refuses those.
  if (!request.algorithm.empty() && request.ops.size() > 1) std::erase(request.ops, kUserOrdered);
  const tutti_type type = request.types.front();
  if (!is_opaque(type) || std::ranges::any_of(request.ops, [&](tutti_op op) { return folds(op, type); })) return "";
  const std::string why =
      element_bytes(type) > kMostUserBytes
          ? fmt::format("nothing folds elements of more than {} bytes; give shorter ones", kMostUserBytes)
          : "the user's own operators alone fold opaque elements; use --op user or user_ordered";
  return fmt::format("--datatype was given '{}', but {}", text_of(type), why);
}

std::string check_folds(Request& request) {
  const BenchedCollective& collective = *request.collective;
  if (request.canonical > 0 && collective.reduces() && collective.has_send_blocks()) {
    return fmt::format("--canonical was given, but a rank has one operand of {}; leave it out, or measure all_reduce",
                       collective.name);
  }
  if (collective.reduces()) return check_operators(request);
  const tutti_op op = request.ops.front();
  const std::pair<std::string, bool> options[] = {{"--reproducible", request.reproducible},
                                                  {"--accumulate", request.accumulate},
                                                  {"--canonical", request.canonical > 0},
                                                  {"--op " + text_of_op(op), is_users_own(op)}};
  for (const auto& [option, given] : options) {
    if (given) return fmt::format("{} was given, but {} folds nothing; leave it out", option, collective.name);
  }
  return "";
}

std::string read_root(const CommandLine& words, Request& request) {
  if (words.root == "all") {
    request.root.reset();
    return "";
  }
  int root = 0;
  const char* end = words.root.data() + words.root.size();
  const auto [rest, error] = std::from_chars(words.root.data(), end, root);
  if (error != std::errc() || rest != end || root < 0) {
    return fmt::format("--root was given '{}', but it takes a rank, from 0, or all", words.root);
  }
  request.root = root;
  return "";
}

std::string read_division(const program::Options& options, const CommandLine& words, Request& request) {
  request.divisions = divisions_named(words.division);
  if (request.divisions.empty()) {
    return fmt::format("--division was given '{}', but it takes one of {}", words.division,
                       program::listing(all_division_names()));
  }
  if (request.collective->takes_lists || !options.given("--division")) return "";
  std::vector<std::string> taking;
  for (const BenchedCollective& collective : collectives()) {
    if (collective.takes_lists) taking.emplace_back(collective.name);
  }
  return fmt::format("--division was given, but blocks of {} have one count; leave it out, or measure one of {}",
                     request.collective->name, program::listing(taking));
}

std::string read_memory(const program::Options& options, const CommandLine& words, Request& request) {
  if (words.local_register == 2) {
    return "-R (--local_register) was given '2', but symmetric windows are not there yet; use 1, which is --memory "
           "registered";
  }
  if (words.memory == "registered" || words.local_register == 1) {
    request.memory = MemoryKind::registered;
  } else if (words.memory == "cuda") {
    request.memory = MemoryKind::cuda;
  } else if (words.memory != "host") {
    return fmt::format("--memory was given '{}', but it takes one of host, registered and cuda", words.memory);
  }
  if (words.stream != "blocking" && words.stream != "cuda")
    return fmt::format("--stream was given '{}', but it takes one of blocking and cuda", words.stream);
  request.cuda_stream = words.stream == "cuda";
  for (const char* option : {"--device", "--stream"}) {
    if (request.memory != MemoryKind::cuda && options.given(option))
      return fmt::format("{} was given without --memory cuda; add that, or leave it out", option);
  }
  const bool asks_registered = words.local_register == 1;
  if (options.given("--memory") && words.local_register >= 0 && (words.memory == "registered") != asks_registered) {
    return fmt::format("--memory {} and -R {} (--local_register) contradict each other; leave one of them out",
                       words.memory, words.local_register);
  }
  return "";
}

std::string read_elements(const program::Options& options, const CommandLine& words, Request& request) {
  for (const char* other : {"--minbytes", "--maxbytes", "--stepfactor", "--stepbytes"}) {
    if (options.given(other)) return fmt::format("--elements and {} were both given; leave one of them out", other);
  }
  const auto list = parse_size_list(words.elements);
  if (!list.value)
    return fmt::format("--elements was given '{}', but {}; give for example 0,1,17,1M", words.elements, list.why);
  constexpr uint64_t kMost = uint64_t{1} << 48;
  for (const uint64_t count : *list.value) {
    if (count > kMost) return fmt::format("--elements was given {}, more than any memory holds; give less", count);
  }
  request.elements = *list.value;
  return "";
}

std::string read_sizes(const program::Options& options, const CommandLine& words, Request& request) {
  if (options.given("--elements")) return read_elements(options, words, request);
  if (request.min_bytes > request.max_bytes) {
    return fmt::format("--minbytes {} is more than --maxbytes {}; exchange them or raise -e", size_text(request.min_bytes),
                       size_text(request.max_bytes));
  }
  if (options.given("--stepbytes") && !options.given("--stepfactor")) request.step_factor = 1;
  if (options.given("--stepbytes") && request.step_factor > 1) {
    request.notes.push_back(fmt::format("-i (--stepbytes) {} has no effect: -f {} (--stepfactor) says the sizes",
                                        size_text(request.step_bytes), request.step_factor));
  }
  if (request.step_factor > 1 || request.min_bytes == request.max_bytes) return "";
  if (request.step_bytes == 0) return "--stepbytes was given '0', but sizes must grow; give for example 1M";
  if (sizes_of(request, kMostSizes + 1).size() <= kMostSizes) return "";
  return fmt::format("--stepbytes {} makes more than {} sizes from {} to {}; give a longer step",
                     size_text(request.step_bytes), kMostSizes, size_text(request.min_bytes), size_text(request.max_bytes));
}

// Measuring links takes no options but those that say where ranks run and what they are joined by.
std::string check_links(const program::Options& options) {
  if (options.given("COLLECTIVE")) return "COLLECTIVE and --measure-links were both given; leave one of them out";
  std::vector<std::string> given = options.given();
  for (const char* flag : {"--in-place", "--out-of-place", "--fresh", "--reproducible", "--accumulate", "--fuse"}) {
    if (options.given(flag)) given.emplace_back(flag);
  }
  for (const std::string& option : given) {
    constexpr std::string_view kTaken[] = {"--measure-links", "--ranks",   "--bind",     "--nthreads",
                                           "--ngpus",         "--timeout", "--transport"};
    if (std::find(std::begin(kTaken), std::end(kTaken), option) != std::end(kTaken)) continue;
    return fmt::format("{} is no matter to --measure-links; leave it out", option);
  }
  return "";  // the file is rank 0's: measure_links looks at it
}

// By argument, or by the name that the program was started by ("all_reduce_perf"), as nccl-tests' programs are.
std::string read_collective(const program::Options& options, const std::string& started_as, const CommandLine& words,
                            Request& request) {
  const std::string own_name = started_as.substr(started_as.rfind('/') + 1);
  const BenchedCollective* const own = own_name.ends_with("_perf") ? find_collective(own_name) : nullptr;
  const std::string& asked = options.given("COLLECTIVE") || own_name != "hypercube_perf" ? words.collective : own_name;
  request.collective = options.given("COLLECTIVE") ? find_collective(words.collective) : own;
  if (asked == "hypercube" || asked == "hypercube_perf") {
    return fmt::format(
        "COLLECTIVE was given '{}', but nccl-tests' hypercube is a pattern of sends, which is not there; use all_gather, "
        "whose result is the same",
        asked);
  }
  if (own != nullptr && request.collective != nullptr && own != request.collective) {
    return fmt::format("{} was started and COLLECTIVE {} was given; leave COLLECTIVE out", own_name, words.collective);
  }
  if (request.collective != nullptr) return "";
  if (!options.given("COLLECTIVE")) {
    return fmt::format("COLLECTIVE is missing: give one of {}, or --measure-links FILE",
                       program::listing(collective_names()));
  }
  const std::string near = program::nearest_name(words.collective, collective_names());
  return fmt::format("COLLECTIVE was given '{}', but it takes one of {}{}", words.collective,
                     program::listing(collective_names()), near.empty() ? "" : "; did you mean " + near + "?");
}

std::string read_places(const CommandLine& words, Request& request) {
  if (words.only_out_of_place && (words.both_places || words.out_of_place == 0)) {
    return fmt::format("--out-of-place and {} contradict each other; leave one of them out",
                       words.both_places ? "--in-place" : "-O 0 (--out_of_place)");
  }
  // An all_reduce_v of several operands takes them from a list of their own.
  const bool lists_operands = request.collective->in_pieces && request.canonical > 0;
  const bool has = request.collective->in_place && !lists_operands;
  if (!has && (words.both_places || words.out_of_place == 0)) {
    return fmt::format("{} was given, but {}{} has no in-place form; leave it out",
                       words.both_places ? "--in-place" : "-O 0 (--out_of_place)", request.collective->name,
                       lists_operands ? " with --canonical" : "");
  }
  request.out_of_place = words.out_of_place != 0;
  request.in_place = has && !words.only_out_of_place && words.out_of_place != 1;
  return "";
}

// -F is one option of rccl-tests, and was another of nccl-tests.
std::string read_files(const program::Options& options, const CommandLine& words, Request& request) {
  const bool digits = !words.flush.empty() && words.flush.find_first_not_of("0123456789") == std::string::npos;
  if (digits && words.flush.find_first_not_of('0') != std::string::npos) request.fresh = true;
  if (!words.flush.empty() && !digits) {
    if (!words.flush.ends_with(".csv")) {
      return fmt::format("-F (--cache_flush) was given '{}', but it takes a whole number, or the name of a .csv file",
                         words.flush);
    }
    if (options.given("--output_file")) {
      return fmt::format("-F {} and --output_file {} were both given; leave one of them out", words.flush,
                         request.output_file);
    }
    request.output_file = words.flush;
  }
  const std::string& file = request.output_file;
  if (!file.empty() && !file.ends_with(".json") && !file.ends_with(".csv")) {
    return fmt::format("--output_file was given '{}', but its name must end with .json or .csv", file);
  }
  for (const char* option : {"--output_file", "--plot"}) {
    if (request.cycles != 0 || !(options.given(option) || (!file.empty() && option[2] == 'o'))) continue;
    return fmt::format("-N 0 (--run_cycles) never comes to the end where {} is written; give a number of sweeps", option);
  }
  // As for a plot: the file is rank 0's.
  const auto place = program::detect_launcher().place;
  if (!file.empty() && (!place || place->rank == 0)) {
    if (std::string why = program::check_writable("--output_file", file); !why.empty()) return why;
  }
  return request.plot.empty() ? "" : program::check_plot_file(request.plot);
}

std::string read_method(const CommandLine& words, Request& request) {
  request.average = static_cast<Average>(words.average);
  request.barriers = words.blocking != 0;
  request.call_time = words.cpu_time != 0;
  request.timestamps = words.timestamps != 0;
  request.memory_use = words.memory_use != 0;
  if (request.call_time && request.barriers) {
    return "-C 1 (--report_cputime) times the posting call alone, and -z 1 (--blocking) waits within it; leave one of them "
           "out";
  }
  if (request.call_time && request.fresh) {
    return "-C 1 (--report_cputime) posts operations ahead, and --fresh rewrites the input before each; leave one of them "
           "out";
  }
  return "";
}

std::string check_fusion(const Request& request) {
  if (!request.fuse) return "";
  if (!request.collective->fuses) {
    return fmt::format("--fuse was given, but calls of {} stay apart; leave it out, or measure all_reduce or broadcast",
                       request.collective->name);
  }
  if (request.aggregated == 1) return "--fuse was given, but a group of one call has nothing to fuse; add -m 2 or more";
  if (request.canonical == 0) return "";
  return "--fuse and --canonical were both given, but sums of several operands stay apart; leave one of them out";
}

std::string read_surroundings(Request& request) {
  const std::string why = read_environment([](const char* name) { return std::getenv(name); }, request.environment);
  if (request.environment.device) {
    request.notes.emplace_back("NCCL_TESTS_DEVICE has no effect: ranks with host memory use no device");
  }
  return why;
}

std::string understand(const program::Options& options, const std::string& started_as, const CommandLine& words,
                       Request& request) {
  if (options.given("--nthreads") || options.given("--ngpus")) {
    if (!options.given("--ranks")) request.ranks.ranks = 1;
    request.ranks.each = request.threads * request.devices;
  }
  if (!request.links.empty()) return check_links(options);
  std::string why = read_collective(options, started_as, words, request);
  if (why.empty()) why = read_nccl_options(words.nccl, request.notes);
  if (why.empty()) why = read_types(words, request);
  if (why.empty()) why = read_root(words, request);
  if (why.empty()) why = read_division(options, words, request);
  if (why.empty()) why = read_memory(options, words, request);
  if (why.empty()) why = check_folds(request);
  if (why.empty()) why = read_sizes(options, words, request);
  if (why.empty()) why = read_places(words, request);
  if (why.empty()) why = read_files(options, words, request);
  if (why.empty()) why = read_method(words, request);
  if (why.empty()) why = check_fusion(request);
  if (why.empty()) why = read_surroundings(request);
  return why;
}

}  // namespace

std::optional<int> read_request(program::Options& options, int argc, const char* const* argv, program::Output& output,
                                Request& request) {
  CommandLine words;
  request.ranks.ranks = 2;
  request.arguments.assign(argv, argv + argc);
  declare_what(options, request, words);
  declare_ranks(options, request);
  declare_how(options, request, words);
  declare_output(options, request, words);
  options.group("Of nccl-tests and rccl-tests");
  declare_nccl_options(options, words.nccl);
  declare_examples(options);
  if (const auto code = options.parse(argc, argv, output)) return code;
  const std::string why = understand(options, argc > 0 ? argv[0] : "", words, request);
  if (!why.empty()) return output.fail(program::kWrongUse, why);
  return std::nullopt;
}

std::vector<uint64_t> sizes_of(const Request& request, size_t most) {
  std::vector<uint64_t> sizes;
  const uint64_t factor = static_cast<uint64_t>(request.step_factor);
  uint64_t bytes = request.min_bytes;
  while (sizes.size() < most) {
    sizes.push_back(bytes);
    const bool multiplies = factor > 1 && bytes != 0;
    const uint64_t step = factor > 1 ? 1 : request.step_bytes;
    // Nothing beyond the largest, and nothing beyond 2^64.
    if (multiplies ? bytes > request.max_bytes / factor : step > request.max_bytes - bytes || step == 0) break;
    bytes = multiplies ? bytes * factor : bytes + step;
  }
  return sizes;
}

std::vector<uint64_t> counts_of(const Request& request, tutti_type type, int ranks) {
  if (request.collective->senders == Role::nobody) return {0};
  if (!request.elements.empty()) return request.elements;
  std::vector<uint64_t> counts;
  for (const uint64_t bytes : sizes_of(request)) counts.push_back(count_for(*request.collective, bytes, type, ranks));
  return counts;
}

}  // namespace tutti::perf
