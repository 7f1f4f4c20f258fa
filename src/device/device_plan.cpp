#include "src/device/device_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/executors/cuda/kernel_names.h"

namespace tutti {
namespace {

constexpr std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

Result<std::shared_ptr<const DevicePlan>> DevicePlan::make(std::shared_ptr<DeviceWorld> world, int rank, const Plan& plan,
                                                           const Lowered& lowered,
                                                           std::shared_ptr<const DeviceBlock> scratch,
                                                           const SetUpLimit& limit) {
  const auto blob = encode(plan, rank, lowered);
  if (!blob.ok()) return blob.status();
  if (const std::string why = check_blob(blob->bytes(), buffer_bytes(plan, rank), plan.message_bytes); !why.empty()) {
    return Status(TUTTI_INTERNAL_ERROR,
                  fmt::format("rank {}'s program of {} cannot run on a device: {}", rank, plan.algorithm, why));
  }
  auto made = std::make_shared<DevicePlan>(world);
  const auto kernel = world->arena(rank)->runtime().kernel(kernel_name(plan.problem));
  if (!kernel.ok()) return kernel.status();
  made->kernel_ = *kernel;
  made->scratch_ = std::move(scratch);
  const auto ends = world->link_ends(rank, lowered.program.links, plan, limit);
  if (!ends.ok()) return ends.status();
  made->count(blob->blob());
  if (Status status = made->write(rank, *blob, *ends, limit); !status.ok()) return status;
  return std::shared_ptr<const DevicePlan>(std::move(made));
}

void DevicePlan::count(const Blob& blob) {
  tasks_ = blob.strands * blob.lanes.count;
  most_operands_ = blob.most_operands;
  const auto* const lanes = blob.array<BlobLane>(blob.lanes);
  for (std::uint32_t s = 0; s < blob.strands; ++s) {
    if (Strand{s, blob.strands}.passes(blob.passes) == 0) continue;
    work_ += static_cast<std::uint32_t>(
        std::count_if(lanes, lanes + blob.lanes.count, [](const BlobLane& lane) { return lane.count != 0; }));
  }
}

Status DevicePlan::write(int rank, const BlobMemory& blob, const std::vector<DeviceLinkEnd>& ends,
                         const SetUpLimit& limit) {
  ends_at_ = aligned(blob.bytes().size());
  const std::uint64_t ends_bytes = ends.size() * sizeof(DeviceLinkEnd);
  tasks_at_ = aligned(ends_at_ + ends_bytes);
  const std::uint64_t tasks_bytes = tasks_ * sizeof(Task);
  auto memory = world_->arena(rank)->allocate(tasks_at_ + tasks_bytes);
  if (!memory.ok()) return memory.status();
  memory_ = std::move(*memory);
  const DeviceWrite writes[] = {{memory_.address(), blob.bytes().data(), blob.bytes().size()},
                                {memory_.address() + ends_at_, ends.data(), ends_bytes},
                                {memory_.address() + tasks_at_, nullptr, tasks_bytes}};
  Status status = world_->arena(rank)->runtime().write(writes, limit);
  if (!status.ok()) std::move(memory_).keep_for_good();
  return status;
}

Job DevicePlan::job(const void* send, void* recv, JobRecord* record) const {
  return {memory_.as<Blob>(),
          // The input is only read.
          {static_cast<std::byte*>(const_cast<void*>(send)), static_cast<std::byte*>(recv),
           scratch_ != nullptr ? scratch_->as<std::byte>() : nullptr},
          memory_.as<DeviceLinkEnd>(ends_at_),
          memory_.as<Task>(tasks_at_),
          record};
}

}  // namespace tutti
