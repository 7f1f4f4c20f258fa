// The ranks of a communicator that share a device: they meet before each launch, since one launch has the jobs of all.
//
// Streams share hardware queues. Kernels that wait for each other may stand in each other's way there, so there is one.
// Ranks deposit their operations, a group's one behind the other. What all of them have come to is launched by the first
// that waits for it, several operations at once where they allow it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/cuda/stream.h"
#include "src/device/arena.h"
#include "src/device/device_binding.h"
#include "src/device/device_plan.h"
#include "src/device/flight.h"
#include "src/executors/cuda/launch.h"

namespace tutti {

/// Blocks that a launch may take, as tutti_config has them; 0: no such limit.
struct BlockLimits {
  std::uint32_t least = 0;
  std::uint32_t most = 0;
};

/// A rank's part of a launch.
struct Deposit {
  int rank = -1;
  std::shared_ptr<DevicePlan> plan;        ///< the launch writes it, where it has not been
  std::shared_ptr<DeviceBinding> binding;  ///< likewise; of a v-variant, else nullptr
  const void* send = nullptr;
  void* recv = nullptr;
  /// Of a pre-multiplied sum: as Job's.
  const std::byte* scalar_at = nullptr;
  std::array<std::byte, sizeof(Job::scalar)> scalar{};
  cuda::StreamHandle stream = nullptr;
  std::thread::id thread = std::this_thread::get_id();  ///< whose it is, where its handle says "that of the thread"
  std::uint64_t operation_hash = 0;                     ///< as Job's
  std::uint64_t limit_ns = 0;                           ///< likewise
  BlockLimits blocks;
  bool in_order = false;                           ///< behind all launches before it on the device
  std::shared_ptr<const cuda::OwnedEvent> before;  ///< the team's: of a stream that has another thread's name

  std::uint32_t work() const { return binding != nullptr ? binding->work() : plan->work(plan->passes()); }
  /// But for its place in the launch.
  Job job(JobRecord* record) const;
  bool has_tasks_of(const Deposit& other) const { return plan == other.plan && binding == other.binding; }
};

/// What became of a deposit.
struct Departure {
  Status status;                   ///< of a launch that could not be made
  std::shared_ptr<Flight> flight;  ///< of one that was
  std::uint32_t job = 0;           ///< the rank's in it
  int differs = -1;                ///< a rank of the team that called something else; nothing was launched then
};

class Meeting;

/// Thread safe.
class Team {
 public:
  /// A team of `ranks`, ascending. arena: of the first one. Errors: as DeviceRuntime::write.
  static Result<std::unique_ptr<Team>> make(std::shared_ptr<DeviceArena> arena, std::vector<int> ranks,
                                            const SetUpLimit& limit);
  Team(std::shared_ptr<DeviceArena> arena, std::vector<int> ranks);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  const std::vector<int>& ranks() const { return ranks_; }
  DeviceRuntime& runtime() const { return arena_->runtime(); }
  /// Every launch of the team ends, those to come included. Waits for nothing.
  void abort();

  /// Makes what a launch needs besides its plans, where none of it is left. It comes before a batch's first launch, since
  /// it may wait for the device. Errors: as Driver::call.
  Status prepare_rooms() { return rooms_->prepare(); }
  /// Puts a rank's next operation beside those of the others. Launches nothing, and waits for nobody. Errors: as
  /// Driver::call.
  Result<std::shared_ptr<Meeting>> deposit(Deposit deposit);
  /// Launches, on the rank's streams, all operations that every rank has come to. To be called by the thread of its
  /// deposits before it waits for them, and again meanwhile: whoever completed them may be held up. The meetings have the
  /// outcome.
  void launch_ready(int rank);
  /// Makes a thread's stream go on behind the launch that it was in, where the launch could not do so. For each thread has
  /// a stream of its own by the name of cuda::kPerThreadStream. Errors: as Driver::call.
  Status follow(cuda::StreamHandle stream);
  /// Waits at most ns for the launch, less where the rank's thread can launch something; whether there is one, or cannot be
  /// any.
  bool wait(const Meeting& meeting, int rank, std::uint64_t ns);
  /// Of a meeting that is over.
  Departure departure(const Meeting& meeting, int rank) const;
  /// Ranks that have not come.
  std::vector<int> missing(const Meeting& meeting) const;
  /// A rank gives up. Afterwards the meeting is over: where it was not launched, it never will be, for `reason`.
  void withdraw(Meeting& meeting, const Status& reason);

  /// Whether a launch of these deposits can have one more operation. Both lie operation by operation, and in each of them
  /// by the ranks of the team.
  bool can_join(std::span<const Deposit> launch, std::span<const Deposit> operation) const;
  /// Launches into a capture, deposits as of can_join; the graph owns the launch afterwards. Errors: TUTTI_UNSUPPORTED (not
  /// all ranks, or not the same operation); as Driver::call.
  Result<std::shared_ptr<Flight>> capture(std::span<const Deposit> deposits, cuda::GraphHandle graph);

 private:
  std::uint32_t place_of(int rank) const;
  static bool is_per_thread(cuda::StreamHandle stream) {
    return reinterpret_cast<std::uintptr_t>(stream) == cuda::kPerThreadStream;
  }
  bool is_front_complete() const;
  /// Whether this thread may launch on its stream.
  static bool is_own(const Deposit& deposit) {
    return !is_per_thread(deposit.stream) || deposit.thread == std::this_thread::get_id();
  }
  std::span<const Deposit> of_operation(std::span<const Deposit> deposits, std::size_t operation) const {
    return deposits.subspan(operation * ranks_.size(), ranks_.size());
  }
  void launch(std::span<const std::shared_ptr<Meeting>> meetings, std::span<const Deposit> deposits,
              std::uint32_t launcher);
  Result<std::shared_ptr<Flight>> prepare(std::span<const Deposit> deposits, Launch& launch, std::uint32_t& blocks);
  Status enqueue(std::span<const Deposit> deposits, std::uint32_t launcher, Launch& launch, std::uint32_t blocks,
                 cuda::EventHandle event, bool behind_last, bool& launched);
  Status record(cuda::EventHandle event, cuda::StreamHandle stream) const;
  Status make_wait(cuda::StreamHandle stream, cuda::EventHandle event) const;
  Status gather_streams(std::span<const Deposit> deposits, cuda::StreamHandle launcher, cuda::EventHandle event,
                        std::vector<cuda::StreamHandle>& others) const;
  Status clean(LaunchRoom& room, cuda::StreamHandle stream) const;
  Status write_and_launch(std::span<const Deposit> deposits, std::uint32_t launcher, Flight& flight, Launch& launch,
                          std::uint32_t blocks);
  Status run_kernel(const Deposit& on, Launch& launch, std::uint32_t blocks);
  std::uint32_t blocks_for(std::span<const Deposit> deposits) const;
  Job describe(std::span<const Deposit> deposits, std::size_t number, JobRecord* record) const;
  Launch describe(std::span<const Deposit> deposits, LaunchRoom& room) const;

  const std::shared_ptr<DeviceArena> arena_;
  const std::vector<int> ranks_;
  const std::shared_ptr<LaunchRooms> rooms_;
  cuda::DevicePointer order_ = 0;  ///< of a LaunchOrder
  cuda::PinnedMemory abort_;       ///< one word
  cuda::OwnedEvent launched_;      ///< recorded behind each launch that is in no capture

  mutable std::mutex mutex_;  ///< guards what follows, and the launches' order
  std::condition_variable changed_;
  std::vector<std::uint64_t> deposits_;              ///< by place: how many each rank has made
  std::deque<std::shared_ptr<Meeting>> meetings_;    ///< that are not over, in order
  std::uint64_t first_ = 0;                          ///< number of the first of these
  std::vector<std::shared_ptr<Meeting>> launching_;  ///< by one launch, with room for all that it may have
  std::vector<Deposit> together_;                    ///< theirs, likewise
  bool has_launched_ = false;
  unsigned long long last_stream_ = 0;  ///< of the last launch, as the driver counts them
};

/// The deposits of one operation. Its team guards it.
class Meeting {
 public:
  explicit Meeting(std::size_t ranks) : deposits_(ranks) {}

 private:
  friend class Team;
  /// Plans keep the world that the meeting is of.
  void let_go() {
    for (Deposit& each : deposits_) {
      each.plan.reset();
      each.binding.reset();
    }
  }

  std::vector<Deposit> deposits_;  ///< by place; rank -1: has not come
  std::size_t come_ = 0;
  bool over_ = false;
  int differs_ = -1;
  Status status_;
  std::shared_ptr<Flight> flight_;
  std::uint32_t first_job_ = 0;  ///< in that
};

}  // namespace tutti
