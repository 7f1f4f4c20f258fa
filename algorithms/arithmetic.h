// Arithmetic that several algorithms share: positions on rings and in trees, and what their messages cost. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "src/base/saturating.h"
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

/// α of n messages to or from as many peers, under way at once: one latency, and for each further message what it takes to
/// post it, about a quarter of that on shared memory as over TCP. Where messages are counted it is not counted here.
inline double alphas_at_once(int n, const View& view) {
  return n < 1 ? 0 : 1 + (counts_messages(view) ? 0 : 0.25) * (n - 1);
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

/// View::ring_share where it counts. blocks: of a rank's longer buffer.
inline double ring_share(const Problem& problem, const View& view, double blocks) {
  constexpr double cached = 8 << 20;  // of all ranks, where they are a few on each core
  const double bytes = blocks * static_cast<double>(bytes_of(problem.count, problem.type));
  return view.oversubscription > 1 && view.through_memory && bytes * problem.ranks >= cached ? view.ring_share : 1;
}

/// Messages that a pipeline cuts the buffer into: `chunks` per window, and more where a window does not hold it.
inline double pieces(const Problem& problem, std::uint32_t chunks) {
  constexpr double message = 256 * 1024;  // what a slot commonly holds
  constexpr double least = 128;           // the grain
  const double bytes = static_cast<double>(problem.count) * static_cast<double>(element_bytes(problem.type));
  const double wanted = std::max<double>(chunks, std::ceil(bytes / message));
  return std::max(1.0, std::min(wanted, std::ceil(bytes / least)));
}

/// Buffers that pass over a chain's links one after the other, in so many pieces. Through memory a message is written by
/// one end and read by the other: of two ranks one writes a piece while the other reads the one before.
inline double chain_transfers(const Problem& problem, const View& view, double pieces) {
  if (problem.ranks == 2 && view.through_memory) return (pieces + 1) / (2 * pieces);
  return ring_share(problem, view, 1) * (problem.ranks - 2 + pieces) / pieces;
}

/// What a rank of a chain sends, on average.
inline double chain_sends(const Problem& problem, const View& view) {
  return ring_share(problem, view, 1) * tree_messages(problem);
}

/// The parameter where it is set, else the algorithm's own choice.
constexpr std::uint32_t or_default(std::uint32_t parameter, std::uint32_t choice) {
  return parameter != 0 ? parameter : choice;
}

}  // namespace tutti
