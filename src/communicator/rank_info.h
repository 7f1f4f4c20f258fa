// What a rank tells the others at creation, besides its transports: where it runs, and the settings by which it chooses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/byte_codec.h"
#include "src/base/settings.h"
#include "src/base/status.h"
#include "src/control/members.h"
#include "src/selection/msccl_files.h"
#include "src/selection/tuning.h"
#include "topology/cpus.h"
#include "topology/view.h"

namespace tutti {

struct RankInfo {
  int numa = -1;  ///< node of the core that it ran on, -1: unknown
  CpuLimits cpus;
  std::string algorithm;            ///< Settings::algorithm
  int lanes = 0;                    ///< Settings::lanes
  bool reproducible = false;        ///< Settings::reproducible
  std::string tuning;               ///< its tuning table's digest
  std::string msccl;                ///< its MSCCL files' digest
  std::string machine;              ///< Settings::machine
  std::string rack;                 ///< Settings::rack
  std::vector<std::int32_t> torus;  ///< Settings::torus
};

/// This thread's.
RankInfo rank_info_of(const Settings& settings, const Tuning& tuning, const MscclFiles& files);
void pack_rank_info(ByteWriter& out, const RankInfo& rank_info);
RankInfo unpack_rank_info(ByteReader& in);

/// Whether all ranks (in order) choose by the same settings. Pure, so that every rank answers the same.
/// Errors: TUTTI_INVALID_ARGUMENT naming the setting, two ranks that differ in it, and both values.
Status check_settings_agree(std::span<const Member> members, std::span<const RankInfo> places);

/// The ranks' racks, machines and NUMA nodes, as they are or as settings name them, with the estimates of links that nobody
/// has measured. Where ranks of one machine name different racks, it counts as one machine in each.
View view_of(std::span<const Member> members, std::span<const RankInfo> places);

/// Ranks for each core that those of the machine of `rank`, whatever its name, may run on; 1 where there are as many cores
/// or more.
double ranks_a_core(std::span<const Member> members, std::span<const RankInfo> places, int rank);

}  // namespace tutti
