#include "src/device/runtime.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "src/base/clock.h"
#include "src/base/made_once.h"
#include "src/executors/cuda/launch.h"

namespace tutti {
namespace {

constexpr std::uint32_t most_threads = 512;
/// Storage that a block is counted with; most launches need less.
constexpr std::size_t usual_storage = 8 * 1024;
/// The first launch leaves this part of the device to others, at least a block. On another device the order may differ, and
/// then both have to run.
constexpr std::uint32_t first_leaves = 8;

void nap(std::uint64_t ns) {
  const timespec time{0, static_cast<long>(ns)};
  nanosleep(&time, nullptr);
}

/// The thread's current context where it is the device's, else the device's primary one.
Result<cuda::Context> context_of(const cuda::Driver& driver, int device) {
  auto current = cuda::Context::current_or_primary(driver, cuda::kNoDevice);
  if (!current.ok() || device == cuda::kNoDevice || current->device() == device) return current;
  if (device < driver.device_count()) return cuda::Context::primary(driver, device);
  return Status(TUTTI_INVALID_ARGUMENT,
                fmt::format("device {} was asked for, and there are {}", device, driver.device_count()),
                "Devices are numbered from 0 (config.device from 1); CUDA_VISIBLE_DEVICES says which there are.");
}

}  // namespace

Result<DeviceScope> DeviceScope::enter(const cuda::Context& context) {
  auto scope = cuda::ContextScope::enter(context);
  if (!scope.ok()) return scope.status();
  const cuda::Driver& driver = context.driver();
  cuda::CaptureMode mode = cuda::CaptureMode::relaxed;
  const Status status = driver.call(driver.api().cuThreadExchangeStreamCaptureMode, context.device(),
                                    "letting this thread's calls be while streams are captured", &mode);
  if (!status.ok()) return status;
  return DeviceScope(std::move(*scope), driver, mode);
}

void DeviceScope::restore(const cuda::Driver& driver, const cuda::CaptureMode& before) {
  cuda::CaptureMode mode = before;
  driver.api().cuThreadExchangeStreamCaptureMode(&mode);
}

Result<std::shared_ptr<DeviceRuntime>> DeviceRuntime::get(int device, const std::string& module_folder) {
  const auto driver = cuda::Driver::get();
  if (!driver.ok()) return driver.status();
  auto context = context_of(**driver, device);
  if (!context.ok()) return context.status();
  // Not by handle: a context that was destroyed may have been followed by another one of the same.
  unsigned long long id = 0;
  if (Status status = (*driver)->call((*driver)->api().cuCtxGetId, context->device(), "asking which context it is",
                                      context->handle(), &id);
      !status.ok()) {
    return status;
  }
  using Key = std::tuple<int, unsigned long long, std::string>;
  static constinit std::mutex mutex;
  static constinit MadeOnce<std::map<Key, std::shared_ptr<DeviceRuntime>>> all;
  const std::lock_guard lock(mutex);
  std::shared_ptr<DeviceRuntime>& known = all.get()[{context->device(), id, module_folder}];
  if (known != nullptr) {
    Status health = known->health();
    if (health.ok()) return known;
    // A lost context may have been reset since. What could not be asked says nothing of it: two runtimes of one context
    // would launch beside each other, each for ranks that wait for the other's.
    if (!known->is_lost()) return health;
  }
  const auto module = cuda::load_kernel_module(module_folder);
  if (!module.ok()) return module.status();
  auto made = std::make_shared<DeviceRuntime>(std::move(*context), **module);
  if (Status status = made->set_up(); !status.ok()) return status;
  known = made;
  return made;
}

Status DeviceRuntime::set_up() {
  const auto scope = DeviceScope::enter(*this);
  if (!scope.ok()) return scope.status();
  const auto ask = [this](cuda::DeviceAttribute attribute, auto& value) {
    const auto answer = driver().attribute(attribute, device());
    if (answer.ok()) value = static_cast<std::decay_t<decltype(value)>>(*answer);
    return answer.status();
  };
  int major = 0;
  for (const Status& status : {ask(cuda::DeviceAttribute::multiprocessor_count, multiprocessors_),
                               ask(cuda::DeviceAttribute::max_threads_per_block, threads_),
                               ask(cuda::DeviceAttribute::compute_capability_major, major),
                               ask(cuda::DeviceAttribute::pageable_memory_access, reaches_pageable_)}) {
    if (!status.ok()) return status;
  }
  threads_ = std::min(threads_, most_threads);
  has_domains_ = major >= 9;
  auto library = cuda::KernelLibrary::load(context_, module_.image);
  if (!library.ok()) return library.status();
  library_ = std::move(*library);
  auto stream = cuda::OwnedStream::create(context_);
  if (!stream.ok()) return stream.status();
  stream_ = std::move(*stream);
  auto staging = StagingBuffers::make(context_);
  if (!staging.ok()) return staging.status();
  staging_ = std::move(*staging);
  return load_kernels();
}

Status DeviceRuntime::load_kernels() {
  for (std::uint32_t k = 0; k < module_.count; ++k) {
    if (Status status = load_kernel(module_.kernels[k]); !status.ok()) return status;
  }
  return {};
}

Status DeviceRuntime::load_kernel(const cuda::KernelName& listed) {
  if (listed.parameter_bytes != sizeof(Launch) || listed.layout != launch_layout()) return {};
  const std::string name = listed.name;
  auto code = library_.kernel(context_, listed.symbol);
  if (!code.ok()) return code.status();
  DeviceKernel kernel{*code};
  const std::uint32_t block = std::min(threads_, static_cast<std::uint32_t>(code->most_threads));
  int each = 0;
  const Status status = driver().call(
      driver().api().cuOccupancyMaxActiveBlocksPerMultiprocessor, device(),
      [&] { return "asking how many blocks of " + name + " are resident"; }, &each, code->function, static_cast<int>(block),
      usual_storage);
  if (!status.ok()) return status;
  kernel.resident_blocks = std::max(1u, static_cast<std::uint32_t>(each) * multiprocessors_);
  kernels_.emplace(name, kernel);
  return {};
}

Result<const DeviceKernel*> DeviceRuntime::kernel(const std::string& name) const {
  if (const auto found = kernels_.find(name); found != kernels_.end()) return &found->second;
  return Status(TUTTI_UNSUPPORTED, fmt::format("{} has no kernel \"{}\" that fits", cuda::kKernelModuleFile, name),
                "Build the library and its kernels from the same sources.");
}

Status SetUpLimit::check(const char* what) const {
  // Relaxed: a flag without data; whoever sees it late waits a little longer.
  if (failed != nullptr && failed->load(std::memory_order_relaxed))
    return Status(TUTTI_ABORTED, fmt::format("the communicator failed while it waited for {}", what));
  if (!deadline.passed()) return {};
  return Status(TUTTI_TIMEOUT, fmt::format("a device call waited for {} until its limit", what),
                "See what else runs on the devices, or raise TUTTI_OPERATION_TIMEOUT.");
}

Status DeviceRuntime::write(std::span<const DeviceWrite> writes, const SetUpLimit& limit) {
  const auto scope = DeviceScope::enter(*this);
  if (!scope.ok()) return scope.status();
  const auto written = cuda::OwnedEvent::create(context_);
  if (!written.ok()) return written.status();
  if (Status status = enqueue(writes, stream_.handle(), *written); !status.ok()) return status;
  return await(*written, limit);
}

Status DeviceRuntime::enqueue(std::span<const DeviceWrite> writes, cuda::StreamHandle stream,
                              const cuda::OwnedEvent& written) const {
  for (const DeviceWrite& each : writes) {
    if (each.bytes == 0) continue;
    const auto writing = [&] { return fmt::format("writing {} bytes", each.bytes); };
    const Status status = each.from != nullptr ? driver().call(driver().api().cuMemcpyHtoDAsync_v2, device(), writing,
                                                               each.to, each.from, each.bytes, stream)
                                               : driver().call(driver().api().cuMemsetD8Async, device(), writing, each.to,
                                                               static_cast<unsigned char>(0), each.bytes, stream);
    if (!status.ok()) return status;
  }
  return driver().call(driver().api().cuEventRecord, device(), "recording an event behind writes", written.handle(),
                       stream);
}

Status DeviceRuntime::await(const cuda::OwnedEvent& written, const SetUpLimit& limit) const {
  for (std::uint64_t ns = 2'000;; ns = std::min<std::uint64_t>(2 * ns, kMs)) {
    const cuda::DriverResult result = driver().api().cuEventQuery(written.handle());
    if (result == cuda::DriverResult::success) return {};
    if (result != cuda::DriverResult::not_ready)
      return driver().failure(result, driver().api().cuEventQuery.name, device(), "waiting for writes");
    if (Status status = limit.check("a device to write its memory"); !status.ok()) return status;
    nap(ns);
  }
}

Result<cuda::PinnedMemory> DeviceRuntime::take_pinned(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  const std::size_t size = (bytes + page - 1) / page * page;
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(pinned_.begin(), pinned_.end(), [size](const cuda::PinnedMemory& each) { return each.bytes() == size; });
  if (found == pinned_.end()) {
    pinned_.reserve(pinned_.size() + pinned_.capacity() + 1);  // for its return, which may not fail
    return cuda::PinnedMemory::allocate(context_, size);
  }
  cuda::PinnedMemory taken = std::move(*found);
  pinned_.erase(found);
  return taken;
}

void DeviceRuntime::give_back(cuda::PinnedMemory memory) noexcept {
  const std::lock_guard lock(mutex_);
  if (memory && pinned_.size() < pinned_.capacity()) pinned_.push_back(std::move(memory));
}

Status DeviceRuntime::health() {
  const std::lock_guard lock(health_mutex_);
  if (!lost_.ok()) return lost_;
  const auto scope = DeviceScope::enter(*this);
  if (!scope.ok()) return scope.status();
  const cuda::DriverResult result = driver().api().cuStreamQuery(stream_.handle());
  if (result == cuda::DriverResult::success || result == cuda::DriverResult::not_ready) return {};
  Status failure =
      driver().failure(result, driver().api().cuStreamQuery.name, device(), "looking whether its kernels run well");
  // After a reset its stream is none any more.
  if (cuda::is_sticky(result) || result == cuda::DriverResult::invalid_handle) lost_ = failure;
  return failure;
}

bool DeviceRuntime::is_lost() const {
  const std::lock_guard lock(health_mutex_);
  return !lost_.ok();
}

Result<DeviceRuntime::InOrder> DeviceRuntime::InOrder::begin(DeviceRuntime& runtime, cuda::StreamHandle stream) {
  InOrder order(runtime);
  const cuda::Driver& driver = runtime.driver();
  if (!runtime.last_launch_) {
    auto event = cuda::OwnedEvent::create(runtime.context());
    if (!event.ok()) return event.status();
    runtime.last_launch_ = std::move(*event);
  }
  if (!runtime.has_launched_) return order;
  const Status status = driver.call(driver.api().cuStreamWaitEvent, runtime.device(), "making a stream wait for a launch",
                                    stream, runtime.last_launch_.handle(), 0u);
  if (!status.ok()) return status;
  return order;
}

Status DeviceRuntime::InOrder::end(cuda::StreamHandle stream) {
  const cuda::Driver& driver = runtime_->driver();
  Status status = driver.call(driver.api().cuEventRecord, runtime_->device(), "recording an event behind a launch",
                              runtime_->last_launch_.handle(), stream);
  runtime_->has_launched_ = runtime_->has_launched_ || status.ok();
  return status;
}

std::uint32_t DeviceRuntime::reserve(std::uint32_t wanted, std::uint32_t resident_blocks) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t free = resident_blocks > resident_ ? resident_blocks - resident_ : 0;
  const std::uint32_t left = resident_ == 0 ? std::max(1u, free / first_leaves) : (free + 1) / 2;
  const std::uint32_t granted = std::max(1u, std::min(wanted, free - std::min(free, left)));
  resident_ += granted;
  return granted;
}

void DeviceRuntime::release(std::uint32_t blocks) {
  const std::lock_guard lock(mutex_);
  resident_ -= blocks;
}

}  // namespace tutti
