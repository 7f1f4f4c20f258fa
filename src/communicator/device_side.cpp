#include "src/communicator/device_side.h"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/base/exception_boundary.h"
#include "src/base/log.h"
#include "src/base/module_folder.h"
#include "src/base/saturating.h"
#include "src/communicator/launch_watch.h"
#include "src/control/log_lines.h"
#include "src/cuda/kernel_module.h"
#include "src/device/buffers.h"
#include "src/device/device_allocations.h"
#include "src/tables/operators.h"

namespace tutti {
namespace {

/// How long a wait for other threads sleeps before it looks at failure again; a hook makes it a millisecond.
constexpr std::uint64_t longest_sleep_ns = 10 * kMs;
/// A launch that ends soon is looked for without sleep.
constexpr std::uint64_t spins_for_ns = 50'000;
/// How long a launch may take to end once its communicator has failed.
constexpr std::uint64_t longest_end_ns = kSecond;
/// How long whoever was stopped by another looks for that one's words.
constexpr std::uint64_t words_ns = kSecond;
/// A launch that has not begun is given this long beyond its limit: other work may be before it on the device.
constexpr std::uint64_t begin_grace_ns = 5 * kSecond;
constexpr std::size_t most_plans = 1024;
/// Of a plan: those that are kept for calls over the same blocks.
constexpr std::size_t most_bindings = 32;

void nap(std::uint64_t ns) {
  const timespec time{static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
  nanosleep(&time, nullptr);
}

/// A device, where it runs the call.
Result<Processor> on_cuda(const CollectiveCall& call) {
  if (call.op == user_operator) {
    return Status(TUTTI_UNSUPPORTED,
                  fmt::format("{} of CUDA memory was given a user-defined operator, which runs on the host", call.kind()),
                  "Use host memory, or an operator of the library's.");
  }
  return Processor::cuda;
}

}  // namespace

DeviceSide::DeviceSide(const DeviceSideParts& parts) : parts_(parts), watch_(std::make_unique<LaunchWatch>(*this)) {
  if (parts_.settings.memory == TUTTI_MEMORY_CUDA) armed_.store(true, std::memory_order_relaxed);
  arm_if_loaded();
}

DeviceSide::~DeviceSide() { end(); }

void DeviceSide::end() {
  if (watch_ == nullptr) return;
  if (watch_->holds_graphs()) abort();
  watch_.reset();
  if (is_announced()) {
    DeviceAllocations::instance().end_use();
    const auto scope = DeviceScope::enter(*runtime_);  // what is released is the device's
    release_flights();
  }
}

void DeviceSide::arm_if_loaded() {
  if (!armed() && parts_.settings.memory != TUTTI_MEMORY_HOST && cuda::Driver::loaded_already())
    armed_.store(true, std::memory_order_relaxed);
}

bool DeviceSide::uses(const CollectiveCall& call, Buffer buffer) const {
  Problem problem;
  problem.collective = call.collective;
  problem.root = call.root;
  problem.ranks = parts_.membership.ranks;
  return call.count != 0 && blocks_of(problem, buffer, rank()) != 0;
}

std::vector<int> DeviceSide::others() const {
  std::vector<int> all;
  for (int r = 0; r < parts_.membership.ranks; ++r) {
    if (r != rank()) all.push_back(r);
  }
  return all;
}

std::uint64_t DeviceSide::limit_of(const CollectiveCall& call) const {
  // Relaxed: a single value that orders nothing.
  return call.timeout_ns != 0 ? call.timeout_ns : parts_.timeout_ns.load(std::memory_order_relaxed);
}

// ---- Whether a call is of a device, and may be.

Result<Processor> DeviceSide::processor_of(const CollectiveCall& call, const CallStream* stream) {
  if (parts_.settings.memory == TUTTI_MEMORY_HOST) {
    if (stream == nullptr) return Processor::cpu;
    return Status(TUTTI_INVALID_ARGUMENT, "a CUDA stream was passed where config.memory says that all memory is the host's",
                  "Leave config.memory and TUTTI_MEMORY unset, or set them to CUDA.");
  }
  const auto driver = cuda::Driver::get();
  if (parts_.settings.memory == TUTTI_MEMORY_CUDA || stream != nullptr) {
    if (!driver.ok()) return driver.status();
    auto processor = on_cuda(call);
    if (processor.ok()) armed_.store(true, std::memory_order_relaxed);
    return processor;
  }
  if (call.irregular || call.in_pieces) {
    const auto on_device = has_blocks_on_device(call);
    if (!on_device.ok()) return on_device.status();
    return *on_device ? on_cuda(call) : Processor::cpu;
  }
  for (const auto& [buffer, which] : {std::pair(call.send, Buffer::input), {call.recv, Buffer::output}}) {
    if (!uses(call, which)) continue;
    const auto on_device = is_on_device(buffer);
    if (!on_device.ok()) return on_device.status();
    if (*on_device) return on_cuda(call);
  }
  return Processor::cpu;
}

/// Of a call over blocks. A rank whose blocks are all empty says by their addresses where it is to run.
Result<bool> DeviceSide::has_blocks_on_device(const CollectiveCall& call) {
  std::vector<tutti_block> blocks = call.input;
  blocks.insert(blocks.end(), call.output.begin(), call.output.end());
  const auto is_empty = [](const tutti_block& block) { return block.count == 0; };
  if (call.count == 0) return false;
  if (!std::all_of(blocks.begin(), blocks.end(), is_empty)) std::erase_if(blocks, is_empty);
  for (const tutti_block& block : blocks) {
    if (block.ptr == nullptr) continue;
    auto on_device = is_on_device(block.ptr);
    if (!on_device.ok() || *on_device) return on_device;
  }
  return false;
}

/// Memory of a device whose driver is refused is refused with it: the host would fault where it touches that.
Result<bool> DeviceSide::is_on_device(const void* buffer) {
  const auto driver = cuda::Driver::get();
  if (!driver.ok()) {
    if (cuda::Driver::refused_driver_owns(buffer)) return driver.status();
    return false;
  }
  const auto place = place_of(**driver, buffer);
  if (!place.ok()) return place.status();
  return place->on_device();
}

Status DeviceSide::refuse_device_memory(const void* buffer, const char* what) const {
  if (!armed() || parts_.settings.memory == TUTTI_MEMORY_HOST || buffer == nullptr) return {};
  const auto on_device = is_on_device(buffer);
  if (!on_device.ok()) return on_device.status();
  if (!*on_device) return {};
  return Status(TUTTI_UNSUPPORTED,
                fmt::format("{} was given memory of a device; sends and receives of it come later", what),
                "Use host memory, or a collective.");
}

Status DeviceSide::check_processes() const {
  const Member& self = parts_.membership.members[static_cast<std::size_t>(rank())];
  for (const Member& member : parts_.membership.members) {
    if (member.same_process(self)) continue;
    return Status(TUTTI_UNSUPPORTED,
                  fmt::format("device memory between processes comes later, and {} is in another one than {}",
                              member.text(), self.text()),
                  "Make the ranks threads of one process, or use host memory.");
  }
  return {};
}

Status DeviceSide::announce() {
  // Acquire: pairs with the store below, behind which the two are there.
  if (announced_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(announcing_);
  if (announced_.load(std::memory_order_acquire)) return {};
  if (Status status = check_processes(); !status.ok()) return status;
  const int device = parts_.settings.device;
  auto runtime = DeviceRuntime::get(device < 0 ? cuda::kNoDevice : device, module_folder(parts_.settings.module_dir));
  if (!runtime.ok()) return runtime.status();
  const auto scope = DeviceScope::enter(**runtime);
  if (!scope.ok()) return scope.status();
  auto stream = cuda::OwnedStream::create((*runtime)->context());
  if (!stream.ok()) return stream.status();
  stream_ = std::move(*stream);
  runtime_ = std::move(*runtime);
  const auto& key = parts_.membership.key;
  world_ = DeviceWorld::of(std::string(key.begin(), key.end()), parts_.membership.ranks);
  world_->join(rank(), runtime_);
  if (log_enabled(Level::info)) log_device();
  DeviceAllocations::instance().begin_use();
  announced_.store(true, std::memory_order_release);
  return {};
}

void DeviceSide::log_device() const {
  const cuda::DriverApi& api = runtime_->driver().api();
  char name[256] = "unknown", address[32] = "an unknown address";
  // What cannot be asked stays unknown.
  static_cast<void>(api.cuDeviceGetName(name, sizeof name, runtime_->device()));
  static_cast<void>(api.cuDeviceGetPCIBusId(address, sizeof address, runtime_->device()));
  log(Level::info, log_label(parts_.failures.name(), rank(), parts_.membership.ranks)
                       .append(device_line(runtime_->device(), name, address, runtime_->multiprocessors())));
}

Status DeviceSide::check_stream(CallStream& stream) const {
  const cuda::Driver& driver = runtime_->driver();
  const auto own_value = reinterpret_cast<std::uintptr_t>(stream.handle);
  if (own_value > cuda::kPerThreadStream) {  // the others are of whatever context is current
    cuda::ContextHandle context = nullptr;
    const cuda::DriverResult result = driver.api().cuStreamGetCtx(stream.handle, &context);
    if (result == cuda::DriverResult::invalid_handle) {
      return Status(TUTTI_INVALID_ARGUMENT, "the stream's handle is no CUDA stream", "Pass a cudaStream_t.");
    }
    if (result != cuda::DriverResult::success)
      return driver.failure(result, driver.api().cuStreamGetCtx.name, runtime_->device(), "asking for a stream's context");
    if (context != runtime_->context().handle()) {
      return Status(TUTTI_INVALID_ARGUMENT,
                    fmt::format("the stream is of another context than rank {}'s on device {}", rank(), runtime_->device()),
                    "Pass a stream of the device that was current when this communicator first used one.");
    }
  }
  if (own_value == 0 || own_value == cuda::kLegacyStream) return {};  // cannot be captured
  auto capture = cuda::CaptureStatus::none;
  std::uint64_t id = 0;
  const cuda::GraphNodeHandle* nodes = nullptr;
  std::size_t count = 0;
  const Status status =
      driver.call(driver.api().cuStreamGetCaptureInfo_v2, runtime_->device(), "asking whether a stream is captured",
                  stream.handle, &capture, &id, &stream.graph, &nodes, &count);
  if (!status.ok()) return status;
  if (capture == cuda::CaptureStatus::invalidated)
    return Status(TUTTI_INVALID_USAGE, "the capture of the stream is invalid already", "End it, and begin another one.");
  stream.captured = capture == cuda::CaptureStatus::active;
  return {};
}

Status DeviceSide::check_buffer(const void* buffer, const char* what, bool on_stream) const {
  const auto place = place_of(runtime_->driver(), buffer);
  if (!place.ok()) return place.status();
  const int own = runtime_->device();
  if (place->kind == BufferPlace::Kind::device && place->device != own) {
    return Status(
        TUTTI_INVALID_ARGUMENT,
        fmt::format("the {} buffer lies on device {}, and rank {}'s device is {}", what, place->device, rank(), own),
        "Pass memory of that device, or managed or pinned memory.");
  }
  if (place->kind != BufferPlace::Kind::pageable || runtime_->reaches_pageable()) return {};
  if (on_stream) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("the {} buffer is pageable host memory, which device {} does not reach", what, own),
                  "Pass device, managed or pinned memory.");
  }
  return Status(
      TUTTI_UNSUPPORTED,
      fmt::format("the {} buffer is pageable host memory where the call is of device {}; mixed memory comes later", what,
                  own),
      "Pass device, managed or pinned memory for both buffers.");
}

Status DeviceSide::ready(const CollectiveCall& call, CallStream* stream) {
  const auto scope = DeviceScope::enter(*runtime_);
  if (!scope.ok()) return scope.status();
  if (stream != nullptr) {
    if (Status status = check_stream(*stream); !status.ok()) return status;
  }
  return check_buffers(call, stream != nullptr);
}

Status DeviceSide::check_buffers(const CollectiveCall& call, bool on_stream) const {
  if (call.custom != nullptr && call.custom->scalar_at != nullptr) {
    if (Status status = check_buffer(call.custom->scalar_at, "scalar", on_stream); !status.ok()) return status;
  }
  for (const auto& [blocks, what] : {std::pair(&call.input, "send"), {&call.output, "receive"}}) {
    for (const tutti_block& block : *blocks) {
      if (block.count == 0) continue;
      if (Status status = check_buffer(block.ptr, what, on_stream); !status.ok()) return status;
    }
  }
  if (call.irregular || call.in_pieces) return {};
  if (uses(call, Buffer::input)) {
    if (Status status = check_buffer(call.send, "send", on_stream); !status.ok()) return status;
  }
  if (uses(call, Buffer::output)) {
    if (Status status = check_buffer(call.recv, "receive", on_stream); !status.ok()) return status;
  }
  return {};
}

// ---- Plans.

Result<PreparedDevicePlan*> DeviceSide::prepare(const Problem& problem, const std::string& wish) {
  if (wish != wish_ || plans_.size() >= most_plans) plans_.clear();
  if (const auto found = plans_.find(problem); found != plans_.end()) return &found->second;
  auto choice = parts_.plans.choose(problem, wish);
  if (!choice.ok()) return choice.status();
  PreparedDevicePlan made;
  made.algorithm = choice->name;
  made.name = KindName(problem.irregular ? info_of(problem.collective).v_variant : name_of(problem.collective));
  made.algorithm_name = KindName(choice->name);
  // Blocks run lanes side by side whatever the host's cores.
  made.lowered = lower(choice->plan, rank(), choice->program_of(rank()), ProgramOf(), Cores());
  made.plan = std::move(choice->plan);
  wish_ = wish;
  return &plans_.emplace(problem, std::move(made)).first->second;
}

Status DeviceSide::open(PreparedDevicePlan& plan, const CollectiveCall& call) {
  if (plan.device != nullptr) return {};
  const std::uint64_t bytes = scratch_bytes(plan.plan);
  if (bytes != 0 && (scratch_ == nullptr || scratch_->bytes() < bytes)) {
    auto block = world_->arena(rank())->allocate(bytes);
    if (!block.ok()) return block.status();
    scratch_ = std::make_shared<const DeviceBlock>(std::move(*block));
  }
  auto made = DevicePlan::make(world_, rank(), plan.plan, plan.lowered, scratch_, set_up_limit(call));
  if (!made.ok()) return made.status();
  if (!(*made)->image().is_staged()) {
    if (Status status = (*made)->image().await_written(set_up_limit(call)); !status.ok()) return status;
  }
  plan.device = std::move(*made);
  return {};
}

/// Where the blocks of a call lie, on the device; nullptr where it has none. Most calls are like one before.
Result<std::shared_ptr<DeviceBinding>> DeviceSide::bind(PreparedDevicePlan& plan, const CollectiveCall& call) {
  if (!call.irregular && !call.in_pieces) return std::shared_ptr<DeviceBinding>();
  const auto is_same = [&](const auto& each) { return each->is_of(call.input, call.output); };
  const auto found = std::find_if(plan.bindings.begin(), plan.bindings.end(), is_same);
  if (found != plan.bindings.end()) return *found;
  auto made = DeviceBinding::make(plan.device, call.input, call.output);
  if (!made.ok()) return made.status();
  if (!(*made)->image().is_staged()) {
    if (Status status = (*made)->image().await_written(set_up_limit(call)); !status.ok()) return status;
  }
  return plan.bindings.emplace_back(std::move(*made));
}

/// What a launch in a capture is to read.
Status DeviceSide::await_written(const DevicePlan& plan, const DeviceBinding* binding, const CollectiveCall& call) const {
  if (Status status = plan.image().await_written(set_up_limit(call)); !status.ok() || binding == nullptr) return status;
  return binding->image().await_written(set_up_limit(call));
}

// ---- Waits.

/// The first device call of a communicator waits here until all ranks are in theirs.
Status DeviceSide::await_ranks(const CollectiveCall& call, std::uint64_t sequence, const PollHook& hook) {
  // Relaxed: in a turn, as the store.
  if (team_.load(std::memory_order_relaxed) != nullptr) return {};
  const Deadline deadline = Deadline::in(limit_of(call));
  const std::uint64_t begun = now_ns();
  PeerInquiry inquiry(parts_.reporter, control(), true);
  inquiry.begin();
  while (!world_->await_ranks(hook.slice_ns(longest_sleep_ns))) {
    if (Status first = parts_.failures.first_error(); !first.ok()) return first;
    const bool ended = hook.ends_wait();
    if (ended || deadline.passed())
      return parts_.reporter.report_gave_up(ended ? GaveUp::hook : GaveUp::deadline, call, sequence, world_->missing(),
                                            hook);
    if (!inquiry.look(now_ns() - begun, call, sequence, [this] { return world_->missing(); }))
      return parts_.failures.first_error();
  }
  if (Status status = world_->connect(set_up_limit(call)); !status.ok()) return status;
  // Release: pairs with abort, which uses the team.
  team_.store(&world_->team(rank()), std::memory_order_release);
  // An abort that came before found no team to stop.
  if (Status first = parts_.failures.first_error(); !first.ok()) return first;
  return {};
}

Result<Deposit> DeviceSide::deposit_of(PreparedDevicePlan& plan, const CollectiveCall& call, std::uint64_t sequence,
                                       const PollHook& hook) {
  if (Status status = await_ranks(call, sequence, hook); !status.ok()) return status;
  const auto scope = DeviceScope::enter(*runtime_);
  if (!scope.ok()) return scope.status();
  release_flights();
  if (Status status = open(plan, call); !status.ok()) return status;
  auto binding = bind(plan, call);
  if (!binding.ok()) return binding.status();
  // Those behind it may be of calls that are about to be issued.
  while (plan.bindings.size() > most_bindings && plan.bindings.front() != *binding)
    plan.bindings.erase(plan.bindings.begin());
  Deposit deposit;
  deposit.rank = rank();
  deposit.plan = plan.device;
  deposit.binding = std::move(*binding);
  deposit.send = call.send;
  deposit.recv = call.recv;
  if (call.custom != nullptr) {
    deposit.scalar_at = call.custom->scalar_at;
    deposit.scalar = call.custom->scalar;
  }
  deposit.limit_ns = limit_of(call);
  const auto own_or = [](std::uint32_t own, int set) { return own != 0 ? own : static_cast<std::uint32_t>(set); };
  deposit.blocks = {own_or(call.min_blocks, parts_.settings.min_blocks),
                    own_or(call.max_blocks, parts_.settings.max_blocks)};
  deposit.in_order = parts_.settings.launch_order;
  return deposit;
}

Status DeviceSide::open_early(PreparedDevicePlan& plan, const CollectiveCall& call, bool captured, std::uint64_t sequence,
                              const PollHook& hook) {
  if (call.count == 0) return {};
  if (Status status = await_ranks(call, sequence, hook); !status.ok()) return status;
  const auto scope = DeviceScope::enter(*runtime_);
  if (!scope.ok()) return scope.status();
  if (Status status = open(plan, call); !status.ok()) return status;
  const auto binding = bind(plan, call);
  if (!binding.ok()) return binding.status();
  if (captured) {
    if (Status status = await_written(*plan.device, binding->get(), call); !status.ok()) return status;
  }
  return team().prepare_rooms();
}

Status DeviceSide::issue(PreparedDevicePlan& plan, std::uint64_t history, const CallStream* stream, const PollHook& hook,
                         DeviceCall& out) {
  out.issued_ns = now_ns();
  if (out.call.count == 0) return {};
  auto deposit = deposit_of(plan, out.call, out.sequence, hook);
  if (!deposit.ok()) return deposit.status();
  deposit->stream = stream != nullptr ? stream->handle : stream_.handle();
  deposit->operation_hash = history;
  out.stream = deposit->stream;
  auto meeting = team().deposit(std::move(*deposit));
  if (!meeting.ok()) return meeting.status();
  out.meeting = std::move(*meeting);
  return {};
}

Result<Deposit> DeviceSide::deposit_for_capture(PreparedDevicePlan& plan, const CollectiveCall& call, std::uint64_t hash,
                                                const CallStream& stream, const PollHook& hook) {
  auto deposit = deposit_of(plan, call, UINT64_MAX, hook);
  if (!deposit.ok()) return deposit.status();
  if (Status status = await_written(*deposit->plan, deposit->binding.get(), call); !status.ok()) return status;
  deposit->stream = stream.handle;
  deposit->operation_hash = hash;
  return deposit;
}

bool DeviceSide::try_launch(const DeviceCall& call) {
  if (call.meeting == nullptr) return true;
  team().launch_ready(rank());
  return team().wait(*call.meeting, rank(), 0);
}

Status DeviceSide::wait_a_little(const DeviceCall& call, const PollHook& hook) {
  if (try_launch(call) || team().wait(*call.meeting, rank(), hook.slice_ns(longest_sleep_ns))) return {};
  if (Status first = parts_.failures.first_error(); !first.ok()) return first;
  const bool by_hook = hook.ends_wait();
  if (!by_hook && now_ns() - call.issued_ns < limit_of(call.call)) return {};
  return parts_.reporter.report_gave_up(by_hook ? GaveUp::hook : GaveUp::deadline, call.call, call.sequence,
                                        team().missing(*call.meeting), hook);
}

Status DeviceSide::await_launch(DeviceCall& call, const PollHook& hook) {
  Team& own = team();
  const Deadline deadline = Deadline::in(limit_of(call.call));
  const std::uint64_t begun = now_ns();
  PeerInquiry inquiry(parts_.reporter, control(), true);
  inquiry.begin();
  Status ended;
  while (ended.ok() && !try_launch(call) && !own.wait(*call.meeting, rank(), hook.slice_ns(longest_sleep_ns))) {
    const auto missing = [&] { return own.missing(*call.meeting); };
    ended = parts_.failures.first_error();
    const bool by_hook = ended.ok() && hook.ends_wait();
    if (ended.ok() && (by_hook || deadline.passed())) {
      ended = parts_.reporter.report_gave_up(by_hook ? GaveUp::hook : GaveUp::deadline, call.call, call.sequence, missing(),
                                             hook);
    } else if (ended.ok() && !inquiry.look(now_ns() - begun, call.call, call.sequence, missing)) {
      ended = parts_.failures.first_error();
    }
  }
  // The others do not launch what this rank's memory is a part of once it has left its call.
  if (!ended.ok()) own.withdraw(*call.meeting, ended);
  Departure departure = own.departure(*call.meeting, rank());
  call.flight = std::move(departure.flight);
  call.job = departure.job;
  call.meeting.reset();
  if (call.flight != nullptr) {
    if (Status status = own.follow(call.stream); !status.ok()) return parts_.failures.fail(status);
    return {};
  }
  if (!ended.ok()) return ended;
  if (departure.differs >= 0) {
    const int other = departure.differs == rank() ? own.ranks()[0] : departure.differs;
    return parts_.reporter.report_mismatch(other, call.call, call.sequence, hook);
  }
  return parts_.failures.fail(departure.status);
}

Status DeviceSide::await_end(DeviceCall& call, const PollHook& hook) {
  const std::uint64_t begun = now_ns();
  const Deadline deadline = Deadline::in(saturating_sum(limit_of(call.call), begin_grace_ns));
  PeerInquiry inquiry(parts_.reporter, control(), true);
  inquiry.begin();
  std::uint64_t next_health = begun + 20 * kMs;
  for (std::uint64_t pause = 0;;) {
    const JobEnd end = call.flight->end(call.job);
    if (end != JobEnd::under_way) return outcome(call, end, hook);
    if (has_failed()) return linger(call, parts_.failures.first_error());
    const std::uint64_t now = now_ns();
    if (hook.ends_wait())
      return linger(call, parts_.reporter.report_gave_up(GaveUp::hook, call.call, call.sequence, {}, hook));
    if (deadline.passed() && !call.flight->begun(call.job))
      return linger(call, parts_.reporter.report_gave_up(GaveUp::deadline, call.call, call.sequence, {}, hook));
    if (!inquiry.look(now - begun, call.call, call.sequence, [this] { return others(); }))
      return linger(call, parts_.failures.first_error());
    if (now >= next_health) {
      next_health = now + 20 * kMs;
      if (Status status = check_health(); !status.ok()) return status;
    }
    if (now - begun < spins_for_ns) {
      sched_yield();
    } else {
      pause = std::min(hook.slice_ns(longest_sleep_ns / 10), std::max<std::uint64_t>(5'000, 2 * pause));
      nap(pause);
    }
  }
}

/// A launch under way in a failed communicator: waits until its kernel has left the caller's memory.
Status DeviceSide::linger(const DeviceCall& call, Status failure) {
  abort();
  const Deadline deadline = Deadline::in(longest_end_ns);
  while (call.flight->end(call.job) == JobEnd::under_way) {
    static_cast<void>(check_health());
    if (runtime_->is_lost()) return failure;  // nothing runs there any more
    if (deadline.passed()) {
      Error error = failure.error();
      error.message +=
          fmt::format("; device {} may still use the buffers of this call, which must not be reused", runtime_->device());
      return Status(std::move(error));
    }
    nap(100'000);
  }
  return failure;
}

Status DeviceSide::outcome(const DeviceCall& call, JobEnd end, const PollHook& hook) {
  if (end == JobEnd::completed) {
    if (call.sequence != UINT64_MAX) parts_.board.complete_at_least(call.sequence);
    return {};
  }
  const Status first = parts_.failures.first_error();
  if (!first.ok()) return first;
  abort();
  if (call.sequence == UINT64_MAX) return fail_captured(call, end);
  const int peer = call.flight->record(call.job).peer;
  if (end == JobEnd::mismatch) return parts_.reporter.report_mismatch(peer, call.call, call.sequence, hook);
  if (end == JobEnd::late) {
    const std::vector<int> waiting = peer >= 0 ? std::vector{peer} : std::vector<int>();
    return parts_.reporter.report_gave_up(GaveUp::deadline, call.call, call.sequence, waiting, hook);
  }
  // Another rank of the launch, or of another one, is about to say why.
  const Deadline deadline = Deadline::in(words_ns);
  while (parts_.failures.first_error().ok() && !deadline.passed()) nap(kMs);
  if (Status told = parts_.failures.first_error(); !told.ok()) return told;
  return parts_.failures.fail(
      Status(TUTTI_ABORTED, fmt::format("{}: its launch was stopped", parts_.reporter.label(call.call, call.sequence))));
}

/// Of replays no rank knows how many others have done: there is only what the kernel saw.
Status DeviceSide::fail_captured(const DeviceCall& call, JobEnd end) {
  const JobRecord& record = call.flight->record(call.job);
  Error error;
  error.operation_kind = name_of(call.call.collective);
  if (record.peer >= 0 && end != JobEnd::aborted) error.guilty = {parts_.failures.guilty(record.peer)};
  const std::string what =
      fmt::format("a replayed {} of \"{}\" on CUDA memory", name_of(call.call.collective), parts_.failures.name());
  if (end == JobEnd::mismatch) {
    error.status = TUTTI_MISMATCH;
    error.message = fmt::format("{}: rank {} runs another operation there than rank {}", what, record.peer, rank());
    error.remedy = "Replay the same graphs in the same order on all ranks.";
  } else if (end == JobEnd::late) {
    error.status = TUTTI_TIMEOUT;
    error.limit_ns = limit_of(call.call);
    error.message =
        fmt::format("{}: rank {} waited for {} in vain (step {} of lane {})", what, rank(),
                    record.peer >= 0 ? fmt::format("rank {}", record.peer) : "its own lanes", record.step, record.lane);
    error.remedy =
        fmt::format("Replay the graph on all ranks, or raise {} if it is only slow.", limit_to_raise(call.call.timeout_ns));
  } else {
    error.status = TUTTI_ABORTED;
    error.message = what + ": its launch was stopped";
  }
  return parts_.failures.fail(std::move(error));
}

// ---- Failure.

std::uint64_t DeviceSide::memory_bytes() const {
  // Acquire: the world is connected where there is a team.
  return team_.load(std::memory_order_acquire) == nullptr ? 0 : world_->arena(rank())->mapped_bytes();
}

bool DeviceSide::has_failed() {
  // Acquire: what is known of the failure is there.
  if (!failed()->load(std::memory_order_acquire)) return false;
  abort();
  return true;
}

void DeviceSide::abort() {
  // Acquire: pairs with the store once all ranks are connected.
  if (Team* const own = team_.load(std::memory_order_acquire); own != nullptr) own->abort();
}

Status DeviceSide::fail(Status status) {
  Status first = parts_.failures.fail(std::move(status));
  abort();
  return first;
}

Status DeviceSide::check_health() {
  Status status = runtime_->health();
  return status.ok() ? status : parts_.failures.fail(status);
}

Status DeviceSide::watch(DeviceCall call) { return watch_->add(std::move(call)); }

}  // namespace tutti
