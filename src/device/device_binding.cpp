#include "src/device/device_binding.h"

#include <algorithm>
#include <utility>

namespace tutti {

Result<std::shared_ptr<DeviceBinding>> DeviceBinding::make(std::shared_ptr<const DevicePlan> plan,
                                                           std::span<const tutti_block> input,
                                                           std::span<const tutti_block> output) {
  auto made = std::make_shared<DeviceBinding>(std::move(plan));
  made->inputs_ = input.size();
  made->blocks_.assign(input.begin(), input.end());
  made->blocks_.insert(made->blocks_.end(), output.begin(), output.end());
  made->tasks_at_ = (made->blocks_.size() * sizeof(BoundBlock) + alignof(Task) - 1) / alignof(Task) * alignof(Task);
  auto image = DeviceImage::make(made->plan_->arena(), made->tasks_at_ + made->plan_->tasks() * sizeof(Task));
  if (!image.ok()) return image.status();
  made->image_ = std::move(*image);
  const Division& division = made->plan_->division();
  auto* const bound = reinterpret_cast<BoundBlock*>(made->image_->contents().data());
  for (std::size_t b = 0; b < made->blocks_.size(); ++b) {
    const tutti_block& block = made->blocks_[b];
    bound[b] = bound_block(division, block);
    made->passes_ = std::max(made->passes_, division.passes(block.count));
  }
  return made;
}

bool DeviceBinding::is_of(std::span<const tutti_block> input, std::span<const tutti_block> output) const {
  const auto same = [](const tutti_block& a, const tutti_block& b) { return a.ptr == b.ptr && a.count == b.count; };
  const auto own = std::span(blocks_);
  return std::ranges::equal(own.first(inputs_), input, same) && std::ranges::equal(own.subspan(inputs_), output, same);
}

void DeviceBinding::bind(Job& job) const {
  job.bound = image_->as<BoundBlock>();
  job.tasks = image_->as<Task>(tasks_at_);
  job.passes = passes_;
  job.work = work();
}

}  // namespace tutti
