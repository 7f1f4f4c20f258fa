// The host executor, with ranks as processes and as threads, and the simulator give the same bits in all of a rank's
// memory: integers and floats alike, for it is the same program with the same folds in the same order. Reduced is for every
// day; Whole is every schedule with up to 16 ranks, or every TEST_EVERY-th case of those, as CTest has it.
#include "tests/unit/executors/agreement.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "algorithms/algorithms.h"
#include "src/tables/operators.h"
#include "tests/support/ranks.h"
#include "tests/support/sample.h"
#include "tests/support/views.h"
#include "topology/oversubscription.h"
#include "topology/sysfs.h"

namespace tutti::testing {
namespace {

/// Which cases are tried.
struct Extent {
  std::vector<int> ranks;
  std::vector<std::uint64_t> counts;
  std::vector<View> views = {};  ///< places for the algorithms that go by them; all ranks of a view are processes
  bool whole = false;            ///< each in place and out, from every root, and counts of three passes, too
};

Extent reduced(std::vector<int> ranks) { return {std::move(ranks), {0, 1, 17, 1000}}; }

Extent whole(int first) {
  Extent extent{{}, {0, 1, 17, 1000}, {}, true};
  for (int ranks = first; ranks <= 16; ++ranks) extent.ranks.push_back(ranks);
  return extent;
}

Problem problem_of(const Algorithm& algorithm, const View& view) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = view.ranks();
  return problem;
}

bool takes(const Algorithm& algorithm, const View& view) {
  return view.ranks() == 1 || algorithm.fits(problem_of(algorithm, view), view);
}

/// Whether all ranks of one machine would be taken in the same way.
bool as_on_one_machine(const Algorithm& algorithm, const View& view) {
  const View flat = flat_view(view.ranks());
  const Problem problem = problem_of(algorithm, view);
  return takes(algorithm, flat) && algorithm.shape(problem, view, {}) == algorithm.shape(problem, flat, {});
}

/// The cases of one algorithm on ranks in some places. Where not all are asked for, in place and out take turns.
std::vector<Case> cases_of(const Algorithm& algorithm, const View& view, const Extent& extent) {
  const int ranks = view.ranks();
  if (algorithm.collective == Collective::barrier) return {{&algorithm, ranks, 0, 1, TUTTI_UINT8, TUTTI_MAX, false}};
  std::vector<std::pair<tutti_type, tutti_op>> kinds = {{TUTTI_INT32, TUTTI_SUM}, {TUTTI_UINT8, TUTTI_SUM}};
  if (reduces(algorithm.collective)) {
    // The last two count other elements than the call's: bytes, and two at once.
    kinds = {{TUTTI_INT32, TUTTI_SUM},    {TUTTI_UINT8, TUTTI_AVG},         {TUTTI_FLOAT32, TUTTI_AVG},
             {TUTTI_BFLOAT16, TUTTI_SUM}, {TUTTI_INT32, TUTTI_BITWISE_XOR}, {TUTTI_COMPLEX64, TUTTI_SUM}};
  }
  const int last = rooted(algorithm.collective) ? ranks - 1 : 0;
  std::vector<Case> cases;
  for (const auto& [type, op] : kinds) {
    for (const std::uint64_t count : extent.counts) {
      const bool in_place = cases.size() % 2 != 0;
      cases.push_back({&algorithm, ranks, last, count, type, op, in_place, view});
      if (extent.whole) cases.push_back({&algorithm, ranks, last, count, type, op, !in_place, view});
    }
  }
  if (algorithm.irregular && ranks > 1) {
    const tutti_op op = reduces(algorithm.collective) ? TUTTI_AVG : TUTTI_SUM;
    for (const BlockDivision division : block_divisions) {
      const bool in_place = cases.size() % 2 != 0;
      cases.push_back({&algorithm, ranks, last, 1000, TUTTI_FLOAT32, op, in_place, view, division});
      if (!extent.whole) continue;
      // Blocks of several passes.
      cases.push_back({&algorithm, ranks, last, 0, TUTTI_FLOAT32, op, !in_place, view, division});
      cases.back().count = count_of_three_passes(cases.back());
    }
  }
  if (!extent.whole) return cases;
  for (int root = 0; root < last; ++root) {
    cases.push_back({&algorithm, ranks, root, 1000, TUTTI_INT32, TUTTI_SUM, root % 2 == 0, view});
  }
  for (const auto& [type, op] : std::span(kinds).first(ranks <= 4 ? kinds.size() : 1)) {
    Case large{&algorithm, ranks, last, 0, type, op, ranks % 2 == 0, view};
    large.count = count_of_three_passes(large);
    cases.push_back(large);
  }
  return cases;
}

std::vector<const std::byte*> pointers(const std::vector<std::vector<std::byte>>& memory) {
  std::vector<const std::byte*> out;
  for (const auto& of_rank : memory) out.push_back(of_rank.data());
  return out;
}

/// Where `host` differs from what the simulator gives; empty where it does not.
std::string difference(const Case& at, const std::vector<const std::byte*>& host) {
  std::string why;
  const auto simulated = run_in_simulator(at, &why);
  if (simulated.empty()) return at.text() + ": the simulator says " + why;
  for (int r = 0; r < at.ranks; ++r) {
    const auto& expected = simulated[static_cast<std::size_t>(r)];
    const std::byte* got = host[static_cast<std::size_t>(r)];
    const auto [theirs, ours] = std::mismatch(expected.begin(), expected.end(), got);
    if (theirs == expected.end()) continue;
    const auto byte = static_cast<std::size_t>(theirs - expected.begin());
    return at.text() + ": rank " + std::to_string(r) + " differs at byte " + std::to_string(byte) +
           " (its output begins at " + std::to_string(layout_of(at, r).output) + "): host " +
           std::to_string(std::to_integer<int>(*ours)) + ", simulator " + std::to_string(std::to_integer<int>(*theirs));
  }
  return {};
}

/// Memory that parent and children share; zero.
class Shared {
 public:
  explicit Shared(std::size_t bytes)
      : bytes_(std::max<std::size_t>(1, bytes)),
        at_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~Shared() { munmap(at_, bytes_); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  bool ok() const { return at_ != MAP_FAILED; }
  std::byte* data() const { return static_cast<std::byte*>(at_); }

 private:
  std::size_t bytes_;
  void* at_;
};

/// The CPUs that this process may run on.
std::vector<int> own_cpus() {
  cpu_set_t allowed;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int c = 0; c < CPU_SETSIZE; ++c) {
    if (CPU_ISSET(static_cast<std::size_t>(c), &allowed)) cpus.push_back(c);
  }
  return cpus;
}

/// Ranks that share two cores in turn.
View view_of_two_cores(int ranks) {
  View view = flat_view(ranks);
  std::vector<std::int32_t> core;
  for (int r = 0; r < ranks; ++r) core.push_back(r % 2);
  share_cores(view, ranks / 2., core);
  return view;
}

/// Lets a child say that it is where the view has it.
void settle_in(const View& view, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  std::string torus;
  for (const std::int32_t size : view.torus) torus += (torus.empty() ? "" : "x") + std::to_string(size);
  setenv("TUTTI_TORUS", torus.c_str(), 1);
  setenv("TUTTI_MACHINE", ("machine " + std::to_string(view.machine[r])).c_str(), 1);
  if (!view.rack.empty()) setenv("TUTTI_RACK", ("rack " + std::to_string(view.rack[r])).c_str(), 1);
  if (view.core.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(own_cpus().at(static_cast<std::size_t>(view.core[r]))), &one);
  sched_setaffinity(0, sizeof one, &one);
}

/// Keeps this process, and its children, on the NUMA node that it is on, so that nodes are no level of their views.
void stay_on_this_node() {
  unsigned cpu = 0;
  unsigned node = 0;
  if (getcpu(&cpu, &node) != 0) return;
  const auto list = Sysfs().text("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
  const auto cpus = parse_cpu_list(list.value_or(""));
  cpu_set_t allowed;
  if (!cpus || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int c = 0; c < CPU_SETSIZE; ++c) {
    if (std::find(cpus->begin(), cpus->end(), c) == cpus->end()) CPU_CLR(static_cast<std::size_t>(c), &allowed);
  }
  sched_setaffinity(0, sizeof allowed, &allowed);
}

/// A child's life: joins, runs all cases in its part of the shared memory, and says by its exit status how it went.
[[noreturn]] void live(const std::string& address, int rank, const std::vector<Case>& cases,
                       const std::vector<std::vector<std::byte*>>& memory) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = "shm";
  config.operation_timeout_ns = 60'000'000'000;
  settle_in(cases[0].places(), rank);
  tutti_comm* comm = nullptr;
  tutti_status status = tutti_comm_create_address(&comm, address.c_str(), cases[0].ranks, rank, &config);
  for (std::size_t c = 0; c < cases.size() && status == TUTTI_SUCCESS; ++c) {
    status = run_on_host(cases[c], rank, comm, memory[c][static_cast<std::size_t>(rank)]);
    if (status != TUTTI_SUCCESS) std::fprintf(stderr, "%s: ", cases[c].text().c_str());
  }
  if (status != TUTTI_SUCCESS) std::fprintf(stderr, "rank %d: %s\n", rank, test::last_error().c_str());
  tutti_comm_destroy(comm);
  _exit(status == TUTTI_SUCCESS ? 0 : 1);
}

std::size_t bytes_of(const Case& at) {
  std::size_t bytes = 0;
  for (int r = 0; r < at.ranks; ++r) bytes += layout_of(at, r).bytes;
  return bytes;
}

/// Runs cases of one number of ranks on as many processes.
void run_on_processes(const std::string& address, const std::vector<Case>& cases) {
  const int ranks = cases[0].ranks;
  std::size_t bytes = 0;
  for (const Case& at : cases) bytes += bytes_of(at);
  const Shared shared(bytes);
  ASSERT_TRUE(shared.ok()) << bytes << " bytes of shared memory are not to be had";
  std::vector<std::vector<std::byte*>> memory;
  std::byte* next = shared.data();
  for (const Case& at : cases) {
    auto& of_case = memory.emplace_back();
    for (int r = 0; r < ranks; ++r) {
      of_case.push_back(next);
      fill(at, r, next);
      next += layout_of(at, r).bytes;
    }
  }
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = fork();
    ASSERT_GE(child, 0) << "rank " << r << " cannot be started";
    if (child == 0) live(address, r, cases, memory);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "a rank of " << cases[0].text() << " failed";
  }
  for (std::size_t c = 0; c < cases.size(); ++c) {
    ASSERT_EQ(difference(cases[c], {memory[c].begin(), memory[c].end()}), "");
  }
}

/// Runs cases of one number of ranks on as many threads. Returns the ranks' memory by case.
std::vector<std::vector<std::vector<std::byte>>> run_on_threads(const std::vector<Case>& cases) {
  const test::Ranks ranks(cases[0].ranks, "shm");
  std::vector<std::vector<std::vector<std::byte>>> memory;
  for (const Case& at : cases) {
    auto& of_case = memory.emplace_back();
    for (int r = 0; r < at.ranks; ++r) fill(at, r, of_case.emplace_back(layout_of(at, r).bytes).data());
  }
  ranks.run([&](int rank, tutti_comm* comm) {
    for (std::size_t c = 0; c < cases.size(); ++c) {
      ASSERT_EQ(run_on_host(cases[c], rank, comm, memory[c][static_cast<std::size_t>(rank)].data()), TUTTI_SUCCESS)
          << cases[c].text() << ": " << test::last_error();
    }
  });
  return memory;
}

/// Calls run(cases) for all cases of the extent: in one view at a time, and as many as fit in memory. Algorithms that take
/// ranks of one machine alike are tried there alone. Returns how many.
template <typename Run>
std::size_t try_all(const Extent& extent, Run run) {
  constexpr std::size_t most_bytes = std::size_t{512} << 20;
  std::size_t cases = 0;
  Sample sample;
  std::vector<View> views;
  for (const int ranks : extent.ranks) views.push_back(flat_view(ranks));
  views.insert(views.end(), extent.views.begin(), extent.views.end());
  for (const View& view : views) {
    std::vector<Case> batch;
    std::size_t bytes = 0;
    const auto run_batch = [&] {
      if (!batch.empty() && !::testing::Test::HasFailure()) run(batch);
      cases += std::exchange(batch, {}).size();
      bytes = 0;
    };
    for (const Algorithm* algorithm : all_algorithms()) {
      const bool tried = view.core.empty() && view != flat_view(view.ranks()) && as_on_one_machine(*algorithm, view);
      if (tried || !takes(*algorithm, view)) continue;
      for (const Case& at : cases_of(*algorithm, view, extent)) {
        if (extent.whole && !sample.takes_next()) continue;
        if (bytes + bytes_of(at) > most_bytes) run_batch();
        batch.push_back(at);
        bytes += bytes_of(at);
      }
    }
    run_batch();
  }
  return cases;
}

void try_processes(const Extent& extent) {
  const auto folder = std::filesystem::temp_directory_path() / ("tutti-agreement-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string address = "file://" + (folder / "id").string();
  const std::size_t cases = try_all(extent, [&](const auto& batch) { run_on_processes(address, batch); });
  std::filesystem::remove_all(folder);
  std::printf("processes: %zu calls agree with the simulator\n", cases);
}

void try_threads(const Extent& extent) {
  const std::size_t cases = try_all(extent, [](const std::vector<Case>& batch) {
    auto memory = run_on_threads(batch);
    for (std::size_t c = 0; c < batch.size(); ++c) ASSERT_EQ(difference(batch[c], pointers(memory[c])), "");
  });
  std::printf("threads: %zu calls agree with the simulator\n", cases);
}

// Processes come first: they are forked while this process has one thread.
TEST(ReducedAgreement, OfProcesses) { try_processes(reduced({2, 3, 5})); }
TEST(WholeAgreement, OfProcesses) { try_processes(whole(2)); }

TEST(ReducedAgreement, OfProcessesOnSeveralMachines) {
  stay_on_this_node();
  Extent extent = reduced({});
  extent.views = {view_of_levels({1, 2, 1, 2}), view_of_levels({2, 2, 1, 2, Placement::round_robin}),
                  view_of_machines({1, 3, 2}),  view_of_torus({2, 3}),
                  view_of_torus({4}),           view_of_torus({2, 2})};
  try_processes(extent);
}

void try_two_cores(Extent extent, int first, int last) {
  if (own_cpus().size() < 2) GTEST_SKIP() << "there is one CPU";
  extent.ranks = {};
  for (int ranks = first; ranks <= last; ++ranks) extent.views.push_back(view_of_two_cores(ranks));
  try_processes(extent);
}

TEST(ReducedAgreement, OfProcessesThatShareTwoCores) { try_two_cores(reduced({}), 3, 6); }
TEST(WholeAgreement, OfProcessesThatShareTwoCores) { try_two_cores(whole(1), 3, 9); }

TEST(WholeAgreement, OfProcessesOnSeveralMachines) {
  stay_on_this_node();
  Extent extent = whole(17);
  each_product(2, 12, [&](const auto& sizes) {
    extent.views.push_back(view_of_torus(sizes));
    for (const Placement placement : {Placement::blocks, Placement::round_robin, Placement::shuffled}) {
      extent.views.push_back(view_of_levels({1, sizes[0], 1, sizes[1], placement}));
    }
  });
  each_product(3, 12, [&](const auto& sizes) {
    extent.views.push_back(view_of_torus(sizes));
    extent.views.push_back(view_of_levels({sizes[0], sizes[1], 1, sizes[2], Placement::round_robin}));
  });
  for (const auto& machines : {std::vector<int>{1, 2}, {5, 1, 1}, {2, 3, 4}, {1, 6, 1, 2}}) {
    extent.views.push_back(view_of_machines(machines, Placement::shuffled));
  }
  try_processes(extent);
}

TEST(ReducedAgreement, OfThreads) { try_threads(reduced({1, 2, 3, 5, 8})); }
TEST(WholeAgreement, OfThreads) { try_threads(whole(1)); }

TEST(ReducedAgreement, OfEveryTypeAndOperator) {
  const View view = flat_view(3);
  std::vector<Case> cases;
  for (const ElementTypeInfo& type : element_types) {
    for (const OperatorInfo& op : operators) {
      if (applies_to(op.op, type.type)) cases.push_back({&ring_all_reduce, 3, 0, 100, type.type, op.op, false, view});
      if (applies_to(op.op, type.type))
        cases.push_back({&ring_reduce_scatter, 3, 0, 100, type.type, op.op, true, view, BlockDivision::skewed});
    }
  }
  for (const int bytes : {1, 3, 24, 1000}) {
    const auto type = static_cast<tutti_type>(TUTTI_OPAQUE + bytes);
    cases.push_back({&pairwise_all_to_all, 3, 0, 50, type, TUTTI_SUM, false, view});
    cases.push_back({&ring_all_gather, 3, 0, 50, type, TUTTI_SUM, true, view});
  }
  const auto memory = run_on_threads(cases);
  for (std::size_t c = 0; c < cases.size(); ++c) ASSERT_EQ(difference(cases[c], pointers(memory[c])), "");
  EXPECT_GT(cases.size(), 200u);
}

// The comparison is worth something: another algorithm folds floats in another order, and that shows.
TEST(ReducedAgreement, WouldNoticeAnotherOrderOfFolding) {
  const Case floats{&ring_all_reduce, 5, 0, 1000, TUTTI_FLOAT32, TUTTI_SUM, false};
  Case integers = floats;
  integers.type = TUTTI_INT32;
  const auto by_ring = run_on_threads({floats, integers});
  EXPECT_EQ(difference(floats, pointers(by_ring[0])), "");
  Case by_tree = floats;
  by_tree.algorithm = &tree_all_reduce;
  EXPECT_NE(difference(by_tree, pointers(by_ring[0])), "");
  by_tree.type = TUTTI_INT32;
  EXPECT_EQ(difference(by_tree, pointers(by_ring[1])), "");
}

}  // namespace
}  // namespace tutti::testing
