// Every algorithm is proved by the verifier; all_proofs.cpp does it for more ranks.
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "algorithms/algorithms.h"
#include "src/schedule/lowering.h"
#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

TEST(Proofs, HoldForEveryAlgorithmAndRootUpTo17Ranks) {
  int plans = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      for (const View& view : views_of(*algorithm, ranks)) {
        for (int root = 0; root < roots_of(*algorithm, ranks); ++root, ++plans) {
          ASSERT_EQ(unproved(*algorithm, view, root), "");
        }
      }
    }
  }
  std::printf("%d plans proved\n", plans);
}

TEST(Proofs, HoldForOtherLanesAndDepths) {
  for (const Algorithm* algorithm : all_algorithms()) {
    for (const Parameters& parameters : {Parameters{2, 1}, Parameters{3, 2}, Parameters{4, 5}}) {
      for (int ranks = 2; ranks <= 6; ++ranks) {
        for (const View& view : views_of(*algorithm, ranks)) {
          ASSERT_EQ(unproved(*algorithm, view, ranks - 1, parameters), "");
        }
      }
    }
  }
}

/// What a test of single files met.
struct Met {
  int several = 0;  ///< programs of several lanes
  int moved = 0;    ///< whose order was another one, as some peers share the rank's core
};

/// On which core each rank is; all on their own for 0.
int core_of(int rank, int cores) { return cores == 0 ? rank : cores > 0 ? rank % cores : rank / -cores; }

// All lanes' steps one after another, as small calls are run: a schedule of one lane, which the verifier can look at.
void expect_proved_in_single_file(const Algorithm& algorithm, const View& view, int root, int cores, Met& met) {
  Schedule schedule = make_schedule(algorithm, view, root);
  const auto program_of = [&](int r) { return schedule.programs[static_cast<std::size_t>(r)]; };
  const NearOf near_of = [cores](int rank, const Program& program) {
    std::vector<std::uint8_t> same_core;
    for (const Link& link : program.links) same_core.push_back(core_of(link.peer, cores) == core_of(rank, cores) ? 1 : 0);
    return same_core;
  };
  std::vector<Program> filed;
  const int moved_before = met.moved;
  for (int r = 0; r < view.ranks(); ++r) {
    Program program = program_of(r);
    met.several += program.lanes.size() > 1 ? 1 : 0;
    std::vector<std::uint32_t> order = sequential_order(schedule.plan, r, program, program_of);
    ASSERT_EQ(order.size(), program.steps.size()) << describe(algorithm, view.ranks(), root);
    std::vector<std::uint32_t> nearer =
        same_core_first(order, program, near_of(r, program), blocks_of(schedule.plan.problem, Buffer::output, r));
    met.moved += nearer != order ? 1 : 0;
    order = std::move(nearer);
    std::vector<Step> steps;
    for (const std::uint32_t step : order) {
      steps.push_back(program.steps[step]);
      steps.back().dependencies = steps.back().dependency_count = 0;
    }
    program.lanes = {{0, static_cast<std::uint32_t>(steps.size())}};
    program.steps = std::move(steps);
    program.dependencies.clear();
    filed.push_back(std::move(program));
  }
  EXPECT_EQ(near_first_goes_through(schedule.plan, program_of, near_of), met.moved != moved_before)
      << describe(algorithm, view.ranks(), root);
  schedule.plan.shape.lanes = 1;
  const Verdict verdict = verify(schedule.plan, filed);
  EXPECT_TRUE(verdict.proved()) << describe(algorithm, view.ranks(), root) << ": " << verdict.fault.text();
}

TEST(Proofs, HoldInSingleFileWhateverRanksShareCores) {
  Met met;
  for (const Algorithm* algorithm : all_algorithms()) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      for (const View& view : views_of(*algorithm, ranks)) {
        for (const int root : {0, roots_of(*algorithm, ranks) - 1}) {
          for (const int cores : {0, 2, 3, -2}) {
            ASSERT_NO_FATAL_FAILURE(expect_proved_in_single_file(*algorithm, view, root, cores, met));
          }
        }
      }
    }
  }
  EXPECT_GT(met.several, 1000);
  EXPECT_GT(met.moved, 100);
}

// At less credit than a plan states it may do without, but where a plan states more than one it is because some number of
// ranks needs it.
TEST(Proofs, NeedTheCreditThatPlansState) {
  for (const Algorithm* algorithm : all_algorithms()) {
    std::uint32_t needed = 0;
    std::uint32_t stated = 0;
    for (int ranks = 2; ranks <= 9; ++ranks) {
      for (const View& view : views_of(*algorithm, ranks)) {
        const Schedule schedule = make_schedule(*algorithm, view, 0);
        needed = std::max(needed, least_credit(schedule.plan, schedule.programs, 4));
        stated = std::max(stated, schedule.plan.shape.credit);
      }
    }
    EXPECT_EQ(needed, stated) << describe(*algorithm, 9, 0);
  }
}

// Where every fold is in rank order the schedule suits operators that do not commute.
TEST(Proofs, FindWhichAllReducesFoldInRankOrder) {
  std::set<std::string> ordered;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (algorithm->collective != Collective::all_reduce) continue;
    bool all = true;
    for (int ranks = 2; ranks <= 9; ++ranks) {
      for (const View& view : views_of(*algorithm, ranks)) {
        const Schedule schedule = make_schedule(*algorithm, view, 0);
        all = all && verify(schedule.plan, schedule.programs).proof.rank_order;
      }
    }
    if (all) ordered.insert(algorithm->name);
  }
  EXPECT_EQ(ordered,
            (std::set<std::string>{"flat", "direct", "recursive_doubling", "halving_doubling", "tree", "central"}));
}

// Flat and direct fold all ranks' shares at once, in rank order: the same bits, so the same hash, whatever the windows.
TEST(Proofs, GiveOneAssociationToSchedulesThatFoldAlike) {
  const Schedule flat = make_schedule(flat_all_reduce, 6, 0);
  const Schedule direct = make_schedule(direct_all_reduce, 6, 0);
  const Schedule ring = make_schedule(ring_all_reduce, 6, 0);
  const std::uint64_t hash = verify(flat.plan, flat.programs).proof.association;
  EXPECT_NE(hash, 0u);
  EXPECT_EQ(hash, verify(direct.plan, direct.programs).proof.association);
  EXPECT_NE(hash, verify(ring.plan, ring.programs).proof.association);
}

/// The schedule of an algorithm for calls that fold all at once.
Schedule make_one_fold(const Algorithm& algorithm, const View& view, int root, std::uint32_t local_operands) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = view.ranks();
  problem.root = root;
  problem.count = 1000;
  problem.one_fold = true;
  problem.local_operands = local_operands;
  Schedule schedule{make_plan(algorithm, problem, view, {}, 1 << 16), {}};
  for (int rank = 0; rank < view.ranks(); ++rank)
    schedule.programs.push_back(make_program(algorithm, schedule.plan, view, rank));
  return schedule;
}

// Which algorithms fold all ranks' operands at once, in rank order, is what they say of themselves, no more and no less.
TEST(Proofs, SayWhichAlgorithmsFoldOnce) {
  for (const Algorithm* algorithm : all_algorithms()) {
    if (!reduces(algorithm->collective)) continue;
    bool all = true;
    for (const int ranks : {2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64}) {
      for (const View& view : views_of(*algorithm, ranks)) {
        for (int root = 0; root < std::min(3, roots_of(*algorithm, ranks)); ++root) {
          const Schedule schedule = make_one_fold(*algorithm, view, root, 1);
          all = all && verify(schedule.plan, schedule.programs).proved();
        }
      }
    }
    EXPECT_EQ(all, algorithm->one_fold) << describe(*algorithm, 64, 0);
  }
}

// Several operands a rank give what as many ranks with one each give.
TEST(Proofs, HoldForSeveralOperandsARank) {
  int plans = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (!algorithm->one_fold || !takes_several_operands(algorithm->collective)) continue;
    const std::uint64_t of_twelve = [&] {
      const Schedule schedule = make_one_fold(*algorithm, flat_view(12), 0, 1);
      return verify(schedule.plan, schedule.programs).proof.association;
    }();
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const std::uint32_t local_operands : {2u, 3u, 4u, 12u}) {
        for (int root = 0; root < roots_of(*algorithm, ranks); ++root, ++plans) {
          const Schedule schedule = make_one_fold(*algorithm, flat_view(ranks), root, local_operands);
          const Verdict verdict = verify(schedule.plan, schedule.programs);
          ASSERT_TRUE(verdict.proved()) << describe(*algorithm, ranks, root) << ": " << verdict.fault.text();
          if (static_cast<std::uint32_t>(ranks) * local_operands != 12) continue;
          EXPECT_EQ(verdict.proof.association, of_twelve) << describe(*algorithm, ranks, root);
        }
      }
    }
  }
  EXPECT_GT(plans, 200);
}

// What an algorithm says that a rank sends, on average, is what its programs send: messages, and bytes beside the block's.
TEST(Algorithms, SayHowMuchTheySend) {
  for (const Algorithm* algorithm : all_algorithms()) {
    for (const int ranks : {2, 3, 4, 5, 6, 7, 8, 9, 15, 16}) {
      // What counts is what ranks of one machine do, where they share cores.
      if (!ranks_fit(*algorithm, ranks) || !(*usual_view(*algorithm, ranks) == flat_view(ranks))) continue;
      const Schedule schedule = make_schedule(*algorithm, ranks, 0, 1024);
      double messages = 0;
      double bytes = 0;
      for (const Program& program : schedule.programs) {
        for (const Operand& operand : program.operands) {
          if (operand.place != Place::link || !program.links[operand.link].sends) continue;
          messages += 1. / ranks;
          bytes += 1. / ranks * operand.range.blocks * operand.range.chunks / schedule.plan.shape.chunks;
        }
      }
      const Cost cost = algorithm->cost(schedule.plan.problem, flat_view(ranks));
      const double said = cost.messages > 0 ? cost.messages : cost.alphas;
      EXPECT_NEAR(said / messages, 1, .01) << algorithm->name << " on " << ranks << " ranks: " << said << ", " << messages;
      if (algorithm->collective == Collective::barrier || !std::has_single_bit(static_cast<unsigned>(ranks))) continue;
      const double sent = cost.sent > 0 ? cost.sent : cost.betas;
      EXPECT_NEAR(sent / bytes, 1, .01) << algorithm->name << " on " << ranks << " ranks: " << sent << ", " << bytes;
    }
  }
}

TEST(Algorithms, HaveUniqueNamesCostsAndSummaries) {
  std::set<std::string> names;
  for (const Algorithm* algorithm : all_algorithms()) {
    EXPECT_TRUE(names.insert(std::string(name_of(algorithm->collective)) + algorithm->name).second) << algorithm->name;
    EXPECT_EQ(find_algorithm(algorithm->collective, algorithm->name), algorithm);
    EXPECT_FALSE(std::string(algorithm->summary).empty());
    Problem problem;
    problem.collective = algorithm->collective;
    problem.count = 1 << 20;
    for (const int ranks : {2, 3, 8, 64, 1000}) {
      problem.ranks = ranks;
      const auto view = usual_view(*algorithm, ranks);
      if (!view) continue;
      const Cost cost = algorithm->cost(problem, *view);
      double messages = cost.alphas;
      for (const LinkCost& on : cost.on) messages += on.alphas;
      EXPECT_GE(messages, 1) << algorithm->name;
      EXPECT_EQ(cost.gammas > 0, reduces(algorithm->collective)) << algorithm->name;
    }
  }
  EXPECT_EQ(find_algorithm(Collective::all_reduce, "none of them"), nullptr);
}

TEST(Algorithms, CoverEveryCollective) {
  for (const CollectiveRow& row : collectives) {
    const auto all = all_algorithms();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Algorithm* a) { return a->collective == row.collective; }))
        << row.info.name;
  }
}

}  // namespace
}  // namespace tutti::testing
