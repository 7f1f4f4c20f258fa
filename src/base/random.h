// Random bytes that nobody can guess: keys, nonces, names of abstract sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// Initialises libsodium once. False where the system has no source of randomness. Thread safe, cheap when repeated.
bool random_ready();

/// Fills `out` with unpredictable bytes. Thread safe; safe after fork. Needs random_ready(), which it calls itself.
void random_bytes(std::span<unsigned char> out);

/// 64 unpredictable bits. Thread safe.
std::uint64_t random_u64();

}  // namespace tutti
