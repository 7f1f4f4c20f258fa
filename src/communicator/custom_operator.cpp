#include "src/communicator/custom_operator.h"

#include <utility>

namespace tutti {

tutti_op CustomOperators::add(const CustomOperator& custom) {
  auto kept = std::make_shared<const CustomOperator>(custom);
  const std::lock_guard lock(mutex_);
  const int value = next_++;
  by_value_.emplace(value, std::move(kept));
  return static_cast<tutti_op>(value);
}

std::shared_ptr<const CustomOperator> CustomOperators::find(tutti_op op) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_value_.find(static_cast<int>(op));
  return found != by_value_.end() ? found->second : nullptr;
}

bool CustomOperators::remove(tutti_op op) {
  const std::lock_guard lock(mutex_);
  return by_value_.erase(static_cast<int>(op)) != 0;
}

}  // namespace tutti
