#include "src/communicator/residence.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>

namespace tutti {
namespace {

/// A setting that all ranks must share, as people write it.
struct Shared {
  const char* name;
  std::string (*value)(const Residence&);
};
constexpr std::array shared_settings = {
    Shared{"TUTTI_ALGORITHM", [](const Residence& r) { return r.algorithm; }},
    Shared{"TUTTI_LANES", [](const Residence& r) { return std::to_string(r.lanes); }},
    Shared{"the table of TUTTI_TUNING", [](const Residence& r) { return r.tuning; }},
    Shared{"what the files of TUTTI_MSCCL say", [](const Residence& r) { return r.msccl; }},
};

std::string value_words(const std::string& value) { return value.empty() ? "unset" : fmt::format("\"{}\"", value); }

}  // namespace

Residence residence_of(const Settings& settings, const Tuning& tuning, const MscclFiles& files) {
  unsigned cpu = 0;
  unsigned node = 0;
  const bool known = getcpu(&cpu, &node) == 0;
  return {known ? static_cast<int>(node) : -1,
          cpu_limits(),
          settings.algorithm,
          settings.lanes,
          tuning.digest(),
          files.digest()};
}

void pack_residence(ByteWriter& out, const Residence& residence) {
  out.i32(residence.numa);
  out.u64(std::bit_cast<std::uint64_t>(residence.cpus.quota));
  out.u32(static_cast<std::uint32_t>(residence.cpus.allowed.size()));
  for (const int allowed : residence.cpus.allowed) out.i32(allowed);
  out.text(residence.algorithm);
  out.i32(residence.lanes);
  out.text(residence.tuning);
  out.text(residence.msccl);
}

Residence unpack_residence(ByteReader& in) {
  Residence residence;
  residence.numa = in.i32();
  residence.cpus.quota = std::bit_cast<double>(in.u64());
  for (std::uint32_t n = in.u32(); n != 0 && in.ok(); --n) residence.cpus.allowed.push_back(in.i32());
  residence.algorithm = in.text();
  residence.lanes = in.i32();
  residence.tuning = in.text();
  residence.msccl = in.text();
  return residence;
}

Status agreed(std::span<const Member> members, std::span<const Residence> places) {
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

View view_of(std::span<const Member> members, std::span<const Residence> places) {
  View view = flat_view(static_cast<int>(members.size()));
  std::vector<std::uint64_t> machines;
  for (std::size_t r = 0; r < members.size(); ++r) {
    const auto found = std::find(machines.begin(), machines.end(), members[r].machine);
    view.machine[r] = static_cast<std::int32_t>(found - machines.begin());
    if (found == machines.end()) machines.push_back(members[r].machine);
    view.numa[r] = places[r].numa;
  }
  std::vector<bool> seen(machines.size());
  for (int r = 0; r < view.ranks(); ++r) {
    const auto machine = static_cast<std::size_t>(view.machine[static_cast<std::size_t>(r)]);
    if (!seen[machine]) view.crowd = std::max(view.crowd, ranks_a_core(view, places, r));
    seen[machine] = true;
  }
  return view;
}

double ranks_a_core(const View& view, std::span<const Residence> places, int rank) {
  std::vector<CpuLimits> here;
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (view.same_machine(rank, static_cast<int>(r))) here.push_back(places[r].cpus);
  }
  return std::max(1.0, static_cast<double>(here.size()) / effective_cpus(here));
}

}  // namespace tutti
