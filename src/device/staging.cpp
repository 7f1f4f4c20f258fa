#include "src/device/staging.h"

#include <algorithm>

namespace tutti {
namespace {

/// A plan takes a few KiB; as many may wait for their streams.
constexpr std::size_t staging_bytes = std::size_t{64} << 10;
constexpr std::size_t staging_count = 32;

}  // namespace

Result<std::unique_ptr<StagingBuffers>> StagingBuffers::make(const cuda::Context& context) {
  auto memory = cuda::PinnedMemory::allocate(context, staging_bytes * staging_count);
  if (!memory.ok()) return memory.status();
  std::vector<cuda::OwnedEvent> events;
  for (std::size_t b = 0; b < staging_count; ++b) {
    auto event = cuda::OwnedEvent::create(context);
    if (!event.ok()) return event.status();
    events.push_back(std::move(*event));
  }
  return std::make_unique<StagingBuffers>(context, std::move(*memory), std::move(events));
}

StagingBuffers::StagingBuffers(const cuda::Context& context, cuda::PinnedMemory memory,
                               std::vector<cuda::OwnedEvent> events)
    : context_(context), memory_(std::move(memory)) {
  auto* next = static_cast<std::byte*>(memory_.data());
  for (cuda::OwnedEvent& event : events) {
    buffers_.push_back({next, std::move(event)});
    next += staging_bytes;
  }
}

std::byte* StagingBuffers::take(std::size_t bytes) {
  if (bytes > staging_bytes) return nullptr;
  const std::lock_guard lock(mutex_);
  auto found = std::find_if(buffers_.begin(), buffers_.end(), [](const Buffer& each) { return each.state == State::free; });
  // Only then the driver is asked.
  if (found == buffers_.end()) {
    found = std::find_if(buffers_.begin(), buffers_.end(), [this](const Buffer& each) { return has_been_read(each); });
  }
  if (found == buffers_.end()) return nullptr;
  found->state = State::taken;
  return found->memory;
}

/// With the lock, as what follows. What cannot be asked has not.
bool StagingBuffers::has_been_read(const Buffer& buffer) const {
  return buffer.state == State::being_read &&
         context_.driver().api().cuEventQuery(buffer.read.handle()) == cuda::DriverResult::success;
}

StagingBuffers::Buffer& StagingBuffers::buffer_at(const std::byte* memory) {
  return buffers_[static_cast<std::size_t>(memory - buffers_[0].memory) / staging_bytes];
}

void StagingBuffers::give_back(std::byte* buffer) noexcept {
  const std::lock_guard lock(mutex_);
  buffer_at(buffer).state = State::free;
}

Status StagingBuffers::give_back_behind(std::byte* buffer, cuda::StreamHandle reader) {
  const std::lock_guard lock(mutex_);
  Buffer& own = buffer_at(buffer);
  const cuda::Driver& driver = context_.driver();
  Status status = driver.call(driver.api().cuEventRecord, context_.device(), "recording an event behind a write",
                              own.read.handle(), reader);
  if (status.ok()) own.state = State::being_read;
  return status;
}

}  // namespace tutti
