// Whether what all ranks of a machine are about to take fits into its memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::perf {

/// Free memory that processes share: a machine's or a control group's.
struct Room {
  uint64_t place;  ///< the same for all who share it, else different but for chance
  uint64_t bytes;
};

/// What one rank sees: its machine's room, and that of the control group which leaves it least. Where the files say
/// nothing the room is endless.
using Rooms = std::array<Room, 2>;

/// Reads them from /proc and /sys below `root`, which tests replace. Thread safe.
Rooms read_rooms(const std::string& root = "");

/// Whether every rank may take `each` bytes more; `ranks` has what each of them sees. The answer is the same for all of
/// them: an empty string, or a sentence for kWrongUse that names need and room.
std::string check_rooms(const std::vector<Rooms>& ranks, uint64_t each);

}  // namespace tutti::perf
