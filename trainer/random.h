// Random numbers that are the same on every machine and standard library: the order of the data, the first weights and
// the drawn digits all follow from a seed through these.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace tutti::trainer {

/// SplitMix64 (Steele, Lea & Flood 2014): 64 bits of state, equidistributed. A value type; not thread safe.
class Random {
 public:
  /// `stream` makes independent sequences of one seed: weights, order of epoch e, digit number i.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : state_(seed * 0x9E3779B97F4A7C15u) {
    state_ = next() ^ (stream * 0xD1B54A32D192ED03u);
    next();
  }

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Uniform in [0, bound); bound > 0. Its bias, bound / 2^53, is far below what a training run could notice.
  std::uint64_t below(std::uint64_t bound) { return static_cast<std::uint64_t>(uniform() * static_cast<double>(bound)); }
  /// Standard normal (Box & Muller 1958), one of the pair is thrown away so that the state stays one word.
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace tutti::trainer
