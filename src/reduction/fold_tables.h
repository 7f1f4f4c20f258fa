// What the room's files share: each fold_*.cpp gives the folds of its types for this processor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/reduction/reduction.h"
#include "src/tables/element_types.h"

namespace tutti {

/// The folds of one type; nullptr where fold_kind (src/tables/operators.h) never asks for it.
struct FoldTable {
  FoldFunction sum = nullptr;
  FoldFunction prod = nullptr;
  FoldFunction max = nullptr;
  FoldFunction min = nullptr;
  FoldFunction bitwise_and = nullptr;
  FoldFunction bitwise_or = nullptr;
  FoldFunction bitwise_xor = nullptr;
  FoldFunction logical_and = nullptr;
  FoldFunction logical_or = nullptr;
  FoldFunction logical_xor = nullptr;
};

/// The table of one type for this processor. Static, thread safe. fold_TYPE.cpp defines it.
template <typename T>
const FoldTable& folds_of();
template <>
const FoldTable& folds_of<std::int8_t>();
template <>
const FoldTable& folds_of<std::uint8_t>();
template <>
const FoldTable& folds_of<std::int16_t>();
template <>
const FoldTable& folds_of<std::uint16_t>();
template <>
const FoldTable& folds_of<std::int32_t>();
template <>
const FoldTable& folds_of<std::uint32_t>();
template <>
const FoldTable& folds_of<std::int64_t>();
template <>
const FoldTable& folds_of<std::uint64_t>();
template <>
const FoldTable& folds_of<Float16>();
template <>
const FoldTable& folds_of<BFloat16>();
template <>
const FoldTable& folds_of<float>();
template <>
const FoldTable& folds_of<double>();
template <>
const FoldTable& folds_of<Float8E4M3>();
template <>
const FoldTable& folds_of<Float8E5M2>();
template <>
const FoldTable& folds_of<Complex<float>>();
template <>
const FoldTable& folds_of<Complex<double>>();

/// Bytes of a cache line.
inline constexpr std::size_t kLine = 64;

/// What is written to several destinations one after the other is written in pieces of so many bytes: two sources and two
/// destinations then have room in a first cache of 32 KiB. (On Zen 4 8 to 12 KiB are best: with 16 and 32 all-gathers take
/// 1.08 to 1.15 of the time.)
inline constexpr std::uint64_t kPieceBytes = 8 * 1024;

/// Whether some of the destinations are to be streamed. Thread safe.
bool any_streams(const FoldDestination* destinations, std::uint32_t count);
/// Whether some of the destinations are to be streamed and they begin at different places in their cache lines: then what
/// is whole lines of one is two halves in another, and where a peer has those in its cache each store waits for both (a
/// broadcast of 16 MiB took twelve times as long), so that each is better written by itself. Thread safe.
bool at_odds(const FoldDestination* destinations, std::uint32_t count);

/// Copies to one destination, which may be `from` itself; streaming stores are left to be ordered (hwy::FlushStream) by who
/// copies piece by piece. Thread safe.
void copy_piece(const void* from, const FoldDestination& to, std::uint64_t bytes);

/// Copies `bytes` bytes to every destination, which may be `from` itself but not overlap it otherwise. Thread safe.
void copy_bytes(const void* from, const FoldDestination* destinations, std::uint32_t destination_count,
                std::uint64_t bytes);

}  // namespace tutti
