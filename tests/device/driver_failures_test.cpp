// Driver calls that fail, one after the other, at every place where the library makes one. Nothing crashes, hangs or leaks,
// every rank hears of it in time, and the sentence names the entry point. Each case has a process of its own, since what
// the driver has lost stays lost there.
//
// The quick test takes a sample by a seed, TEST_SEED. With TEST_WHOLE=1 every call is failed (label cuda-long).
// TEST_ORDER=ENTRY:NUMBER:RESULT takes that failure alone.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "tests/device/calls.h"
#include "tests/device/device_fixture.h"
#include "tests/support/child.h"

#if defined(__SANITIZE_THREAD__)
/// A child leaves by _exit, while the library's threads that wait for others are still there.
extern "C" inline __attribute__((used, visibility("default"))) const char* __tsan_default_options() {
  return "report_thread_leaks=0";
}
#endif

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kCount = 1000;
constexpr std::uint64_t kLimitNs = 2 * kSecondNs;
constexpr int kRanks = 3;
constexpr std::size_t kQuickFailures = under_tsan || under_asan ? 3 : 5;  ///< of each stage

/// The stand-in's ear, in a child that has loaded the driver. Not there: none, or a real driver.
cuda::StandinControl load_standin() {
  return cuda::Driver::get().ok() ? cuda::StandinControl::find() : cuda::StandinControl();
}

/// Asks a child, so that this process never loads the driver: its children could not use it.
bool standin_is_there() {
  static const bool there = child_says([] { return static_cast<bool>(load_standin()); });
  return there;
}

/// What a rank does while driver calls fail.
enum class Stage { joining, blocking, queue, stream, capture, abort, ending };
constexpr Stage kStages[] = {Stage::joining, Stage::blocking, Stage::queue, Stage::stream,
                             Stage::capture, Stage::abort,    Stage::ending};
const char* name_of(Stage stage) {
  constexpr const char* names[] = {"Joining", "Blocking", "Queue", "Stream", "Capture", "Abort", "Ending"};
  return names[static_cast<int>(stage)];
}

/// Calls of each entry point during a stage, as counted in a run where none fails.
using Counts = std::map<std::string, std::uint64_t>;

Counts calls_so_far(const cuda::StandinControl& standin) {
  Counts counts;
  cuda::for_each_entry(api(), [&](const auto& entry) { counts[entry.name] = standin.calls(entry.name); });
  return counts;
}

/// Calls that hold no error back from anybody: what they fail with is looked at by nobody, or leads to another way.
bool may_be_ignored(const std::string& entry) {
  return entry.find("Destroy") != std::string::npos || entry.find("Free") != std::string::npos ||
         entry.find("Release") != std::string::npos || entry.find("Unmap") != std::string::npos ||
         entry == "cuCtxPopCurrent_v2" || entry == "cuThreadExchangeStreamCaptureMode" || entry == "cuGetErrorName" ||
         entry == "cuGetErrorString" || entry == "cuStreamQuery" || entry == "cuFuncLoad";
}

/// The last number of "ENTRY:NUMBER:RESULT".
unsigned long result_of(const std::string& order) {
  return std::strtoul(order.c_str() + order.rfind(':') + 1, nullptr, 10);
}

/// Its entry point.
std::string entry_of(const std::string& order) { return order.substr(0, order.find(':')); }

/// One run of a stage by all ranks of a communicator.
class Run {
 public:
  Run(const cuda::StandinControl& standin, Stage stage, std::string order)
      : standin_(standin), stage_(stage), order_(std::move(order)), point_(kRanks) {}

  /// Ranks 0 and 2 share a place; in captures there is one rank a place.
  void run() {
    ranks_ = std::make_unique<DeviceRanks>(
        GroupOptions{.ranks = kRanks, .places = stage_ == Stage::capture ? kRanks : 2, .timeout_ns = kLimitNs});
    ranks_->run([this](const DeviceRank& rank) { run_rank(rank); });
    ranks_->destroy();
  }

  const Counts& counts() const { return counts_; }
  bool all_succeeded() const {
    return std::all_of(std::begin(ends_), std::end(ends_), [](const End& end) { return end.status == TUTTI_SUCCESS; });
  }
  /// The call that was to fail was made. How often a call polls differs from run to run.
  bool was_made() const {
    const std::string entry = entry_of(order_);
    return counts_.at(entry) >= std::strtoull(order_.c_str() + entry.size() + 1, nullptr, 10);
  }
  /// A call tells of it, or the communicator has failed behind calls that were right.
  bool was_heard() const { return !all_succeeded() || failed_behind_; }
  /// A rank's sentence has these words.
  bool says(const std::string& words) const {
    return std::any_of(std::begin(ends_), std::end(ends_),
                       [&](const End& end) { return end.sentence.find(words) != std::string::npos; });
  }
  std::string text() const {
    std::string text;
    for (const End& end : ends_) text += std::string(tutti_status_string(end.status)) + ": " + end.sentence + "\n";
    return text;
  }

 private:
  struct End {
    tutti_status status = TUTTI_SUCCESS;
    std::string sentence;
  };

  void run_rank(const DeviceRank& rank) {
    if (stage_ != Stage::joining) expect_sums(rank, {}, rank.stream);
    const Memory send = device_values(std::vector<std::int32_t>(kCount, rank.rank + 1));
    const Memory recv = device_values(std::vector<std::int32_t>(kCount, -1));
    if (stage_ == Stage::capture) {
      EXPECT_EQ(api().cuStreamBeginCapture_v2(rank.stream.handle(), cuda::CaptureMode::thread_local_only), kOk);
    }
    point_.meet();
    if (rank.rank == 0) {
      counts_ = calls_so_far(standin_);
      EXPECT_TRUE(standin_.fail(order_.c_str()));
    }
    point_.meet();
    const std::uint64_t begun = clock_ns();
    End& end = ends_[rank.rank];
    end.status = act(rank, send, recv);
    EXPECT_LE(clock_ns() - begun, kLimitNs + 2 * kPromisedEndNs) << name_of(stage_);
    if (end.status != TUTTI_SUCCESS && stage_ != Stage::ending) end.sentence = sentence_of(rank.comm);
    point_.meet();
    if (rank.rank == 0) {
      standin_.fail("");
      const Counts after = calls_so_far(standin_);
      for (auto& [entry, count] : counts_) count = after.at(entry) - count;
    }
    point_.meet();
    finish(rank, recv, end);
    if (order_.empty() || stage_ == Stage::ending || !all_succeeded() || !was_made() || may_be_ignored(entry_of(order_))) {
      return;
    }
    // A thread of the library's that looks at the device met it.
    const bool failed = cuda::eventually([&] {
      tutti_comm_state_kind state = TUTTI_COMM_READY;
      return tutti_comm_state(rank.comm, &state) != TUTTI_SUCCESS || state == TUTTI_COMM_FAILED;
    });
    if (failed) failed_behind_ = true;
  }

  static std::string sentence_of(tutti_comm* comm) {
    const tutti_error own = error_of(nullptr);
    const tutti_error shared = error_of(comm);
    return std::string(own.message) + " | " + shared.message;
  }

  tutti_status act(const DeviceRank& rank, const Memory& send, const Memory& recv) {
    const CollectiveCase of{.op = TUTTI_MAX, .count = kCount};
    const auto call = [&](tutti_stream stream, tutti_call options = TUTTI_CALL_INIT) {
      return issue(of, send.data(), recv.data(), rank.comm, stream, options);
    };
    tutti_work* work = nullptr;
    tutti_call with_work = TUTTI_CALL_INIT;
    with_work.work = &work;
    const auto end_of_work = [&](tutti_status status) {
      if (status == TUTTI_SUCCESS) status = tutti_work_wait(work, 0);
      tutti_work_release(work);
      return status;
    };
    switch (stage_) {
      case Stage::joining:
      case Stage::blocking:
        return call({});
      case Stage::stream:
        return end_of_work(call(on(rank.stream), with_work));
      case Stage::capture:
        return call(on(rank.stream));
      case Stage::queue: {
        tutti_queue* queue = nullptr;
        EXPECT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
        const tutti_status status = end_of_work(call({TUTTI_STREAM_QUEUE, queue}, with_work));
        EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
        return status;
      }
      case Stage::abort:
        if (rank.place == 0) return end_of_work(call(on(rank.stream), with_work));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_EQ(tutti_comm_abort(rank.comm), TUTTI_SUCCESS);
        return TUTTI_ABORTED;
      case Stage::ending: {
        const tutti_status status = call(on(rank.stream));
        ends_[rank.rank].sentence = sentence_of(rank.comm);
        EXPECT_EQ(tutti_comm_destroy(ranks_->take(rank.rank)), TUTTI_SUCCESS);
        return status;
      }
    }
    return TUTTI_SUCCESS;
  }

  /// What succeeded is right; what did not has left the stream usable, and is told.
  void finish(const DeviceRank& rank, const Memory& recv, const End& end) {
    if (stage_ == Stage::capture) {
      cuda::GraphHandle graph = nullptr;
      cuda::GraphExecHandle instance = nullptr;
      const auto captured = api().cuStreamEndCapture(rank.stream.handle(), &graph);
      if (captured == kOk && all_succeeded()) {
        EXPECT_EQ(api().cuGraphInstantiateWithFlags(&instance, graph, 0), kOk);
        EXPECT_EQ(api().cuGraphLaunch(instance, rank.stream.handle()), kOk);
        rank.stream.wait();
        EXPECT_EQ(api().cuGraphExecDestroy(instance), kOk);
      }
      if (graph != nullptr) {
        EXPECT_EQ(api().cuGraphDestroy(graph), kOk);
      }
    }
    if (order_.empty() || stage_ == Stage::abort || stage_ == Stage::ending) return;
    // A call that nobody looks at may have lost the device after all ranks had succeeded: nothing can be read.
    if (cuda::is_sticky(static_cast<cuda::DriverResult>(result_of(order_))) && may_be_ignored(entry_of(order_))) return;
    // It may have failed behind a call that was right, where a thread of the library's looks at the device.
    if (tutti_comm_state_kind state = TUTTI_COMM_READY;
        tutti_comm_state(rank.comm, &state) != TUTTI_SUCCESS || state == TUTTI_COMM_FAILED) {
      return;
    }
    if (stage_ == Stage::capture ? all_succeeded() : end.status == TUTTI_SUCCESS) {
      EXPECT_EQ(recv.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, kRanks));
    }
  }

  const cuda::StandinControl& standin_;
  const Stage stage_;
  const std::string order_;
  MeetingPoint point_;
  std::unique_ptr<DeviceRanks> ranks_;
  End ends_[kRanks];
  std::atomic<bool> failed_behind_{false};
  Counts counts_;
};

/// Counts a stage's calls in a child.
Counts count_calls(Stage stage) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  Counts counts;
  {
    const Child child([&] {
      const cuda::StandinControl standin = load_standin();
      Run run(standin, stage, "");
      run.run();
      std::FILE* const out = ::fdopen(ends[1], "w");
      for (const auto& [entry, count] : run.counts()) {
        if (count != 0) std::fprintf(out, "%s %lu\n", entry.c_str(), static_cast<unsigned long>(count));
      }
      std::fclose(out);
    });
    ::close(ends[1]);
    std::FILE* const in = ::fdopen(ends[0], "r");
    char entry[128];
    unsigned long count = 0;
    while (std::fscanf(in, "%127s %lu", entry, &count) == 2) counts[entry] = count;
    std::fclose(in);
  }
  return counts;
}

/// Fails one call of a stage in a child, and looks at what came of it.
void fail_call(Stage stage, const std::string& order) {
  const std::string entry = entry_of(order);
  SCOPED_TRACE(std::string(name_of(stage)) + ", " + order);
  const Child child([&] {
    ::alarm(60);
    const cuda::StandinControl standin = load_standin();
    const bool is_sticky = cuda::is_sticky(static_cast<cuda::DriverResult>(result_of(order)));
    if (stage != Stage::joining) expect_places_work(kRanks, 2);
    const std::uint64_t live = standin.live();
    Run run(standin, stage, order);
    run.run();
    if (!run.all_succeeded() && stage != Stage::abort) {
      EXPECT_TRUE(run.says(entry) || run.says("device")) << run.text();
      EXPECT_FALSE(run.says("internal error")) << run.text();
    }
    if (run.was_made() && stage != Stage::ending && !may_be_ignored(entry)) {
      EXPECT_TRUE(run.was_heard()) << "nobody heard of it";
    }
    if (is_sticky) return;
    expect_places_work(kRanks, 2);
    if (stage != Stage::joining) {
      EXPECT_TRUE(cuda::eventually([&] { return standin.live() <= live; })) << "more is alive than before";
    }
  });
}

class DriverFailures : public ::testing::TestWithParam<Stage> {
 protected:
  void SetUp() override {
    if (!standin_is_there()) GTEST_SKIP() << "a real driver does not fail on order";
  }
};

TEST_P(DriverFailures, OfEveryCallAreToldInTimeAndLeaveNothing) {
  const char* const seed = std::getenv("TEST_SEED");
  const bool takes_all = std::getenv("TEST_WHOLE") != nullptr;
  const std::uint64_t number_of_run = seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1;
  constexpr unsigned kUnknown = 999, kLaunchFailed = 719;
  if (const char* const only = std::getenv("TEST_ORDER"); only != nullptr) {
    return fail_call(GetParam(), only);
  }
  // In an order that a seed makes of each by itself: how often a call polls differs from run to run.
  std::vector<std::tuple<std::uint64_t, std::string, std::uint64_t>> calls;
  for (const auto& [entry, count] : count_calls(GetParam())) {
    for (std::uint64_t n = 1; n <= std::min<std::uint64_t>(count, 40); ++n) {
      std::seed_seq mix{number_of_run, static_cast<std::uint64_t>(GetParam()), n, std::uint64_t{entry.size()},
                        static_cast<std::uint64_t>(std::accumulate(entry.begin(), entry.end(), 0))};
      calls.emplace_back(std::mt19937_64(mix)(), entry, n);
    }
  }
  EXPECT_GT(calls.size(), 5u);
  std::sort(calls.begin(), calls.end());
  if (!takes_all && calls.size() > kQuickFailures) calls.resize(kQuickFailures);
  for (const auto& [drawn, entry, n] : calls) {
    const unsigned result = drawn % 4 == 0 ? kLaunchFailed : kUnknown;
    fail_call(GetParam(), entry + ":" + std::to_string(n) + ":" + std::to_string(result));
    if (HasFailure() && !takes_all) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, DriverFailures, ::testing::ValuesIn(kStages),
                         [](const ::testing::TestParamInfo<Stage>& at) { return std::string(name_of(at.param)); });

// ---- Drivers and modules that are missing or wrong.

class DeviceRefusals : public ::testing::Test {};

/// A call on a CUDA stream of one rank; the status and the sentence.
std::pair<tutti_status, std::string> try_device_call() {
  tutti_comm* comm = nullptr;
  EXPECT_EQ(tutti_comm_create_all(&comm, 1, nullptr), TUTTI_SUCCESS) << last_error();
  std::int32_t data = 7;
  const tutti_status status = tutti_all_reduce(&data, &data, 1, TUTTI_INT32, TUTTI_SUM, comm, on(nullptr), nullptr);
  std::string sentence = last_error();
  EXPECT_EQ(tutti_all_reduce(&data, &data, 1, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  return {status, std::move(sentence)};
}

TEST_F(DeviceRefusals, KernelsThatAreMissingAreNamedByTheirFile) {
  if (!standin_is_there()) GTEST_SKIP() << "for the stand-in";
  const Child child([] {
    ASSERT_EQ(::setenv("TUTTI_MODULE_DIR", "/nonexistent", 1), 0);
    const auto [status, sentence] = try_device_call();
    EXPECT_EQ(status, TUTTI_UNSUPPORTED) << sentence;
    EXPECT_THAT(sentence, HasSubstr("/nonexistent/libtutti_kernels.so"));
    EXPECT_THAT(sentence, HasSubstr("TUTTI_MODULE_DIR"));
  });
}

TEST_F(DeviceRefusals, ADriverThatIsTooOldIsNamedByItsVersion) {
  if (!standin_is_there()) GTEST_SKIP() << "for the stand-in";
  const Child child([] {
    ASSERT_EQ(::setenv("STANDIN_VERSION", "11080", 1), 0);
    const auto [status, sentence] = try_device_call();
    EXPECT_EQ(status, TUTTI_UNSUPPORTED) << sentence;
    EXPECT_THAT(sentence, HasSubstr("11.8"));
  });
}

TEST_F(DeviceRefusals, AMachineWithoutDevicesIsSo) {
  if (!standin_is_there()) GTEST_SKIP() << "for the stand-in";
  const Child child([] {
    ASSERT_EQ(::setenv("STANDIN_DEVICES", "0", 1), 0);
    const auto [status, sentence] = try_device_call();
    EXPECT_EQ(status, TUTTI_UNSUPPORTED) << sentence;
    EXPECT_THAT(sentence, HasSubstr("device"));
  });
}

TEST_F(DeviceRefusals, ADriverThatDoesNotStartSaysWhy) {
  if (!standin_is_there()) GTEST_SKIP() << "for the stand-in";
  const Child child([] {
    ASSERT_EQ(::setenv("STANDIN_FAIL", "cuInit:0:304", 1), 0);
    const auto [status, sentence] = try_device_call();
    EXPECT_EQ(status, TUTTI_UNHANDLED_CUDA_ERROR) << sentence;
    EXPECT_THAT(sentence, HasSubstr("cuInit"));
  });
}

// CTest runs it without the stand-in's folder, too.
TEST_F(DeviceRefusals, AMachineWithoutADriverIsSo) {
  const Child child([] {
    if (cuda::Driver::get().ok()) return;
    const auto [status, sentence] = try_device_call();
    EXPECT_EQ(status, TUTTI_UNSUPPORTED) << sentence;
    EXPECT_THAT(sentence, HasSubstr("libcuda.so.1"));
  });
}

TEST_F(DeviceRefusals, AForkedChildIsRefused) {
  if (under_tsan) GTEST_SKIP() << "the thread sanitizer lets no forked child start threads";
  if (under_asan) GTEST_SKIP() << "a thread may be in the address sanitizer's allocator, which no child can use then";
  const Child child([] {
    if (!cuda::Driver::get().ok()) return;
    try_device_call();  // starts the driver, whatever it comes to
    const Child grandchild([] {
      const auto [status, sentence] = try_device_call();
      EXPECT_EQ(status, TUTTI_INVALID_USAGE) << sentence;
      EXPECT_THAT(sentence, HasSubstr("fork"));
    });
  });
}

}  // namespace
}  // namespace tutti::test
