// The kernel: blocks that interpret programs, whatever their algorithm.
//
// A block claims a task, and takes it from step to step as the host executor takes a lane. A step runs when its
// dependencies have retired, its messages have come, and those it sends have room. All threads sweep over its operands
// together. Where a step stays blocked the block gives the task back, and claims another one. So one resident block is
// enough, and as many as there are tasks never change. A rank's next job begins once all tasks of the one before it are
// finished. The ranks' jobs keep their order thereby, and so do the messages of every link.
#pragma once

#include "src/cuda/device/order.h"
#include "src/executors/cuda/launch.h"
#include "src/executors/cuda/protocol.h"
#include "src/executors/cuda/sweep.h"
#include "src/executors/cuda/words.h"

namespace tutti {

/// The type that a line's eight bytes are folded by: bits by all of them at once.
template <typename T, typename Op>
using WordElement = std::conditional_t<kIsBitwise<Op>, std::uint64_t, T>;

/// A fold of elements of type T by Op.
template <typename T, typename Op>
struct FoldBy {
  using Word = std::conditional_t<sizeof(T) <= line_data_bytes, WordFold<WordElement<T, Op>, Op>, NoWordFold>;
  /// Whether the call's own operands are scaled as they are loaded.
  static constexpr bool scales = std::is_same_v<Op, PreMulSum>;
  TUTTI_DEVICE static std::uint64_t scale(std::uint64_t word, const std::byte* scalar) {
    if constexpr (scales && sizeof(T) <= line_data_bytes) return scaled_word<T>(word, scalar);
    return word;
  }
  TUTTI_DEVICE static void run(const SweepArguments& arguments, Sweeper self) { BlockSweep<T, Op>(arguments, self).run(); }
};
/// For collectives that fold nothing: counts are of bytes.
struct CopyOnly {
  using Word = WordFold<std::uint64_t, Sum>;
  static constexpr bool scales = false;
  TUTTI_DEVICE static std::uint64_t scale(std::uint64_t word, const std::byte*) { return word; }
  TUTTI_DEVICE static void run(const SweepArguments& arguments, Sweeper self) { copy_in_block(arguments, self); }
};

/// The segment of a list that has a byte of its buffer: in strides that double, and then halve. from: a guess, which may be
/// anything, as it is before the first step.
TUTTI_DEVICE_NOINLINE std::uint64_t find_segment(const SegmentList& list, std::uint64_t offset, std::uint64_t from) {
  const auto begins_later = [&](std::uint64_t s) { return s >= list.count || list.segments[s].begin > offset; };
  if (begins_later(from)) from = 0;
  std::uint64_t stride = 1;
  TUTTI_ROLLED
  for (; !begins_later(from + stride); stride *= 2) from += stride;
  TUTTI_ROLLED
  for (; stride != 0; stride /= 2) {
    if (!begins_later(from + stride)) from += stride;
  }
  return from;
}

/// One thread of a block. All threads of the block run the same members in the same order.
template <class Fold>
class Interpreter {
 public:
  TUTTI_DEVICE Interpreter(device::Group& group, const Launch& launch)
      : group_(group),
        launch_(launch),
        words_(*launch.words),
        jobs_(static_cast<Job*>(group.shared())),
        places_(reinterpret_cast<std::byte**>(jobs_ + launch.job_count)),
        line_places_(reinterpret_cast<LineOperand*>(jobs_ + launch.job_count)),
        segments_(reinterpret_cast<std::uint64_t*>(line_places_ + launch.most_operands)) {}

  /// Runs tasks until none needs a block any more, or the launch was stopped.
  TUTTI_DEVICE void run() {
    copy_jobs();
    if (group_.any(group_.rank() == 0 && await_turn())) run_tasks();
    leave();
  }

 private:
  using SystemLine = Line<SystemWords>;
  static constexpr std::uint64_t nothing_left = ~std::uint64_t{0};
  static constexpr std::uint64_t none_free = nothing_left - 1;
  /// Rounds of polling between two looks at what is dear to look at: the host's word and the clock.
  static constexpr std::uint32_t look_every = 128;

  /// Where a task stands.
  struct Position {
    std::uint32_t job;
    Task* task;
    std::uint32_t strand;
    std::uint32_t lane;
    std::uint64_t steps;     ///< of the lane in one pass
    std::uint64_t begin;     ///< steps that the task has retired for earlier jobs
    std::uint64_t end;       ///< and with all of this one
    std::uint64_t own_pass;  ///< of the strand
    std::uint32_t step;      ///< of the lane
    std::uint64_t pass;      ///< of the plan
    const BlobStep* now;
    bool is_empty;  ///< its messages are of 0 bytes in this pass: it has nothing to do
  };

  // ---- The turn.

  /// A block looks at its jobs again and again: it has them at hand.
  TUTTI_DEVICE void copy_jobs() {
    const auto* const from =
        reinterpret_cast<const device::Word64*>(launch_.more != nullptr ? launch_.more : &launch_.jobs[0]);
    auto* const to = reinterpret_cast<device::Word64*>(jobs_);
    const std::uint32_t words = launch_.job_count * static_cast<std::uint32_t>(sizeof(Job) / sizeof(device::Word64));
    for (std::uint32_t w = group_.rank(); w < words; w += group_.size()) to[w] = from[w];
    group_.barrier();
  }
  /// By thread 0: waits until the links are this launch's. False: it is to leave. The first block of the launch takes its
  /// turn, so a launch that holds a number has a block. Whoever waits for it waits for somebody that runs.
  TUTTI_DEVICE bool await_turn() {
    if (is_aborted()) return false;
    const Turns<DeviceWords> turns{&launch_.order->next, &launch_.order->serving};
    const bool first = DeviceWords::exchange_acquire(words_.begun, 0, 1);
    const std::uint64_t number = first ? turns.take() : 0;
    for (std::uint32_t rounds = 1;; ++rounds) {
      if (first ? turns.has_come(number) : DeviceWords::load_acquire(words_.opened) != 0) break;
      if (DeviceWords::load_acquire(words_.stopped) != 0) return false;
      if (rounds % look_every == 0 && is_aborted()) return false;
      group_.pause();
    }
    if (first) open(number);
    return true;
  }
  /// Its turn has come: the operations take their places in the history.
  TUTTI_DEVICE void open(std::uint64_t number) const {
    words_.number = number;
    for (std::uint32_t j = 0; j < launch_.job_count; ++j) {
      // As followed_by of src/control/activity.h.
      if (j == 0 || jobs_[j].operation != jobs_[j - 1].operation)
        launch_.order->history = launch_.order->history * 6364136223846793005u + jobs_[j].operation_hash;
      job_words(j).fingerprint = launch_.order->history;
    }
    // Release: other blocks of the launch read these, and what the launch before left in the links.
    DeviceWords::store_release(words_.opened, 1);
  }
  /// Whether the host says so; then every block leaves.
  TUTTI_DEVICE bool is_aborted() const {
    if (device::acquire(launch_.abort) == 0) return false;
    DeviceWords::store_release(words_.stopped, 1);
    return true;
  }

  TUTTI_DEVICE void run_tasks() {
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
  }

  // ---- Which task. By thread 0.

  /// A task that is claimed now, by its number; or that none is free, or none left.
  TUTTI_DEVICE std::uint64_t find_task(std::uint32_t first) {
    if (is_over()) return nothing_left;
    for (;;) {
      const std::uint32_t number = find_free(first);
      if (number == launch_.task_count) return none_free;
      if (Claim<DeviceWords>::take(position(number).task->claim)) return number;
      first = (number + 1) % launch_.task_count;  // somebody else has it
    }
  }
  /// The first task from `first` on that has work for a block and that no block has; task_count: there is none.
  TUTTI_DEVICE std::uint32_t find_free(std::uint32_t first) const {
    std::uint32_t job = 0, task = first;
    for (; task >= tasks_of(jobs_[job]); ++job) task -= tasks_of(jobs_[job]);
    std::uint32_t number = first;
    // The first job is looked at again at the end, for the tasks before `first`.
    for (std::uint32_t seen = 0; seen <= launch_.job_count; ++seen) {
      const std::uint32_t tasks = tasks_of(jobs_[job]);
      if (is_under_way(job)) {
        for (std::uint32_t t = task; t < tasks; ++t) {
          const Position at = position(job, t);
          if (DeviceWords::load_acquire(at.task->claim) == 0 && !is_finished(at)) return number + (t - task);
        }
      }
      number += tasks - task;
      task = 0;
      if (++job == launch_.job_count) job = number = 0;
    }
    return launch_.task_count;
  }
  TUTTI_DEVICE bool is_over() const {
    return DeviceWords::load_acquire(words_.finished) == launch_.busy_jobs ||
           DeviceWords::load_acquire(words_.stopped) != 0;
  }
  /// Whether the rank has come to the job, and is not done with it.
  TUTTI_DEVICE bool is_under_way(std::uint32_t job) const {
    if (is_job_finished(job)) return false;
    return jobs_[job].predecessor == 0 || is_job_finished(jobs_[job].predecessor - 1);
  }
  TUTTI_DEVICE bool is_job_finished(std::uint32_t job) const {
    return Progress<DeviceWords>::is_finished(job_words(job).finished, jobs_[job].work);
  }
  TUTTI_DEVICE JobWords& job_words(std::uint32_t job) const { return launch_.job_words[job]; }
  TUTTI_DEVICE Position position(std::uint32_t number) const {
    std::uint32_t job = 0;
    for (std::uint32_t tasks = tasks_of(jobs_[job]); number >= tasks; tasks = tasks_of(jobs_[job])) {
      number -= tasks;
      ++job;
    }
    return position(job, number);
  }
  TUTTI_DEVICE Position position(std::uint32_t job, std::uint32_t task) const {
    const Blob& blob = *jobs_[job].blob;
    Position at{};
    at.job = job;
    at.task = jobs_[job].tasks + task;
    at.strand = task / blob.lanes.count;
    at.lane = task % blob.lanes.count;
    at.steps = steps_of(at, at.lane);
    at.begin = retired_before(at, at.lane);
    at.end = at.begin + Strand{at.strand, blob.strands}.passes(job_of(at).passes) * at.steps;
    return at;
  }
  TUTTI_DEVICE const Job& job_of(const Position& at) const { return jobs_[at.job]; }
  TUTTI_DEVICE static std::uint32_t tasks_of(const Job& job) { return job.blob->strands * job.blob->lanes.count; }
  TUTTI_DEVICE std::uint32_t steps_of(const Position& at, std::uint32_t lane) const {
    const Blob& blob = *job_of(at).blob;
    return blob.array<BlobLane>(blob.lanes)[lane].count;
  }
  /// Steps that a lane of the strand has retired for jobs before this one.
  TUTTI_DEVICE std::uint64_t retired_before(const Position& at, std::uint32_t lane) const {
    const Job& job = job_of(at);
    return job.earlier_uses * Strand{at.strand, job.blob->strands}.passes(job.passes) * steps_of(at, lane);
  }
  TUTTI_DEVICE bool is_finished(const Position& at) const { return DeviceWords::load_acquire(at.task->retired) >= at.end; }

  // ---- One task. By all threads.

  /// From where it stands as far as it comes.
  TUTTI_DEVICE void work_on(std::uint32_t number) {
    Position at = position(number);
    if (group_.rank() == 0) begin(at.job);
    // Thread 0 has acquired what the last holder did; the barrier of `broadcast` hands that on.
    std::uint64_t retired = group_.broadcast(group_.rank() == 0 ? DeviceWords::load_acquire(at.task->retired) : 0, 0);
    while (retired < at.end) {
      set_step(at, retired - at.begin);
      if (!await_step(at)) break;
      if (!at.is_empty && !run_step(at)) break;
      ++retired;
      // Whose steps are always ready waits nowhere.
      if (retired % look_every == 0) look(at);
      group_.barrier();  // all have done their part, and looked at what the step's words said
      if (group_.rank() == 0) retire(at, retired);
    }
    group_.barrier();
    if (group_.rank() == 0) Claim<DeviceWords>::put_back(at.task->claim);
  }
  /// A job's time begins when the first block comes to it.
  TUTTI_DEVICE void begin(std::uint32_t job) const {
    device::Word64& begun_ns = job_words(job).begun_ns;
    if (DeviceWords::load_relaxed(begun_ns) != 0) return;
    if (!DeviceWords::exchange_acquire(begun_ns, 0, group_.timer_ns() | 1)) return;
    // Relaxed: the host concludes nothing else from it.
    SystemWords::store_relaxed(jobs_[job].record->begun, 1);
  }
  TUTTI_DEVICE void set_step(Position& at, std::uint64_t retired) const {
    const Blob& blob = *job_of(at).blob;
    at.own_pass = retired / at.steps;
    at.step = static_cast<std::uint32_t>(retired % at.steps);
    at.pass = Strand{at.strand, blob.strands}.pass(at.own_pass);
    at.now = blob.array<BlobStep>(blob.steps) + blob.array<BlobLane>(blob.lanes)[at.lane].first + at.step;
    at.is_empty =
        job_of(at).bound != nullptr ? is_beyond_blocks(at) : at.now->message_bytes[blob.is_last(at.pass) ? 1 : 0] == 0;
  }
  TUTTI_DEVICE void retire(const Position& at, std::uint64_t retired) const {
    // Release: who waits for this step may use what it wrote.
    DeviceWords::store_release(at.task->retired, retired);
    if (retired != at.end || !Progress<DeviceWords>::finish(job_words(at.job).finished, job_of(at).work)) return;
    // Whoever has seen all ends may free what the launch uses, so those of the last operation wait for the last block.
    if (job_of(at).operation != jobs_[launch_.job_count - 1].operation) tell(at.job, JobEnd::completed);
    DeviceWords::add_acq_rel(words_.finished, 1);
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
    const Blob& blob = *job_of(at).blob;
    // Relaxed: it only has to be seen some time; should_change looks again.
    if (group_.rank() == 0 && DeviceWords::load_relaxed(words_.stopped) != 0) return false;
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
    if (at.is_empty) return true;
    const std::uint32_t operands = operands_of(at);
    for (std::uint32_t o = group_.rank(); o < operands; o += group_.size()) {
      if (!is_link_ready(at, o)) return false;
    }
    return true;
  }
  /// Whether a lane of the strand has retired so many steps of a pass.
  TUTTI_DEVICE bool has_retired(const Position& at, std::uint32_t lane, std::uint64_t own_pass, std::uint32_t steps) const {
    const Task& other = job_of(at).tasks[at.strand * job_of(at).blob->lanes.count + lane];
    const std::uint64_t wanted = retired_before(at, lane) + own_pass * steps_of(at, lane) + steps;
    // Acquire: pairs with retire. Relaxed first, as in protocol.h.
    return DeviceWords::load_relaxed(other.retired) >= wanted && DeviceWords::load_acquire(other.retired) >= wanted;
  }
  TUTTI_DEVICE static std::uint32_t operands_of(const Position& at) {
    return std::uint32_t{at.now->sources} + at.now->destinations;
  }
  TUTTI_DEVICE const BlobOperand& operand(const Position& at, std::uint32_t o) const {
    const Blob& blob = *job_of(at).blob;
    return blob.array<BlobOperand>(blob.operands)[at.now->operands + o];
  }
  TUTTI_DEVICE const DeviceLinkEnd& link_of(const Position& at, std::uint32_t link) const {
    return job_of(at).links[at.strand * job_of(at).blob->links.count + link];
  }
  /// Whether an operand's message has come, or has room. Of one that goes by lines the first has come: whoever sends it is
  /// at it, and does not put it down.
  TUTTI_DEVICE bool is_link_ready(const Position& at, std::uint32_t o) const {
    const BlobOperand& which = operand(at, o);
    if (which.place != Place::link) return true;
    const DeviceLinkEnd& end = link_of(at, which.link);
    const std::uint64_t n = *end.carried;
    if (o >= at.now->sources) return SendingEnd<SystemWords>{end.credit, end.arrived, end.slot_count}.has_room(n);
    std::uint64_t fingerprint = 0;
    if (has_lines(at)) return SystemLine::get(line_in(slot(end), 0), n, fingerprint);
    return ReceivingEnd<SystemWords>{end.arrived, end.credit}.has_come(n);
  }
  TUTTI_DEVICE bool has_lines(const Position& at) const {
    return job_of(at).blob->protocol == static_cast<std::uint32_t>(Protocol::lines);
  }
  /// Where the end's message lies.
  TUTTI_DEVICE static std::byte* slot(const DeviceLinkEnd& end) {
    return end.slots + *end.carried % end.slot_count * end.slot_bytes;
  }
  TUTTI_DEVICE static device::Word64* line_in(std::byte* message, std::uint64_t line) {
    return reinterpret_cast<device::Word64*>(message + line * line_bytes);
  }

  // ---- One step. By all threads.

  /// False: a message is another operation's, and the launch was stopped.
  TUTTI_DEVICE bool run_step(const Position& at) {
    if (group_.any(finds_mismatch(at))) return false;
    if (has_lines(at)) {
      if (!sweep_lines(at)) return false;
    } else {
      const std::uint32_t pieces = operand(at, 0).pieces;
      std::uint64_t begin = 0;
      for (std::uint32_t p = 0; p < pieces; ++p) begin = sweep_piece(at, p, begin);
      group_.barrier();  // all have read and written
    }
    const std::uint32_t operands = operands_of(at);
    for (std::uint32_t o = group_.rank(); o < operands; o += group_.size()) hand_over(at, o);
    return true;
  }
  TUTTI_DEVICE bool finds_mismatch(const Position& at) {
    for (std::uint32_t o = group_.rank(); o < at.now->sources; o += group_.size()) {
      const BlobOperand& which = operand(at, o);
      if (which.place != Place::link) continue;
      const std::uint64_t found = fingerprint_at(at, link_of(at, which.link));
      if (found == fingerprint_of(at)) continue;
      JobRecord record{};
      record.fingerprint = found;
      record.peer = link_of(at, which.link).peer;
      stop(at, JobEnd::mismatch, record);
      return true;
    }
    return false;
  }
  /// Of the step's messages.
  TUTTI_DEVICE std::uint64_t fingerprint_of(const Position& at) const {
    const std::uint64_t fingerprint = job_words(at.job).fingerprint;
    return job_of(at).bound != nullptr ? fingerprint + tag_of(at) : fingerprint;
  }
  /// Of the operation whose message lies there. It has come.
  TUTTI_DEVICE std::uint64_t fingerprint_at(const Position& at, const DeviceLinkEnd& end) const {
    std::uint64_t found = 0;
    if (!has_lines(at)) return end.fingerprints[*end.carried % end.slot_count];
    SystemLine::get(line_in(slot(end), 0), *end.carried, found);
    return found;
  }

  /// A place in a piece of a step. In the step's messages pieces lie one behind the other.
  struct Piece {
    std::uint32_t index;
    std::uint64_t begin;  ///< of the piece, in the messages
    std::uint64_t done;   ///< bytes of the piece before the place
  };
  /// Where it lies in an operand.
  TUTTI_DEVICE std::byte* address(const Position& at, std::uint32_t o, const Piece& piece) const {
    const BlobOperand& which = operand(at, o);
    const Job& job = job_of(at);
    if (which.place == Place::link) return slot(link_of(at, which.link)) + piece.begin + piece.done;
    if (job.bound != nullptr) return bound_address(at, which, piece.index) + piece.done;
    const std::uint64_t offset = offset_of(at, which, piece);
    if (!is_listed(at, which)) return job.buffers[static_cast<std::uint32_t>(which.place)] + offset;
    const Segment& segment = segment_of(at, o, offset)[0];
    return segment.at + (offset - segment.begin);
  }
  /// Bytes from the beginning of the operand's buffer. No blocks are bound.
  TUTTI_DEVICE std::uint64_t offset_of(const Position& at, const BlobOperand& which, const Piece& piece) const {
    const Blob& blob = *job_of(at).blob;
    return blob.window_begin(which.place, at.pass) + blob.pieces_at(at.pass)[which.piece + piece.index].offset + piece.done;
  }
  TUTTI_DEVICE std::uint64_t piece_bytes(const Position& at, std::uint32_t piece) const {
    if (job_of(at).bound != nullptr) return elements(at, piece).size() * job_of(at).blob->element_bytes;
    return job_of(at).blob->pieces_at(at.pass)[operand(at, 0).piece + piece].bytes;
  }
  /// The next one begins where this one ends.
  TUTTI_DEVICE std::uint64_t sweep_piece(const Position& at, std::uint32_t index, std::uint64_t begin) {
    Piece piece{index, begin, 0};
    TUTTI_ROLLED
    while (piece.done < piece_bytes(at, index)) sweep_from(at, piece);
    return begin + piece.done;
  }
  /// As far as every operand lies in one place, at most to the piece's end. The piece's place is behind that afterwards.
  TUTTI_DEVICE void sweep_from(const Position& at, Piece& piece) {
    const bool lists = has_lists(at);
    if (lists) seek(at, piece);
    group_.barrier();  // what was swept before is done with the storage
    std::uint64_t bytes = piece_bytes(at, piece.index) - piece.done;
    if (lists) bytes = bytes_in_one_place(at, piece, bytes);
    for (std::uint32_t o = group_.rank(); o < at.now->sources; o += group_.size()) places_[o] = address(at, o, piece);
    const std::uint32_t targets = place_targets(at, piece, divide_by(at));
    group_.barrier();
    piece.done += bytes;
    if (targets == 0) return;
    SweepArguments sweep{
        places_, places_ + at.now->sources, at.now->sources, targets, bytes >> job_of(at).blob->unit_shift, divide_by(at)};
    if constexpr (Fold::scales) name_scaled(at, sweep);
    Fold::run(sweep, {group_.rank(), group_.size()});
  }
  /// The call's own operands, which follow each other (check_scaling).
  TUTTI_DEVICE void name_scaled(const Position& at, SweepArguments& sweep) const {
    for (std::uint32_t o = 0; o < at.now->sources; ++o) {
      if (!is_scaled(at, o)) continue;
      if (sweep.scaled_end == 0) sweep.scaled_begin = o;
      sweep.scaled_end = o + 1;
    }
    sweep.scalar = scalar(at);
  }
  TUTTI_DEVICE bool is_scaled(const Position& at, std::uint32_t o) const {
    return Fold::scales && operand(at, o).place == Place::input;
  }
  TUTTI_DEVICE const std::byte* scalar(const Position& at) const {
    const Job& job = job_of(at);
    return job.scalar_at != nullptr ? job.scalar_at : reinterpret_cast<const std::byte*>(job.scalar);
  }
  /// Those that are written, one behind the other: each thread goes through all, so that all know how many there are.
  TUTTI_DEVICE std::uint32_t place_targets(const Position& at, const Piece& piece, std::uint64_t divide_by) const {
    std::uint32_t targets = 0;
    const std::uint32_t operands = operands_of(at);
    const std::byte* const copied = copied_from(at, piece, divide_by);
    for (std::uint32_t o = at.now->sources; o < operands; ++o) {
      std::byte* const to = target(at, o, piece, copied);
      if (to == nullptr) continue;
      if (targets % group_.size() == group_.rank()) places_[at.now->sources + targets] = to;
      ++targets;
    }
    return targets;
  }
  /// Where the piece lies already, which the step only copies; nullptr: it lies nowhere yet.
  TUTTI_DEVICE const std::byte* copied_from(const Position& at, const Piece& piece, std::uint64_t divide_by) const {
    return at.now->sources == 1 && divide_by <= 1 && !is_scaled(at, 0) ? address(at, 0, piece) : nullptr;
  }
  /// Where an operand is written; nullptr: not at all. All messages go by link, so memory that only serves to be offered
  /// from need not be written. Nor need what is there already.
  TUTTI_DEVICE std::byte* target(const Position& at, std::uint32_t o, const Piece& piece, const std::byte* copied) const {
    if (operand(at, o).only_offered != 0) return nullptr;
    std::byte* const to = address(at, o, piece);
    return to != copied ? to : nullptr;
  }
  TUTTI_DEVICE std::uint64_t divide_by(const Position& at) const {
    return (at.now->flags & last_touch) != 0 ? job_of(at).blob->divide_by : 0;
  }
  /// Of a link: what was sent is published, what was read is released.
  TUTTI_DEVICE void hand_over(const Position& at, std::uint32_t o) const {
    const BlobOperand& which = operand(at, o);
    if (which.place != Place::link) return;
    const DeviceLinkEnd& end = link_of(at, which.link);
    const std::uint64_t n = *end.carried;
    *end.carried = n + 1;
    if (o < at.now->sources) return ReceivingEnd<SystemWords>{end.arrived, end.credit}.release(n);
    if (has_lines(at)) return;
    end.fingerprints[n % end.slot_count] = fingerprint_of(at);
    SendingEnd<SystemWords>{end.credit, end.arrived, end.slot_count}.publish(n);
  }

  // ---- Where buffers lie that are lists: their segments come with the call.

  TUTTI_DEVICE bool has_lists(const Position& at) const { return job_of(at).lists[0].segments != nullptr; }
  TUTTI_DEVICE bool is_listed(const Position& at, const BlobOperand& which) const {
    return has_lists(at) && (which.place == Place::input || which.place == Place::output);
  }
  TUTTI_DEVICE const SegmentList& list_of(const Position& at, const BlobOperand& which) const {
    return job_of(at).lists[static_cast<std::uint32_t>(which.place)];
  }
  /// Notes the segment of every operand that is listed. A barrier comes behind it, and before the next one.
  TUTTI_DEVICE void seek(const Position& at, const Piece& piece) {
    const std::uint32_t operands = operands_of(at);
    for (std::uint32_t o = group_.rank(); o < operands; o += group_.size()) {
      const BlobOperand& which = operand(at, o);
      if (is_listed(at, which)) segments_[o] = find_segment(list_of(at, which), offset_of(at, which, piece), segments_[o]);
    }
  }
  /// The segment that has a byte of the operand's buffer, and those behind it. It is near the one that was noted.
  TUTTI_DEVICE const Segment* segment_of(const Position& at, std::uint32_t o, std::uint64_t offset) const {
    const SegmentList& list = list_of(at, operand(at, o));
    return list.segments + find_segment(list, offset, segments_[o]);
  }
  /// Bytes of an operand from there on that lie one behind the other.
  TUTTI_DEVICE std::uint64_t bytes_in_segment(const Position& at, std::uint32_t o, const Piece& piece) const {
    const BlobOperand& which = operand(at, o);
    if (!is_listed(at, which)) return ~std::uint64_t{0};
    const std::uint64_t offset = offset_of(at, which, piece);
    return segment_of(at, o, offset)[1].begin - offset;
  }
  /// Of all operands; `most` where there are more.
  TUTTI_DEVICE std::uint64_t bytes_in_one_place(const Position& at, const Piece& piece, std::uint64_t most) const {
    const std::uint32_t operands = operands_of(at);
    TUTTI_ROLLED
    for (std::uint32_t o = 0; o < operands; ++o) most = Elements::least(most, bytes_in_segment(at, o, piece));
    return most;
  }

  // ---- What a step of a v-variant moves: its blocks come with the call.

  TUTTI_DEVICE std::uint32_t block_of(const Position& at, const BlobOperand& which, std::uint32_t piece) const {
    const Blob& blob = *job_of(at).blob;
    return blob.array<std::uint32_t>(blob.blocks)[which.piece + piece];
  }
  /// The block that a piece is of, in every operand.
  TUTTI_DEVICE const BoundBlock& sizing_block(const Position& at, std::uint32_t piece) const {
    return job_of(at).bound[block_of(at, operand(at, at.now->sized_by), piece)];
  }
  /// What it is of that block.
  TUTTI_DEVICE Elements elements(const Position& at, std::uint32_t piece) const {
    const Blob& blob = *job_of(at).blob;
    const BoundBlock& block = sizing_block(at, piece);
    const std::uint64_t start = Elements::least(block.count, at.pass * blob.window);
    const std::uint64_t here = Elements::least(blob.window, block.count - start);
    return Elements::chunks_of(start, here, here == blob.window ? blob.chunk : block.chunk, at.now->chunk, at.now->chunks);
  }
  /// Whether all of its blocks have ended.
  TUTTI_DEVICE bool is_beyond_blocks(const Position& at) const {
    const std::uint32_t pieces = operand(at, 0).pieces;
    std::uint64_t bytes = 0;
    TUTTI_ROLLED
    for (std::uint32_t p = 0; p < pieces; ++p) bytes += elements(at, p).size();
    return bytes == 0;
  }
  /// What tells the counts of the step's blocks from others.
  TUTTI_DEVICE std::uint64_t tag_of(const Position& at) const {
    const std::uint32_t pieces = operand(at, 0).pieces;
    std::uint64_t tag = 0;
    TUTTI_ROLLED
    for (std::uint32_t p = 0; p < pieces; ++p) tag = tag_with(tag, sizing_block(at, p).tag);
    return tag;
  }
  TUTTI_DEVICE std::byte* bound_address(const Position& at, const BlobOperand& which, std::uint32_t piece) const {
    const Job& job = job_of(at);
    const std::uint64_t element = job.blob->element_bytes, window = job.blob->window;
    const std::uint64_t begin = elements(at, piece).begin;
    const std::uint32_t block = block_of(at, which, piece);
    if (which.place != Place::scratch) return job.bound[block].at + begin * element;
    return job.buffers[2] + job.blob->window_begin(Place::scratch, at.pass) +
           (block * window + begin - at.pass * window) * element;
  }

  // ---- One step whose messages go by lines: a message is its fingerprint and the bytes behind it, eight in a line.

  /// False: the launch was stopped meanwhile.
  TUTTI_DEVICE bool sweep_lines(const Position& at) {
    const std::uint32_t operands = operands_of(at);
    bool cleans = false;
    for (std::uint32_t o = 0; o < at.now->sources; ++o) cleans = cleans || is_cleaned(at, o);
    for (std::uint32_t o = at.now->sources + group_.rank(); o < operands; o += group_.size()) {
      if (operand(at, o).place != Place::link) continue;
      const DeviceLinkEnd& end = link_of(at, operand(at, o).link);
      SystemLine::put(line_in(slot(end), 0), *end.carried, fingerprint_of(at));
    }
    std::uint64_t begin = 0;
    const std::uint32_t pieces = operand(at, 0).pieces;
    for (std::uint32_t p = 0; p < pieces; ++p) begin = sweep_piece_of_lines(at, p, begin);
    // The vote is a barrier, too: all have read and written.
    if (group_.any(ended_)) return false;
    if (cleans) clean_lines(at);
    return true;
  }
  /// A piece's lines, begin being where it begins in the message. The next one begins where this one ends.
  TUTTI_DEVICE std::uint64_t sweep_piece_of_lines(const Position& at, std::uint32_t piece, std::uint64_t begin) {
    const std::uint64_t end = begin + piece_bytes(at, piece);
    const std::uint64_t whole = end / line_data_bytes;
    if (begin == end) return end;
    group_.barrier();  // the piece before is done with the storage
    const bool is_scattered = has_lists(at) && scatters(at, {piece, begin, 0}, end - begin);
    const std::uint32_t operands = operands_of(at);
    for (std::uint32_t o = group_.rank(); o < operands; o += group_.size())
      line_places_[o] = line_operand(at, o, {piece, begin, 0});
    group_.barrier();
    // Last what begins in this piece and ends behind it, or at the message's end. One loop, so that its body is there once.
    bool has_part =
        end % line_data_bytes != 0 && whole * line_data_bytes >= begin && piece % group_.size() == group_.rank();
    std::uint64_t line = (begin + line_data_bytes - 1) / line_data_bytes + group_.rank();
    TUTTI_ROLLED
    for (; line < whole || has_part; line += group_.size()) {
      const bool is_part = line >= whole;
      if (is_part) has_part = false;
      run_line(at, {is_part ? whole : line, piece, begin, is_part, is_scattered});
    }
    return end;
  }
  /// Whether a piece of so many bytes lies in several places in any operand. All find the same.
  TUTTI_DEVICE bool scatters(const Position& at, const Piece& piece, std::uint64_t bytes) {
    seek(at, piece);
    group_.barrier();
    return bytes_in_one_place(at, piece, bytes) < bytes;
  }
  /// Of lists what lies there already is written, too: that may hold of some bytes of a word alone.
  TUTTI_DEVICE LineOperand line_operand(const Position& at, std::uint32_t o, const Piece& piece) const {
    const BlobOperand& which = operand(at, o);
    if (which.place == Place::link) {
      const DeviceLinkEnd& end = link_of(at, which.link);
      return {slot(end), *end.carried + 1};
    }
    if (o < at.now->sources) return {address(at, o, piece), 0};
    return {target(at, o, piece, has_lists(at) ? nullptr : copied_from(at, piece, divide_by(at))), 0};
  }

  /// One line's worth of a step: where it begins and whether it is a part of more than the piece.
  struct LineAt {
    std::uint64_t line;   ///< of the message's bytes
    std::uint32_t piece;  ///< in which it begins
    std::uint64_t begin;  ///< of the piece, in the message
    bool is_part;         ///< it ends behind the piece
    bool is_scattered;    ///< the piece lies in several places
  };
  TUTTI_DEVICE void run_line(const Position& at, const LineAt& which) {
    typename Fold::Word word;
    TUTTI_ROLLED
    for (std::uint32_t s = 0; s < at.now->sources; ++s) {
      const std::uint64_t loaded = load_word(at, s, which);
      word.add(is_scaled(at, s) ? Fold::scale(loaded, scalar(at)) : loaded);
    }
    const std::uint64_t result = word.result(divide_by(at));
    const std::uint32_t operands = operands_of(at);
    TUTTI_ROLLED
    for (std::uint32_t o = at.now->sources; o < operands; ++o) store_word(at, o, which, result);
  }
  TUTTI_DEVICE std::uint64_t load_word(const Position& at, std::uint32_t o, const LineAt& which) {
    const LineOperand& from = line_places_[o];
    if (from.number != 0) return await_line(at, o, line_in(from.at, 1 + which.line), from.number - 1);
    std::uint64_t word = 0;
    const std::byte* const data = word_at(at, o, which);
    if (data == nullptr) {
      each_byte(at, o, which,
                [&word](std::byte* byte, std::uint32_t i) { word |= static_cast<std::uint64_t>(*byte) << (8 * i); });
      return word;
    }
    if (reinterpret_cast<std::uintptr_t>(data) % line_data_bytes == 0) return *reinterpret_cast<const std::uint64_t*>(data);
    __builtin_memcpy(&word, data, sizeof word);
    return word;
  }
  TUTTI_DEVICE void store_word(const Position& at, std::uint32_t o, const LineAt& which, std::uint64_t word) const {
    const LineOperand& to = line_places_[o];
    if (to.number != 0) return SystemLine::put(line_in(to.at, 1 + which.line), to.number - 1, word);
    if (to.at == nullptr) return;
    std::byte* const data = word_at(at, o, which);
    if (data == nullptr) {
      each_byte(at, o, which,
                [word](std::byte* byte, std::uint32_t i) { *byte = static_cast<std::byte>(word >> (8 * i)); });
      return;
    }
    if (reinterpret_cast<std::uintptr_t>(data) % line_data_bytes == 0) {
      *reinterpret_cast<std::uint64_t*>(data) = word;
    } else {
      __builtin_memcpy(data, &word, sizeof word);
    }
  }
  /// Where a line's eight bytes lie in a buffer; nullptr: not all in one place.
  TUTTI_DEVICE std::byte* word_at(const Position& at, std::uint32_t o, const LineAt& which) const {
    if (which.is_part) return nullptr;
    const std::uint64_t done = which.line * line_data_bytes - which.begin;
    if (!which.is_scattered) return line_places_[o].at + done;
    const Piece piece{which.piece, which.begin, done};
    return bytes_in_segment(at, o, piece) < line_data_bytes ? nullptr : address(at, o, piece);
  }
  /// visit(address, number): a line's bytes in a buffer, which may lie in several pieces; the last line has fewer.
  template <typename Visit>
  TUTTI_DEVICE void each_byte(const Position& at, std::uint32_t o, const LineAt& which, const Visit& visit) const {
    const std::uint32_t pieces = operand(at, 0).pieces;
    std::uint32_t piece = which.piece;
    std::uint64_t begin = which.begin;
    for (std::uint32_t i = 0; i < line_data_bytes; ++i) {
      const std::uint64_t byte = which.line * line_data_bytes + i;
      for (; piece < pieces && byte >= begin + piece_bytes(at, piece); ++piece) begin += piece_bytes(at, piece);
      if (piece == pieces) return;
      visit(address(at, o, {piece, begin, byte - begin}), i);
    }
  }
  /// The line is on its way, unless the launch was stopped.
  TUTTI_DEVICE std::uint64_t await_line(const Position& at, std::uint32_t o, const device::Word64* line, std::uint64_t n) {
    std::uint64_t data = 0;
    for (std::uint32_t polls = 1; !ended_ && !SystemLine::get(line, n, data); ++polls) {
      if (polls % look_every == 0) {
        if (is_late(at)) stop_late(at, link_of(at, operand(at, o).link).peer);
        ended_ = DeviceWords::load_acquire(words_.stopped) != 0;
      }
      group_.pause();
    }
    return data;
  }
  TUTTI_DEVICE bool is_cleaned(const Position& at, std::uint32_t o) const {
    if (operand(at, o).place != Place::link) return false;
    const DeviceLinkEnd& end = link_of(at, operand(at, o).link);
    return SystemLine::is_cleaned_behind(*end.carried, end.slot_count);
  }
  /// Of messages that have been read, before they are released.
  TUTTI_DEVICE void clean_lines(const Position& at) {
    for (std::uint32_t o = 0; o < at.now->sources; ++o) {
      if (!is_cleaned(at, o)) continue;
      const DeviceLinkEnd& end = link_of(at, operand(at, o).link);
      for (std::uint64_t line = group_.rank(); line < end.slot_bytes / line_bytes; line += group_.size())
        SystemLine::clean(line_in(slot(end), line));
    }
    group_.barrier();
  }

  // ---- How it ends.

  /// By thread 0: whether the block had better look for another task.
  TUTTI_DEVICE bool should_change() const {
    return DeviceWords::load_acquire(words_.stopped) != 0 || find_free(0) != launch_.task_count;
  }
  /// What the host says, and the time. By thread 0 for all.
  TUTTI_DEVICE void look(const Position& at) const {
    if (group_.rank() == 0 && is_late(at)) stop_late(at, awaited_peer(at));
  }
  TUTTI_DEVICE bool is_late(const Position& at) const {
    const std::uint64_t limit_ns = job_of(at).limit_ns;
    // Relaxed: it was set before the block came to a step.
    return !is_aborted() && limit_ns != 0 &&
           group_.timer_ns() - DeviceWords::load_relaxed(job_words(at.job).begun_ns) >= limit_ns;
  }
  TUTTI_DEVICE void stop_late(const Position& at, std::int32_t peer) const {
    JobRecord record{};
    record.peer = peer;
    record.lane = at.lane;
    record.strand = at.strand;
    record.step = at.step;
    record.pass = at.pass;
    stop(at, JobEnd::late, record);
  }
  /// Whom the step waits for; -1: another lane.
  TUTTI_DEVICE std::int32_t awaited_peer(const Position& at) const {
    const std::uint32_t operands = at.is_empty ? 0 : operands_of(at);
    for (std::uint32_t o = 0; o < operands; ++o) {
      if (!is_link_ready(at, o)) return link_of(at, operand(at, o).link).peer;
    }
    return -1;
  }
  /// Without a task. False: the launch is over.
  TUTTI_DEVICE bool wait_a_little(std::uint32_t rounds) {
    group_.pause();
    if (rounds % look_every != look_every - 1) return true;
    if (group_.rank() == 0) is_aborted();
    return true;  // find_task sees it
  }
  /// The first to stop the launch says why; every job that is under way then ends as this one.
  TUTTI_DEVICE void stop(const Position& at, JobEnd end, const JobRecord& record) const {
    if (!DeviceWords::exchange_acquire(words_.stopped, 0, 1)) return;
    words_.told = at.job + 1;
    words_.why = static_cast<device::Word64>(end);
    JobRecord& told = *job_of(at).record;
    told.fingerprint = record.fingerprint;
    told.peer = record.peer;
    told.lane = record.lane;
    told.strand = record.strand;
    told.step = record.step;
    told.pass = record.pass;
  }
  /// The last block cleans up, says of each job how it ended, behind all that any block wrote, and hands the turn on.
  TUTTI_DEVICE void leave() {
    group_.barrier();
    // Acquire and release: the last one has seen what all others did.
    const bool last = group_.rank() == 0 && Departures<DeviceWords>::is_last(words_.left, group_.blocks());
    if (!group_.any(last)) return;
    const LaunchWords ended = words_;
    // Without a turn it has touched no task, and they may be another launch's, which has it.
    for (std::uint32_t j = 0; ended.opened != 0 && j < launch_.job_count; ++j) {
      const std::uint32_t tasks = tasks_of(jobs_[j]);
      for (std::uint32_t t = group_.rank(); t < tasks; t += group_.size()) jobs_[j].tasks[t] = Task{};
    }
    group_.barrier();
    if (group_.rank() != 0) return;
    const std::uint32_t last_job = launch_.job_count - 1;
    const JobEnd end_of_last = end_of(last_job, ended);
    for (std::uint32_t j = 0; j < last_job; ++j) tell(j, end_of(j, ended));
    for (std::uint32_t j = 0; j <= last_job; ++j) job_words(j) = JobWords{};
    words_ = LaunchWords{};
    // A launch that was stopped before its turn has none to hand on; whoever waits for it leaves by the same word.
    if (ended.opened != 0) Turns<DeviceWords>{&launch_.order->next, &launch_.order->serving}.pass(ended.number);
    // The launch's last access: the host may free what it uses once it has seen all ends.
    tell(last_job, end_of_last);
  }
  TUTTI_DEVICE JobEnd end_of(std::uint32_t job, const LaunchWords& ended) const {
    const std::uint32_t before = jobs_[job].predecessor;
    if (ended.opened != 0 && is_job_finished(job) && (before == 0 || is_job_finished(before - 1))) return JobEnd::completed;
    return ended.told == job + 1 ? static_cast<JobEnd>(ended.why) : JobEnd::aborted;
  }
  /// Release: the host reads the rest of the record behind it, and what every block wrote for the job.
  TUTTI_DEVICE void tell(std::uint32_t job, JobEnd end) const {
    SystemWords::store_release(jobs_[job].record->end, static_cast<device::Word64>(end));
  }

  device::Group& group_;
  const Launch& launch_;
  LaunchWords& words_;
  Job* const jobs_;                 ///< the block's copy
  std::byte** const places_;        ///< where a step's operands lie
  LineOperand* const line_places_;  ///< likewise, in the same storage, where they go by lines
  std::uint64_t* const segments_;   ///< which of its list each of them is in, behind that
  bool ended_ = false;              ///< the launch was stopped while this thread waited for a line
  std::uint32_t polls_ = 0;         ///< in vain, of all tasks; the same in all threads
};

}  // namespace tutti
