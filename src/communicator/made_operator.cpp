#include "src/communicator/made_operator.h"

#include <utility>

#include "src/tables/operators.h"

namespace tutti {

tutti_op MadeOperators::add(const MadeOperator& made) {
  auto kept = std::make_shared<const MadeOperator>(made);
  const std::lock_guard lock(mutex_);
  static_assert(least_made_operator == 256);
  const int value = next_++;
  made_.emplace(value, std::move(kept));
  return static_cast<tutti_op>(value);
}

std::shared_ptr<const MadeOperator> MadeOperators::find(tutti_op op) const {
  const std::lock_guard lock(mutex_);
  const auto found = made_.find(static_cast<int>(op));
  return found != made_.end() ? found->second : nullptr;
}

bool MadeOperators::remove(tutti_op op) {
  const std::lock_guard lock(mutex_);
  return made_.erase(static_cast<int>(op)) != 0;
}

}  // namespace tutti
