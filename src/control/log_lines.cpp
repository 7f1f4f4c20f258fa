#include "src/control/log_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "include/tutti/tutti.h"
#include "src/base/plural.h"
#include "src/base/saturating.h"
#include "src/tables/units.h"

namespace tutti {
namespace {

constexpr std::size_t most_ranges = 8;  ///< of ranks, in one list
constexpr std::size_t most_hosts = 16;

/// rank_list, with the number of those that a long list leaves out.
std::string brief_rank_list(std::span<const int> ranks) {
  std::size_t ranges = 0;
  std::size_t shown = 0;
  while (shown < ranks.size()) {
    const bool begins = shown == 0 || ranks[shown] != ranks[shown - 1] + 1;
    if (begins && ++ranges > most_ranges) break;
    ++shown;
  }
  const std::string list = rank_list(ranks.first(shown));
  return shown == ranks.size() ? list : fmt::format("{} and {} more", list, ranks.size() - shown);
}

const char* memory_text(Processor processor) { return processor == Processor::cuda ? " on CUDA memory" : ""; }

}  // namespace

std::string log_label(std::string_view name, int rank, int ranks) {
  return fmt::format("\"{}\" rank {} of {}: ", name, rank, ranks);
}

std::string transports_line(std::span<const char* const> carriers) {
  std::map<std::string_view, std::vector<int>> peers;
  for (std::size_t r = 0; r < carriers.size(); ++r) {
    if (carriers[r] != nullptr) peers[carriers[r]].push_back(static_cast<int>(r));
  }
  std::string text;
  for (const auto& [transport, ranks] : peers) {
    text += fmt::format("{}{} to {}", text.empty() ? "" : ", ", transport, brief_rank_list(ranks));
  }
  return fmt::format("transports: {}; Tutti {}.{}.{}", text.empty() ? "none" : text, TUTTI_VERSION_MAJOR,
                     TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
}

std::string hosts_line(std::span<const Member> members) {
  std::vector<std::pair<std::string_view, std::vector<int>>> hosts;  // in the order of their first ranks
  std::map<std::pair<std::string_view, std::uint64_t>, std::size_t> known;
  for (const Member& member : members) {
    const auto [found, is_new] = known.try_emplace({member.host, member.machine}, hosts.size());
    if (is_new) hosts.emplace_back(member.host, std::vector<int>());
    hosts[found->second].second.push_back(member.rank);
  }
  std::string text = "hosts: ";
  for (std::size_t h = 0; h < std::min(hosts.size(), most_hosts); ++h) {
    text += fmt::format("{}{} on {}", h == 0 ? "" : "; ", brief_rank_list(hosts[h].second), hosts[h].first);
  }
  if (hosts.size() > most_hosts) text += fmt::format("; and {} more", plural(hosts.size() - most_hosts, "host"));
  return text;
}

std::string settings_line(std::span<const SettingRow> rows) {
  std::string text;
  for (const SettingRow& row : rows) {
    if (row.origin == "default") continue;
    text += fmt::format("{}{}={} ({})", text.empty() ? "settings: " : ", ", row.name, row.value, row.origin);
  }
  return text;
}

std::string algorithms_line(Collective collective, Processor processor, std::span<const AlgorithmUpTo> by_size) {
  std::vector<AlgorithmUpTo> runs;
  for (const AlgorithmUpTo& each : by_size) {
    if (!runs.empty() && runs.back().name == each.name) {
      runs.back() = each;
    } else {
      runs.push_back(each);
    }
  }
  std::string text = fmt::format("algorithms: {}{} by ", name_of(collective), memory_text(processor));
  for (std::size_t i = 0; i + 1 < runs.size(); ++i)
    text += fmt::format("{} to {}, ", runs[i].name, size_text(runs[i].bytes));
  return text + std::string(runs.back().name) + (runs.size() > 1 ? " above" : "");
}

std::string device_line(int ordinal, std::string_view name, std::string_view address, std::uint32_t multiprocessors) {
  return fmt::format("device: {}, {} at {}, of {}", ordinal, name, address, plural(multiprocessors, "multiprocessor"));
}

std::string plan_line(const Plan& plan, std::string_view algorithm) {
  const bool on_device = plan.problem.processor == Processor::cuda;
  const char* const as = !on_device ? "" : plan.protocol == Protocol::lines ? ", as lines" : ", as messages";
  const std::string strands = on_device ? ", " + plural(plan.strands, "strand") : "";
  return fmt::format("plan: {} of {} of {} B by {}{}{}: {}, {}{}, hash {:016x}", name_of(plan.problem.collective),
                     plural(plan.problem.count, "element"), bytes_of(1, plan.problem.type), algorithm,
                     memory_text(plan.problem.processor), as, plural(plan.shape.chunks, "chunk"),
                     plural(plan.shape.lanes, "lane"), strands, plan.hash);
}

std::string link_line(std::string_view transport, bool sends, int peer, std::uint32_t channel, bool collective) {
  return fmt::format("link: {} {} rank {}, channel {}, for {}", transport, sends ? "to" : "from", peer, channel,
                     collective ? "collectives" : "point to point");
}

}  // namespace tutti
