// Which sanitizer a test runs under, for what one of them does not support, or takes longer for.
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

}  // namespace tutti::test
