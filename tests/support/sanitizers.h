// Which sanitizer a test runs under, for what one of them does not support.
#pragma once

namespace tutti::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool under_tsan = true;
#elif defined(__has_feature)
inline constexpr bool under_tsan = __has_feature(thread_sanitizer);
#else
inline constexpr bool under_tsan = false;
#endif

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool under_asan = true;
#elif defined(__has_feature)
inline constexpr bool under_asan = __has_feature(address_sanitizer);
#else
inline constexpr bool under_asan = false;
#endif

/// What bounds of processor time are multiplied by, which hold that something hostile takes time by its length and not by
/// the square of it: instrumented code is slower by some ten times.
inline constexpr int slowdown = under_tsan || under_asan ? 20 : 1;

}  // namespace tutti::test
