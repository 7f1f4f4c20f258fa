#include "trainer/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainer/random.h"

namespace tutti::trainer {

SampleRange share(std::size_t count, int rank, int ranks) {
  const auto r = static_cast<std::size_t>(rank);
  const auto p = static_cast<std::size_t>(ranks);
  const std::size_t each = count / p;
  const std::size_t larger = count % p;
  const std::size_t begin = r * each + std::min(r, larger);
  return {begin, begin + each + (r < larger ? 1 : 0)};
}

std::vector<std::uint32_t> permutation(std::size_t count, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  Random random(seed, stream);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

DatasetSplit split(std::size_t count, double fraction, std::uint64_t seed) {
  constexpr std::uint64_t stream = 2;
  const std::vector<std::uint32_t> order = permutation(count, seed, stream);
  auto held_out = static_cast<std::size_t>(std::llround(fraction * static_cast<double>(count)));
  held_out = std::min(held_out, count > 0 ? count - 1 : 0);
  const auto border = order.end() - static_cast<std::ptrdiff_t>(held_out);
  return {{order.begin(), border}, {border, order.end()}};
}

}  // namespace tutti::trainer
