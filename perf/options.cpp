#include "perf/options.h"

#include <fmt/format.h>

#include <charconv>

#include "perf/names.h"
#include "src/program/files.h"
#include "src/program/plot.h"
#include "src/program/sizes.h"

namespace tutti::perf {
namespace {

// What the command line says before it is understood.
struct Words {
  std::string collective;
  std::string elements;
  std::string type = "float32";
  std::string op = "sum";
  std::string root = "0";
  std::string memory = "host";
};

void declare_what(program::Options& options, Request& request, Words& words) {
  std::vector<std::string> names;
  for (const Collective& collective : collectives()) names.emplace_back(collective.name);
  options.positional("COLLECTIVE", &words.collective,
                     "One of " + program::listing(names) + "; those with _v are not there yet", false, names);
  options.size("-b,--minbytes", &request.min_bytes, "Smallest size; bytes are counted as in nccl-tests");
  options.size("-e,--maxbytes", &request.max_bytes, "Largest size");
  options.integer("-f,--stepfactor", &request.step_factor, 2, 1 << 30, "Each size is this many times the one before");
  options.text("--elements", &words.elements, "LIST", "Counts as the API takes them (0,1,17,1M), instead of -b, -e and -f");
  options.text("-d,--datatype", &words.type, "TYPE", "One of " + program::listing(all_type_names()));
  options.text("-o,--op", &words.op, "OP", "One of " + program::listing(all_op_names()));
  options.text("-r,--root", &words.root, "RANK", "Root of broadcast, reduce, gather and scatter, or all");
  options.flag("--in-place", &request.in_place, "Measures in place too");
}

void declare_how(program::Options& options, Request& request, Words& words) {
  options.integer("-n,--iters", &request.iterations, 1, 1'000'000'000, "Iterations (default: what takes about 0.3 s)");
  options.integer("-w,--warmup_iters", &request.warmup, 0, 1'000'000'000, "Iterations before the first that counts");
  options.integer("-c,--check", &request.checks, 0, 1'000'000, "Operations whose every element is checked, for each size");
  options.flag("--fresh", &request.fresh, "Every rank rewrites its input between operations, which is not timed");
  program::add_rank_options(options, request.ranks);
  options.text("--algorithm", &request.algorithm, "NAME", "Overrides the library's choice");
  options.text("--transport", &request.transports, "NAMES",
               "Transports that may be used, comma-separated; each pair of ranks takes the quickest");
  options.text("--memory", &words.memory, "KIND",
               "host, or registered: from tutti_memory_alloc (default: host); cuda is not there yet");
  options.integer("-T,--timeout", &request.timeout_s, 1, 1'000'000, "Seconds that one operation may take at most");
  options.text("--measure-links", &request.links, "FILE",
               "Instead of a collective: measures messages between the ranks, by pairs, and writes a tuning table");
  options.text("--plot", &request.plot, "FILE", "Draws bus bandwidth over size, into an .svg or a .png");
}

void declare_examples(program::Options& options) {
  options.example("tutti-perf all_reduce -b 8 -e 64M -f 4 --ranks 4", "four local processes, from 8 bytes to 64 MiB");
  options.example("mpirun -n 4 tutti-perf all_gather -d bfloat16",
                  "ranks that mpirun starts; srun and torchrun do as well");
  options.example("tutti-perf reduce_scatter -d all -o all --elements 0,1,17,1000 --ranks 3 --json",
                  "every type and operator checked, a JSON line each");
  options.example("tutti-perf all_reduce --ranks 2 --bind core --fresh --plot bandwidth.svg",
                  "pinned, inputs rewritten, drawn");
  options.example("tutti-perf --measure-links links.tuning --ranks 4 --transport tcp",
                  "a tuning table, for TUTTI_TUNING and tutti-plan --tuning");
  options.note(
      "Time is the median over iterations of the slowest rank's time. Exit code: 0 good, 1 failed, 2 wrong use, 3 wrong\n"
      "data, 4 a peer was lost or a deadline passed. Where the reader of a pipe goes (`| head -1`), all ranks end without\n"
      "a word by SIGPIPE, as other tools do; any other stdout that takes no more is an error, exit code 1.");
}

// The sentence that refuses the words, or empty.
std::string read_types(const Words& words, Request& request) {
  request.types = types_named(words.type);
  const bool known_later = words.type.rfind("float8", 0) == 0 || words.type.rfind("f8", 0) == 0 ||
                           words.type.rfind("fp8", 0) == 0 || words.type == "bool" || words.type == "int16" ||
                           words.type == "uint16" || words.type.rfind("complex", 0) == 0;
  if (request.types.empty() && known_later) {
    return fmt::format("--datatype was given '{}', which this version does not have yet; use one of {}", words.type,
                       program::listing(all_type_names()));
  }
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

std::string read_root(const Words& words, Request& request) {
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

std::string read_memory(const Words& words, Request& request) {
  if (words.memory == "cuda") return "--memory cuda was given, but CUDA memory is not there yet; use host";
  if (words.memory == "registered") {
    request.memory = MemoryKind::registered;
  } else if (words.memory != "host") {
    return fmt::format("--memory was given '{}', but it takes one of host, registered and cuda", words.memory);
  }
  return "";
}

std::string read_elements(const program::Options& options, const Words& words, Request& request) {
  if (!options.given("--elements")) {
    if (request.min_bytes <= request.max_bytes) return "";
    return fmt::format("--minbytes {} is more than --maxbytes {}; exchange them or raise -e",
                       program::size_text(request.min_bytes), program::size_text(request.max_bytes));
  }
  for (const char* other : {"--minbytes", "--maxbytes", "--stepfactor"}) {
    if (options.given(other)) return fmt::format("--elements and {} were both given; leave one of them out", other);
  }
  const auto list = program::parse_size_list(words.elements);
  if (!list.value)
    return fmt::format("--elements was given '{}', but {}; give for example 0,1,17,1M", words.elements, list.why);
  constexpr uint64_t kMost = uint64_t{1} << 48;
  for (const uint64_t count : *list.value) {
    if (count > kMost) return fmt::format("--elements was given {}, more than any memory holds; give less", count);
  }
  request.elements = *list.value;
  return "";
}

// Measuring links takes no options but those that say where ranks run and what they are joined by.
std::string check_links(const program::Options& options) {
  if (options.given("COLLECTIVE")) return "COLLECTIVE and --measure-links were both given; leave one of them out";
  for (const char* other :
       {"--minbytes", "--maxbytes", "--stepfactor", "--elements", "--datatype", "--op", "--root", "--in-place", "--iters",
        "--warmup_iters", "--check", "--fresh", "--algorithm", "--memory", "--plot"}) {
    if (options.given(other)) return fmt::format("{} is no matter to --measure-links; leave it out", other);
  }
  return "";  // the file is rank 0's: measure_links looks at it
}

std::string understand(const program::Options& options, const Words& words, Request& request) {
  if (!request.links.empty()) return check_links(options);
  if (!options.given("COLLECTIVE")) {
    std::vector<std::string> names;
    for (const Collective& collective : collectives()) names.emplace_back(collective.name);
    return fmt::format("COLLECTIVE is missing: give one of {}, or --measure-links FILE", program::listing(names));
  }
  request.collective = find_collective(words.collective);
  std::string why = read_types(words, request);
  if (why.empty()) why = read_root(words, request);
  if (why.empty()) why = read_memory(words, request);
  if (why.empty()) why = read_elements(options, words, request);
  if (why.empty() && !request.plot.empty()) why = program::check_plot_file(request.plot);
  if (why.empty() && request.in_place && !request.collective->in_place) {
    why = fmt::format("--in-place was given, but {} has no in-place form; leave it out", request.collective->name);
  }
  return why;
}

}  // namespace

std::optional<int> read_request(program::Options& options, int argc, const char* const* argv, program::Output& output,
                                Request& request) {
  Words words;
  request.ranks.ranks = 2;
  declare_what(options, request, words);
  declare_how(options, request, words);
  declare_examples(options);
  if (const auto code = options.parse(argc, argv, output)) return code;
  const std::string why = understand(options, words, request);
  if (!why.empty()) return output.fail(program::kWrongUse, why);
  return std::nullopt;
}

std::vector<uint64_t> counts_of(const Request& request, tutti_type type, int ranks) {
  if (request.collective->senders == Role::kNobody) return {0};
  if (!request.elements.empty()) return request.elements;
  std::vector<uint64_t> counts;
  const uint64_t factor = static_cast<uint64_t>(request.step_factor);
  for (uint64_t bytes = request.min_bytes; bytes <= request.max_bytes; bytes = bytes == 0 ? 1 : bytes * factor) {
    counts.push_back(count_for(*request.collective, bytes, type, ranks));
    if (bytes > UINT64_MAX / factor) break;
  }
  return counts;
}

}  // namespace tutti::perf
