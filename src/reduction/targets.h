// Which instruction sets the loops are compiled for. Include before any header of Highway.
//
// One build holds SSE4, AVX2 and AVX-512 (Skylake's) on x86, NEON on Arm, and plain C++ for everything else. What is left
// out would double the compile time and not be faster.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
// The fallback is our own scalar loops with every compiler, as it is with GCC before 12.3.
#define HWY_BROKEN_EMU128 1
