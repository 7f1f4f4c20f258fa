#include "src/base/operation_count.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/clock.h"

namespace tutti {
namespace {

constexpr std::uint64_t look_every_ns = 1'000'000;

}  // namespace

std::shared_ptr<SharedOperation> OperationCount::admit() const {
  auto admission = std::make_shared<SharedOperation>(count_);
  const std::lock_guard lock(count_->mutex);
  if (count_->closed()) return nullptr;
  return admission;
}

void OperationCount::close() const {
  const std::lock_guard lock(count_->mutex);
  count_->close();
}

void OperationCount::abandon() const {
  const std::lock_guard lock(count_->mutex);
  count_->close();
  count_->abandoned = true;
  count_->zero.notify_all();
}

bool OperationCount::wait(std::uint64_t ns) const {
  const Deadline deadline = Deadline::in(ns);
  std::unique_lock lock(count_->mutex);
  while (!count_->settled()) {
    if (deadline.passed()) return false;
    // Visits do not notify.
    count_->zero.wait_for(lock, std::chrono::nanoseconds(std::min(look_every_ns, deadline.left_ns())));
  }
  return true;
}

SharedOperation::SharedOperation(std::shared_ptr<OperationCount::Count> count) : count_(std::move(count)) {
  const std::lock_guard lock(count_->mutex);
  ++count_->admitted;
}

SharedOperation::~SharedOperation() {
  const std::lock_guard lock(count_->mutex);
  count_->leave(begun_);
}

bool SharedOperation::begin() {
  const std::lock_guard lock(count_->mutex);
  if (begun_) return true;
  if (count_->abandoned) return false;
  ++count_->begun;
  begun_ = true;
  return true;
}

}  // namespace tutti
