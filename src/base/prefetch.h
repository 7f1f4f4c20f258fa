// Fetching a cache line before it is needed.
#pragma once

namespace tutti {

/// Begins to make the line at `address`, which must be mapped, this core's own, so that a later store to it need not wait
/// for the core that read it last. A hint: nothing depends on it. (The compiler's own prefetch for writing is one for
/// reading where it may assume no more than the oldest x86-64, which all understand this instruction.)
#if defined(__x86_64__)
inline void prefetch_to_write(const void* address) {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
}
#else
inline void prefetch_to_write(const void* address) { __builtin_prefetch(address, 1); }
#endif

/// Begins to fetch the line at `address` for reading, likewise.
inline void prefetch_to_read(const void* address) { __builtin_prefetch(address, 0); }

}  // namespace tutti
