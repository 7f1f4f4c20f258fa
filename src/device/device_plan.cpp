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
  if (state_ == State::on_host && staged_ != nullptr) runtime().staging().give_back(staged_);
  if (state_ != State::refused && state_ != State::enqueued) return;
  // The write may still come.
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
  bytes_ = tasks_at_ + tasks_ * sizeof(Task);
  auto memory = world_->arena(rank_)->allocate(bytes_);
  if (!memory.ok()) return memory.status();
  memory_ = std::move(*memory);
  auto event = cuda::OwnedEvent::create(runtime().context());
  if (!event.ok()) return event.status();
  written_ = std::move(*event);
  staged_ = runtime().staging().take(bytes_);
  if (staged_ == nullptr) pageable_.resize(bytes_);
  std::byte* const image = staged_ != nullptr ? staged_ : pageable_.data();
  std::fill_n(image, bytes_, std::byte{0});  // tasks begin as zeros
  std::copy_n(blob.bytes().data(), blob.bytes().size(), image);
  if (!ends.empty()) std::memcpy(image + ends_at_, ends.data(), ends_bytes);
  return {};
}

/// With the lock, within a scope.
Status DevicePlan::enqueue(cuda::StreamHandle stream) {
  if (state_ == State::refused) return refusal_;
  const DeviceWrite writes[] = {{memory_.address(), staged_ != nullptr ? staged_ : pageable_.data(), bytes_}};
  refusal_ = runtime().enqueue(writes, stream, written_);
  if (refusal_.ok() && staged_ != nullptr) refusal_ = runtime().staging().give_back_behind(staged_, stream);
  state_ = refusal_.ok() ? State::enqueued : State::refused;
  return refusal_;
}

Status DevicePlan::write_on(cuda::StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::launched || state_ == State::on_device) return {};
  const auto scope = DeviceScope::enter(runtime());
  if (!scope.ok()) return scope.status();
  if (state_ != State::enqueued) return enqueue(stream);
  // By another stream, for a capture.
  const cuda::Driver& driver = runtime().driver();
  return driver.call(driver.api().cuStreamWaitEvent, runtime().device(), "making a stream wait for a plan", stream,
                     written_.handle(), 0u);
}

void DevicePlan::note_launch() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::enqueued) state_ = State::launched;
}

Status DevicePlan::await_written(const SetUpLimit& limit) {
  const auto scope = DeviceScope::enter(runtime());
  if (!scope.ok()) return scope.status();
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::on_device) return {};
    if (state_ == State::on_host || state_ == State::refused) {
      if (Status status = enqueue(runtime().set_up_stream()); !status.ok()) return status;
    }
  }
  if (Status status = runtime().await(written_, limit); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  state_ = State::on_device;
  pageable_ = {};
  return {};
}

Job DevicePlan::job(const void* send, void* recv, JobRecord* record) const {
  Job job{};
  job.blob = memory_.as<Blob>();
  job.buffers[0] = static_cast<std::byte*>(const_cast<void*>(send));  // the input is only read
  job.buffers[1] = static_cast<std::byte*>(recv);
  job.buffers[2] = scratch_ != nullptr ? scratch_->as<std::byte>() : nullptr;
  job.links = memory_.as<DeviceLinkEnd>(ends_at_);
  job.tasks = memory_.as<Task>(tasks_at_);
  job.record = record;
  job.work = work_;
  return job;
}

}  // namespace tutti
