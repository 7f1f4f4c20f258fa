// The kernel that interprets programs, its blocks as threads of the host. Every algorithm gives the simulator's bits,
// however few blocks there are. Whatever ends a launch is told.
#include "src/executors/cuda/interpreter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/executors/cuda/encode.h"
#include "src/executors/simulator/simulator.h"
#include "tests/unit/executors/agreement.h"

namespace tutti::testing {
namespace {

/// What the threads of a block meet in.
struct BlockMeeting {
  explicit BlockMeeting(std::uint32_t threads, std::uint64_t storage_bytes)
      : barrier(threads), storage((storage_bytes + 15) / 16 * 16 + 16) {}
  std::barrier<> barrier;
  std::atomic<std::uint32_t> votes[2] = {0, 0};
  std::uint64_t values[2] = {0, 0};
  std::vector<std::max_align_t> storage;
};

class HostBlockThread final : public device::HostThread {
 public:
  HostBlockThread(BlockMeeting& meeting, std::uint32_t own, std::uint32_t of, std::uint32_t block_number,
                  std::uint32_t block_count)
      : meeting_(meeting) {
    thread = own;
    threads = of;
    block = block_number;
    blocks = block_count;
    shared = meeting.storage.data();
  }
  void barrier() override { meeting_.barrier.arrive_and_wait(); }
  bool any(bool vote) override {
    std::atomic<std::uint32_t>& votes = meeting_.votes[turn_];
    // Relaxed, all three: barriers lie between whoever counts, looks and cleans.
    if (vote) votes.fetch_add(1, std::memory_order_relaxed);
    barrier();
    const bool result = votes.load(std::memory_order_relaxed) != 0;
    barrier();
    if (thread == 0) votes.store(0, std::memory_order_relaxed);
    turn_ ^= 1u;
    return result;
  }
  std::uint64_t broadcast(std::uint64_t value, std::uint32_t from) override {
    if (thread == from) meeting_.values[turn_] = value;
    barrier();
    const std::uint64_t result = meeting_.values[turn_];
    turn_ ^= 1u;
    return result;
  }
  std::uint64_t timer_ns() override {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  void pause() override { std::this_thread::yield(); }

 private:
  BlockMeeting& meeting_;
  std::uint32_t turn_ = 0;
};

/// How many blocks of how many threads.
struct Grid {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;
};

template <typename Body>
void run_blocks(const Grid& grid, std::uint64_t storage, const Body& body) {
  std::vector<std::unique_ptr<BlockMeeting>> meetings;
  std::vector<std::thread> running;
  for (std::uint32_t b = 0; b < grid.blocks; ++b) {
    BlockMeeting& meeting = *meetings.emplace_back(std::make_unique<BlockMeeting>(grid.threads, storage));
    for (std::uint32_t t = 0; t < grid.threads; ++t) {
      running.emplace_back([&meeting, &body, grid, b, t] {
        HostBlockThread self(meeting, t, grid.threads, b, grid.blocks);
        device::Group group(self);
        body(group);
      });
    }
  }
  for (std::thread& thread : running) thread.join();
}

/// One case of all its ranks, as jobs of one launch. May be launched again.
class Fused {
 public:
  static constexpr std::uint64_t slot_count = 2;

  Fused(const Case& at, std::uint32_t strands) : at_(at) {
    Problem problem = at.problem();
    problem.processor = Processor::cuda;
    plan_ = make_plan(*at.algorithm, problem, at.places(), {.strands = strands}, slot_bytes);
    const auto program_of = [this](int r) { return make_program(*at_.algorithm, plan_, at_.places(), r); };
    for (int r = 0; r < at.ranks; ++r) {
      programs_.push_back(program_of(r));
      const Lowered lowered = lower(plan_, r, programs_.back(), program_of);
      auto blob = encode(plan_, r, lowered);
      EXPECT_TRUE(blob.ok() && check_blob(blob->bytes(), buffer_bytes(plan_, r)).empty());
      blobs_.push_back(std::move(*blob));
    }
    for (int r = 0; r < at.ranks; ++r) {
      fill(at, r, memory_.emplace_back(layout_of(at, r).bytes).data());
      scratch_.emplace_back(scratch_bytes(plan_) + 16);
      add_job(r);
    }
  }

  const Plan& plan() const { return plan_; }
  std::uint32_t tasks() const { return static_cast<std::uint32_t>(plan_.strands * plan_.shape.lanes) * ranks(); }
  JobRecord& record(int rank) { return records_[static_cast<std::size_t>(rank)]; }
  Job& job(int rank) { return jobs_[static_cast<std::size_t>(rank)]; }
  void set_abort() { std::atomic_ref(abort_).store(1, std::memory_order_release); }

  /// Launches the jobs of the first ranks (0: of all), and gives all ranks' memory.
  std::vector<std::vector<std::byte>> launch(const Grid& grid, std::uint64_t limit_ns = 0, std::uint32_t of = 0) {
    Launch launch{};
    launch.jobs = jobs_.data();
    launch.job_count = of == 0 ? ranks() : of;
    launch.most_operands = 1;
    launch.patience = 64;
    for (std::vector<Task>& tasks : tasks_) std::fill(tasks.begin(), tasks.end(), Task{});
    for (std::uint32_t j = 0; j < launch.job_count; ++j) {
      launch.most_operands = std::max(launch.most_operands, jobs_[j].blob->most_operands);
      count_tasks(*jobs_[j].blob, launch);
    }
    finished_ = stopped_ = left_ = 0;
    launch.finished = &finished_;
    launch.stopped = &stopped_;
    launch.left = &left_;
    launch.abort = &abort_;
    launch.limit_ns = limit_ns;
    for (JobRecord& record : records_) record = {};
    const bool folds = combines(plan_.problem.collective);
    run_blocks(grid, storage_bytes(launch.most_operands), [&](device::Group& group) {
      if (!folds) return Interpreter<CopyOnly>(group, launch).run();
      dispatch(group, launch);
    });
    return memory_;
  }

 private:
  static constexpr std::uint64_t slot_bytes = 512;

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(at_.ranks); }

  static void count_tasks(const Blob& blob, Launch& launch) {
    launch.task_count += blob.strands * blob.lanes.count;
    for (std::uint32_t s = 0; s < blob.strands; ++s) {
      const bool any = Strand{s, blob.strands}.passes(blob.passes) != 0;
      for (std::uint32_t l = 0; l < blob.lanes.count; ++l)
        launch.work_count += any && blob.array<BlobLane>(blob.lanes)[l].count != 0 ? 1 : 0;
    }
  }
  void dispatch(device::Group& group, const Launch& launch) const {
    switch (plan_.problem.type) {
      case TUTTI_FLOAT32:
        return Interpreter<FoldBy<float, Sum>>(group, launch).run();
      case TUTTI_UINT8:  // a barrier's is a maximum
        return plan_.problem.collective == Collective::barrier
                   ? Interpreter<FoldBy<std::uint8_t, Max>>(group, launch).run()
                   : Interpreter<FoldBy<std::uint8_t, Sum>>(group, launch).run();
      default:
        return Interpreter<FoldBy<std::int32_t, Sum>>(group, launch).run();
    }
  }

  /// A link of one strand, and where both its ends count.
  struct Wire {
    std::uint64_t sent = 0, received = 0, arrived = 0, credit = 0;
    std::vector<std::uint64_t> fingerprints = std::vector<std::uint64_t>(slot_count);
    std::vector<std::max_align_t> slots = std::vector<std::max_align_t>(slot_count * slot_bytes / sizeof(std::max_align_t));
  };
  Wire& wire(int from, int to, std::uint32_t channel) {
    auto& found = wires_[{from, to, channel}];
    if (found == nullptr) found = std::make_unique<Wire>();
    return *found;
  }
  void add_job(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    const Layout layout = layout_of(at_, rank);
    std::vector<DeviceLinkEnd>& ends = ends_.emplace_back();
    for (std::uint32_t s = 0; s < plan_.strands; ++s) {
      for (const Link& link : programs_[r].links) {
        const std::uint32_t channel = Strand{s, plan_.strands}.channel(link.channel);
        Wire& own = link.sends ? wire(rank, link.peer, channel) : wire(link.peer, rank, channel);
        ends.push_back({reinterpret_cast<device::Word64*>(link.sends ? &own.sent : &own.received), &own.arrived,
                        &own.credit, own.fingerprints.data(), reinterpret_cast<std::byte*>(own.slots.data()), slot_count,
                        slot_bytes, link.peer});
      }
    }
    std::vector<Task>& tasks = tasks_.emplace_back(plan_.strands * programs_[r].lanes.size());
    records_.resize(static_cast<std::size_t>(at_.ranks));
    jobs_.push_back({&blobs_[r].blob(),
                     {memory_[r].data() + layout.input, memory_[r].data() + layout.output, scratch_[r].data()},
                     ends.data(),
                     tasks.data(),
                     &records_[r],
                     plan_.hash});
  }

  const Case at_;
  Plan plan_;
  std::vector<Program> programs_;
  std::vector<BlobMemory> blobs_;
  std::vector<std::vector<std::byte>> memory_, scratch_;
  std::map<std::tuple<int, int, std::uint32_t>, std::unique_ptr<Wire>> wires_;
  std::vector<std::vector<DeviceLinkEnd>> ends_;
  std::vector<std::vector<Task>> tasks_;
  std::vector<JobRecord> records_;
  std::vector<Job> jobs_;
  std::uint64_t finished_ = 0, stopped_ = 0, left_ = 0, abort_ = 0;
};

/// All ranks' memory after the case, as the simulator has it.
std::vector<std::vector<std::byte>> simulated(const Case& at, const Plan& plan) {
  std::vector<Program> programs;
  std::vector<std::vector<std::byte>> all, scratch;
  std::vector<RankMemory> memory;
  Plan whole = plan;
  whole.strands = 1;
  for (int r = 0; r < at.ranks; ++r) {
    const Layout layout = layout_of(at, r);
    programs.push_back(make_program(*at.algorithm, plan, at.places(), r));
    fill(at, r, all.emplace_back(layout.bytes).data());
    scratch.emplace_back(scratch_bytes(whole));
    memory.push_back({all.back().data() + layout.input, all.back().data() + layout.output, scratch.back().data()});
  }
  SimulatorConfig config;
  config.view = at.places();
  config.memory = memory;
  EXPECT_EQ(simulate(whole, programs, config).why, "");
  return all;
}

Case case_of(const Algorithm& algorithm, int ranks, int variant) {
  Case at{&algorithm, ranks};
  at.root = rooted(algorithm.collective) ? ranks - 1 : 0;
  const bool folds = reduces(algorithm.collective);
  at.type = !folds ? TUTTI_INT32 : variant % 2 == 0 ? TUTTI_FLOAT32 : TUTTI_UINT8;
  at.op = folds && variant % 3 == 0 ? TUTTI_AVG : TUTTI_SUM;
  at.in_place = variant % 2 != 0;
  return at;
}

bool takes(const Algorithm& algorithm, int ranks) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = ranks;
  return ranks == 1 || algorithm.fits(problem, flat_view(ranks));
}

class EveryAlgorithm : public ::testing::TestWithParam<int> {};

TEST_P(EveryAlgorithm, GivesTheSimulatorsBits) {
  const int ranks = GetParam();
  int variant = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (!takes(*algorithm, ranks)) continue;
    for (const std::uint64_t count : {0, 1, 77, 1300}) {
      Case at = case_of(*algorithm, ranks, ++variant);
      at.count = count;
      if (algorithm->collective == Collective::barrier && count != 1) continue;
      Fused fused(at, 1 + static_cast<std::uint32_t>(variant) % 3);
      const auto expected = simulated(at, fused.plan());
      const std::uint32_t all = std::max(1u, fused.tasks());
      const Grid choices[] = {{1, 1}, {2, 3}, {std::min(all, 12u), 1}};
      const Grid& grid = choices[variant % 3];
      ASSERT_EQ(fused.launch(grid), expected) << at.text() << ", " << grid.blocks << " blocks of " << grid.threads;
      for (int r = 0; r < ranks; ++r) ASSERT_EQ(fused.record(r).end, static_cast<std::uint64_t>(JobEnd::completed));
    }
  }
  EXPECT_GT(variant, 100);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryAlgorithm, ::testing::Values(1, 2, 3, 5, 8));

Case ring_of(int ranks) {
  Case at{find_algorithm(Collective::all_reduce, "ring"), ranks};
  at.count = 1300;
  return at;
}

constexpr Grid grids[] = {{1, 1}, {1, 3}, {3, 2}};

TEST(Interpreter, RunsAgainOnTheSameLinks) {
  for (const Grid& grid : grids) {
    const Case at = ring_of(4);
    Fused fused(at, 2);
    const auto expected = simulated(at, fused.plan());
    for (int i = 0; i < 5; ++i) ASSERT_EQ(fused.launch(grid), expected) << "launch " << i;
  }
}

JobEnd end_of(Fused& fused, int rank) { return static_cast<JobEnd>(fused.record(rank).end); }

TEST(Interpreter, SaysWhoseMessageIsAnotherOperations) {
  for (const Grid& grid : grids) {
    Fused fused(ring_of(3), 1);
    const std::uint64_t others = fused.job(0).fingerprint;
    fused.job(1).fingerprint = others + 1;
    fused.launch(grid);
    int told = 0;
    for (int rank = 0; rank < 3; ++rank) {
      if (end_of(fused, rank) != JobEnd::mismatch) {
        EXPECT_EQ(end_of(fused, rank), JobEnd::aborted) << rank;
        continue;
      }
      ++told;
      EXPECT_TRUE(rank == 1 || fused.record(rank).peer == 1) << "rank " << rank << " blames " << fused.record(rank).peer;
      EXPECT_EQ(fused.record(rank).fingerprint, rank == 1 ? others : others + 1);
    }
    EXPECT_EQ(told, 1);
  }
}

TEST(Interpreter, EndsByItsDeadlineAndSaysWhomItWaitedFor) {
  for (const Grid& grid : grids) {
    Fused fused(ring_of(3), 1);
    fused.launch(grid, 20'000'000, 2);
    int told = 0;
    for (int rank = 0; rank < 2; ++rank) {
      if (end_of(fused, rank) != JobEnd::late) {
        EXPECT_EQ(end_of(fused, rank), JobEnd::aborted) << rank;
        continue;
      }
      ++told;
      EXPECT_NE(fused.record(rank).peer, rank);
      EXPECT_GE(fused.record(rank).peer, 0);
    }
    EXPECT_EQ(told, 1);
  }
}

TEST(Interpreter, EndsWhenTheHostSaysSo) {
  for (const Grid& grid : grids) {
    Fused fused(ring_of(3), 2);
    std::thread host([&fused] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      fused.set_abort();
    });
    fused.launch(grid, 0, 2);
    host.join();
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(end_of(fused, rank), JobEnd::aborted) << rank;
  }
}

}  // namespace
}  // namespace tutti::testing
