// Where the blocks of one call lie, of a v-variant or of buffers that are lists: what its launches take besides the plan.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/device/device_image.h"
#include "src/device/device_plan.h"

namespace tutti {

/// A table of blocks in device memory, and the tasks of calls over them. Shared by the launches of such calls. Immutable
/// but for its image, and thread safe. Blocks of an irregular plan are found by their numbers, those of any other by where
/// they begin in their buffer, as segments.
class DeviceBinding {
 public:
  /// input, output: the call's. Of an irregular plan as many as blocks_of says, else none of them empty. Within a
  /// DeviceScope. Errors: as DeviceImage::make.
  static Result<std::shared_ptr<DeviceBinding>> make(std::shared_ptr<const DevicePlan> plan,
                                                     std::span<const tutti_block> input,
                                                     std::span<const tutti_block> output);
  explicit DeviceBinding(std::shared_ptr<const DevicePlan> plan) : plan_(std::move(plan)) {}

  /// Whether it is of these blocks.
  bool is_of(std::span<const tutti_block> input, std::span<const tutti_block> output) const;
  DeviceImage& image() const { return *image_; }
  std::uint32_t work() const { return plan_->work(passes_); }  ///< tasks that have anything to run
  /// Completes a job of the plan.
  void bind(Job& job) const;

 private:
  std::size_t table_bytes() const;
  void lay_out_blocks();
  void lay_out_segments();
  std::span<const tutti_block> of_input() const { return std::span(blocks_).first(inputs_); }
  std::span<const tutti_block> of_output() const { return std::span(blocks_).subspan(inputs_); }

  const std::shared_ptr<const DevicePlan> plan_;
  std::vector<tutti_block> blocks_;  ///< the input's, then the output's
  std::size_t inputs_ = 0;
  std::uint64_t passes_ = 0;
  std::uint64_t tasks_at_ = 0;
  std::unique_ptr<DeviceImage> image_;
};

}  // namespace tutti
