#include "src/device/device_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/executors/cuda/kernel_names.h"
#include "src/tables/element_types.h"

namespace tutti {
namespace {

constexpr std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

Result<std::shared_ptr<DevicePlan>> DevicePlan::make(std::shared_ptr<DeviceWorld> world, int rank, const Plan& plan,
                                                     const Lowered& lowered, std::shared_ptr<const DeviceBlock> scratch,
                                                     const SetUpLimit& limit) {
  const auto blob = encode(plan, rank, lowered);
  if (!blob.ok()) return blob.status();
  if (const std::string why = check_blob(blob->bytes(), buffer_bytes(plan, rank), plan.message_bytes); !why.empty()) {
    return Status(TUTTI_INTERNAL_ERROR,
                  fmt::format("rank {}'s program of {} cannot run on a device: {}", rank, plan.algorithm, why));
  }
  if (const std::string why = plan.problem.pre_mul ? check_scaling(plan, rank, lowered.program) : ""; !why.empty()) {
    return Status(TUTTI_UNSUPPORTED, fmt::format("{} cannot scale operands on a device: {}", plan.algorithm, why),
                  "Name another algorithm.");
  }
  auto made = std::make_shared<DevicePlan>(world, rank);
  const auto kernel = world->arena(rank)->runtime().kernel(kernel_name(plan.problem));
  if (!kernel.ok()) return kernel.status();
  made->kernel_ = *kernel;
  made->scratch_ = std::move(scratch);
  const auto ends = world->link_ends(rank, lowered.program.links, plan, limit);
  if (!ends.ok()) return ends.status();
  made->count(plan, blob->blob());
  if (Status status = made->lay_out(*blob, *ends); !status.ok()) return status;
  return made;
}

void DevicePlan::count(const Plan& plan, const Blob& blob) {
  division_ = plan.division();
  is_irregular_ = blob.is_irregular();
  element_bytes_ = tutti::element_bytes(plan.problem.type);
  passes_ = blob.passes;
  strands_ = blob.strands;
  tasks_ = blob.strands * blob.lanes.count;
  most_operands_ = blob.most_operands;
  const auto* const lanes = blob.array<BlobLane>(blob.lanes);
  busy_lanes_ = static_cast<std::uint32_t>(
      std::count_if(lanes, lanes + blob.lanes.count, [](const BlobLane& lane) { return lane.count != 0; }));
}

Status DevicePlan::lay_out(const BlobMemory& blob, const std::vector<DeviceLinkEnd>& ends) {
  const std::uint64_t ends_bytes = ends.size() * sizeof(DeviceLinkEnd);
  ends_at_ = aligned(blob.bytes().size());
  tasks_at_ = aligned(ends_at_ + ends_bytes);
  // Tasks begin as zeros. Those of an irregular plan are its bindings'.
  const std::uint64_t tasks = is_irregular_ ? 0 : tasks_;
  auto image = DeviceImage::make(arena(), tasks_at_ + tasks * sizeof(Task));
  if (!image.ok()) return image.status();
  image_ = std::move(*image);
  std::byte* const contents = image_->contents().data();
  std::copy_n(blob.bytes().data(), blob.bytes().size(), contents);
  if (!ends.empty()) std::memcpy(contents + ends_at_, ends.data(), ends_bytes);
  return {};
}

Job DevicePlan::job(const void* send, void* recv, JobRecord* record) const {
  Job job{};
  job.blob = image_->as<Blob>();
  job.buffers[0] = static_cast<std::byte*>(const_cast<void*>(send));  // the input is only read
  job.buffers[1] = static_cast<std::byte*>(recv);
  job.buffers[2] = scratch_ != nullptr ? scratch_->as<std::byte>() : nullptr;
  job.links = image_->as<DeviceLinkEnd>(ends_at_);
  job.tasks = image_->as<Task>(tasks_at_);
  job.record = record;
  job.passes = passes_;
  job.work = work(passes_);
  return job;
}

}  // namespace tutti
