#include "src/base/random.h"

#include <sodium.h>

namespace tutti {

bool random_ready() {
  static const bool ready = sodium_init() >= 0;
  return ready;
}

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
