// What a core does between two looks at a word that another core will write.
#pragma once

namespace tutti {

#if defined(__x86_64__) || defined(__i386__)
inline void pause_core() { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
inline void pause_core() { asm volatile("yield"); }
#else
inline void pause_core() {}
#endif

}  // namespace tutti
