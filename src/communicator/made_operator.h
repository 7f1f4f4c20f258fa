// Operators that are made while a program runs: sums whose operands are scaled first, and the caller's own.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "include/tutti/tutti.h"
#include "src/reduction/user_fold.h"

namespace tutti {

/// One operator. Immutable; calls hold it, so it may be destroyed once they are enqueued.
struct MadeOperator {
  enum class Kind { user, pre_mul_sum };
  Kind kind = Kind::user;
  // user
  UserFold fold;
  bool commutative = true;
  // pre_mul_sum
  tutti_type type = TUTTI_TYPE_LIMIT;
  alignas(16) std::array<std::byte, 16> scalar{};
};

/// Those of a communicator, by their values. Thread safe. Values are not used again, and need not be the same on all ranks.
class MadeOperators {
 public:
  tutti_op add(const MadeOperator& made);
  /// nullptr where there is none of this value.
  std::shared_ptr<const MadeOperator> find(tutti_op op) const;
  /// Whether there was one of this value.
  bool remove(tutti_op op);

 private:
  mutable std::mutex mutex_;
  std::map<int, std::shared_ptr<const MadeOperator>> made_;
  int next_ = 256;  ///< least_made_operator
};

}  // namespace tutti
