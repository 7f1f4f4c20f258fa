// What a communicator tells the log: the text of every line, so that all formats stand in one place.
//
// Each line begins with `"NAME" rank R of N: WORD:`, whose word says what follows. At info a rank writes at most three
// lines when its communicator is created, and one with its first call on device memory. Rank 0 writes one for each
// collective that is used, on the host and on devices, whatever the number of ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/settings.h"
#include "src/control/members.h"
#include "src/schedule/ir.h"
#include "src/schedule/problem.h"

namespace tutti {

/// "\"world\" rank 3 of 8: ".
std::string log_label(std::string_view name, int rank, int ranks);

/// "transports: shm to ranks 0-2, tcp to ranks 4-7; Tutti 0.1.0". carriers: by rank, the transport to it; NULL: itself.
std::string transports_line(std::span<const char* const> carriers);

/// "hosts: ranks 0-3 on node1, ranks 4-7 on node2", the first ones where there are many.
std::string hosts_line(std::span<const Member> members);

/// "settings: TUTTI_LANES=2 (config), TUTTI_LOG=info (environment)": those that are given. Empty where none is. Secrets are
/// "(set)".
std::string settings_line(std::span<const SettingRow> rows);

/// The algorithm by which calls of at most so many bytes a block run.
struct AlgorithmUpTo {
  std::uint64_t bytes = 0;
  std::string_view name;
};
/// "algorithms: all_reduce by direct to 4K, ring above"; of devices "all_reduce on CUDA memory by". by_size: ascending, at
/// least one; equal neighbours become one.
std::string algorithms_line(Collective collective, Processor processor, std::span<const AlgorithmUpTo> by_size);

/// "device: 1, NVIDIA H100 at 0000:17:00.0, of 132 multiprocessors". name, address: as the driver gives them.
std::string device_line(int ordinal, std::string_view name, std::string_view address, std::uint32_t multiprocessors);

/// "plan: all_reduce of 1000 elements of 4 B by ring: 4 chunks, 1 lane, hash 1f…"; of devices "by ring on CUDA memory, as
/// lines: 4 chunks, 1 lane, 2 strands, hash 1f…".
std::string plan_line(const Plan& plan, std::string_view algorithm);

/// "link: shm to rank 1, channel 0, for collectives".
std::string link_line(std::string_view transport, bool sends, int peer, std::uint32_t channel, bool collective);

}  // namespace tutti
