// Copies of memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti {

/// memcpy in pieces that are too short for it to use `rep movsb`.
[[gnu::noinline]] inline void copy_in_pieces(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t piece = 1024;
  asm("" : "+r"(piece));  // compilers write `rep movs` themselves for lengths that they know
  for (std::size_t at = 0; at < bytes; at += piece) std::memcpy(to + at, from + at, std::min(piece, bytes - at));
}

/// memcpy, for what may be long and lie anywhere: buffers of a caller's, messages. Where the target's place in its page is
/// a little behind the source's in its own, `rep movsb`, which libraries copy long memory by, is slow on AMD's processors,
/// as its stores look like what it loads next: Zen 4 takes 16 times as long for 1 to 15 bytes, and 1.4 times for 16 to 31,
/// which is where malloc puts long buffers and a message begins a page.
inline void copy_memory(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t least_long = 2048;
  constexpr std::uintptr_t page = 4096;
  constexpr std::uintptr_t far = 32;
  const std::uintptr_t behind = (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % page;
  if (bytes < least_long || behind == 0 || behind >= far) [[likely]] {
    std::memcpy(to, from, bytes);
  } else {
    copy_in_pieces(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  }
}

}  // namespace tutti
