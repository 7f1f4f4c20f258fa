// A copy that leaves the caches alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::perf {

/// Copies with streaming stores where the processor has them, else as memcpy. The ranges may not overlap.
void copy_streaming(std::byte* to, const std::byte* from, uint64_t bytes);

}  // namespace tutti::perf
