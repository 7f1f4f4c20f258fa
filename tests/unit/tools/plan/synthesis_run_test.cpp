// Synthesized schedules on the host executor: ranks as threads, over the library's own transports.
#include <gtest/gtest.h>
#include <sched.h>

#include <deque>
#include <memory>
#include <thread>

#include "src/base/clock.h"
#include "src/executors/host/executor.h"
#include "src/schedule/msccl_xml.h"
#include "tests/conformance/world.h"
#include "tools/plan/networks.h"
#include "tools/plan/synthesis/synthesize.h"
#include "transports/registry.h"

namespace tutti::synthesis {
namespace {

using conformance::World;

const tutti_transport* transport_of(const std::string& name) {
  for (const tutti_transport* transport : builtin_transports()) {
    if (transport->name == name) return transport;
  }
  return nullptr;
}

/// Makes one rank's endpoint progress while it waits; gives up after a minute without an end.
class ThreadAgent final : public Agent {
 public:
  ThreadAgent(World& world, int rank) : endpoint_(world[rank]) {}
  void progress() override { endpoint_.progress(); }
  bool idle(std::uint32_t, bool) override {
    endpoint_.progress();
    sched_yield();
    return !deadline_.passed();
  }
  bool shares_core() const override { return true; }

 private:
  conformance::TestEndpoint& endpoint_;
  Deadline deadline_ = Deadline::in(60 * conformance::kSecond);
};

/// The ranks of one schedule, their links open.
class RanksInOneThread {
 public:
  RanksInOneThread(const Schedule& schedule, const tutti_transport* transport, std::uint64_t slot_bytes)
      : schedule_(schedule), world_(transport, schedule.plan.problem.ranks), links_(schedule.programs.size()) {
    for (int rank = 0; rank < world_.ranks(); ++rank) {
      for (const Link& link : program(rank).links) open(rank, link, slot_bytes);
    }
    EXPECT_TRUE(world_.until([&] { return all_open(); })) << "links did not open";
  }

  /// Runs the schedule for so many elements of a type on all ranks. Empty, or what is wrong.
  template <typename T>
  std::string run(std::uint64_t count, tutti_type type, tutti_op op, bool in_place) {
    Plan plan = schedule_.plan;
    plan.problem.count = count;
    plan.problem.type = type;
    plan.problem.op = op;
    ++calls_;
    std::vector<std::string> wrong(links_.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_.ranks(); ++rank) {
      threads.emplace_back([&, rank] { wrong[static_cast<std::size_t>(rank)] = run_rank<T>(plan, rank, in_place); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& words : wrong) {
      if (!words.empty()) return words;
    }
    return {};
  }

 private:
  const Program& program(int rank) const { return schedule_.programs[static_cast<std::size_t>(rank)]; }
  static int number(int rank, std::uint64_t i) {
    return static_cast<int>((i * 7 + static_cast<std::uint64_t>(rank) * 3) % 5);
  }

  void open(int rank, const Link& link, std::uint64_t slot_bytes) {
    HostLink& mine = links_[static_cast<std::size_t>(rank)].emplace_back();
    mine.transport = &world_.t();
    mine.peer = link.peer;
    const auto& descriptor = world_[link.peer].descriptor();
    mine.link = link.sends ? world_[rank].open_sender(link.peer, descriptor, link.channel, most_credit, slot_bytes)
                           : world_[rank].open_receiver(link.peer, descriptor, link.channel, most_credit, slot_bytes);
  }

  bool all_open() {
    bool open = true;
    for (auto& links : links_) {
      for (HostLink& link : links) {
        if (link.state.size != 0) continue;
        tutti_link_state state{};
        state.size = sizeof state;
        if (world_.t().link_state(link.link, &state) == TUTTI_LINK_OK) link.state = state;
        open = open && link.state.size != 0;
      }
    }
    return open;
  }

  template <typename T>
  std::string run_rank(const Plan& plan, int rank, bool in_place) {
    const std::uint64_t count = plan.problem.count;
    std::vector<T> input(count);
    for (std::uint64_t i = 0; i < count; ++i) input[i] = static_cast<T>(number(rank, i));
    std::vector<T> output = in_place ? input : std::vector<T>(count, T(99));
    std::vector<std::byte> scratch(scratch_bytes(plan));
    const Lowered lowered =
        lower(plan, rank, program(rank), [this](int peer) { return schedule_.programs[static_cast<std::size_t>(peer)]; });
    std::vector<HostLink*> links;
    for (HostLink& link : links_[static_cast<std::size_t>(rank)]) links.push_back(&link);
    Binding binding;
    binding.input = reinterpret_cast<const std::byte*>(in_place ? output.data() : input.data());
    binding.output = reinterpret_cast<std::byte*>(output.data());
    binding.scratch = scratch.data();
    binding.fingerprint = calls_;
    HostExecutor executor;
    ThreadAgent agent(world_, rank);
    const Outcome& outcome = executor.run(plan, lowered, lay_out_for_host(plan, rank, lowered), binding,
                                          find_fold(plan.problem.type, plan.problem.op), links, agent);
    if (outcome.kind != Outcome::Kind::completed) {
      return "rank " + std::to_string(rank) + " did not complete: " + std::to_string(static_cast<int>(outcome.kind)) + ' ' +
             outcome.why;
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      int sum = 0;
      for (int r = 0; r < plan.problem.ranks; ++r) sum += number(r, i);
      const T want =
          plan.problem.op == TUTTI_AVG ? static_cast<T>(sum) / static_cast<T>(plan.problem.ranks) : static_cast<T>(sum);
      if (output[i] != want) {
        return "rank " + std::to_string(rank) + ", element " + std::to_string(i) + " is " + std::to_string(output[i]) +
               ", and should be " + std::to_string(want);
      }
      if (!in_place && input[i] != static_cast<T>(number(rank, i))) return "the input was written";
    }
    return {};
  }

  const Schedule& schedule_;
  World world_;
  std::vector<std::deque<HostLink>> links_;  // by rank, in the order of its program's
  std::uint64_t calls_ = 0;
};

void expect_right(const std::string& machine, const char* transport) {
  const auto network = plan_tool::open_network(TUTTI_TEST_DATA "/topologies/" + machine + ".nccl.xml");
  ASSERT_TRUE(network.ok()) << network.status().text();
  Problem problem;
  problem.ranks = 8;
  problem.count = 256 << 10;
  const auto found = synthesize(*network->network, network->view(8), problem);
  ASSERT_TRUE(found.ok()) << found.status().text();
  const Plan& plan = found->schedule.plan;
  // The longest message, whatever the type: windows are counted in elements.
  RanksInOneThread ranks(found->schedule, transport_of(transport), plan.window / plan.shape.chunks * sizeof(float));
  for (const bool in_place : {false, true}) {
    for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{130}, std::uint64_t{9973}, 2 * plan.window + 1234}) {
      EXPECT_EQ(ranks.run<std::int32_t>(count, TUTTI_INT32, TUTTI_SUM, in_place), "")
          << machine << " over " << transport << ", " << count << " elements" << (in_place ? " in place" : "");
    }
    EXPECT_EQ(ranks.run<float>(5000, TUTTI_FLOAT32, TUTTI_AVG, in_place), "") << machine << " over " << transport;
  }
}

TEST(SynthesizedSchedules, RunOverSharedMemory) {
  for (const char* machine : {"dgx1-v100", "dgx1-v100-broken", "pcie-v100"}) expect_right(machine, "shm");
}

TEST(SynthesizedSchedules, RunOverTcp) { expect_right("dgx1-v100-broken", "tcp"); }

}  // namespace
}  // namespace tutti::synthesis
