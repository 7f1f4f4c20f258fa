#include "src/device/team.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "src/base/exception_boundary.h"

namespace tutti {
namespace {

/// Polls in vain after which a block of a launch looks for another task.
constexpr std::uint32_t patience = 64;
/// Dynamic storage that every device gives a block unasked.
constexpr std::uint64_t most_storage = 48 * 1024;
/// Jobs of a launch, where its ranks are not more.
constexpr std::uint32_t most_jobs = 32;

bool agree(std::span<const Deposit> operation) {
  return std::all_of(operation.begin(), operation.end(),
                     [&](const Deposit& each) { return each.operation_hash == operation[0].operation_hash; });
}

std::uint32_t most_operands_of(std::span<const Deposit> deposits) {
  std::uint32_t most = 0;
  for (const Deposit& each : deposits) most = std::max(most, each.plan->most_operands());
  return most;
}

/// Deposits of the same tasks before that one.
std::uint32_t uses_before(std::span<const Deposit> deposits, std::size_t number) {
  const auto before = deposits.first(number);
  return static_cast<std::uint32_t>(std::count_if(
      before.begin(), before.end(), [&](const Deposit& each) { return each.has_tasks_of(deposits[number]); }));
}

/// What a launch reads, each once.
std::vector<DeviceImage*> images_of(std::span<const Deposit> deposits) {
  std::vector<DeviceImage*> images;
  const auto add = [&images](DeviceImage& image) {
    if (std::find(images.begin(), images.end(), &image) == images.end()) images.push_back(&image);
  };
  for (const Deposit& each : deposits) {
    add(each.plan->image());
    if (each.binding != nullptr) add(each.binding->image());
  }
  return images;
}

}  // namespace

Job Deposit::job(JobRecord* record) const {
  Job job = plan->job(send, recv, record);
  if (binding != nullptr) binding->bind(job);
  job.scalar_at = scalar_at;
  std::memcpy(job.scalar, scalar.data(), scalar.size());
  return job;
}

Team::Team(std::shared_ptr<DeviceArena> arena, std::vector<int> ranks)
    : arena_(std::move(arena)),
      ranks_(std::move(ranks)),
      rooms_(std::make_shared<LaunchRooms>(arena_, std::max(most_jobs, static_cast<std::uint32_t>(ranks_.size())))),
      deposits_(ranks_.size()) {
  launching_.reserve(rooms_->most_jobs());
  together_.reserve(rooms_->most_jobs());
}

Result<std::unique_ptr<Team>> Team::make(std::shared_ptr<DeviceArena> arena, std::vector<int> ranks,
                                         const SetUpLimit& limit) {
  auto team = std::make_unique<Team>(std::move(arena), std::move(ranks));
  DeviceRuntime& runtime = team->runtime();
  const auto scope = DeviceScope::enter(runtime);
  if (!scope.ok()) return scope.status();
  const auto order = team->arena_->allocate_zeros(sizeof(LaunchOrder), limit);
  if (!order.ok()) return order.status();
  team->order_ = *order;
  auto word = runtime.take_pinned(sizeof(device::Word64));
  if (!word.ok()) return word.status();
  team->abort_ = std::move(*word);
  *static_cast<device::Word64*>(team->abort_.data()) = 0;
  auto event = cuda::OwnedEvent::create(runtime.context());
  if (!event.ok()) return event.status();
  team->launched_ = std::move(*event);
  if (Status status = team->prepare_rooms(); !status.ok()) return status;
  return team;
}

Team::~Team() { runtime().give_back(std::move(abort_)); }

void Team::abort() {
  // Release: pairs with the kernels' acquire, though nothing is behind it.
  std::atomic_ref(*static_cast<device::Word64*>(abort_.data())).store(1, std::memory_order_release);
}

std::uint32_t Team::place_of(int rank) const {
  return static_cast<std::uint32_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
}

Result<std::shared_ptr<Meeting>> Team::deposit(Deposit deposit) {
  if (is_per_thread(deposit.stream) && ranks_.size() > 1) {
    const auto scope = DeviceScope::enter(runtime());
    if (!scope.ok()) return scope.status();
    auto event = cuda::OwnedEvent::create(runtime().context());
    if (!event.ok()) return event.status();
    deposit.before = std::make_shared<const cuda::OwnedEvent>(std::move(*event));
    if (Status status = record(deposit.before->handle(), deposit.stream); !status.ok()) return status;
  }
  const std::lock_guard lock(mutex_);
  const std::uint32_t place = place_of(deposit.rank);
  const std::uint64_t number = deposits_[place]++;
  while (first_ + meetings_.size() <= number) meetings_.push_back(std::make_shared<Meeting>(ranks_.size()));
  std::shared_ptr<Meeting> meeting = meetings_[number - first_];
  meeting->deposits_[place] = std::move(deposit);
  ++meeting->come_;
  if (meeting->over_) meeting->let_go();
  return meeting;
}

/// With the lock. Whoever has come to a later one has come to the first, too.
bool Team::is_front_complete() const {
  return !meetings_.empty() && meetings_.front()->come_ == ranks_.size() && !meetings_.front()->over_;
}

void Team::launch_ready(int rank) {
  const std::uint32_t launcher = place_of(rank);
  {
    const std::lock_guard lock(mutex_);
    if (!is_front_complete()) return;
    while (is_front_complete() && is_own(meetings_.front()->deposits_[launcher])) {
      do {
        Meeting& next = *launching_.emplace_back(std::move(meetings_.front()));
        meetings_.pop_front();
        ++first_;
        std::move(next.deposits_.begin(), next.deposits_.end(), std::back_inserter(together_));
      } while (is_front_complete() && can_join(together_, meetings_.front()->deposits_));
      launch(launching_, together_, launcher);
      launching_.clear();
      together_.clear();
    }
  }
  changed_.notify_all();
}

bool Team::can_join(std::span<const Deposit> launch, std::span<const Deposit> operation) const {
  const std::size_t jobs = launch.size() + operation.size();
  if (launch.size() < ranks_.size() || operation.size() != ranks_.size() || jobs > rooms_->most_jobs()) return false;
  const auto first = of_operation(launch, 0);
  if (!agree(first) || !agree(operation)) return false;
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    // A stream that two ranks share orders one's call behind the other's, which a launch does not.
    const auto before = first.first(place);
    const bool shared =
        std::any_of(before.begin(), before.end(), [&](const Deposit& each) { return each.stream == first[place].stream; });
    // And a stream is not made to wait for what only another one of the rank's was given.
    if (shared || operation[place].stream != first[place].stream) return false;
    if (is_per_thread(first[place].stream) && operation[place].thread != first[place].thread) return false;
    if (&operation[place].plan->kernel() != &first[place].plan->kernel()) return false;
  }
  const std::uint32_t operands = std::max(most_operands_of(launch), most_operands_of(operation));
  return storage_bytes(static_cast<std::uint32_t>(jobs), operands) <= most_storage;
}

Status Team::follow(cuda::StreamHandle stream) {
  if (!is_per_thread(stream) || ranks_.size() == 1) return {};
  // With the lock the event is behind a launch, not before the next one.
  const std::lock_guard lock(mutex_);
  const auto scope = DeviceScope::enter(runtime());
  if (!scope.ok()) return scope.status();
  return make_wait(stream, launched_.handle());
}

bool Team::wait(const Meeting& meeting, int rank, std::uint64_t ns) {
  const std::uint32_t place = place_of(rank);
  std::unique_lock lock(mutex_);
  // What nobody else may launch is not left to the next look.
  const auto is_for_this_thread = [&] {
    if (!is_front_complete()) return false;
    const Deposit& own = meetings_.front()->deposits_[place];
    return is_per_thread(own.stream) && is_own(own);
  };
  changed_.wait_for(lock, std::chrono::nanoseconds(ns), [&] { return meeting.over_ || is_for_this_thread(); });
  return meeting.over_;
}

Departure Team::departure(const Meeting& meeting, int rank) const {
  const std::lock_guard lock(mutex_);
  return {meeting.status_, meeting.flight_, meeting.first_job_ + place_of(rank), meeting.differs_};
}

std::vector<int> Team::missing(const Meeting& meeting) const {
  const std::lock_guard lock(mutex_);
  std::vector<int> missing;
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    if (meeting.deposits_[place].rank < 0) missing.push_back(ranks_[place]);
  }
  return missing;
}

void Team::withdraw(Meeting& meeting, const Status& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (meeting.over_) return;
    meeting.over_ = true;
    meeting.status_ = reason;
    meeting.let_go();
  }
  changed_.notify_all();
}

/// With the lock. deposits: of all these meetings.
void Team::launch(std::span<const std::shared_ptr<Meeting>> meetings, std::span<const Deposit> deposits,
                  std::uint32_t launcher) {
  for (const auto& each : meetings) each->over_ = true;
  if (const auto first = of_operation(deposits, 0); !agree(first)) {
    for (const Deposit& each : first) {
      if (each.operation_hash != first[0].operation_hash) meetings[0]->differs_ = each.rank;
    }
    return;
  }
  std::shared_ptr<Flight> launched;
  const Status status = catching([&]() -> Status {
    const auto scope = DeviceScope::enter(runtime());
    if (!scope.ok()) return scope.status();
    Launch launch{};
    std::uint32_t blocks = 0;
    auto flight = prepare(deposits, launch, blocks);
    if (!flight.ok()) return flight.status();
    Status made = write_and_launch(deposits, launcher, **flight, launch, blocks);
    if (made.ok()) launched = std::move(*flight);
    return made;
  });
  std::uint32_t job = 0;
  for (const auto& each : meetings) {
    each->status_ = status;
    each->flight_ = launched;
    each->first_job_ = job;
    job += static_cast<std::uint32_t>(ranks_.size());
  }
}

/// The launch's own stream writes first what it needs in the device's memory. Later launches come behind it.
Status Team::write_and_launch(std::span<const Deposit> deposits, std::uint32_t launcher, Flight& flight, Launch& launch,
                              std::uint32_t blocks) {
  const cuda::StreamHandle stream = deposits[launcher].stream;
  bool launched = false;
  Status status = clean(flight.room(), stream);
  const std::vector<DeviceImage*> images = images_of(deposits);
  for (DeviceImage* const each : images) {
    if (status.ok()) status = each->write_on(stream);
  }
  if (status.ok()) status = enqueue(deposits, launcher, launch, blocks, launched_.handle(), true, launched);
  // One that runs although what came behind it failed is kept until it is over.
  if (!launched) flight.will_not_run();
  for (DeviceImage* const each : images) {
    if (launched) each->note_launch();
  }
  return status;
}

/// What each rank's settings allow is what its launches take; of a fused one, the first rank's. Operations are run one
/// behind the other, so the one of the most tasks counts.
std::uint32_t Team::blocks_for(std::span<const Deposit> deposits) const {
  std::uint32_t tasks = 1;
  for (std::size_t operation = 0; operation * ranks_.size() < deposits.size(); ++operation) {
    std::uint32_t own = 0;
    for (const Deposit& each : of_operation(deposits, operation)) own += each.plan->tasks();
    tasks = std::max(tasks, own);
  }
  const std::uint32_t all = runtime().multiprocessors();
  const std::uint32_t usual = ranks_.size() > 1 ? 2 * all : std::max(1u, all / 4);
  const BlockLimits& limits = deposits[0].blocks;
  std::uint32_t blocks = std::max(std::min(tasks, usual), limits.least);
  if (limits.most != 0) blocks = std::min(blocks, limits.most);
  return std::max(1u, std::min(blocks, tasks));
}

Job Team::describe(std::span<const Deposit> deposits, std::size_t number, JobRecord* record) const {
  const Deposit& own = deposits[number];
  const std::size_t operation = number / ranks_.size();
  Job job = own.job(record);
  job.operation = static_cast<std::uint32_t>(operation);
  job.operation_hash = own.operation_hash;
  job.limit_ns = own.limit_ns;
  for (const Deposit& each : of_operation(deposits, operation)) job.limit_ns = std::min(job.limit_ns, each.limit_ns);
  for (std::size_t before = number % ranks_.size(); before < number; before += ranks_.size()) {
    if (deposits[before].work() != 0) job.predecessor = static_cast<std::uint32_t>(before) + 1;
  }
  job.earlier_uses = uses_before(deposits, number);
  return job;
}

Launch Team::describe(std::span<const Deposit> deposits, LaunchRoom& room) const {
  Launch launch{};
  launch.order = reinterpret_cast<LaunchOrder*>(order_);
  launch.words = reinterpret_cast<LaunchWords*>(room.words);
  launch.job_words = reinterpret_cast<JobWords*>(room.words + sizeof(LaunchWords));
  launch.abort = static_cast<const device::Word64*>(abort_.data());
  launch.job_count = static_cast<std::uint32_t>(deposits.size());
  launch.most_operands = most_operands_of(deposits);
  launch.patience = patience;
  if (launch.job_count > most_inline_jobs) launch.more = room.jobs;
  for (std::uint32_t j = 0; j < launch.job_count; ++j) {
    (launch.more != nullptr ? room.jobs : launch.jobs)[j] = describe(deposits, j, &room.records[j]);
    launch.task_count += deposits[j].plan->tasks();
    launch.busy_jobs += deposits[j].work() != 0 ? 1 : 0;
  }
  return launch;
}

Result<std::shared_ptr<Flight>> Team::prepare(std::span<const Deposit> deposits, Launch& launch, std::uint32_t& blocks) {
  auto room = rooms_->take();
  if (!room.ok()) return room.status();
  launch = describe(deposits, **room);
  LaunchRemains uses{rooms_, std::move(*room), {}, {}, std::shared_ptr<DeviceRuntime>(arena_, &runtime())};
  for (const Deposit& each : deposits) {
    uses.plans.push_back(each.plan);
    if (each.binding != nullptr) uses.bindings.push_back(each.binding);
  }
  blocks = runtime().reserve(blocks_for(deposits), deposits[0].plan->kernel().resident_blocks);
  auto flight = std::make_shared<Flight>(std::move(uses), blocks);
  if (storage_bytes(launch.job_count, launch.most_operands) <= most_storage) return flight;
  flight->will_not_run();
  return Status(TUTTI_UNSUPPORTED,
                fmt::format("{} ranks on device {} with {} operands a step are more than a launch holds", launch.job_count,
                            runtime().device(), launch.most_operands),
                "Put fewer ranks on a device, or name another algorithm.");
}

/// A new room's words become 0 in the launch's own stream: what else the device does might keep a stream of ours waiting.
Status Team::clean(LaunchRoom& room, cuda::StreamHandle stream) const {
  if (room.clean) return {};
  const cuda::Driver& driver = runtime().driver();
  const auto scope = DeviceScope::enter(runtime());
  if (!scope.ok()) return scope.status();
  Status status = driver.call(driver.api().cuMemsetD8Async, runtime().device(), "clearing a launch's words", room.words,
                              static_cast<unsigned char>(0), rooms_->words_bytes(), stream);
  room.clean = status.ok();
  return status;
}

Status Team::run_kernel(const Deposit& on, Launch& launch, std::uint32_t blocks) {
  const cuda::Driver& driver = runtime().driver();
  const DeviceKernel& kernel = on.plan->kernel();
  cuda::LaunchAttribute domain;
  domain.id = cuda::LaunchAttributeId::mem_sync_domain;
  domain.value.domain = cuda::MemSyncDomain::remote;  // its releases need not wait for what other kernels write
  cuda::LaunchConfig config;
  config.grid[0] = blocks;
  config.block[0] = std::min(runtime().threads(), static_cast<std::uint32_t>(kernel.code.most_threads));
  config.shared_bytes = static_cast<unsigned>(storage_bytes(launch.job_count, launch.most_operands));
  config.stream = on.stream;
  config.attributes = &domain;
  config.attribute_count = runtime().has_domains() ? 1 : 0;
  void* parameters[] = {&launch};
  return driver.call(driver.api().cuLaunchKernelEx, runtime().device(), "launching a collective", &config,
                     kernel.code.function, parameters, nullptr);
}

Status Team::record(cuda::EventHandle event, cuda::StreamHandle stream) const {
  return runtime().driver().call(runtime().driver().api().cuEventRecord, runtime().device(),
                                 "recording an event on a stream", event, stream);
}
Status Team::make_wait(cuda::StreamHandle stream, cuda::EventHandle event) const {
  return runtime().driver().call(runtime().driver().api().cuStreamWaitEvent, runtime().device(),
                                 "making a stream wait for another", stream, event, 0u);
}

/// The launcher's stream waits for what the others have been given. event: recorded on one after the other of them.
Status Team::gather_streams(std::span<const Deposit> deposits, cuda::StreamHandle launcher, cuda::EventHandle event,
                            std::vector<cuda::StreamHandle>& others) const {
  for (const Deposit& each : deposits) {
    Status status;
    if (each.before != nullptr) {
      status = make_wait(launcher, each.before->handle());
    } else if (each.stream != launcher && std::find(others.begin(), others.end(), each.stream) == others.end()) {
      others.push_back(each.stream);
      status = record(event, each.stream);
      if (status.ok()) status = make_wait(launcher, event);
    }
    if (!status.ok()) return status;
  }
  return {};
}

/// The kernel runs on the launcher's stream, behind what the others have been given, and they go on behind it.
Status Team::enqueue(std::span<const Deposit> deposits, std::uint32_t launcher, Launch& launch, std::uint32_t blocks,
                     cuda::EventHandle event, bool behind_last, bool& launched) {
  const cuda::Driver& driver = runtime().driver();
  const cuda::StreamHandle stream = deposits[launcher].stream;
  Status status;
  // By the same handle there may be another thread's stream, or one that was made since the last was destroyed.
  unsigned long long id = 0;
  if (behind_last) {
    status = driver.call(driver.api().cuStreamGetId, runtime().device(), "asking which stream it is", stream, &id);
    if (status.ok() && has_launched_ && last_stream_ != id) status = make_wait(stream, event);
  }
  std::vector<cuda::StreamHandle> others;
  if (status.ok()) status = gather_streams(of_operation(deposits, 0), stream, event, others);
  std::optional<DeviceRuntime::InOrder> order;
  if (status.ok() && behind_last && deposits[launcher].in_order) {
    auto begun = DeviceRuntime::InOrder::begin(runtime(), stream);
    if (!begun.ok()) return begun.status();
    order = std::move(*begun);
  }
  if (status.ok()) status = run_kernel(deposits[launcher], launch, blocks);
  launched = status.ok();
  if (!launched) return status;
  if (behind_last) {
    has_launched_ = true;
    last_stream_ = id;
  }
  if (order) status = order->end(stream);
  if (status.ok() && (behind_last || !others.empty())) status = record(event, stream);
  for (const cuda::StreamHandle other : others) {
    if (status.ok()) status = make_wait(other, event);
  }
  return status;
}

Result<std::shared_ptr<Flight>> Team::capture(std::span<const Deposit> deposits, cuda::GraphHandle graph) {
  const std::lock_guard lock(mutex_);
  const bool all = deposits.size() % ranks_.size() == 0;
  const bool same = agree(all ? of_operation(deposits, 0) : deposits);  // of more operations can_join has seen it
  if (!all || !same) {
    return Status(TUTTI_UNSUPPORTED,
                  fmt::format("a capture has the operation of {} of the {} ranks on device {}", same ? deposits.size() : 1,
                              ranks_.size(), runtime().device()),
                  "Call it for all of them within one group, on streams of the same capture.");
  }
  const auto scope = DeviceScope::enter(runtime());
  if (!scope.ok()) return scope.status();
  auto event = cuda::OwnedEvent::create(runtime().context());
  if (!event.ok()) return event.status();
  Launch launch{};
  std::uint32_t blocks = 0;
  auto flight = prepare(deposits, launch, blocks);
  if (!flight.ok()) return flight.status();
  Status status = give_to_graph(runtime(), *flight, graph);
  if (!status.ok()) (*flight)->will_not_run();
  bool launched = false;
  if (status.ok()) status = clean((*flight)->room(), deposits[0].stream);
  (*flight)->room().clean = false;  // a graph that is never launched leaves them as they were
  if (status.ok()) status = enqueue(deposits, 0, launch, blocks, event->handle(), false, launched);
  if (!status.ok()) return status;
  return flight;
}

}  // namespace tutti
