// The folds of uint8, once per instruction set (see sweep-inl.h).
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/base/copy.h"
#include "src/reduction/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/reduction/fold_uint8.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "src/reduction/sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

const FoldTable& uint8_table() { return kFolds<std::uint8_t>; }

/// Copies are folds of one source of bytes; the operator is never applied.
void copy_everywhere(const FoldArguments& arguments) {
  sweep_any<AnyLanes<std::uint8_t>, ShortAnyLanes<std::uint8_t>, Sum, NoDivider>(arguments);
}

/// Past the caches. What is no whole line of the target, at its beginning and its end, is copied as usual.
void stream_bytes(const std::uint8_t* from, std::uint8_t* to, std::uint64_t bytes) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<std::uint8_t, kLine> d;
  const std::uint64_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) % kLine;
  if (bytes < head + kLine) return copy_memory(to, from, bytes);
  std::memcpy(to, from, head);
  std::uint64_t at = head;
  for (; bytes - at >= kLine; at += kLine) {
    for (std::size_t i = 0; i < kLine; i += hn::Lanes(d)) hn::Stream(hn::LoadU(d, from + at + i), d, to + at + i);
  }
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(uint8_table);
template <>
const FoldTable& folds_of<std::uint8_t>() {
  return HWY_DYNAMIC_DISPATCH(uint8_table)();
}

HWY_EXPORT(stream_bytes);
void copy_piece(const void* from, const FoldDestination& to, std::uint64_t bytes) {
  if (to.data == from) return;
  if (!to.streaming) return copy_memory(to.data, from, bytes);
  HWY_DYNAMIC_DISPATCH(stream_bytes)(static_cast<const std::uint8_t*>(from), static_cast<std::uint8_t*>(to.data), bytes);
}

bool any_streams(const FoldDestination* destinations, std::uint32_t count) {
  return std::any_of(destinations, destinations + count, [](const FoldDestination& to) { return to.streaming; });
}

bool at_odds(const FoldDestination* destinations, std::uint32_t count) {
  const auto place = [](const FoldDestination& to) { return reinterpret_cast<std::uintptr_t>(to.data) % kLine; };
  const auto differs = [&](const FoldDestination& to) { return place(to) != place(destinations[0]); };
  return any_streams(destinations, count) && std::any_of(destinations + 1, destinations + count, differs);
}

HWY_EXPORT(copy_everywhere);
void copy_bytes(const void* from, const FoldDestination* destinations, std::uint32_t destination_count,
                std::uint64_t bytes) {
  const bool past_caches = bytes >= least_streamed && any_streams(destinations, destination_count);
  if (past_caches && !at_odds(destinations, destination_count)) {
    const FoldSource source = {from};
    return HWY_DYNAMIC_DISPATCH(copy_everywhere)({&source, destinations, 1, destination_count, bytes});
  }
  // One after the other while the source is in the cache: memcpy writes whole lines without fetching what they held.
  const std::uint64_t piece = destination_count > 1 ? kPieceBytes : bytes;
  for (std::uint64_t at = 0; at < bytes; at += piece) {
    for (std::uint32_t d = 0; d < destination_count; ++d) {
      const FoldDestination& to = destinations[d];
      copy_piece(static_cast<const std::byte*>(from) + at,
                 {static_cast<std::byte*>(to.data) + at, to.streaming && past_caches}, std::min(bytes - at, piece));
    }
  }
  if (past_caches) hwy::FlushStream();
}

}  // namespace tutti
#endif
