#include "perf/user_operators.h"

namespace tutti::perf {
namespace {

/// For each pair of elements, the first bytes of both.
template <class Fold>
void each_pair(size_t size, const void* in, void* inout, uint64_t count, const Fold& fold) {
  const auto* left = static_cast<const uint8_t*>(in);
  auto* right = static_cast<uint8_t*>(inout);
  for (uint64_t k = 0; k < count; ++k, left += size, right += size) fold(left, right);
}

}  // namespace

void add_numbers(void* ctx, const void* in, void* inout, uint64_t count) {
  const size_t size = *static_cast<const size_t*>(ctx);
  each_pair(size, in, inout, count, [size](const uint8_t* left, uint8_t* right) {
    unsigned sum = 0;
    for (size_t i = 0; i < size; ++i, sum >>= 8) {
      sum += left[i] + right[i];
      right[i] = static_cast<uint8_t>(sum);
    }
  });
}

void compose_maps(void* ctx, const void* in, void* inout, uint64_t count) {
  const size_t size = *static_cast<const size_t*>(ctx);
  each_pair(size, in, inout, count, [size](const uint8_t* left, uint8_t* right) {
    const unsigned factor = left[0] & 15u;
    const unsigned product = (factor * (right[0] & 15u)) & 15u;
    for (size_t i = 0; i < size; ++i) {
      const unsigned low = factor * (right[i] & 0x0fu) + left[i];
      const unsigned high = factor * (right[i] & 0xf0u) + (left[i] & 0xf0u);
      right[i] = static_cast<uint8_t>((low & 0x0fu) | (high & 0xf0u));
    }
    right[0] = static_cast<uint8_t>((right[0] & 0xf0u) | product);
  });
}

}  // namespace tutti::perf
