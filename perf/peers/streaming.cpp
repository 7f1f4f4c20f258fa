#include "perf/peers/streaming.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>

namespace tutti::perf {

void copy_streaming(std::byte* to, const std::byte* from, uint64_t bytes) {
  const uint64_t head = std::min<uint64_t>(bytes, (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64);
  std::memcpy(to, from, head);
  uint64_t at = head;
  for (; at + 64 <= bytes; at += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();  // streaming stores are not ordered with what follows otherwise
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace tutti::perf
#else
namespace tutti::perf {

void copy_streaming(std::byte* to, const std::byte* from, uint64_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace tutti::perf
#endif
