// A plan's program of one rank on its device: what every launch of it takes, but for the call's buffers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/device/device_image.h"
#include "src/device/world.h"
#include "src/executors/cuda/encode.h"
#include "src/executors/cuda/launch.h"
#include "src/schedule/layout.h"

namespace tutti {

/// Shared by the launches that run it. It keeps the world that its links are of. The device gets it with the first launch.
/// Immutable but for its image, and thread safe.
class DevicePlan {
 public:
  /// Encodes a rank's program and opens its links. The world is connected.
  ///
  /// lowered  of that program
  /// scratch  of the rank, for as many bytes as the plan wants; NULL where that is none
  /// limit    of making links
  /// Errors: TUTTI_INTERNAL_ERROR (a program that leads out of its buffers), TUTTI_UNSUPPORTED (check_scaling); as encode,
  /// DeviceRuntime::kernel, DeviceWorld::link_ends and Driver::call.
  static Result<std::shared_ptr<DevicePlan>> make(std::shared_ptr<DeviceWorld> world, int rank, const Plan& plan,
                                                  const Lowered& lowered, std::shared_ptr<const DeviceBlock> scratch,
                                                  const SetUpLimit& limit);

  DeviceImage& image() const { return *image_; }
  const DeviceKernel& kernel() const { return *kernel_; }
  std::uint32_t tasks() const { return tasks_; }
  /// Tasks that have anything to run where a call has so many passes. One that is no v-variant has passes().
  std::uint32_t work(std::uint64_t passes) const {
    return busy_lanes_ * static_cast<std::uint32_t>(std::min<std::uint64_t>(strands_, passes));
  }
  std::uint64_t passes() const { return passes_; }
  const Division& division() const { return division_; }
  bool is_irregular() const { return is_irregular_; }
  std::uint64_t element_bytes() const { return element_bytes_; }  ///< of the problem's
  DeviceArena& arena() const { return *world_->arena(rank_); }
  std::uint32_t most_operands() const { return most_operands_; }
  /// A call's job, but for its place in the launch. All pointers are the device's.
  Job job(const void* send, void* recv, JobRecord* record) const;

  DevicePlan(std::shared_ptr<DeviceWorld> world, int rank) : world_(std::move(world)), rank_(rank) {}

 private:
  Status lay_out(const BlobMemory& blob, const std::vector<DeviceLinkEnd>& ends);
  void count(const Plan& plan, const Blob& blob);

  const std::shared_ptr<DeviceWorld> world_;
  const int rank_;
  std::shared_ptr<const DeviceBlock> scratch_;
  const DeviceKernel* kernel_ = nullptr;
  std::unique_ptr<DeviceImage> image_;  ///< the blob, then its links' ends, then its tasks
  std::uint64_t ends_at_ = 0;
  std::uint64_t tasks_at_ = 0;
  Division division_;
  bool is_irregular_ = false;
  std::uint64_t element_bytes_ = 0;
  std::uint64_t passes_ = 0;
  std::uint32_t strands_ = 0;
  std::uint32_t tasks_ = 0;
  std::uint32_t busy_lanes_ = 0;
  std::uint32_t most_operands_ = 0;
};

}  // namespace tutti
