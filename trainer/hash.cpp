#include "trainer/hash.h"

#include <cstring>

namespace tutti::trainer {

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  constexpr std::uint64_t prime = 0x100000001B3u;
  std::uint64_t hash = 0xCBF29CE484222325u ^ seed;
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * prime;
    hash ^= hash >> 32;  // FNV's multiplication alone never carries high bits down
  };
  const auto* at = static_cast<const unsigned char*>(data);
  std::size_t left = bytes;
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    mix(word);
  }
  std::uint64_t tail = 0;
  if (left > 0) std::memcpy(&tail, at, left);
  mix(tail);
  mix(bytes);
  return hash;
}

std::uint64_t hash_model(const std::vector<int>& layers, std::span<const float> parameters) {
  const std::uint64_t shape = hash_bytes(layers.data(), layers.size() * sizeof(int));
  return hash_bytes(parameters.data(), parameters.size_bytes(), shape);
}

std::string hash_text(std::uint64_t hash) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; hash >>= 4) text[i] = digits[hash & 15];
  return text;
}

}  // namespace tutti::trainer
