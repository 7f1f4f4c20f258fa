// Folds by a user-defined operator, a function that knows two arrays.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/reduction/reduction.h"

namespace tutti {

/// A user-defined operator, as tutti_op_create_user has it. Plain data; what it points to is the caller's.
struct UserFold {
  void (*fold)(void* ctx, const void* in, void* inout, std::uint64_t count) = nullptr;
  void* ctx = nullptr;
  std::size_t element_bytes = 1;  ///< up to 1024
};

/// The fold of the calling thread's user operator, which a UserFoldScope names. It counts bytes, of whole elements, and
/// keeps the operands' order: s0 ∘ (s1 ∘ s2). Never averages.
FoldFunction find_user_fold();

/// For as long as it lives, folds of user operators in this thread go by `fold`, which outlives it. A function that
/// a plan holds knows no call. Scopes may be nested.
class UserFoldScope {
 public:
  explicit UserFoldScope(const UserFold* fold);
  ~UserFoldScope();
  UserFoldScope(const UserFoldScope&) = delete;
  UserFoldScope& operator=(const UserFoldScope&) = delete;

 private:
  const UserFold* before_;
};

}  // namespace tutti
