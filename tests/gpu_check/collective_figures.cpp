#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <set>
#include <thread>

#include "tests/gpu_check/figures.h"
#include "tutti/tutti.h"

namespace tutti::gpu_check {
namespace {

using nlohmann::json;

constexpr int kRanks = 2;
constexpr int kWarmUp = 5;
constexpr std::uint32_t kOne = 0x3f800000;                    // as a float32
constexpr std::uint32_t kTwo = 0x40000000;                    // what the ranks' ones add up to
constexpr std::uint64_t kDeadlineNs = 20'000'000'000;         // of an operation: what a sound device does takes far less
constexpr auto kBeforeAbort = std::chrono::milliseconds(20);  // in which a kernel begins to spin

/// A call of the library's: throws where it failed, Lacking where it is unsupported.
void check(tutti_status status, tutti_comm* comm = nullptr) {
  if (status == TUTTI_SUCCESS) return;
  tutti_error error = {};
  error.size = sizeof error;
  tutti_error_get(nullptr, &error);
  if (error.status == TUTTI_SUCCESS && comm != nullptr) tutti_error_get(comm, &error);
  std::string text = error.status == TUTTI_SUCCESS ? tutti_status_string(status) : error.message;
  if (error.remedy[0] != '\0') text += std::string(". ") + error.remedy;
  if (status == TUTTI_UNSUPPORTED) throw Lacking(text);
  throw Failure(text);
}

using Gpus = std::array<const Gpu*, kRanks>;  // of each rank; they may be the same

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

/// Runs `body(rank)` on a thread for each rank, with its context. Throws the first error, after `failed()` has been called.
void on_threads(const Gpus& gpus, const std::function<void(int)>& body, const std::function<void()>& failed) {
  std::array<std::exception_ptr, kRanks> errors;
  std::atomic<int> first = -1;
  std::array<std::thread, kRanks> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads[at(r)] = std::thread([&, r] {
      try {
        gpus[at(r)]->enter();
        body(r);
      } catch (...) {
        errors[at(r)] = std::current_exception();
        int nobody = -1;
        first.compare_exchange_strong(nobody, r);
        failed();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first >= 0) std::rethrow_exception(errors[at(first)]);
}

/// One communicator of two ranks in this process, with a stream and buffers each.
class Ranks {
 public:
  Ranks(const Gpus& gpus, std::size_t bytes) : gpus_(gpus), count_(bytes / sizeof(float)) {
    tutti_unique_id id;
    check(tutti_get_unique_id(&id));
    // Each on a thread of its own, since a rank's context is its thread's.
    gpu_check::on_threads(
        gpus,
        [&](int rank) {
          tutti_config config = TUTTI_CONFIG_INIT;
          config.device = gpu(rank).device() + 1;
          config.connect_timeout_ns = kDeadlineNs;
          config.operation_timeout_ns = kDeadlineNs;
          check(tutti_comm_create(&comms_[at(rank)], kRanks, &id, rank, &config));
          streams_[at(rank)] = gpu(rank).make_stream();
          inputs_[at(rank)] = gpu(rank).make_memory(bytes, kOne);
          outputs_[at(rank)] = gpu(rank).make_memory(bytes, 0);
        },
        [] {});
    gpu(0).enter();
  }
  ~Ranks() {
    for (tutti_comm* comm : comms_) tutti_comm_destroy(comm);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  const Gpu& gpu(int rank) const { return *gpus_[at(rank)]; }
  tutti_comm* comm(int rank) const { return comms_[at(rank)]; }
  const cuda::OwnedStream& stream(int rank) const { return streams_[at(rank)]; }

  /// The rank's part of an all_reduce, on its stream.
  void all_reduce(int rank) const {
    check(tutti_all_reduce(reinterpret_cast<const void*>(inputs_[at(rank)].address()),
                           reinterpret_cast<void*>(outputs_[at(rank)].address()), count_, TUTTI_FLOAT32, TUTTI_SUM,
                           comm(rank), {TUTTI_STREAM_CUDA, stream(rank).handle()}, nullptr),
          comm(rank));
  }
  /// Both parts, in a group of this thread's.
  void all_reduce_together() const {
    check(tutti_group_start());
    // A call that fails leaves its error to the end, which closes the group.
    std::exception_ptr failed;
    for (int r = 0; r < kRanks && failed == nullptr; ++r) {
      try {
        all_reduce(r);
      } catch (...) {
        failed = std::current_exception();
      }
    }
    const tutti_status status = tutti_group_end(nullptr);
    if (failed != nullptr) std::rethrow_exception(failed);
    check(status, comm(0));
  }
  /// That the last all_reduce gave what it should, in its first and its last elements; clears them for the next.
  void expect_right() const {
    for (int r = 0; r < kRanks; ++r) {
      gpu(r).finish(stream(r));
      for (const std::size_t element : std::set<std::size_t>{0, count_ / 2, count_ - 1}) {
        std::uint32_t word = 0;
        const cuda::DevicePointer address = outputs_[at(r)].address() + element * sizeof word;
        gpu(r).call(gpu(r).api().cuMemcpyDtoHAsync_v2, &word, address, sizeof word, stream(r).handle());
        gpu(r).call(gpu(r).api().cuMemsetD32Async, address, 0u, std::size_t{1}, stream(r).handle());
        gpu(r).finish(stream(r));
        if (word == kTwo) continue;
        tutti_error error = {};
        error.size = sizeof error;
        tutti_error_get(comm(r), &error);
        throw Failure("Element " + std::to_string(element) + " of rank " + std::to_string(r) + " is wrong. " +
                      error.message);
      }
    }
  }
  /// Runs `body(rank)` on a thread for each rank. Where one throws both are aborted, so that no other waits for it.
  void on_threads(const std::function<void(int)>& body) const {
    gpu_check::on_threads(gpus_, body, [this] {
      for (tutti_comm* comm : comms_) tutti_comm_abort(comm);
    });
  }

 private:
  Gpus gpus_;
  std::size_t count_;
  std::array<tutti_comm*, kRanks> comms_ = {};
  std::array<cuda::OwnedStream, kRanks> streams_;
  std::array<cuda::DeviceMemory, kRanks> inputs_;
  std::array<cuda::DeviceMemory, kRanks> outputs_;
};

/// Waits for what the rank's stream was given by an event behind it.
void await(const Ranks& ranks, int rank, const cuda::OwnedEvent& event) {
  const Gpu& gpu = ranks.gpu(rank);
  gpu.call(gpu.api().cuEventRecord, event.handle(), ranks.stream(rank).handle());
  gpu.call(gpu.api().cuEventSynchronize, event.handle());
}

/// Median of what the slower rank's operation takes, each rank on a thread of its own.
double threads_us(const Ranks& ranks, int rounds) {
  std::array<double, kRanks> medians = {};
  ranks.on_threads([&](int rank) {
    const cuda::OwnedEvent event = value_of(cuda::OwnedEvent::create(ranks.gpu(rank).context()));
    std::vector<double> us;
    for (int round = -kWarmUp; round < rounds; ++round) {
      const double begin = now_us();
      ranks.all_reduce(rank);
      await(ranks, rank, event);
      if (round >= 0) us.push_back(now_us() - begin);
    }
    medians[at(rank)] = summarize(us).median;
  });
  return std::max(medians[0], medians[1]);
}

/// A word of pinned memory for which a stream waits, so that what follows it is all enqueued before any of it runs.
class Gate {
 public:
  Gate(const Gpu& gpu, const cuda::OwnedStream& stream)
      : gpu_(gpu), stream_(stream), memory_(gpu.make_pinned(sizeof(std::uint64_t))) {}
  void close() {
    ++turn_;
    gpu_.call(gpu_.api().cuStreamWaitValue32_v2, stream_.handle(), memory_.address(), turn_, 0u);
  }
  // Release: no order is asked for but that the device sees it.
  void open() const {
    std::atomic_ref(*static_cast<std::uint32_t*>(memory_.data())).store(turn_, std::memory_order_release);
  }

 private:
  const Gpu& gpu_;
  const cuda::OwnedStream& stream_;
  cuda::PinnedMemory memory_;
  std::uint32_t turn_ = 0;
};

/// Median of what `enqueue` gives the first rank's stream, by the device's clock.
double device_us(const Ranks& ranks, int rounds, const std::function<void()>& enqueue) {
  const Gpu& gpu = ranks.gpu(0);
  Gate gate(gpu, ranks.stream(0));
  const TimedEvent begin(gpu);
  const TimedEvent end(gpu);
  std::vector<double> us;
  for (int round = -kWarmUp; round < rounds; ++round) {
    gate.close();
    begin.record(gpu, ranks.stream(0));
    try {
      enqueue();
    } catch (...) {
      gate.open();
      throw;
    }
    end.record(gpu, ranks.stream(0));
    gate.open();
    for (int r = 0; r < kRanks; ++r) gpu.finish(ranks.stream(r));
    if (round >= 0) us.push_back(end.us_since(gpu, begin));
  }
  return summarize(us).median;
}

/// One all_reduce of both ranks, captured on the first rank's stream.
class CapturedAllReduce {
 public:
  explicit CapturedAllReduce(const Ranks& ranks) : gpu_(ranks.gpu(0)) {
    const cuda::DriverApi& api = gpu_.api();
    const cuda::OwnedEvent fork = value_of(cuda::OwnedEvent::create(gpu_.context()));
    const cuda::OwnedEvent join = value_of(cuda::OwnedEvent::create(gpu_.context()));
    const cuda::StreamHandle first = ranks.stream(0).handle();
    const cuda::StreamHandle second = ranks.stream(1).handle();
    gpu_.call(api.cuStreamBeginCapture_v2, first, cuda::CaptureMode::thread_local_only);
    std::exception_ptr failed;
    try {
      gpu_.call(api.cuEventRecord, fork.handle(), first);
      gpu_.call(api.cuStreamWaitEvent, second, fork.handle(), 0u);
      ranks.all_reduce_together();
      gpu_.call(api.cuEventRecord, join.handle(), second);
      gpu_.call(api.cuStreamWaitEvent, first, join.handle(), 0u);
    } catch (...) {
      failed = std::current_exception();
    }
    cuda::GraphHandle graph = nullptr;
    const cuda::DriverResult ended = api.cuStreamEndCapture(first, &graph);
    if (failed != nullptr) std::rethrow_exception(failed);
    if (ended != cuda::DriverResult::success) {
      throw Failure(gpu_.context().driver().failure(ended, "cuStreamEndCapture", gpu_.device(), "measuring").text());
    }
    gpu_.call(api.cuGraphInstantiateWithFlags, &instance_, graph, 0ull);
    gpu_.call(api.cuGraphDestroy, graph);
  }
  ~CapturedAllReduce() { gpu_.api().cuGraphExecDestroy(instance_); }
  CapturedAllReduce(const CapturedAllReduce&) = delete;
  CapturedAllReduce& operator=(const CapturedAllReduce&) = delete;

  void replay(const Ranks& ranks) const { gpu_.call(gpu_.api().cuGraphLaunch, instance_, ranks.stream(0).handle()); }

 private:
  const Gpu& gpu_;
  cuda::GraphExecHandle instance_ = nullptr;
};

}  // namespace

json measure_latency(const Gpu& gpu, const Asked& asked) {
  const Ranks ranks({&gpu, &gpu}, asked.bytes);
  const double threads = threads_us(ranks, asked.rounds);
  ranks.expect_right();

  std::array<cuda::OwnedEvent, kRanks> events;
  for (cuda::OwnedEvent& event : events) event = value_of(cuda::OwnedEvent::create(gpu.context()));
  std::vector<double> call_us;
  std::vector<double> us;
  for (int round = -kWarmUp; round < asked.rounds; ++round) {
    const double begin = now_us();
    ranks.all_reduce_together();
    const double called = now_us();
    for (int r = 0; r < kRanks; ++r) await(ranks, r, events[at(r)]);
    const double end = now_us();
    if (round < 0) continue;
    call_us.push_back(called - begin);
    us.push_back(end - begin);
  }
  ranks.expect_right();
  return {{"bytes", asked.bytes},
          {"ranks", kRanks},
          {"threads_us", threads},
          {"group_us", summarize(us).median},
          {"group_call_us", summarize(call_us).median}};
}

json measure_replay(const Gpu& gpu, const Asked& asked) {
  const Ranks ranks({&gpu, &gpu}, asked.bytes);
  // The first operations join, and load what a capture must find there. Several are under way at once, so that the library
  // has made what a launch needs, and waits for nothing behind the closed gate.
  for (int i = 0; i < kWarmUp; ++i) ranks.all_reduce_together();
  ranks.expect_right();
  const double launched = device_us(ranks, asked.rounds, [&] { ranks.all_reduce_together(); });
  ranks.expect_right();
  const CapturedAllReduce captured(ranks);
  const double replayed = device_us(ranks, asked.rounds, [&] { captured.replay(ranks); });
  ranks.expect_right();
  return {{"bytes", asked.bytes}, {"ranks", kRanks}, {"kernel_us", launched}, {"replay_us", replayed}};
}

json measure_abort(const Gpu& gpu, const Asked& asked) {
  const cuda::Driver& driver = gpu.context().driver();
  const Gpu other = driver.device_count() > 1 ? Gpu(driver, gpu.device() == 0 ? 1 : 0) : Gpu::beside(gpu);
  std::vector<double> us;
  for (int round = 0; round < asked.rounds; ++round) {
    const Ranks ranks({&gpu, &other}, asked.bytes);
    ranks.on_threads([&](int rank) { ranks.all_reduce(rank); });
    ranks.expect_right();
    gpu.enter();
    ranks.all_reduce(0);
    std::this_thread::sleep_for(kBeforeAbort);
    if (gpu.has_finished(ranks.stream(0))) throw Failure("An all_reduce ended before its peer had called it.");
    const double begin = now_us();
    tutti_comm_abort(ranks.comm(0));
    while (!gpu.has_finished(ranks.stream(0))) {
      if (now_us() - begin > 5e6) throw Failure("A kernel ran on for 5 s after tutti_comm_abort.");
    }
    us.push_back(now_us() - begin);
    tutti_error error = {};
    error.size = sizeof error;
    tutti_error_get(ranks.comm(0), &error);
    if (error.status != TUTTI_ABORTED) {
      throw Failure(std::string("The aborted communicator's error is ") + tutti_status_string(error.status) + ".");
    }
  }
  const Times times = summarize(us);
  return {{"median_us", times.median}, {"most_us", *std::max_element(us.begin(), us.end())}};
}

}  // namespace tutti::gpu_check
