// The environment variables of nccl-tests.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tutti::perf {

/// How processes fall into groups, each of which runs the operations by itself: NCCL_TESTS_SPLIT.
struct ProcessSplit {
  enum class By { kAnd, kOr, kMod, kDiv };
  By by = By::kAnd;
  uint32_t value = 0;

  /// The group of a process, as nccl-tests computes it.
  int group_of(int process) const;
};

/// What the environment asks for.
struct PerfEnvironment {
  std::optional<ProcessSplit> split;
  std::optional<double> least_bandwidth;  ///< NCCL_TESTS_MIN_BW, in GB/s
  bool device = false;                    ///< NCCL_TESTS_DEVICE is set
};

/// Reads the variables; `get` is getenv but in tests. A variable without a value is none. Returns an empty string, or the
/// sentence that refuses one.
std::string read_environment(const std::function<const char*(const char*)>& get, PerfEnvironment& environment);

}  // namespace tutti::perf
