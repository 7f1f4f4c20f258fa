// The kernel: blocks that interpret programs, whatever their algorithm.
//
// A block claims a task, and takes it from step to step as the host executor takes a lane. A step runs when its
// dependencies have retired, its messages have come, and those it sends have room. All threads sweep over its operands
// together. Where a step stays blocked the block gives the task back, and claims another one. So one resident block is
// enough, and as many as there are tasks never change.
#pragma once

#include "src/cuda/device/order.h"
#include "src/executors/cuda/launch.h"
#include "src/executors/cuda/protocol.h"
#include "src/executors/cuda/sweep.h"
#include "src/executors/cuda/words.h"

namespace tutti {

/// A fold of elements of type T by Op.
template <typename T, typename Op>
struct FoldBy {
  TUTTI_DEVICE static void run(const SweepArguments& arguments, Sweeper self) { BlockSweep<T, Op>(arguments, self).run(); }
};
/// For collectives that fold nothing: counts are of bytes.
struct CopyOnly {
  TUTTI_DEVICE static void run(const SweepArguments& arguments, Sweeper self) { copy_in_block(arguments, self); }
};

/// One thread of a block. All threads of the block run the same members in the same order.
template <class Fold>
class Interpreter {
 public:
  TUTTI_DEVICE Interpreter(device::Group& group, const Launch& launch) : group_(group), launch_(launch) {}

  /// Runs tasks until none needs a block any more, or the launch was stopped.
  TUTTI_DEVICE void run() {
    begun_ns_ = group_.timer_ns();
    // Blocks begin at different tasks, so that they do not all try for the same one.
    std::uint32_t next = group_.block() % launch_.task_count;
    for (std::uint32_t rounds = 0;; ++rounds) {
      const std::uint64_t found = group_.broadcast(group_.rank() == 0 ? find_task(next) : 0, 0);
      if (found == nothing_left) break;
      if (found == none_free) {
        if (!wait_a_little(rounds)) break;
        continue;
      }
      work_on(static_cast<std::uint32_t>(found));
      next = (static_cast<std::uint32_t>(found) + 1) % launch_.task_count;
    }
    leave();
  }

 private:
  static constexpr std::uint64_t nothing_left = ~std::uint64_t{0};
  static constexpr std::uint64_t none_free = nothing_left - 1;
  /// Rounds of polling between two looks at what is dear to look at: the host's word and the clock.
  static constexpr std::uint32_t look_every = 1024;

  /// Where a task stands.
  struct Position {
    const Job* job;
    Task* task;
    std::uint32_t strand;
    std::uint32_t lane;
    std::uint64_t own_pass;  ///< of the strand
    std::uint32_t step;      ///< of the lane
    std::uint64_t pass;      ///< of the plan
    const BlobStep* now;
  };

  // ---- Which task. By thread 0.

  /// A task that is claimed now, by its number; or that none is free, or none left.
  TUTTI_DEVICE std::uint64_t find_task(std::uint32_t first) {
    if (is_over()) return nothing_left;
    for (std::uint32_t i = 0; i < launch_.task_count; ++i) {
      const std::uint32_t number = (first + i) % launch_.task_count;
      const Position at = position(number);
      if (is_finished(at)) continue;
      if (Claim<DeviceWords>::take(at.task->claim)) return number;
    }
    return none_free;
  }
  TUTTI_DEVICE bool is_over() const {
    return DeviceWords::load_acquire(*launch_.finished) == launch_.work_count ||
           DeviceWords::load_acquire(*launch_.stopped) != 0;
  }
  TUTTI_DEVICE Position position(std::uint32_t number) const {
    const Job* job = launch_.jobs;
    for (std::uint32_t tasks = tasks_of(*job); number >= tasks; tasks = tasks_of(*job)) {
      number -= tasks;
      ++job;
    }
    const std::uint32_t lanes = job->blob->lanes.count;
    return {job, job->tasks + number, number / lanes, number % lanes, 0, 0, 0, nullptr};
  }
  TUTTI_DEVICE static std::uint32_t tasks_of(const Job& job) { return job.blob->strands * job.blob->lanes.count; }
  TUTTI_DEVICE static std::uint64_t passes_of(const Position& at) {
    return Strand{at.strand, at.job->blob->strands}.passes(at.job->blob->passes);
  }
  TUTTI_DEVICE static std::uint32_t steps_of(const Position& at, std::uint32_t lane) {
    const Blob& blob = *at.job->blob;
    return blob.array<BlobLane>(blob.lanes)[lane].count;
  }
  TUTTI_DEVICE static bool is_finished(const Position& at) {
    return DeviceWords::load_acquire(at.task->retired) >= passes_of(at) * steps_of(at, at.lane);
  }

  // ---- One task. By all threads.

  /// From where it stands as far as it comes.
  TUTTI_DEVICE void work_on(std::uint32_t number) {
    Position at = position(number);
    const std::uint64_t steps = steps_of(at, at.lane);
    const std::uint64_t all = passes_of(at) * steps;
    // Thread 0 has acquired what the last holder did; the barrier of `broadcast` hands that on.
    std::uint64_t retired = group_.broadcast(group_.rank() == 0 ? DeviceWords::load_acquire(at.task->retired) : 0, 0);
    while (retired < all) {
      set_step(at, retired, static_cast<std::uint32_t>(steps));
      if (!await_step(at)) break;
      if (bytes_of(at) != 0 && !run_step(at)) break;
      ++retired;
      group_.barrier();  // all have done their part, and looked at what the step's words said
      if (group_.rank() == 0) retire(at, retired, all);
    }
    group_.barrier();
    if (group_.rank() == 0) Claim<DeviceWords>::put_back(at.task->claim);
  }
  TUTTI_DEVICE void set_step(Position& at, std::uint64_t retired, std::uint32_t steps) const {
    const Blob& blob = *at.job->blob;
    at.own_pass = retired / steps;
    at.step = static_cast<std::uint32_t>(retired % steps);
    at.pass = Strand{at.strand, blob.strands}.pass(at.own_pass);
    at.now = blob.array<BlobStep>(blob.steps) + blob.array<BlobLane>(blob.lanes)[at.lane].first + at.step;
  }
  TUTTI_DEVICE static std::uint64_t bytes_of(const Position& at) {
    return at.now->message_bytes[at.job->blob->is_last(at.pass) ? 1 : 0];
  }
  TUTTI_DEVICE void retire(const Position& at, std::uint64_t retired, std::uint64_t all) const {
    // Release: who waits for this step may use what it wrote.
    DeviceWords::store_release(at.task->retired, retired);
    if (retired == all) DeviceWords::add_acq_rel(*launch_.finished, 1);
  }

  /// Waits until the step may run. False: not now, or the launch was stopped.
  TUTTI_DEVICE bool await_step(const Position& at) {
    for (std::uint32_t polls = 1;; ++polls) {
      // The vote is a barrier: what each thread acquired, all have.
      if (!group_.any(!is_ready(at))) return true;
      if (polls % launch_.patience == 0 && group_.any(group_.rank() == 0 && should_change())) return false;
      if (++polls_ % look_every == 0) look(at);
      group_.pause();
    }
  }
  /// This thread's share of what the step waits for.
  TUTTI_DEVICE bool is_ready(const Position& at) const {
    const Blob& blob = *at.job->blob;
    if (at.step == 0 && at.own_pass >= blob.depth) {
      for (std::uint32_t lane = group_.rank(); lane < blob.lanes.count; lane += group_.size()) {
        if (!has_retired(at, lane, at.own_pass - blob.depth, steps_of(at, lane))) return false;
      }
    }
    const auto* const all = blob.array<Dependency>(blob.dependencies) + at.now->dependencies;
    for (std::uint32_t d = group_.rank(); d < at.now->dependency_count; d += group_.size()) {
      const Dependency& on = all[d];
      if (at.own_pass >= on.distance && !has_retired(at, on.lane, at.own_pass - on.distance, on.step + 1)) return false;
    }
    if (bytes_of(at) == 0) return true;
    const std::uint32_t operands = operands_of(at);
    for (std::uint32_t o = group_.rank(); o < operands; o += group_.size()) {
      if (!is_link_ready(at, o)) return false;
    }
    return true;
  }
  /// Whether a lane of the strand has retired so many steps of a pass.
  TUTTI_DEVICE static bool has_retired(const Position& at, std::uint32_t lane, std::uint64_t own_pass,
                                       std::uint32_t steps) {
    const Task& other = at.job->tasks[at.strand * at.job->blob->lanes.count + lane];
    return DeviceWords::load_acquire(other.retired) >= own_pass * steps_of(at, lane) + steps;
  }
  TUTTI_DEVICE static std::uint32_t operands_of(const Position& at) {
    return std::uint32_t{at.now->sources} + at.now->destinations;
  }
  TUTTI_DEVICE static const BlobOperand& operand(const Position& at, std::uint32_t o) {
    const Blob& blob = *at.job->blob;
    return blob.array<BlobOperand>(blob.operands)[at.now->operands + o];
  }
  TUTTI_DEVICE static const DeviceLinkEnd& link_of(const Position& at, std::uint32_t link) {
    return at.job->links[at.strand * at.job->blob->links.count + link];
  }
  TUTTI_DEVICE static bool is_link_ready(const Position& at, std::uint32_t o) {
    const BlobOperand& which = operand(at, o);
    if (which.place != Place::link) return true;
    const DeviceLinkEnd& end = link_of(at, which.link);
    const std::uint64_t n = *end.carried;
    if (o < at.now->sources) return ReceivingEnd<SystemWords>{end.arrived, end.credit}.has_come(n);
    return SendingEnd<SystemWords>{end.credit, end.arrived, end.slot_count}.has_room(n);
  }

  // ---- One step. By all threads.

  /// False: a message is another operation's, and the launch was stopped.
  TUTTI_DEVICE bool run_step(const Position& at) {
    if (group_.any(finds_mismatch(at))) return false;
    const std::uint32_t pieces = operand(at, 0).pieces;
    for (std::uint32_t p = 0; p < pieces; ++p) sweep_piece(at, p);
    group_.barrier();  // all have read and written
    const std::uint32_t operands = operands_of(at);
    for (std::uint32_t o = group_.rank(); o < operands; o += group_.size()) hand_over(at, o);
    return true;
  }
  TUTTI_DEVICE bool finds_mismatch(const Position& at) {
    for (std::uint32_t o = group_.rank(); o < at.now->sources; o += group_.size()) {
      const BlobOperand& which = operand(at, o);
      if (which.place != Place::link) continue;
      const DeviceLinkEnd& end = link_of(at, which.link);
      const std::uint64_t found = end.fingerprints[*end.carried % end.slot_count];
      if (found == at.job->fingerprint) continue;
      JobRecord record{};
      record.fingerprint = found;
      record.peer = end.peer;
      stop(at, JobEnd::mismatch, record);
      return true;
    }
    return false;
  }

  /// Where an operand's piece lies.
  TUTTI_DEVICE std::byte* address(const Position& at, std::uint32_t o, std::uint32_t piece) const {
    const BlobOperand& which = operand(at, o);
    const std::uint64_t offset = at.job->blob->pieces_at(at.pass)[which.piece + piece].offset;
    if (which.place == Place::link) {
      const DeviceLinkEnd& end = link_of(at, which.link);
      return end.slots + *end.carried % end.slot_count * end.slot_bytes + offset;
    }
    return at.job->buffers[static_cast<std::uint32_t>(which.place)] + at.job->blob->window_begin(which.place, at.pass) +
           offset;
  }
  TUTTI_DEVICE void sweep_piece(const Position& at, std::uint32_t piece) {
    const Blob& blob = *at.job->blob;
    const std::uint64_t bytes = blob.pieces_at(at.pass)[operand(at, 0).piece + piece].bytes;
    if (bytes == 0) return;
    const std::uint64_t divide_by = (at.now->flags & last_touch) != 0 ? blob.divide_by : 0;
    auto** const places = static_cast<std::byte**>(group_.shared());
    group_.barrier();  // the piece before is done with the storage
    for (std::uint32_t o = group_.rank(); o < at.now->sources; o += group_.size()) places[o] = address(at, o, piece);
    const std::uint32_t targets = place_targets(at, piece, divide_by, places);
    group_.barrier();
    if (targets == 0) return;
    Fold::run({places, places + at.now->sources, at.now->sources, targets, bytes >> blob.unit_shift, divide_by},
              {group_.rank(), group_.size()});
  }
  /// Those that are written, one behind the other: each thread goes through all, so that all know how many there are.
  TUTTI_DEVICE std::uint32_t place_targets(const Position& at, std::uint32_t piece, std::uint64_t divide_by,
                                           std::byte** places) const {
    std::uint32_t targets = 0;
    const std::uint32_t operands = operands_of(at);
    for (std::uint32_t o = at.now->sources; o < operands; ++o) {
      // All messages go by slot, so memory that only serves to be offered from need not be written.
      if (operand(at, o).only_offered != 0) continue;
      std::byte* const target = address(at, o, piece);
      if (at.now->sources == 1 && divide_by <= 1 && target == address(at, 0, piece)) continue;  // it is there already
      if (targets % group_.size() == group_.rank()) places[at.now->sources + targets] = target;
      ++targets;
    }
    return targets;
  }
  /// Of a link: what was sent is published, what was read is released.
  TUTTI_DEVICE void hand_over(const Position& at, std::uint32_t o) const {
    const BlobOperand& which = operand(at, o);
    if (which.place != Place::link) return;
    const DeviceLinkEnd& end = link_of(at, which.link);
    const std::uint64_t n = *end.carried;
    *end.carried = n + 1;
    if (o < at.now->sources) return ReceivingEnd<SystemWords>{end.arrived, end.credit}.release(n);
    end.fingerprints[n % end.slot_count] = at.job->fingerprint;
    SendingEnd<SystemWords>{end.credit, end.arrived, end.slot_count}.publish(n);
  }

  // ---- How it ends.

  /// By thread 0: whether the block had better look for another task.
  TUTTI_DEVICE bool should_change() const {
    if (DeviceWords::load_acquire(*launch_.stopped) != 0) return true;
    for (std::uint32_t number = 0; number < launch_.task_count; ++number) {
      const Position other = position(number);
      if (DeviceWords::load_acquire(other.task->claim) == 0 && !is_finished(other)) return true;
    }
    return false;
  }
  /// What the host says, and the time. By thread 0 for all.
  TUTTI_DEVICE void look(const Position& at) {
    if (group_.rank() != 0) return;
    JobRecord record{};
    record.peer = awaited_peer(at);
    record.lane = at.lane;
    record.strand = at.strand;
    record.step = at.step;
    record.pass = at.pass;
    if (device::acquire(launch_.abort) != 0) return stop(at, JobEnd::aborted, record);
    if (launch_.limit_ns != 0 && group_.timer_ns() - begun_ns_ >= launch_.limit_ns) stop(at, JobEnd::late, record);
  }
  /// Whom the step waits for; -1: another lane.
  TUTTI_DEVICE std::int32_t awaited_peer(const Position& at) const {
    const std::uint32_t operands = bytes_of(at) == 0 ? 0 : operands_of(at);
    for (std::uint32_t o = 0; o < operands; ++o) {
      if (!is_link_ready(at, o)) return link_of(at, operand(at, o).link).peer;
    }
    return -1;
  }
  /// Without a task. False: the launch is over.
  TUTTI_DEVICE bool wait_a_little(std::uint32_t rounds) {
    group_.pause();
    if (rounds % look_every != look_every - 1) return true;
    if (group_.rank() == 0 && device::acquire(launch_.abort) != 0) DeviceWords::store_release(*launch_.stopped, 1);
    return true;  // find_task sees it
  }
  /// The first to stop the launch says why; every job that is under way then ends as this one.
  TUTTI_DEVICE void stop(const Position& at, JobEnd end, JobRecord record) const {
    if (!DeviceWords::exchange_acquire(*launch_.stopped, 0, 1)) return;
    JobRecord& told = *at.job->record;
    told.fingerprint = record.fingerprint;
    told.peer = record.peer;
    told.lane = record.lane;
    told.strand = record.strand;
    told.step = record.step;
    told.pass = record.pass;
    // Release: the host reads the rest behind it.
    SystemWords::store_release(told.end, static_cast<device::Word64>(end));
  }
  /// The last block says of each job how it ended, behind all that any block wrote.
  TUTTI_DEVICE void leave() {
    group_.barrier();
    if (group_.rank() != 0 || !Departures<DeviceWords>::is_last(*launch_.left, group_.blocks())) return;
    const bool completed = DeviceWords::load_acquire(*launch_.finished) == launch_.work_count;
    for (std::uint32_t j = 0; j < launch_.job_count; ++j) {
      device::Word64& end = launch_.jobs[j].record->end;
      if (!completed && SystemWords::load_acquire(end) != static_cast<device::Word64>(JobEnd::under_way)) continue;
      SystemWords::store_release(end, static_cast<device::Word64>(completed ? JobEnd::completed : JobEnd::aborted));
    }
  }

  device::Group& group_;
  const Launch& launch_;
  std::uint64_t begun_ns_ = 0;
  std::uint32_t polls_ = 0;  ///< in vain, of all tasks; the same in all threads
};

}  // namespace tutti
