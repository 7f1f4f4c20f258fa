// Bounds of processor time for tests of work that must stay bounded whatever its input.
#pragma once

#include <ctime>

#include "tests/support/sanitizers.h"

namespace tutti::test {

/// The processor time that this process has taken since the object was made.
class ProcessorTime {
 public:
  /// Whether it is at most `seconds` in an optimised build; where a sanitizer watches every access, ten times as much.
  bool within(double seconds) const {
    const double room = under_tsan || under_asan ? 10 : 1;
    return static_cast<double>(std::clock() - start_) <= room * seconds * CLOCKS_PER_SEC;
  }

 private:
  std::clock_t start_ = std::clock();
};

}  // namespace tutti::test
