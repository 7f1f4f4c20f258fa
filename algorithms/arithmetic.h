// Arithmetic that several algorithms share: positions on rings and in trees, and what their messages cost. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "algorithms/algorithm.h"
#include "src/schedule/ir.h"
#include "src/tables/element_types.h"
#include "topology/view.h"

namespace tutti {

/// x mod p in 0 … p−1, for negative x too.
constexpr std::uint32_t wrap(int x, int p) { return static_cast<std::uint32_t>(((x % p) + p) % p); }
/// The same as a rank.
constexpr int wrap_rank(int x, int p) { return static_cast<int>(wrap(x, p)); }

/// ⌈log₂ p⌉, 0 for p = 1.
constexpr int log2_ceil(int p) {
  int h = 0;
  while ((std::int64_t{1} << h) < p) ++h;
  return h;
}

/// Largest power of two <= p, for p >= 1.
constexpr int power_floor(int p) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(p))); }

/// Block `block` (wrapping around the buffer) and `blocks` in all, chunk 0.
inline Range block_range(std::uint32_t block, std::uint32_t blocks = 1) {
  Range range;
  range.block = block;
  range.blocks = blocks;
  return range;
}

/// Of `chunks` chunks that a block is divided into, those that hold anything: a short block fills a few grains.
inline double filled(const Problem& problem, int chunks) {
  constexpr double grain = 128;
  const double bytes = static_cast<double>(problem.count) * static_cast<double>(element_bytes(problem.type));
  return std::clamp(std::ceil(bytes / grain), 1.0, static_cast<double>(chunks));
}

/// Messages of a rank, on average, where every rank but one sends once: the edges of a tree.
inline double tree_messages(const Problem& problem) { return (problem.ranks - 1.0) / problem.ranks; }

/// By what an algorithm whose passes overlap multiplies its message_cells: messages are shorter than the 256 KiB of a slot
/// where those would leave less than 4 passes. part: the longest message is one of so many parts of a pass.
inline std::uint32_t shortening(const Problem& problem, std::uint32_t part) {
  constexpr double slot = 256 * 1024;
  const double messages =
      static_cast<double>(problem.count) * static_cast<double>(element_bytes(problem.type)) / part / slot;
  return messages >= 4 ? 1 : messages >= 2 ? 2 : 4;
}

/// Messages that a pipeline cuts the buffer into: `chunks` per window, and more where a window does not hold it.
inline double pieces(const Problem& problem, std::uint32_t chunks) {
  constexpr double message = 256 * 1024;  // what a slot commonly holds
  constexpr double least = 128;           // the grain
  const double bytes = static_cast<double>(problem.count) * static_cast<double>(element_bytes(problem.type));
  const double wanted = std::max<double>(chunks, std::ceil(bytes / message));
  return std::max(1.0, std::min(wanted, std::ceil(bytes / least)));
}

/// What it takes to hand a buffer down a chain, in so many pieces. Through memory, of two ranks one writes a piece while
/// the other reads the one before.
inline Cost chain_cost(const Problem& problem, const View& view, double pieces) {
  const double messages = problem.ranks - 2 + pieces;
  const bool overlapped = problem.ranks == 2 && view.through_memory;
  return {.alphas = messages,
          .betas = overlapped ? (pieces + 1) / (2 * pieces) : messages / pieces,
          .messages = pieces * tree_messages(problem),
          .sent = tree_messages(problem),
          .pattern = CommunicationPattern::chain};
}

/// The parameter where it is set, else the algorithm's own choice.
constexpr std::uint32_t or_default(std::uint32_t parameter, std::uint32_t choice) {
  return parameter != 0 ? parameter : choice;
}

}  // namespace tutti
