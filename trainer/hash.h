// The hash that weights are compared by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::trainer {

/// FNV-1a over 64-bit words, the tail padded with zeros and the length mixed in: against accidents, not against malice.
/// `seed` chains hashes.
std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0);

/// Of a whole model: its layer widths and every parameter's bits.
std::uint64_t hash_model(const std::vector<int>& layers, std::span<const float> parameters);

/// 16 hexadecimal digits.
std::string hash_text(std::uint64_t hash);

}  // namespace tutti::trainer
