// How the elements of a v-variant's call are divided among its blocks.
//
//     even     ┌────┬────┬────┬────┐
//     skewed   ├─┬──┴─┬──┴──┬─┴────┤    1, 2, 3, 4 parts
//     zeros    ├─┴────┴─┬┬──┴─────┬┤    blocks 1 and 3 are empty
//     one      └────────┴┴────────┴┘    block 3 has all
//
// All divide as many elements, so that their times compare.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::perf {

enum class BlockDivision : uint8_t { even, skewed, zeros, one };

/// All of them, in the enumeration's order.
inline constexpr std::array divisions = {BlockDivision::even, BlockDivision::skewed, BlockDivision::zeros,
                                         BlockDivision::one};

/// "even", …; static.
const char* name_of(BlockDivision division);

/// The division of that name, all for "all", none for another word.
std::vector<BlockDivision> divisions_named(const std::string& given);

/// The names that divisions_named takes.
std::vector<std::string> all_division_names();

/// Where block `block` begins, in elements, of `ranks` blocks that have ranks x count elements together, which 64 bits
/// must hold. Block `ranks` is the end.
uint64_t block_begin(BlockDivision division, uint64_t count, int ranks, int block);

}  // namespace tutti::perf
