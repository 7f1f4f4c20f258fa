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
};

/// Time = alphas * α + betas * m β + gammas * m γ, with m the bytes of one block (the API's count), α the latency of a
/// message, β seconds per byte and link direction, or copied within a rank besides what every algorithm copies, γ seconds
/// per byte reduced (ALGORITHMS.md's terms). α and β are those of the dearest link that there is between ranks; what an
/// algorithm keeps to links of a class comes besides, in that class's α and β.
struct Cost {
  double alphas = 0;
  double betas = 0;
  double gammas = 0;
  /// Messages that a rank sends, on average over all ranks: what costs the time of cores that ranks share. 0: as many as
  /// alphas, those of `on` included.
  double messages = 0;
  /// Of the block's bytes, how many times as many a rank sends, on average: likewise; weighed where cores are shared and
  /// measurements say so. 0: as many as betas.
  double sent = 0;
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
};

/// All algorithms, in the order of registration: the earlier wins where costs are equal.
std::span<const Algorithm* const> all_algorithms();
/// By collective and name; nullptr where there is none.
const Algorithm* find_algorithm(Collective collective, const char* name);

/// The plan of one algorithm for links of slot_bytes. Pure; the same on every rank.
Plan make_plan(const Algorithm& algorithm, const Problem& problem, const View& view, const Parameters& parameters,
               std::uint64_t slot_bytes);
/// One rank's program of that plan, fused. For one rank: a single move from input to output.
Program make_program(const Algorithm& algorithm, const Plan& plan, const View& view, int rank);

}  // namespace tutti
