// Counts of calls, and which of them fail on order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/cuda/driver_types.h"

namespace standin {

/// "entry:n[:error]": the n-th call of `entry` from the order on fails.
struct FailureOrder {
  std::string entry;
  std::uint64_t at = 0;  ///< 0: each
  std::uint64_t seen = 0;
  tutti::cuda::DriverResult error = tutti::cuda::DriverResult::out_of_memory;
};

/// Guarded by the state's lock.
class Failures {
 public:
  /// Replaces the orders. Whether they were understood; none are left where not.
  bool order(const std::string& text);
  /// Notes a call; what it is to fail with.
  tutti::cuda::DriverResult count(const char* entry);
  std::uint64_t calls(const std::string& entry) const;

 private:
  std::vector<FailureOrder> orders_;
  std::map<std::string, std::uint64_t> calls_;
};

Failures& failures();

/// Whether a real driver's context is lost by such a result.
bool sticky_by_nature(tutti::cuda::DriverResult result);

}  // namespace standin
