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
  made->tasks_at_ = (made->table_bytes() + alignof(Task) - 1) / alignof(Task) * alignof(Task);
  auto image = DeviceImage::make(made->plan_->arena(), made->tasks_at_ + made->plan_->tasks() * sizeof(Task));
  if (!image.ok()) return image.status();
  made->image_ = std::move(*image);
  if (made->plan_->is_irregular()) {
    made->lay_out_blocks();
  } else {
    made->lay_out_segments();
  }
  return made;
}

std::size_t DeviceBinding::table_bytes() const {
  // Behind the segments of either buffer there is one more.
  return plan_->is_irregular() ? blocks_.size() * sizeof(BoundBlock) : (blocks_.size() + 2) * sizeof(Segment);
}

void DeviceBinding::lay_out_blocks() {
  const Division& division = plan_->division();
  auto* const bound = reinterpret_cast<BoundBlock*>(image_->contents().data());
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const tutti_block& block = blocks_[b];
    bound[b] = bound_block(division, block);
    passes_ = std::max(passes_, division.passes(block.count));
  }
}

void DeviceBinding::lay_out_segments() {
  auto* segment = reinterpret_cast<Segment*>(image_->contents().data());
  for (const auto blocks : {of_input(), of_output()}) {
    std::uint64_t begin = 0;
    for (const tutti_block& block : blocks) {
      *segment++ = {begin, static_cast<std::byte*>(block.ptr)};
      begin += block.count * plan_->element_bytes();
    }
    *segment++ = {begin, nullptr};
  }
  passes_ = plan_->passes();
}

bool DeviceBinding::is_of(std::span<const tutti_block> input, std::span<const tutti_block> output) const {
  const auto same = [](const tutti_block& a, const tutti_block& b) { return a.ptr == b.ptr && a.count == b.count; };
  return std::ranges::equal(of_input(), input, same) && std::ranges::equal(of_output(), output, same);
}

void DeviceBinding::bind(Job& job) const {
  if (plan_->is_irregular()) {
    job.bound = image_->as<BoundBlock>();
  } else {
    const auto* const segments = image_->as<Segment>();
    job.lists[0] = {segments, of_input().size()};
    job.lists[1] = {segments + of_input().size() + 1, of_output().size()};
  }
  job.tasks = image_->as<Task>(tasks_at_);
  job.passes = passes_;
  job.work = work();
}

}  // namespace tutti
