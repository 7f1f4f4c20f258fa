// The whole proof: every algorithm, ranks 1 to 64 with all roots, and 20 random rank counts up to 1,024 with three random
// roots each; v-variants by every algorithm of theirs, 1 to 64 ranks with all roots; hierarchical and torus algorithms in
// places of all shapes with up to 64 ranks. Prints how many plans were proved, and how long it took. CTest proves every
// TEST_EVERY-th of them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <random>
#include <thread>

#include "tests/support/sample.h"
#include "tests/unit/algorithms/places.h"

namespace tutti::testing {
namespace {

struct Task {
  const Algorithm* algorithm;
  int ranks;
  int root;
  bool irregular = false;  ///< its v-variant
};
std::string irregular_fault_of(const Task& task, const View& view) {
  const Schedule schedule = make_irregular_schedule(*task.algorithm, view, task.root, 1 << 16);
  const Verdict verdict = verify(schedule.plan, schedule.programs);
  if (verdict.proved()) return {};
  return describe(*task.algorithm, task.ranks, task.root) + ", v-variant: " + verdict.fault.text();
}
std::string fault_of(const Task& task) {
  for (const View& view : views_of(*task.algorithm, task.ranks)) {
    std::string fault = task.irregular ? irregular_fault_of(task, view) : unproved(*task.algorithm, view, task.root);
    if (!fault.empty()) return fault;
  }
  return {};
}
std::string fault_of(const PlacedTask& task) { return unproved(*task.algorithm, task.view, task.root); }

/// Proves all tasks, or a sample, on two threads where there are two CPUs. Returns the sentences of those that are not
/// proved.
template <typename AnyTask>
std::vector<std::string> prove(const char* name, std::vector<AnyTask> tasks) {
  Sample sample;
  std::erase_if(tasks, [&](const AnyTask&) { return !sample.takes_next(); });
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  // Relaxed: each task is taken by whoever gets its number; results are joined below.
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::vector<std::string> faults;
  const auto work = [&] {
    for (std::size_t i = 0; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks.size();) {
      const std::string fault = fault_of(tasks[i]);
      if (fault.empty()) continue;
      const std::lock_guard lock(mutex);
      faults.push_back(fault);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::min(2u, std::max(1u, std::thread::hardware_concurrency())); ++t) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%s: %zu plans, %zu not proved, in %.1f s (%.1f s of CPU)\n", name, tasks.size(), faults.size(), seconds,
              static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
  return faults;
}

/// Every algorithm, or every one that v-variants run by, on 64 ranks down to 1.
std::vector<Task> tasks_of_every_root(bool irregular) {
  std::vector<Task> tasks;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (irregular && !algorithm->irregular) continue;
    for (int ranks = 64; ranks >= 1; --ranks) {
      for (int root = 0; root < roots_of(*algorithm, ranks); ++root) tasks.push_back({algorithm, ranks, root, irregular});
    }
  }
  return tasks;
}

TEST(AllProofs, HoldForEveryRootUpTo64Ranks) {
  EXPECT_EQ(prove("ranks 1-64, every root", tasks_of_every_root(false)), std::vector<std::string>{});
}

TEST(AllProofs, HoldForVVariantsOfEveryRootUpTo64Ranks) {
  EXPECT_EQ(prove("v-variants, ranks 1-64, every root", tasks_of_every_root(true)), std::vector<std::string>{});
}

TEST(AllProofs, HoldForRandomRankCountsUpTo1024) {
  std::mt19937 random(20240607);
  std::vector<int> counts{1024};
  while (counts.size() < 20) counts.push_back(std::uniform_int_distribution(65, 1024)(random));
  std::string name = "ranks";
  std::vector<Task> tasks;
  for (const int ranks : counts) {
    name += " " + std::to_string(ranks);
    for (const Algorithm* algorithm : all_algorithms()) {
      for (int r = 0; r < std::min(3, roots_of(*algorithm, ranks)); ++r) {
        const int root = rooted(algorithm->collective) ? std::uniform_int_distribution(0, ranks - 1)(random) : 0;
        tasks.push_back({algorithm, ranks, root});
      }
    }
  }
  EXPECT_EQ(prove(name.c_str(), tasks), std::vector<std::string>{});
}

TEST(AllProofs, HoldForLevelsOfEveryShapeUpTo64Ranks) {
  EXPECT_EQ(prove("racks x machines x nodes x ranks", level_tasks(64)), std::vector<std::string>{});
  EXPECT_EQ(prove("unequal machines", unequal_tasks(64, 4)), std::vector<std::string>{});
}

TEST(AllProofs, HoldForToriOfEveryShapeUpTo64Ranks) {
  EXPECT_EQ(prove("tori of 1 to 6 dimensions", torus_tasks(64, 6)), std::vector<std::string>{});
}

}  // namespace
}  // namespace tutti::testing
