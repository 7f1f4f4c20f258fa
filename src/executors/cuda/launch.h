// What one launch of the executor's kernel is given: jobs, their tasks and links. Plain data in device memory.
//
//     Launch ──► jobs: one collective of one rank each ──► tasks: one lane of one strand each, which a block claims
//                                                     ──► links: the ends of the job's links, by strand
//
// The host lays it out before the launch, and owns all of it until the launch is over.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/cuda/device/group.h"
#include "src/executors/cuda/blob.h"

namespace tutti {

/// One end of a link, of one strand. Slots and their fingerprints lie in the receiver's memory.
struct DeviceLinkEnd {
  device::Word64* carried;       ///< messages that this end has sent or released; its own, plain
  device::Word64* arrived;       ///< in the receiver's memory: messages that have come
  device::Word64* credit;        ///< in the sender's memory: messages that were released
  device::Word64* fingerprints;  ///< by slot: of the operation that its message belongs to
  std::byte* slots;              ///< slot_bytes each, aligned to 16
  std::uint64_t slot_count;
  std::uint64_t slot_bytes;
  std::int32_t peer;
};

/// One lane of one strand of a job. Changed by whoever has its claim; `retired` is looked at by others.
struct Task {
  device::Word64 claim;
  device::Word64 retired;  ///< steps, of all passes: own pass of the strand * steps of the lane + step
};

/// How a job ended.
enum class JobEnd : std::uint32_t { under_way, completed, mismatch, aborted, late };

/// What a job tells the host. In memory that the host reads while kernels run.
struct JobRecord {
  device::Word64 end;          ///< a JobEnd; all else is written before it
  device::Word64 fingerprint;  ///< mismatch: the message's
  std::int32_t peer;           ///< mismatch: whose; late: whom the first task that was stuck waited for, or -1
  std::uint32_t lane;          ///< late: of that task
  std::uint32_t strand;
  std::uint32_t step;
  std::uint64_t pass;  ///< of the plan
};

/// One collective of one rank.
struct Job {
  const Blob* blob;
  std::byte* buffers[3];  ///< by Place: input (only read), output, scratch
  DeviceLinkEnd* links;   ///< strand by strand, each as many as the blob's
  Task* tasks;            ///< strand by strand, each as many as the blob has lanes
  JobRecord* record;
  std::uint64_t fingerprint;
};

/// All of it. The counting words begin at 0.
struct Launch {
  const Job* jobs;
  std::uint32_t job_count;
  std::uint32_t task_count;     ///< of all jobs; at least 1
  std::uint32_t work_count;     ///< of them, those that have any step to run
  std::uint32_t most_operands;  ///< of a step of any job: a block's storage has two pointers for each
  std::uint32_t patience;       ///< polls in vain after which a block looks for another task, while there is one
  device::Word64* finished;     ///< of those, the ones that need no block any more
  device::Word64* stopped;      ///< not 0: every block leaves
  device::Word64* left;         ///< blocks that have
  const device::Word64* abort;  ///< written by the host: not 0: leave
  std::uint64_t limit_ns;       ///< from the kernel's start on; 0: none
};

/// Bytes of storage that each block of a launch needs.
constexpr std::uint64_t storage_bytes(std::uint32_t most_operands) { return sizeof(void*) * most_operands; }

}  // namespace tutti
