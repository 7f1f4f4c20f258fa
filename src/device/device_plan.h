// A plan's program of one rank on its device: what every launch of it takes, but for the call's buffers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "src/base/status.h"
#include "src/device/world.h"
#include "src/executors/cuda/encode.h"
#include "src/executors/cuda/launch.h"
#include "src/schedule/layout.h"

namespace tutti {

/// Immutable, and shared by the launches that run it. It keeps the world that its links are of.
class DevicePlan {
 public:
  /// Encodes a rank's program, opens its links and writes all of it into the device's memory. The world is connected.
  ///
  /// lowered  of that program
  /// scratch  of the rank, for as many bytes as the plan wants; NULL where that is none
  /// limit    of its writes
  /// Errors: TUTTI_INTERNAL_ERROR (a program that leads out of its buffers); as encode, DeviceRuntime::kernel and
  /// Driver::call.
  static Result<std::shared_ptr<const DevicePlan>> make(std::shared_ptr<DeviceWorld> world, int rank, const Plan& plan,
                                                        const Lowered& lowered, std::shared_ptr<const DeviceBlock> scratch,
                                                        const SetUpLimit& limit);

  const DeviceKernel& kernel() const { return *kernel_; }
  std::uint32_t tasks() const { return tasks_; }
  std::uint32_t work() const { return work_; }  ///< tasks that have anything to run
  std::uint32_t most_operands() const { return most_operands_; }
  /// A call's job. All pointers are the device's.
  Job job(const void* send, void* recv, JobRecord* record) const;

  explicit DevicePlan(std::shared_ptr<DeviceWorld> world) : world_(std::move(world)) {}

 private:
  Status write(int rank, const BlobMemory& blob, const std::vector<DeviceLinkEnd>& ends, const SetUpLimit& limit);
  void count(const Blob& blob);

  const std::shared_ptr<DeviceWorld> world_;
  std::shared_ptr<const DeviceBlock> scratch_;
  const DeviceKernel* kernel_ = nullptr;
  DeviceBlock memory_;  ///< the blob, then its links' ends, then its tasks
  std::uint64_t ends_at_ = 0;
  std::uint64_t tasks_at_ = 0;
  std::uint32_t tasks_ = 0;
  std::uint32_t work_ = 0;
  std::uint32_t most_operands_ = 0;
};

}  // namespace tutti
