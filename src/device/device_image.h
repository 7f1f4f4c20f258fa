// What the host writes into device memory once, for launches to read: a plan, or where the blocks of a call lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/cuda/stream.h"
#include "src/device/arena.h"
#include "src/device/runtime.h"

namespace tutti {

/// Memory of a device, and how its contents get there: by a stream, before its first launch. Thread safe once it is filled.
class DeviceImage {
 public:
  /// Contents begin as zeros, and are the caller's to fill until a stream is to write them. Within a DeviceScope. Errors:
  /// as DeviceArena::allocate and Driver::call.
  static Result<std::unique_ptr<DeviceImage>> make(DeviceArena& arena, std::size_t bytes);
  explicit DeviceImage(DeviceRuntime& runtime) : runtime_(runtime) {}
  ~DeviceImage();
  DeviceImage(const DeviceImage&) = delete;
  DeviceImage& operator=(const DeviceImage&) = delete;

  std::span<std::byte> contents() { return {staged_ != nullptr ? staged_ : pageable_.data(), bytes_}; }
  /// Whether write_on waits for nothing. Else await_written comes before a launch.
  bool is_staged() const { return staged_ != nullptr; }
  /// Has the stream write it, unless one was asked to before. A launch on the same stream follows, and all others come
  /// behind that one. Errors: as Driver::call.
  Status write_on(cuda::StreamHandle stream);
  /// That launch has followed, and holds the image for as long as it runs.
  void note_launch();
  /// Waits until the device has it: for launches that come behind no other, such as a graph's. Where a stream was given it
  /// before, that stream has to come to it; else the runtime's writes it. Errors: as DeviceRuntime::write.
  Status await_written(const SetUpLimit& limit);

  /// The address as T of device memory: not for the host to look at.
  template <typename T>
  T* as(std::size_t offset = 0) const {
    return memory_.as<T>(offset);
  }

 private:
  Status enqueue(cuda::StreamHandle stream);

  /// How it gets into the device's memory.
  enum class State {
    on_host,
    refused,    ///< by the driver; some of it may have been enqueued
    enqueued,   ///< a stream writes it
    launched,   ///< behind that, on the same stream
    on_device,  ///< it is known to be there
  };

  DeviceRuntime& runtime_;
  DeviceBlock memory_;           ///< keeps the runtime
  cuda::OwnedEvent written_;     ///< comes behind the write
  std::byte* staged_ = nullptr;  ///< where the write reads it; nullptr: in pageable_
  std::size_t bytes_ = 0;
  std::mutex mutex_;  ///< guards what follows
  State state_ = State::on_host;
  Status refusal_;
  std::vector<std::byte> pageable_;
};

}  // namespace tutti
