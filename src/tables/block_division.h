// How the elements of a v-variant's call are divided among its blocks.
//
//     even     ┌────┬────┬────┬────┐
//     skewed   ├─┬──┴─┬──┴──┬─┴────┤    1, 2, 3, 4 parts
//     zeros    ├─┴────┴─┬┬──┴─────┬┤    blocks 1 and 3 are empty
//     one      └────────┴┴────────┴┘    block 3 has all
//
// All divide as many elements, so that their times compare. For programs and tests that make such calls.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/tables/collectives.h"

namespace tutti {

enum class BlockDivision : std::uint8_t { even, skewed, zeros, one };

/// All of them, in the enumeration's order.
inline constexpr std::array block_divisions = {BlockDivision::even, BlockDivision::skewed, BlockDivision::zeros,
                                               BlockDivision::one};

/// "even", …; static.
const char* name_of(BlockDivision division);

/// The division of that name, all for "all", none for another word.
std::vector<BlockDivision> divisions_named(const std::string& given);

/// "even", …: of all of them.
std::vector<std::string> division_names();
/// The names that divisions_named takes.
std::vector<std::string> all_division_names();

/// Where block `block` begins, in elements, of `ranks` blocks that have ranks x count elements together, which 64 bits
/// must hold. Block `ranks` is the end.
std::uint64_t block_begin(BlockDivision division, std::uint64_t count, int ranks, int block);

/// A call of a v-variant whose blocks are divided so.
struct DividedCall {
  const CollectiveInfo* collective = nullptr;  ///< has a v-variant
  BlockDivision division = BlockDivision::even;
  int ranks = 1;
  std::uint64_t count = 0;  ///< elements of a block, on average

  /// Where a block begins in a buffer of rank `of` that has one for each rank, in elements; block `ranks` is the end.
  /// What two ranks have for each other is as long on both: of an all_to_all_v, block b of rank r has length r + b.
  std::uint64_t begin_of(int of, std::uint64_t block) const;
  /// Elements of a buffer that is the rank's block alone.
  std::uint64_t own_count(int rank) const;
};

}  // namespace tutti
