#include "perf/division.h"

#include <cstddef>

namespace tutti::perf {
namespace {

constexpr std::array kNames = {"even", "skewed", "zeros", "one"};
static_assert(kNames.size() == divisions.size());

// Parts that the blocks before `block` have together.
uint64_t parts_before(BlockDivision division, int ranks, int block) {
  const auto b = static_cast<uint64_t>(block);
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

const char* name_of(BlockDivision division) { return kNames[static_cast<size_t>(division)]; }

std::vector<BlockDivision> divisions_named(const std::string& given) {
  std::vector<BlockDivision> named;
  for (const BlockDivision division : divisions) {
    if (given == "all" || given == name_of(division)) named.push_back(division);
  }
  return named;
}

std::vector<std::string> all_division_names() {
  std::vector<std::string> names(kNames.begin(), kNames.end());
  names.emplace_back("all");
  return names;
}

uint64_t block_begin(BlockDivision division, uint64_t count, int ranks, int block) {
  const uint64_t elements = count * static_cast<uint64_t>(ranks);
  const uint64_t parts = parts_before(division, ranks, ranks);
  const uint64_t before = parts_before(division, ranks, block);
  // Quotient and remainder apart: elements x parts may be more than 64 bits hold.
  return elements / parts * before + elements % parts * before / parts;
}

}  // namespace tutti::perf
