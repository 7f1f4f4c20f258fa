// What the room's files share: each fold_*.cpp gives the folds of its types for this processor.
#pragma once

#include <cstdint>

#include "src/reduction/reduction.h"

namespace tutti {

/// The folds of one type, in the order of tutti_op's first values.
struct FoldTable {
  FoldFunction sum;
  FoldFunction prod;
  FoldFunction max;
  FoldFunction min;
};

/// The table of one type for this processor. Static, thread safe.
const FoldTable& int8_folds();
const FoldTable& uint8_folds();
const FoldTable& int32_folds();
const FoldTable& uint32_folds();
const FoldTable& int64_folds();
const FoldTable& uint64_folds();
const FoldTable& float16_folds();
const FoldTable& bfloat16_folds();
const FoldTable& float32_folds();
const FoldTable& float64_folds();

/// Copies `bytes` bytes to every destination, which may be `from` itself but not overlap it otherwise. Thread safe.
void copy_bytes(const void* from, const FoldDestination* destinations, std::uint32_t destination_count,
                std::uint64_t bytes);

}  // namespace tutti
