// What the library asks of every transport, known to those built in before they say whether they are viable.
#pragma once

#include <cstdint>

namespace tutti {

/// Credit and message size of every link; equal on all ranks. Four messages of 256 KiB keep both ends busy and fit the
/// second-level cache; plans need no more credit (make_plan's windows come from slot_bytes).
inline constexpr std::uint32_t link_slots = 4;
inline constexpr std::uint64_t link_slot_bytes = 256 * 1024;
/// Message size of a device's links that go by lines. A line moves half of what it takes, and saves one trip for each
/// message.
inline constexpr std::uint64_t line_message_bytes = 32 * 1024;

}  // namespace tutti
