// What one launch of the executor's kernel is given: jobs, their tasks and links. Plain data.
//
//     Launch ──► jobs: one collective of one rank each ──► tasks: one lane of one strand each, which a block claims
//                                                     ──► links: the ends of the job's links, by strand
//            ──► order: whose turn it is among the launches of these ranks
//
// The ranks of a communicator that share a device are a team. A launch has one operation or several, and of each operation
// one job of every rank. A rank's jobs run in their order; those of different ranks run side by side. The host lays it out
// before the launch, and owns all of it until the launch is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "src/cuda/device/group.h"
#include "src/executors/cuda/blob.h"

namespace tutti {

/// One end of a link, of one strand. Slots and their fingerprints lie in the receiver's memory.
struct DeviceLinkEnd {
  device::Word64* carried;       ///< messages that this end has sent or released; its own, plain
  device::Word64* arrived;       ///< in the receiver's memory: messages that have come; not of lines
  device::Word64* credit;        ///< in the sender's memory: messages that were released
  device::Word64* fingerprints;  ///< by slot: of the operation that its message belongs to; not of lines
  std::byte* slots;              ///< slot_bytes each, aligned to 16; of lines: the fingerprint, and the message behind it
  std::uint64_t slot_count;
  std::uint64_t slot_bytes;
  std::int32_t peer;
};

/// What a line holds, and what it takes.
inline constexpr std::uint64_t line_data_bytes = 8;
inline constexpr std::uint64_t line_bytes = 16;

/// Bytes of a slot for messages of up to message_bytes.
constexpr std::uint64_t slot_bytes_of(Protocol protocol, std::uint64_t message_bytes) {
  if (protocol == Protocol::messages) return message_bytes;
  return (1 + (message_bytes + line_data_bytes - 1) / line_data_bytes) * line_bytes;
}

/// One lane of one strand of a plan. Changed by whoever has its claim; `retired` is looked at by others.
struct Task {
  device::Word64 claim;
  /// Steps: own pass of the strand * steps of the lane + step. Where several jobs of the launch run the plan, each goes on
  /// behind those of the job before. Begins at 0, and is 0 again behind the launch.
  device::Word64 retired;
};

/// How a job ended. A launch's last operation and jobs without work end with the launch, all others by themselves.
enum class JobEnd : std::uint32_t { under_way, completed, mismatch, aborted, late };

/// What a job tells the host. In memory that the host reads while kernels run.
struct JobRecord {
  device::Word64 end;          ///< a JobEnd; all else is written before it
  device::Word64 begun;        ///< 1: a block has come to it
  device::Word64 fingerprint;  ///< mismatch: the message's
  std::int32_t peer;           ///< mismatch: whose; late: whom the first task that was stuck waited for, or -1
  std::uint32_t lane;          ///< late: of that task
  std::uint32_t strand;
  std::uint32_t step;
  std::uint64_t pass;  ///< of the plan
};

/// A block of one call of a v-variant, anywhere in the caller's memory.
struct BoundBlock {
  std::byte* at;
  std::uint64_t count;  ///< of the problem's elements
  std::uint64_t tag;    ///< of that count: tag_of_count
  std::uint64_t chunk;  ///< elements of a chunk of its last window, where that is no whole one
};

/// A part of a buffer that a call gives as a list of blocks: where it begins in the buffer, and where it lies.
struct Segment {
  std::uint64_t begin;  ///< bytes
  std::byte* at;
};

/// All of a buffer's, ascending, none of them empty. One more lies behind them: it begins where the buffer ends.
struct SegmentList {
  const Segment* segments;  ///< nullptr: the buffer is no list
  std::uint64_t count;      ///< without the one behind them
};

/// One collective of one rank.
struct Job {
  const Blob* blob;
  const BoundBlock* bound;  ///< of an irregular blob: the input's blocks, then the output's; else nullptr
  SegmentList lists[2];     ///< of input and output: both are lists, or neither is
  std::byte* buffers[3];    ///< by Place: input (only read), output, scratch. What is bound or a list is not here
  DeviceLinkEnd* links;     ///< strand by strand, each as many as the blob's
  Task* tasks;              ///< strand by strand, each as many as the blob has lanes
  JobRecord* record;
  /// Of its operation: the plan's hash or, where the host knows what came before, of all operations so far.
  std::uint64_t operation_hash;
  std::uint64_t limit_ns;      ///< from when a block comes to it; 0: none
  std::uint64_t passes;        ///< of the plan: the blob's, or as the bound blocks have it
  std::uint32_t operation;     ///< its number in the launch; jobs lie in the order of these
  std::uint32_t work;          ///< tasks that have any step to run
  std::uint32_t predecessor;   ///< 1 + the rank's last job before it that has work; 0: none
  std::uint32_t earlier_uses;  ///< jobs before it with the same tasks
  // Of a pre-multiplied sum: the element that the rank's operands are multiplied by.
  const std::byte* scalar_at;  ///< in memory, which is read when the job runs; nullptr: it is this one
  device::Word64 scalar[2];
};

/// The order of a team's launches, on its device: the links of its ranks are one launch's at a time. Begins at 0.
struct LaunchOrder {
  device::Word64 next;     ///< as Turns
  device::Word64 serving;  ///< likewise
  /// Hash of all operations so far. Messages of the last one carry it: ranks that have run anything differently, however
  /// long ago, do not take each other's messages. Plain: whoever's turn it is owns it.
  device::Word64 history;
};

/// What the blocks of one launch share. Begins at 0, and is 0 again when the last block leaves: a graph runs it again.
struct LaunchWords {
  device::Word64 begun;     ///< 1: a block has come, and takes the turn
  device::Word64 opened;    ///< 1: its turn has come; its number and the jobs' fingerprints are set
  device::Word64 number;    ///< of the launch, in the team's order
  device::Word64 finished;  ///< jobs that have work, and need no block any more
  device::Word64 stopped;   ///< 1: every block leaves
  device::Word64 told;      ///< 1 + the job whose record says why, 0: none; plain, set by whoever stopped it
  device::Word64 why;       ///< that job's JobEnd; likewise
  device::Word64 left;      ///< blocks that have
};

/// Likewise, for each job.
struct JobWords {
  device::Word64 begun_ns;     ///< when a block came to it, and at least 1; 0: none has
  device::Word64 finished;     ///< tasks that have work, and need no block any more
  device::Word64 fingerprint;  ///< of the job's messages
};

/// Jobs that a launch's parameters hold; where there are more, all of them lie in memory.
inline constexpr std::uint32_t most_inline_jobs = 16;

/// All of it: a kernel's one parameter.
struct Launch {
  LaunchOrder* order;
  LaunchWords* words;
  JobWords* job_words;
  const device::Word64* abort;  ///< written by the host: not 0: leave
  const Job* more;              ///< all jobs, where there are more than most_inline_jobs; else nullptr
  std::uint32_t job_count;
  std::uint32_t busy_jobs;      ///< of them, those that have work
  std::uint32_t task_count;     ///< of all jobs; at least 1
  std::uint32_t most_operands;  ///< of a step of any job
  std::uint32_t patience;       ///< polls in vain after which a block looks for another task, while there is one
  std::uint32_t unused;
  Job jobs[most_inline_jobs];
};

/// A number for the sizes of all that kernels and library share, so that a module of another build is not taken.
constexpr std::uint32_t launch_layout() {
  std::uint32_t hash = 1;
  for (const std::size_t size :
       {sizeof(Launch), sizeof(Job), sizeof(Task), sizeof(JobRecord), sizeof(LaunchOrder), sizeof(LaunchWords),
        sizeof(JobWords), sizeof(DeviceLinkEnd), sizeof(Blob), sizeof(BlobLane), sizeof(BlobStep), sizeof(BlobOperand),
        sizeof(BlobPiece), sizeof(BlobLink), sizeof(Dependency), sizeof(BoundBlock), sizeof(Segment),
        sizeof(SegmentList)}) {
    hash = hash * 31 + static_cast<std::uint32_t>(size);
  }
  return hash;
}

/// Where an operand of a step lies that goes by lines.
struct LineOperand {
  std::byte* at;          ///< the message's lines; or, of a buffer, the piece's first byte; nullptr: nothing is written
  device::Word64 number;  ///< 1 + the message's; 0: a buffer
};

/// Bytes of storage that each block of a launch needs: its jobs, and for each operand of a step its place and its segment.
constexpr std::uint64_t storage_bytes(std::uint32_t jobs, std::uint32_t most_operands) {
  return sizeof(Job) * jobs + (sizeof(LineOperand) + sizeof(std::uint64_t)) * most_operands;
}

}  // namespace tutti
