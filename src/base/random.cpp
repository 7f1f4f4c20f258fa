#include "src/base/random.h"

#include <sodium.h>

#include "src/base/made_once.h"

namespace tutti {

bool random_ready() {
  static constinit MadeOnce<bool> ready;
  return ready.get([] { return sodium_init() >= 0; });
}

namespace {

/// When the library is loaded: no fork may fall into it, since libsodium has a lock of its own there.
[[maybe_unused]] const bool ready_early = random_ready();

}  // namespace

void random_bytes(std::span<unsigned char> out) {
  random_ready();
  ::randombytes_buf(out.data(), out.size());
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  random_bytes({reinterpret_cast<unsigned char*>(&value), sizeof value});
  return value;
}

}  // namespace tutti
