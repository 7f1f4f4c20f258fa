#include "src/communicator/rank_info.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <tuple>

#include "topology/oversubscription.h"

namespace tutti {
namespace {

/// A setting that all ranks must share, as people write it.
struct Shared {
  const char* name;
  std::string (*value)(const RankInfo&);
};
constexpr std::array shared_settings = {
    Shared{"TUTTI_ALGORITHM", [](const RankInfo& r) { return r.algorithm; }},
    Shared{"TUTTI_LANES", [](const RankInfo& r) { return std::to_string(r.lanes); }},
    Shared{"TUTTI_REPRODUCIBLE", [](const RankInfo& r) { return std::string(r.reproducible ? "on" : "off"); }},
    Shared{"the table of TUTTI_TUNING", [](const RankInfo& r) { return r.tuning; }},
    Shared{"what the files of TUTTI_MSCCL say", [](const RankInfo& r) { return r.msccl; }},
    Shared{"TUTTI_TORUS", [](const RankInfo& r) { return fmt::format("{}", fmt::join(r.torus, "x")); }},
};

/// For each of `keys` the number of its first like, which count from 0.
template <typename Key>
std::vector<std::int32_t> numbered(const std::vector<Key>& keys) {
  std::map<Key, std::int32_t> numbers;
  std::vector<std::int32_t> out;
  for (const Key& key : keys)
    out.push_back(numbers.try_emplace(key, static_cast<std::int32_t>(numbers.size())).first->second);
  return out;
}

/// See View::core; empty unless all ranks are bound to one.
std::vector<std::int32_t> cores_of(std::span<const RankInfo> places, const View& view) {
  std::vector<std::pair<std::int32_t, int>> cores;
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (places[r].cpus.allowed.size() != 1) return {};
    cores.emplace_back(view.machine[r], places[r].cpus.allowed[0]);
  }
  return numbered(cores);
}

std::string value_words(const std::string& value) { return value.empty() ? "unset" : fmt::format("\"{}\"", value); }

}  // namespace

RankInfo rank_info_of(const Settings& settings, const Tuning& tuning, const MscclFiles& files) {
  unsigned cpu = 0;
  unsigned node = 0;
  const bool known = getcpu(&cpu, &node) == 0;
  return {known ? static_cast<int>(node) : -1,
          cpu_limits(),
          settings.algorithm,
          settings.lanes,
          settings.reproducible,
          tuning.digest(),
          files.digest(),
          settings.machine,
          settings.rack,
          settings.torus};
}

void pack_rank_info(ByteWriter& out, const RankInfo& rank_info) {
  out.i32(rank_info.numa);
  out.u64(std::bit_cast<std::uint64_t>(rank_info.cpus.quota));
  out.u32(static_cast<std::uint32_t>(rank_info.cpus.allowed.size()));
  for (const int allowed : rank_info.cpus.allowed) out.i32(allowed);
  out.text(rank_info.algorithm);
  out.i32(rank_info.lanes);
  out.i32(rank_info.reproducible ? 1 : 0);
  out.text(rank_info.tuning);
  out.text(rank_info.msccl);
  out.text(rank_info.machine);
  out.text(rank_info.rack);
  out.u32(static_cast<std::uint32_t>(rank_info.torus.size()));
  for (const std::int32_t size : rank_info.torus) out.i32(size);
}

RankInfo unpack_rank_info(ByteReader& in) {
  RankInfo rank_info;
  rank_info.numa = in.i32();
  rank_info.cpus.quota = std::bit_cast<double>(in.u64());
  for (std::uint32_t n = in.u32(); n != 0 && in.ok(); --n) rank_info.cpus.allowed.push_back(in.i32());
  rank_info.algorithm = in.text();
  rank_info.lanes = in.i32();
  rank_info.reproducible = in.i32() != 0;
  rank_info.tuning = in.text();
  rank_info.msccl = in.text();
  rank_info.machine = in.text();
  rank_info.rack = in.text();
  for (std::uint32_t n = in.u32(); n != 0 && in.ok(); --n) rank_info.torus.push_back(in.i32());
  return rank_info;
}

Status check_settings_agree(std::span<const Member> members, std::span<const RankInfo> places) {
  for (const Shared& setting : shared_settings) {
    const std::string first = setting.value(places[0]);
    for (std::size_t r = 1; r < places.size(); ++r) {
      const std::string other = setting.value(places[r]);
      if (other == first) continue;
      Error error;
      error.status = TUTTI_INVALID_ARGUMENT;
      error.message = fmt::format("{} is {} for {} and {} for {}", setting.name, value_words(first), members[0].text(),
                                  value_words(other), members[r].text());
      error.remedy = fmt::format("Let {} be the same on all ranks, by the environment or by the config.", setting.name);
      error.guilty = {members[0].guilty(), members[r].guilty()};
      return Status(std::move(error));
    }
  }
  return {};
}

View view_of(std::span<const Member> members, std::span<const RankInfo> places) {
  View view = flat_view(static_cast<int>(members.size()));
  std::vector<std::tuple<std::uint64_t, std::string, std::string>> machines;
  std::vector<std::string> racks;
  std::set<std::uint64_t> seen;
  double oversubscription = 1;
  for (std::size_t r = 0; r < members.size(); ++r) {
    machines.emplace_back(members[r].machine, places[r].machine, places[r].rack);
    racks.push_back(places[r].rack);
    view.numa[r] = places[r].numa;
    if (!seen.insert(members[r].machine).second) continue;
    oversubscription = std::max(oversubscription, ranks_a_core(members, places, static_cast<int>(r)));
  }
  view.machine = numbered(machines);
  share_cores(view, oversubscription, cores_of(places, view));
  if (std::set<std::string>(racks.begin(), racks.end()).size() > 1) view.rack = numbered(racks);
  if (!places.empty()) view.torus = places[0].torus;
  return view;
}

double ranks_a_core(std::span<const Member> members, std::span<const RankInfo> places, int rank) {
  std::vector<CpuLimits> here;
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (members[r].machine == members[static_cast<std::size_t>(rank)].machine) here.push_back(places[r].cpus);
  }
  return std::max(1.0, static_cast<double>(here.size()) / effective_cpus(here));
}

}  // namespace tutti
