// One launch under way: what it uses, and what it tells.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "src/base/status.h"
#include "src/cuda/memory.h"
#include "src/device/arena.h"
#include "src/executors/cuda/launch.h"

namespace tutti {

class DeviceBinding;
class DevicePlan;

/// What a launch needs besides its plans: words on the device, records and jobs in pinned memory. Its rooms own them.
struct LaunchRoom {
  cuda::DevicePointer words = 0;  ///< of a LaunchWords, and of as many JobWords behind it as there may be jobs
  bool clean = false;             ///< the words are 0, as every launch leaves them
  JobRecord* records = nullptr;
  Job* jobs = nullptr;
};

/// The rooms of a team's launches, to be used again. They are made many at a time: where it allocates, the driver may wait
/// for the device, which may wait for a rank.
class LaunchRooms {
 public:
  /// most_jobs: of a launch.
  LaunchRooms(std::shared_ptr<DeviceArena> arena, std::uint32_t most_jobs)
      : arena_(std::move(arena)), most_jobs_(most_jobs) {}
  ~LaunchRooms();
  LaunchRooms(const LaunchRooms&) = delete;
  LaunchRooms& operator=(const LaunchRooms&) = delete;
  std::uint32_t most_jobs() const { return most_jobs_; }
  /// Bytes of a room's words.
  std::size_t words_bytes() const { return sizeof(LaunchWords) + sizeof(JobWords) * most_jobs_; }
  /// Makes some, where none is free. Errors: as Driver::call.
  Status prepare();
  /// One whose records are clean. Errors: as Driver::call.
  Result<std::unique_ptr<LaunchRoom>> take();
  void give_back(std::unique_ptr<LaunchRoom> room) noexcept;

 private:
  Status grow();

  const std::shared_ptr<DeviceArena> arena_;
  const std::uint32_t most_jobs_;
  std::mutex mutex_;  ///< guards what follows
  std::vector<DeviceBlock> words_;
  std::vector<cuda::PinnedMemory> pinned_;
  std::vector<std::unique_ptr<LaunchRoom>> free_;
};

/// What a kernel may use that has been given up, until it is over.
struct LaunchRemains {
  std::shared_ptr<LaunchRooms> rooms;
  std::unique_ptr<LaunchRoom> room;
  std::vector<std::shared_ptr<const DevicePlan>> plans;        ///< by job
  std::vector<std::shared_ptr<const DeviceBinding>> bindings;  ///< of those that have one
  std::shared_ptr<DeviceRuntime> runtime;

  /// Whether every job has ended.
  bool over() const;
};

/// A launch, from before it is enqueued until nobody asks for it any more. It holds all that the kernel uses. Thread safe.
/// Where it has not ended by its end, what the kernel may still use is kept until release_flights finds that it has.
class Flight {
 public:
  /// blocks: that it may keep resident.
  Flight(LaunchRemains uses, std::uint32_t blocks) : uses_(std::move(uses)), blocks_(blocks) {}
  ~Flight();
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  LaunchRoom& room() { return *uses_.room; }
  /// How a job ended. Where it has, all that its kernel wrote is visible, and the rest of its record.
  JobEnd end(std::uint32_t job) const;
  /// Whether its turn on the device has come.
  bool begun(std::uint32_t job) const;
  const JobRecord& record(std::uint32_t job) const { return uses_.room->records[job]; }
  /// Nothing was enqueued, or the graph that had it is gone: it will not run any more.
  void will_not_run() { idle_.store(true, std::memory_order_release); }  // release: pairs with is_idle
  bool is_idle() const { return idle_.load(std::memory_order_acquire); }

 private:
  LaunchRemains uses_;
  const std::uint32_t blocks_;
  std::atomic<bool> idle_{false};
};

/// Lets go of flights whose graphs are gone: the driver tells of that in a function that may not call it. Likewise of what
/// kernels used that were given up and are over by now.
void release_flights();
/// Makes a graph own a flight. Errors: as Driver::call.
Status give_to_graph(const DeviceRuntime& runtime, std::shared_ptr<Flight> flight, cuda::GraphHandle graph);

}  // namespace tutti
