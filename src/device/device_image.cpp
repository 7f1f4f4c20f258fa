#include "src/device/device_image.h"

#include <algorithm>
#include <utility>

#include "src/base/exception_boundary.h"

namespace tutti {

Result<std::unique_ptr<DeviceImage>> DeviceImage::make(DeviceArena& arena, std::size_t bytes) {
  auto made = std::make_unique<DeviceImage>(arena.runtime());
  auto memory = arena.allocate(bytes);
  if (!memory.ok()) return memory.status();
  made->memory_ = std::move(*memory);
  auto event = cuda::OwnedEvent::create(arena.runtime().context());
  if (!event.ok()) return event.status();
  made->written_ = std::move(*event);
  made->bytes_ = bytes;
  made->staged_ = arena.runtime().staging().take(bytes);
  if (made->staged_ == nullptr) made->pageable_.resize(bytes);
  std::ranges::fill(made->contents(), std::byte{0});
  return made;
}

DeviceImage::~DeviceImage() {
  if (state_ == State::on_host && staged_ != nullptr) runtime_.staging().give_back(staged_);
  if (state_ != State::refused && state_ != State::enqueued) return;
  // The write may still come.
  static_cast<void>(catching([this]() -> Status {
    std::move(memory_).keep_for_good();
    return {};
  }));
}

/// With the lock, within a scope.
Status DeviceImage::enqueue(cuda::StreamHandle stream) {
  if (state_ == State::refused) return refusal_;
  const DeviceWrite writes[] = {{memory_.address(), contents().data(), bytes_}};
  refusal_ = runtime_.enqueue(writes, stream, written_);
  if (refusal_.ok() && staged_ != nullptr) refusal_ = runtime_.staging().give_back_behind(staged_, stream);
  state_ = refusal_.ok() ? State::enqueued : State::refused;
  return refusal_;
}

Status DeviceImage::write_on(cuda::StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::launched || state_ == State::on_device) return {};
  const auto scope = DeviceScope::enter(runtime_);
  if (!scope.ok()) return scope.status();
  if (state_ != State::enqueued) return enqueue(stream);
  // By another stream, for a capture.
  const cuda::Driver& driver = runtime_.driver();
  return driver.call(driver.api().cuStreamWaitEvent, runtime_.device(), "making a stream wait for a plan", stream,
                     written_.handle(), 0u);
}

void DeviceImage::note_launch() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::enqueued) state_ = State::launched;
}

Status DeviceImage::await_written(const SetUpLimit& limit) {
  const auto scope = DeviceScope::enter(runtime_);
  if (!scope.ok()) return scope.status();
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::on_device) return {};
    if (state_ == State::on_host || state_ == State::refused) {
      if (Status status = enqueue(runtime_.set_up_stream()); !status.ok()) return status;
    }
  }
  if (Status status = runtime_.await(written_, limit); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  state_ = State::on_device;
  pageable_ = {};
  return {};
}

}  // namespace tutti
