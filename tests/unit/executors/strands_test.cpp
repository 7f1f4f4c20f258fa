// Strands: a plan's passes shared out among copies of its program. The host executor's, each on a thread of its own, and
// the simulator's give the bits of the plan that has one.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/executors/host/executor.h"
#include "src/executors/simulator/simulator.h"
#include "tests/unit/executors/agreement.h"
#include "topology/generators.h"

namespace tutti::testing {
namespace {

/// A link whose ends are threads of one process: messages are copied, and four may be under way.
class MemoryLink {
 public:
  tutti_link_result reserve(std::uint64_t bytes, tutti_room* room) {
    const std::lock_guard lock(mutex_);
    if (messages_.size() >= most_credit) return TUTTI_LINK_NOT_YET;
    reserved_.resize(bytes);
    *room = {reserved_.data(), 0};
    return TUTTI_LINK_OK;
  }
  void commit(std::uint64_t fingerprint) {
    const std::lock_guard lock(mutex_);
    messages_.push_back({std::move(reserved_), fingerprint});
    reserved_ = {};
  }
  tutti_link_result view(tutti_message* message) {
    const std::lock_guard lock(mutex_);
    if (messages_.empty()) return TUTTI_LINK_NOT_YET;
    const Message& first = messages_.front();
    *message = {first.bytes.data(), first.bytes.size(), first.fingerprint};
    return TUTTI_LINK_OK;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    messages_.pop_front();
  }
  bool empty() const { return messages_.empty(); }

 private:
  struct Message {
    std::vector<std::byte> bytes;
    std::uint64_t fingerprint;
  };
  std::mutex mutex_;
  std::vector<std::byte> reserved_;
  std::deque<Message> messages_;  ///< a deque, since the one that is viewed stays where it is
};

MemoryLink& own(tutti_link* link) { return *reinterpret_cast<MemoryLink*>(link); }

const tutti_transport& memory_transport() {
  static const tutti_transport transport = [] {
    tutti_transport made{};
    made.size = sizeof made;
    made.reserve = [](tutti_link* link, std::uint64_t bytes, std::uint64_t, tutti_room* room) {
      return own(link).reserve(bytes, room);
    };
    made.commit = [](tutti_link* link, std::uint64_t, std::uint64_t fingerprint) {
      own(link).commit(fingerprint);
      return TUTTI_LINK_OK;
    };
    made.send = [](tutti_link* link, const void* source, std::uint64_t bytes, std::uint64_t fingerprint) {
      return tutti_send_in_parts(memory_transport().reserve, memory_transport().commit, link, source, bytes, fingerprint);
    };
    made.view = [](tutti_link* link, tutti_message* message) { return own(link).view(message); };
    made.release = [](tutti_link* link) { own(link).release(); };
    made.failure = [](tutti_link*, char*, std::size_t) { return TUTTI_LINK_OK; };
    return made;
  }();
  return transport;
}

/// The links of all ranks and strands.
class MemoryLinks {
 public:
  MemoryLink& find(int from, int to, std::uint32_t channel) {
    const std::lock_guard lock(mutex_);
    auto& link = links_[{from, to, channel}];
    if (link == nullptr) link = std::make_unique<MemoryLink>();
    return *link;
  }
  bool all_empty() const {
    return std::all_of(links_.begin(), links_.end(), [](const auto& link) { return link.second->empty(); });
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, int, std::uint32_t>, std::unique_ptr<MemoryLink>> links_;
};

/// Waits as long as all others together may take.
class Yielding final : public Agent {
 public:
  void progress() override {}
  bool idle(std::uint32_t rounds, bool) override {
    std::this_thread::yield();
    return rounds < 50'000'000;
  }
  bool shares_core() const override { return true; }
};

/// One case with so many strands.
class Stranded {
 public:
  Stranded(const Case& at, std::uint32_t strands, Protocol protocol = Protocol::messages)
      : at_(at),
        plan_(make_plan(*at.algorithm, at.problem(), at.places(), {.strands = strands, .protocol = protocol}, 1024)) {
    for (int r = 0; r < at.ranks; ++r) {
      programs_.push_back(make_program(*at.algorithm, plan_, at.places(), r));
      fill(at, r, memory_.emplace_back(layout_of(at, r).bytes).data());
      scratch_.emplace_back(scratch_bytes(plan_));
    }
  }

  const Plan& plan() const { return plan_; }

  std::vector<std::vector<std::byte>> simulate(SimulatorReport* report = nullptr) {
    SimulatorConfig config;
    config.view = at_.places();
    std::vector<RankMemory> memory;
    for (std::size_t r = 0; r < memory_.size(); ++r) {
      const Layout layout = layout_of(at_, static_cast<int>(r));
      memory.push_back({memory_[r].data() + layout.input, memory_[r].data() + layout.output, scratch_[r].data()});
    }
    config.memory = memory;
    const SimulatorReport got = tutti::simulate(plan_, programs_, config);
    EXPECT_EQ(got.why, "");
    if (report != nullptr) *report = got;
    return memory_;
  }

  std::vector<std::vector<std::byte>> run_on_host() {
    MemoryLinks links;
    std::vector<std::thread> threads;
    for (int r = 0; r < at_.ranks; ++r) {
      for (std::uint32_t s = 0; s < plan_.strands; ++s) threads.emplace_back([this, r, s, &links] { run(r, s, links); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(links.all_empty());
    return memory_;
  }

 private:
  void run(int rank, std::uint32_t strand, MemoryLinks& links) {
    const auto r = static_cast<std::size_t>(rank);
    const auto program_of = [this](int peer) { return programs_[static_cast<std::size_t>(peer)]; };
    const Lowered lowered = lower(plan_, rank, programs_[r], program_of);
    std::vector<HostLink> made;
    for (const Link& link : lowered.program.links) {
      const std::uint32_t channel = Strand{strand, plan_.strands}.channel(link.channel);
      HostLink& host = made.emplace_back();
      host.transport = &memory_transport();
      host.peer = link.peer;
      host.link = reinterpret_cast<tutti_link*>(link.sends ? &links.find(rank, link.peer, channel)
                                                           : &links.find(link.peer, rank, channel));
    }
    std::vector<HostLink*> pointers;
    for (HostLink& link : made) pointers.push_back(&link);
    const Layout layout = layout_of(at_, rank);
    Binding binding;
    binding.input = memory_[r].data() + layout.input;
    binding.output = memory_[r].data() + layout.output;
    binding.scratch = scratch_[r].data();
    binding.fingerprint = plan_.hash;
    HostExecutor executor;
    Yielding agent;
    const FoldFunction fold =
        combines(plan_.problem.collective) ? find_fold(plan_.problem.type, plan_.problem.op) : find_copy();
    const HostLayouts layouts = lay_out_for_host(plan_, rank, lowered, strand);
    EXPECT_EQ(executor.run(plan_, lowered, layouts, binding, fold, pointers, agent).kind, Outcome::Kind::completed);
  }

  const Case& at_;
  Plan plan_;
  std::vector<Program> programs_;
  std::vector<std::vector<std::byte>> memory_, scratch_;
};

/// Elements of a block that take so many passes, the last one short.
std::uint64_t count_of_passes(const Case& at, std::uint64_t passes) {
  Case one = at;
  one.count = 1;
  const std::uint64_t window = Stranded(one, 1).plan().window;
  return (passes - 1) * window + window / 2 + 1;
}

Case case_of(const Algorithm& algorithm, int ranks, std::uint64_t passes) {
  Case at{&algorithm, ranks};
  if (rooted(algorithm.collective)) at.root = ranks - 1;
  at.type = reduces(algorithm.collective) ? TUTTI_FLOAT32 : TUTTI_INT32;
  at.op = reduces(algorithm.collective) ? TUTTI_AVG : TUTTI_SUM;
  at.in_place = (static_cast<std::uint64_t>(ranks) + passes) % 2 == 0;
  at.count = count_of_passes(at, passes);
  return at;
}

class Strands : public ::testing::TestWithParam<int> {};

TEST_P(Strands, GiveTheBitsOfOneOnTheHostAndInTheSimulator) {
  const int ranks = GetParam();
  int cases = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    const View view = flat_view(ranks);
    Problem problem;
    problem.collective = algorithm->collective;
    problem.ranks = ranks;
    if (ranks > 1 && !algorithm->fits(problem, view)) continue;
    for (const std::uint64_t passes : {std::uint64_t{3}, std::uint64_t{11}}) {
      const Case at = case_of(*algorithm, ranks, passes);
      const auto expected = Stranded(at, 1).simulate();
      for (const std::uint32_t strands : {1u, 2u, 5u}) {
        ASSERT_EQ(Stranded(at, strands).simulate(), expected) << at.text() << ", " << strands << " strands, simulated";
        ASSERT_EQ(Stranded(at, strands).run_on_host(), expected) << at.text() << ", " << strands << " strands, on the host";
        ++cases;
      }
    }
  }
  EXPECT_GT(cases, 50);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Strands, ::testing::Values(1, 2, 3, 5));

TEST(Strand, OfAllEachPassIsOnes) {
  for (const std::uint32_t count : {1u, 2u, 3u, 5u}) {
    for (std::uint64_t passes = 0; passes < 13; ++passes) {
      std::vector<int> run(passes, 0);
      for (std::uint32_t s = 0; s < count; ++s) {
        const Strand strand{s, count};
        for (std::uint64_t own = 0; own < strand.passes(passes); ++own) ++run.at(strand.pass(own));
      }
      EXPECT_EQ(run, std::vector<int>(passes, 1)) << count << " strands";
    }
  }
}

TEST(Strand, OfAllLinksHaveDifferentChannels) {
  std::vector<int> seen(6, 0);
  for (std::uint32_t s = 0; s < 3; ++s) {
    for (std::uint32_t channel = 0; channel < 2; ++channel) ++seen.at(Strand{s, 3}.channel(channel));
  }
  EXPECT_EQ(seen, std::vector<int>(6, 1));
}

/// What all links carry, by ranks.
std::map<std::pair<int, int>, std::uint64_t> carried(const SimulatorReport& report) {
  std::map<std::pair<int, int>, std::uint64_t> bytes;
  for (const LinkTraffic& link : report.links) bytes[{link.from, link.to}] += link.bytes;
  return bytes;
}

TEST(Strands, CarryTheSameBytesOnMoreLinks) {
  const Case at = case_of(*find_algorithm(Collective::all_reduce, "ring"), 4, 11);
  SimulatorReport one, three;
  Stranded(at, 1).simulate(&one);
  Stranded(at, 3).simulate(&three);
  EXPECT_EQ(carried(one), carried(three));
  EXPECT_EQ(one.messages, three.messages);
  EXPECT_EQ(three.links.size(), 3 * one.links.size());
}

TEST(Strands, AreFoldedOverANetworkToTheSameTime) {
  Case at = case_of(*find_algorithm(Collective::all_reduce, "ring"), 8, 11);
  const Stranded stranded(at, 3);
  const auto network = generate_network("switch:8,GBps=1,latency_us=1");
  ASSERT_TRUE(network.ok()) << network.status().text();
  std::vector<Program> programs;
  for (int r = 0; r < at.ranks; ++r) programs.push_back(make_program(*at.algorithm, stranded.plan(), at.places(), r));
  SimulatorConfig config;
  config.view = at.places();
  config.network = network->get();
  const SimulatorReport folded = simulate(stranded.plan(), programs, config);
  config.fold_ranks = false;
  const SimulatorReport whole = simulate(stranded.plan(), programs, config);
  EXPECT_EQ(folded.why, "");
  EXPECT_NEAR(folded.seconds, whole.seconds, 1e-9 * whole.seconds);
  EXPECT_EQ(folded.bytes, whole.bytes);
  EXPECT_EQ(folded.loads, whole.loads);
}

}  // namespace
}  // namespace tutti::testing
