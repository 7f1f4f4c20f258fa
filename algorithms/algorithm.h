// What an algorithm is: a pure function from a problem to a schedule, with a name and a cost. One file each, and one
// line in registry.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "src/schedule/builder.h"
#include "src/schedule/ir.h"
#include "topology/view.h"

namespace tutti {

/// Messages one after the other, and bytes one after the other, of links of one class.
struct LinkCost {
  double alphas = 0;
  double betas = 0;
  double posted = 0;  ///< messages that are under way beside those of alphas, and only have to be posted
};

/// Which ranks move bytes at the same time.
enum class CommunicationPattern : std::uint8_t {
  other,              ///< none of these
  ring,               ///< all ranks; each sends to the next one of a ring, or of one ring after the other
  chain,              ///< all ranks, in a pipeline; each sends to the next one
  central,            ///< one rank, which all others send to and hear from, and which folds alone
  scatter_then_ring,  ///< a root scatters down a tree, then parts go round
  ring_then_gather,   ///< parts go round, then ever fewer ranks gather them up a tree
};

/// Time = (alphas + a quarter of posted) * α + betas * m β + gammas * m γ, with m the bytes of one block (the API's count).
/// A message has latency α. A byte takes β on a link's direction, or copied within a rank besides what every algorithm
/// copies, and γ to be reduced (ALGORITHMS.md's terms). These are those of the dearest link that there is between ranks.
/// What an algorithm keeps to links of a class comes besides, in that class's α and β. By the other facts selection weighs
/// what ranks share (src/selection/shared_cores.h).
struct Cost {
  double alphas = 0;
  double betas = 0;
  double gammas = 0;
  double messages = 0;  ///< that a rank sends, on average over all ranks. 0: as many as alphas
  double sent = 0;      ///< of the block's bytes, how many times as many a rank sends, on average. 0: as many as betas
  double posted = 0;    ///< as LinkCost's
  CommunicationPattern pattern = CommunicationPattern::other;
  std::array<LinkCost, kLinkClasses> on = {};  ///< by LinkClass

  LinkCost& operator[](LinkClass c) { return on[static_cast<std::size_t>(c)]; }
};

/// One row of the registry. All functions are pure, give the same on every rank (`build` for that rank's part), and accept
/// any number of ranks from 2 on, unless `fits` says otherwise; one rank is a copy that needs no algorithm.
struct Algorithm {
  const char* name;
  Collective collective;
  const char* summary;  ///< one line for `tutti-plan`
  bool (*fits)(const Problem&, const View&);
  Shape (*shape)(const Problem&, const View&, const Parameters&);
  void (*build)(Builder&, const View&, const Parameters&);
  Cost (*cost)(const Problem&, const View&);
  /// Sizes d1, …, dk of a torus of the ranks, the last one varying fastest, such that every rank's program is rank 0's,
  /// moved: peers by as much as the rank is away from rank 0 along each dimension, steps of the same numbers of chunks and
  /// blocks. Empty: there is no such torus. nullptr: nobody has looked. The simulator then need not ask for 65,536 programs
  /// (src/executors/simulator/program_classes.h); a test compares all programs of up to 64 ranks.
  std::vector<int> (*symmetry)(const Problem&, const View&) = nullptr;
  /// Whether v-variants may run by it: its programs can be irregular (can_be_irregular).
  bool irregular = false;
  /// Whether each element of a result is one fold, in rank order, whatever the ranks (Problem::one_fold).
  bool one_fold = false;
  /// Whether selection takes it only where one fold is asked for, or it is named. It may win by the model, and not in fact.
  bool on_request = false;
};

/// All algorithms, in the order of registration: the earlier wins where costs are equal.
std::span<const Algorithm* const> all_algorithms();
/// By collective and name; nullptr where there is none.
const Algorithm* find_algorithm(Collective collective, const char* name);

/// The plan of one algorithm for links whose slots hold message_bytes. Pure; the same on every rank.
Plan make_plan(const Algorithm& algorithm, const Problem& problem, const View& view, const Parameters& parameters,
               std::uint64_t message_bytes);
/// One rank's program of that plan, fused. For one rank: a single move from input to output.
Program make_program(const Algorithm& algorithm, const Plan& plan, const View& view, int rank);

}  // namespace tutti
