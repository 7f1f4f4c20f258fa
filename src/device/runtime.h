// What this process has on one device: its context, the kernels' code, and a stream to set things up with. It also keeps
// the account of the blocks that launches may keep resident.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/status.h"
#include "src/cuda/context.h"
#include "src/cuda/kernel_library.h"
#include "src/cuda/kernel_module.h"
#include "src/cuda/memory.h"
#include "src/cuda/stream.h"
#include "src/device/staging.h"

namespace tutti {

/// A kernel, ready to be launched.
struct DeviceKernel {
  cuda::LoadedKernel code;
  std::uint32_t resident_blocks = 1;  ///< that the device holds at one time, if it has nothing else to do
};

/// Bytes that device memory is to get.
struct DeviceWrite {
  cuda::DevicePointer to = 0;
  const void* from = nullptr;  ///< nullptr: zeros
  std::size_t bytes = 0;
};

/// How long setting up may wait, as it does for what the device is busy with.
struct SetUpLimit {
  const std::atomic<bool>* failed = nullptr;  ///< ends it once it is true; nullptr: none
  Deadline deadline;

  /// The error where it is over. what: "links to be made". Errors: TUTTI_ABORTED, TUTTI_TIMEOUT.
  Status check(const char* what) const;
};

/// One device in one context, for all communicators that use it. Thread safe.
class DeviceRuntime {
 public:
  /// The runtime of this thread's current context where that is the device's, else of the device's primary one. It lives as
  /// long as the process, or its context: what it holds can be freed only by waiting for the device.
  ///
  /// device         the ordinal; cuda::kNoDevice: the current context's, or 0 where there is none
  /// module_folder  where the kernels are, as tutti::module_folder gives it
  /// Errors: TUTTI_INVALID_ARGUMENT (no such device); as cuda::Driver::get, Driver::call, load_kernel_module and
  /// KernelLibrary::load.
  static Result<std::shared_ptr<DeviceRuntime>> get(int device, const std::string& module_folder);

  DeviceRuntime(cuda::Context context, const cuda::KernelModule& module) : context_(std::move(context)), module_(module) {}

  const cuda::Context& context() const { return context_; }
  const cuda::Driver& driver() const { return context_.driver(); }
  int device() const { return context_.device(); }
  std::uint32_t multiprocessors() const { return multiprocessors_; }
  /// Threads of a block: 512, or as many as the device allows.
  std::uint32_t threads() const { return threads_; }
  /// Whether launches may name a memory synchronisation domain: sm_90 and later.
  bool has_domains() const { return has_domains_; }
  /// Whether kernels reach memory of malloc.
  bool reaches_pageable() const { return reaches_pageable_; }

  /// A kernel by the module's name for it. All are loaded with the runtime. Where it loads code later, the driver may wait
  /// for the device, which may wait for a rank. Errors: TUTTI_UNSUPPORTED (the module has none).
  Result<const DeviceKernel*> kernel(const std::string& name) const;

  /// Writes, and waits until the device has done so; not for what other streams do. Where it fails the device may still
  /// write: the memory has to be kept (DeviceBlock::keep_for_good). Errors: SetUpLimit's; as Driver::call.
  Status write(std::span<const DeviceWrite> writes, const SetUpLimit& limit);
  /// What `write` does first: a stream is given the writes, and `written` comes behind them. Sources stay as they are until
  /// then. Where they are pinned the call waits for nothing; out of pageable memory the driver may wait for the stream.
  /// Within a DeviceScope. Errors: as Driver::call.
  Status enqueue(std::span<const DeviceWrite> writes, cuda::StreamHandle stream, const cuda::OwnedEvent& written) const;
  /// What it does then. Within a DeviceScope. Errors: as of write.
  Status await(const cuda::OwnedEvent& written, const SetUpLimit& limit) const;
  /// The stream that it uses.
  cuda::StreamHandle set_up_stream() const { return stream_.handle(); }
  StagingBuffers& staging() { return *staging_; }

  /// Pinned memory of at least `bytes`, contents undefined; to be given back, for others to take. Errors: as Driver::call.
  Result<cuda::PinnedMemory> take_pinned(std::size_t bytes);
  void give_back(cuda::PinnedMemory memory) noexcept;

  /// A failure that the context has met, or that kept it from being asked. Waits for nothing.
  Status health();
  /// Whether health has found that the context is lost; its failure stays the answer. Users of a lost runtime and of its
  /// successor never meet: each has an account of blocks of its own.
  bool is_lost() const;

  /// Launches of different communicators in the order of the calls (TUTTI_LAUNCH_ORDER; NCCL has
  /// NCCL_LAUNCH_ORDER_IMPLICIT). Held from before a launch until it is enqueued.
  class InOrder {
   public:
    /// Makes the stream wait for the launch before. Errors: as Driver::call.
    static Result<InOrder> begin(DeviceRuntime& runtime, cuda::StreamHandle stream);
    /// Behind the launch. Errors: as Driver::call.
    Status end(cuda::StreamHandle stream);

   private:
    explicit InOrder(DeviceRuntime& runtime) : runtime_(&runtime), lock_(runtime.order_mutex_) {}
    DeviceRuntime* runtime_;
    std::unique_lock<std::mutex> lock_;
  };

  /// How many of the blocks that a launch wants it may keep resident: half of those that are free, at least one. The first
  /// one gets most of them. One is enough to come to an end, so launches need not wait for each other. To be given back by
  /// release.
  std::uint32_t reserve(std::uint32_t wanted, std::uint32_t resident_blocks);
  void release(std::uint32_t blocks);

 private:
  Status set_up();
  Status load_kernels();
  Status load_kernel(const cuda::KernelName& listed);

  cuda::Context context_;
  const cuda::KernelModule& module_;
  std::uint32_t multiprocessors_ = 1;
  std::uint32_t threads_ = 1;
  bool has_domains_ = false;
  bool reaches_pageable_ = false;
  cuda::OwnedStream stream_;  ///< of writes
  std::unique_ptr<StagingBuffers> staging_;

  std::mutex order_mutex_;  ///< guards the next two
  cuda::OwnedEvent last_launch_;
  bool has_launched_ = false;

  mutable std::mutex health_mutex_;  ///< guards lost_
  Status lost_;

  mutable std::mutex mutex_;  ///< guards what follows
  cuda::KernelLibrary library_;
  std::map<std::string, DeviceKernel> kernels_;
  std::uint32_t resident_ = 0;
  std::vector<cuda::PinnedMemory> pinned_;  ///< that nobody uses
};

/// The library's calls to the driver within a caller's thread: the runtime's context is current, and what they do breaks no
/// capture that is under way. Both as before upon destruction, in the thread that made it. Scopes nest.
class DeviceScope {
 public:
  /// Errors: as Driver::call; nothing has changed then.
  static Result<DeviceScope> enter(const DeviceRuntime& runtime) { return enter(runtime.context()); }
  static Result<DeviceScope> enter(const cuda::Context& context);

 private:
  static void restore(const cuda::Driver& driver, const cuda::CaptureMode& before);

  DeviceScope(cuda::ContextScope scope, const cuda::Driver& driver, cuda::CaptureMode before)
      : scope_(std::move(scope)), mode_(driver, before) {}

  cuda::ContextScope scope_;
  cuda::DriverHandle<cuda::CaptureMode, restore> mode_;  ///< behind `scope_`, so that it goes first
};

}  // namespace tutti
