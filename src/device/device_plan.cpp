#include "src/device/device_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/exception_boundary.h"
#include "src/executors/cuda/kernel_names.h"

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
  auto made = std::make_shared<DevicePlan>(world, rank);
  const auto kernel = world->arena(rank)->runtime().kernel(kernel_name(plan.problem));
  if (!kernel.ok()) return kernel.status();
  made->kernel_ = *kernel;
  made->scratch_ = std::move(scratch);
  const auto ends = world->link_ends(rank, lowered.program.links, plan, limit);
  if (!ends.ok()) return ends.status();
  made->count(blob->blob());
  if (Status status = made->lay_out(*blob, *ends); !status.ok()) return status;
  return made;
}

DevicePlan::~DevicePlan() {
  if (stage_ != nullptr && !touched_) runtime().give_back_stage(stage_);
  if (!touched_ || launched_ || there_) return;
  // What was enqueued for no launch may still come.
  static_cast<void>(catching([this]() -> Status {
    std::move(memory_).keep_for_good();
    return {};
  }));
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

Status DevicePlan::lay_out(const BlobMemory& blob, const std::vector<DeviceLinkEnd>& ends) {
  const std::uint64_t ends_bytes = ends.size() * sizeof(DeviceLinkEnd);
  ends_at_ = aligned(blob.bytes().size());
  tasks_at_ = aligned(ends_at_ + ends_bytes);
  image_bytes_ = tasks_at_ + tasks_ * sizeof(Task);
  auto memory = world_->arena(rank_)->allocate(image_bytes_);
  if (!memory.ok()) return memory.status();
  memory_ = std::move(*memory);
  auto event = cuda::OwnedEvent::create(runtime().context());
  if (!event.ok()) return event.status();
  written_ = std::move(*event);
  stage_ = runtime().take_stage(image_bytes_);
  if (stage_ == nullptr) image_.resize(image_bytes_);
  std::byte* const image = stage_ != nullptr ? stage_ : image_.data();
  std::fill_n(image, image_bytes_, std::byte{0});  // tasks begin as zeros
  std::copy_n(blob.bytes().data(), blob.bytes().size(), image);
  if (!ends.empty()) std::memcpy(image + ends_at_, ends.data(), ends_bytes);
  return {};
}

/// With the lock, within a scope.
Status DevicePlan::enqueue(cuda::StreamHandle stream) {
  if (!refusal_.ok()) return refusal_;
  touched_ = true;
  const DeviceWrite writes[] = {{memory_.address(), stage_ != nullptr ? stage_ : image_.data(), image_bytes_}};
  refusal_ = runtime().enqueue(writes, stream, written_);
  if (refusal_.ok() && stage_ != nullptr) refusal_ = runtime().give_back_stage(stage_, stream);
  enqueued_ = refusal_.ok();
  return refusal_;
}

Status DevicePlan::write_on(cuda::StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  if (launched_ || there_) return {};
  const auto scope = DeviceScope::enter(runtime());
  if (!scope.ok()) return scope.status();
  if (!enqueued_) return enqueue(stream);
  // A capture has had it written, or is about to.
  const cuda::Driver& driver = runtime().driver();
  return driver.call(driver.api().cuStreamWaitEvent, runtime().device(), "making a stream wait for a plan", stream,
                     written_.handle(), 0u);
}

void DevicePlan::note_launch() {
  const std::lock_guard lock(mutex_);
  launched_ = true;
}

Status DevicePlan::await_written(const SetUpLimit& limit) {
  const auto scope = DeviceScope::enter(runtime());
  if (!scope.ok()) return scope.status();
  {
    const std::lock_guard lock(mutex_);
    if (there_) return {};
    if (!enqueued_) {
      if (Status status = enqueue(runtime().set_up_stream()); !status.ok()) return status;
    }
  }
  if (Status status = runtime().await(written_, limit); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  there_ = true;
  image_ = {};
  return {};
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
