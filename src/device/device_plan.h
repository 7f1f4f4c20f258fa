// A plan's program of one rank on its device: what every launch of it takes, but for the call's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/cuda/stream.h"
#include "src/device/world.h"
#include "src/executors/cuda/encode.h"
#include "src/executors/cuda/launch.h"
#include "src/schedule/layout.h"

namespace tutti {

/// Shared by the launches that run it. It keeps the world that its links are of. The device gets it with the first launch.
/// Thread safe.
class DevicePlan {
 public:
  /// Encodes a rank's program and opens its links. The world is connected.
  ///
  /// lowered  of that program
  /// scratch  of the rank, for as many bytes as the plan wants; NULL where that is none
  /// limit    of making links
  /// Errors: TUTTI_INTERNAL_ERROR (a program that leads out of its buffers); as encode, DeviceRuntime::kernel,
  /// DeviceWorld::link_ends and Driver::call.
  static Result<std::shared_ptr<DevicePlan>> make(std::shared_ptr<DeviceWorld> world, int rank, const Plan& plan,
                                                  const Lowered& lowered, std::shared_ptr<const DeviceBlock> scratch,
                                                  const SetUpLimit& limit);
  ~DevicePlan();

  /// Whether write_on waits for nothing. Else await_written comes before a launch.
  bool is_staged() const { return staged_ != nullptr; }
  /// Has the stream write it, unless one was asked to before. A launch on the same stream follows, and all others come
  /// behind that one. Errors: as Driver::call.
  Status write_on(cuda::StreamHandle stream);
  /// That launch has followed, and holds the plan for as long as it runs.
  void note_launch();
  /// Waits until the device has it: for launches that come behind no other, such as a graph's. Where a stream was given it
  /// before, that stream has to come to it; else the runtime's writes it. Errors: as DeviceRuntime::write.
  Status await_written(const SetUpLimit& limit);

  const DeviceKernel& kernel() const { return *kernel_; }
  std::uint32_t tasks() const { return tasks_; }
  std::uint32_t work() const { return work_; }  ///< tasks that have anything to run
  std::uint32_t most_operands() const { return most_operands_; }
  /// A call's job, but for its place in the launch. All pointers are the device's.
  Job job(const void* send, void* recv, JobRecord* record) const;

  DevicePlan(std::shared_ptr<DeviceWorld> world, int rank) : world_(std::move(world)), rank_(rank) {}

 private:
  DeviceRuntime& runtime() const { return world_->arena(rank_)->runtime(); }
  Status lay_out(const BlobMemory& blob, const std::vector<DeviceLinkEnd>& ends);
  Status enqueue(cuda::StreamHandle stream);
  void count(const Blob& blob);

  const std::shared_ptr<DeviceWorld> world_;
  const int rank_;
  std::shared_ptr<const DeviceBlock> scratch_;
  const DeviceKernel* kernel_ = nullptr;
  DeviceBlock memory_;  ///< the blob, then its links' ends, then its tasks
  std::uint64_t ends_at_ = 0;
  std::uint64_t tasks_at_ = 0;
  std::uint32_t tasks_ = 0;
  std::uint32_t work_ = 0;
  std::uint32_t most_operands_ = 0;

  /// How it gets into the device's memory.
  enum class State {
    on_host,
    refused,    ///< by the driver; some of it may have been enqueued
    enqueued,   ///< a stream writes it
    launched,   ///< behind that, on the same stream
    on_device,  ///< it is known to be there
  };

  cuda::OwnedEvent written_;     ///< comes behind the write
  std::byte* staged_ = nullptr;  ///< where the write reads it; nullptr: in pageable_
  std::uint64_t bytes_ = 0;
  std::mutex mutex_;  ///< guards what follows
  State state_ = State::on_host;
  Status refusal_;
  std::vector<std::byte> pageable_;
};

}  // namespace tutti
