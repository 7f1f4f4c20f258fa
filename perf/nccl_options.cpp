#include "perf/nccl_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace tutti::perf {
namespace {

// "--cudagraph" of "-G,--cudagraph".
std::string long_name(const NcclOption& option) {
  const std::string names = option.names;
  return names.substr(names.find("--"));
}

std::string both_names(const NcclOption& option) { return fmt::format("-{} ({})", option.names[1], long_name(option)); }

bool is_number(const std::string& text) {
  const size_t first = !text.empty() && text[0] == '-' ? 1 : 0;
  return text.size() > first && std::all_of(text.begin() + static_cast<std::ptrdiff_t>(first), text.end(), [](char digit) {
           return std::isdigit(static_cast<unsigned char>(digit)) != 0;
         });
}

std::string help_of(const NcclOption& option) {
  switch (option.treatment) {
    case Treatment::kHolds:
      return fmt::format("Taken: {}", option.reason);
    case Treatment::kNoEffect:
      return fmt::format("Taken without effect: {}", option.reason);
    case Treatment::kRefused:
      break;
  }
  const std::string_view always = option.always;
  return fmt::format("Refused{}{}: {}", always.empty() ? "" : " unless ", always, option.reason);
}

using enum Treatment;
constexpr char kNeedsGpu[] = "it is for NCCL's device API, which needs a GPU";
constexpr char kOtherFile[] = "use -J FILE.json or -J FILE.csv";

constexpr NcclOption kOptions[] = {
    {"-p,--parallel_init", "0|1", "", kHolds, "ranks always join in parallel"},
    {"-y,--stream_null", "0|1", "0", kNoEffect, "operations on host memory run on no CUDA stream"},
    {"-x,--cta_policy", "N", "", kNoEffect, "it divides a GPU's thread blocks, and host memory takes none"},
    {"-G,--cudagraph", "N", "0", kRefused, "host memory has no CUDA graph that could be replayed"},
    {"-D,--device_implementation", "N", "0", kRefused, kNeedsGpu},
    {"-V,--device_cta_count", "N", "0|16", kRefused, kNeedsGpu},
    {"-Y,--memory_type", "KIND", "host", kRefused, "it names kinds of a GPU's memory", "use --memory host or registered"},
    {"-u,--cumask", "MASKS", "", kRefused, "it chooses compute units of a GPU", "use --bind core for CPUs"},
    {"-q,--delay_inout_place", "US", "0", kRefused, "there is no pause between out of place and in place",
     "use -O 1 and then -O 0"},
    {"-E,--rotating_tensor", "0|1", "0", kRefused, "all iterations use the same buffers",
     "use --fresh for rewritten inputs"},
    {"-Z,--rccl_output_format", "csv|json", "", kRefused, "the ending of a file's name says its format", kOtherFile},
    {"-X,--rccl_output_file", "FILE", "", kRefused, "rccl-tests' own format is not written here", kOtherFile},
    {"-A,--output_algo_proto_channels", "0|1", "0", kRefused,
     "there are no protocols and channels; algorithm and transport are in every row"},
};

// Whether the value asks for what holds anyway.
bool holds(const NcclOption& option, const std::string& value) {
  return fmt::format("|{}|", option.always).find("|" + value + "|") != std::string::npos;
}

}  // namespace

std::span<const NcclOption> nccl_options() { return kOptions; }

void declare_nccl_options(program::Options& options, NcclWords& words) {
  const std::span<const NcclOption> table = nccl_options();
  words.resize(table.size());
  for (size_t i = 0; i < table.size(); ++i) options.text(table[i].names, &words[i], table[i].shown_as, help_of(table[i]));
}

std::string read_nccl_options(const NcclWords& words, std::vector<std::string>& notes) {
  const std::span<const NcclOption> table = nccl_options();
  for (size_t i = 0; i < table.size(); ++i) {
    const std::string& word = words[i];
    const NcclOption& option = table[i];
    if (word.empty() || holds(option, word)) continue;
    if (option.treatment == Treatment::kRefused) {
      return fmt::format("{} was given '{}', but {}; {}", both_names(option), word, option.reason, option.remedy);
    }
    if (!is_number(word)) {
      return fmt::format("{} was given '{}', but it takes a whole number; for example 0", long_name(option), word);
    }
    if (option.treatment == Treatment::kNoEffect) {
      notes.push_back(fmt::format("{} {} has no effect: {}", both_names(option), word, option.reason));
    }
  }
  return "";
}

}  // namespace tutti::perf
