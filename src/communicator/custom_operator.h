// Operators that programs make as they run: user-defined ones, and sums whose operands are scaled first.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "include/tutti/tutti.h"
#include "src/reduction/user_fold.h"
#include "src/tables/operators.h"

namespace tutti {

/// One operator. Immutable; calls hold it, so it may be destroyed once they are enqueued.
struct CustomOperator {
  enum class Kind { user, pre_mul_sum };
  Kind kind = Kind::user;
  // user: what it does, and whether operands may change places
  UserFold fold;
  bool commutative = true;
  // pre_mul_sum: what its operands are multiplied by
  tutti_type type = TUTTI_TYPE_LIMIT;
  alignas(16) std::array<std::byte, 16> scalar{};
  const std::byte* scalar_at = nullptr;  ///< in a device's memory, in the place of `scalar`; the caller's
};

/// Those of a communicator, by their values. Thread safe. Values are not used again, and need not be the same on all ranks.
class CustomOperators {
 public:
  tutti_op add(const CustomOperator& custom);
  /// nullptr where there is none of this value.
  std::shared_ptr<const CustomOperator> find(tutti_op op) const;
  /// Whether there was one of this value.
  bool remove(tutti_op op);

 private:
  mutable std::mutex mutex_;
  std::map<int, std::shared_ptr<const CustomOperator>> by_value_;
  int next_ = least_custom_operator;
};

}  // namespace tutti
