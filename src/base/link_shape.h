// What the library asks of every transport, known to those built in before they say whether they are viable.
#pragma once

#include <cstdint>

namespace tutti {

/// Credit and message size of every link; equal on all ranks. Four messages of 256 KiB keep both ends busy and fit the
/// second-level cache; plans need no more credit (make_plan's windows come from slot_bytes).
inline constexpr std::uint32_t link_slots = 4;
inline constexpr std::uint64_t link_slot_bytes = 256 * 1024;

}  // namespace tutti
