#include "src/tables/block_division.h"

#include <cstddef>

namespace tutti {
namespace {

constexpr std::array words_of_divisions = {"even", "skewed", "zeros", "one"};
static_assert(words_of_divisions.size() == block_divisions.size());

/// Parts that the blocks before `block` have together.
std::uint64_t parts_before(BlockDivision division, int ranks, int block) {
  const auto b = static_cast<std::uint64_t>(block);
  switch (division) {
    case BlockDivision::even:
      return b;
    case BlockDivision::skewed:
      return b * (b + 1) / 2;
    case BlockDivision::zeros:
      return (b + 1) / 2;
    case BlockDivision::one:
      return block == ranks ? 1 : 0;
  }
  return 0;
}

}  // namespace

const char* name_of(BlockDivision division) { return words_of_divisions[static_cast<std::size_t>(division)]; }

std::vector<BlockDivision> divisions_named(const std::string& given) {
  std::vector<BlockDivision> named;
  for (const BlockDivision division : block_divisions) {
    if (given == "all" || given == name_of(division)) named.push_back(division);
  }
  return named;
}

std::vector<std::string> division_names() { return {words_of_divisions.begin(), words_of_divisions.end()}; }

std::vector<std::string> all_division_names() {
  std::vector<std::string> all = division_names();
  all.emplace_back("all");
  return all;
}

std::uint64_t block_begin(BlockDivision division, std::uint64_t count, int ranks, int block) {
  const std::uint64_t elements = count * static_cast<std::uint64_t>(ranks);
  const std::uint64_t parts = parts_before(division, ranks, ranks);
  const std::uint64_t before = parts_before(division, ranks, block);
  // Quotient and remainder apart: elements x parts may be more than 64 bits hold.
  return elements / parts * before + elements % parts * before / parts;
}

std::uint64_t DividedCall::begin_of(int of, std::uint64_t block) const {
  const bool both = collective->has_send_blocks() && collective->has_recv_blocks();
  const int first = both ? of : 0;
  const int last = first + static_cast<int>(block);
  const std::uint64_t wrapped = last > ranks ? count * static_cast<std::uint64_t>(ranks) : 0;
  return wrapped + block_begin(division, count, ranks, last > ranks ? last - ranks : last) -
         block_begin(division, count, ranks, first);
}

std::uint64_t DividedCall::own_count(int rank) const {
  return block_begin(division, count, ranks, rank + 1) - block_begin(division, count, ranks, rank);
}

}  // namespace tutti
