#include "trainer/exchange.h"

#include <cassert>

#include "trainer/stopwatch.h"

namespace tutti::trainer {

GradientExchange::GradientExchange(Peers& peers, std::span<const float> gradients, std::span<float> sums, std::size_t bucket)
    : peers_(peers), gradients_(gradients), sums_(sums), bucket_(bucket), posted_(gradients.size()) {
  assert(sums.size() == gradients.size());
  assert(bucket > 0);
  under_way_.reserve(gradients.size() / bucket + 1);
}

void GradientExchange::ready(std::size_t begin) {
  assert(begin <= posted_);
  const bool worth_it = posted_ - begin >= bucket_ || (begin == 0 && posted_ > 0);
  if (!worth_it || failure_) return;
  failure_ = peers_.start_sum(under_way_.size(), gradients_.subspan(begin, posted_ - begin),
                              sums_.subspan(begin, posted_ - begin));
  if (failure_) return;
  under_way_.push_back({begin, posted_});
  posted_ = begin;
}

Outcome GradientExchange::finish(const std::function<void(Range)>& use) {
  for (std::size_t slot = 0; slot < under_way_.size(); ++slot) {
    // After a failure too: the gradients belong to what is under way until it has ended.
    const Stopwatch waiting;
    Outcome failure = peers_.wait(slot);
    waited_seconds_ += waiting.seconds();
    if (failure && !failure_) failure_ = std::move(failure);
    if (!failure_) use(under_way_[slot]);
  }
  assert(failure_ || posted_ == 0);
  under_way_.clear();
  posted_ = gradients_.size();
  return failure_;
}

}  // namespace tutti::trainer
