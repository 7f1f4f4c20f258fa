#include "trainer/exchange.h"

#include <cassert>

#include "trainer/stopwatch.h"

namespace tutti::trainer {

GradientExchange::GradientExchange(Peers& peers, std::span<float> gradients, std::size_t bucket, std::size_t operands)
    : peers_(peers), gradients_(gradients), bucket_(bucket), operands_(operands) {
  assert(bucket > 0 && (operands == 0 || bucket >= gradients.size()));
  under_way_.reserve(gradients.size() / bucket + 1);
}

void GradientExchange::ready(std::size_t end) {
  assert(end >= posted_ && end <= gradients_.size());
  const std::size_t size = end - posted_;
  const bool worth_it = size >= bucket_ || (end == gradients_.size() && size > 0);
  if (!worth_it || failure_) return;
  failure_ = peers_.start_sum(under_way_.size(), gradients_.subspan(posted_, size), operands_);
  if (failure_) return;
  under_way_.push_back({posted_, end});
  posted_ = end;
}

TrainingOutcome GradientExchange::settle(std::size_t end, const std::function<void(SampleRange)>& use) {
  for (; settled_ < under_way_.size() && under_way_[settled_].begin < end; ++settled_) {
    // After a failure too: the gradients belong to what is under way until it has ended.
    const Stopwatch waiting;
    TrainingOutcome failure = peers_.wait(settled_);
    waited_seconds_ += waiting.seconds();
    if (failure && !failure_) failure_ = std::move(failure);
    if (!failure_) use(under_way_[settled_]);
  }
  if (end == gradients_.size()) {
    assert(failure_ || under_way_.empty() || posted_ == end);
    under_way_.clear();
    settled_ = posted_ = 0;
  }
  return failure_;
}

}  // namespace tutti::trainer
