// Which samples form which batch, and which rank takes which of them. The order follows from the seed alone, so that
// any number of ranks trains on the same batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::trainer {

/// [begin, end).
struct SampleRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

/// Rank's part of `count` things in contiguous shares whose sizes differ by at most one, the larger ones first.
SampleRange share(std::size_t count, int rank, int ranks);

/// A permutation of [0, count) (Fisher & Yates) that follows from (seed, stream).
std::vector<std::uint32_t> permutation(std::size_t count, std::uint64_t seed, std::uint64_t stream);

/// Training and validation samples: a seeded choice, of which the last round(fraction · count) validate.
struct DatasetSplit {
  std::vector<std::uint32_t> training;
  std::vector<std::uint32_t> validation;
};
/// fraction in [0, 1); at least one sample trains where count > 0.
DatasetSplit split(std::size_t count, double fraction, std::uint64_t seed);

}  // namespace tutti::trainer
