// A part of a long test's cases, for every day; all of them where nothing is said.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace tutti::testing {

/// Of so many cases one is taken: TEST_EVERY, which CTest sets, and else 1. A prime has no beat with cases that alternate.
inline std::size_t sample_step() {
  const char* const given = std::getenv("TEST_EVERY");
  const unsigned long step = given != nullptr ? std::strtoul(given, nullptr, 10) : 1;
  return step == 0 ? 1 : step;
}

/// Takes the first case that it is asked about, and each that is sample_step() later.
class Sample {
 public:
  bool takes_next() { return asked_++ % step_ == 0; }

 private:
  const std::size_t step_ = sample_step();
  std::size_t asked_ = 0;
};

}  // namespace tutti::testing
