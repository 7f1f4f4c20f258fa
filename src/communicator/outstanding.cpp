#include "src/communicator/outstanding.h"

#include <chrono>
#include <utility>

namespace tutti {

std::shared_ptr<Admission> Outstanding::admit() const {
  auto admission = std::make_shared<Admission>(count_);
  const std::lock_guard lock(count_->mutex);
  if (count_->closed) return nullptr;
  return admission;
}

void Outstanding::close() const {
  const std::lock_guard lock(count_->mutex);
  count_->closed = true;
}

void Outstanding::abandon() const {
  const std::lock_guard lock(count_->mutex);
  count_->closed = count_->abandoned = true;
  count_->zero.notify_all();
}

bool Outstanding::wait(std::uint64_t ns) const {
  std::unique_lock lock(count_->mutex);
  return count_->zero.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return count_->settled(); });
}

Admission::Admission(std::shared_ptr<Outstanding::Count> count) : count_(std::move(count)) {
  const std::lock_guard lock(count_->mutex);
  ++count_->admitted;
}

Admission::~Admission() {
  const std::lock_guard lock(count_->mutex);
  count_->leave(begun_);
}

bool Admission::begin() {
  const std::lock_guard lock(count_->mutex);
  if (begun_) return true;
  if (count_->abandoned) return false;
  ++count_->begun;
  begun_ = true;
  return true;
}

Visit::Visit(const Outstanding& outstanding) : count_(outstanding.count_) {
  const std::lock_guard lock(count_->mutex);
  if (count_->closed) return;
  ++count_->admitted;
  ++count_->begun;
  admitted_ = true;
}

Visit::~Visit() {
  if (!admitted_) return;
  const std::lock_guard lock(count_->mutex);
  count_->leave(true);
}

}  // namespace tutti
