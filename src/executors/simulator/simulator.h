// The simulator: runs the programs of all ranks of a plan at once, in one thread and in virtual time.
//
//     step ──► egress port ──────► α ──────► ingress port ──► message is there ──► taken ──► room is back
//     γ a byte   β a byte                      β a byte                                       after α
//
// It is a discrete-event executor with the semantics of docs/schedule.md. Given memory it moves real data with the
// reducer's folds, so that its results are the host executor's to the bit; without, it only keeps time, and a thousand
// ranks take seconds. Given a seed it disturbs all times and mixes the ways in which messages travel: what is right only by
// luck then shows. It trusts the programs no more than the verifier does, and shares no judgement with it: whatever leaves
// its memory, pairs up wrongly or waits for ever ends the run with a sentence.
//
// The model. One message alone takes α + mβ. A rank has one processor, which its lanes share: γ for each byte of each
// further source of a fold, the view's own-rank β for a copy from memory to memory; sends and receives cost the links' time
// only. A step reads when it starts and writes when it ends. The room of a message is back at the sender α after the step
// that took the message has ended. All this is deterministic, and at one time in the order of ranks and lanes. α and β come
// from
//   - ports: a rank has one egress and one ingress port, which its links share and which pass one message at a time, in the
//     order of asking, bytes going through both at once (cut-through); α and β are the view's for the pair;
//   - or a network (topology/network.h): the messages of a wire follow each other as a flow, flows share links max-min
//     fairly (flows.h), and α is the latency of the links on the way. Ranks that go through the same are folded (fold.h),
//     so that 65,536 of them take seconds. docs/simulator.md says more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/executors/simulator/program_classes.h"
#include "src/reduction/reduction.h"
#include "src/schedule/ir.h"
#include "src/schedule/layout.h"
#include "src/schedule/verifier.h"
#include "topology/network.h"
#include "topology/view.h"

namespace tutti {

/// One rank's buffers, in the shapes that the plan's problem says; not owned. In place, input and output are the same
/// memory as in the API. scratch: scratch_bytes(plan) bytes (src/schedule/layout.h).
struct RankMemory {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;
};

/// What goes otherwise than planned. The same seed gives the same run.
struct Disturbance {
  std::uint64_t seed = 0;
  double pause = 0;   ///< seconds that each step's start, each step and each message may take longer, by chance
  double pulled = 0;  ///< share of the messages that stay in the sender's memory until they are taken
  double put = 0;     ///< share of the messages that are written where the receiver waits for them
};

/// What a run is of, beside the plan.
struct SimulatorConfig {
  View view;  ///< of the plan's ranks: α, β of every pair, γ
  /// Rank r is endpoint r; α and β come from here, and not from the view; nullptr: through ports. Outlives the run.
  const Network* network = nullptr;
  bool fold_ranks = true;    ///< over a network, where nothing is moved or disturbed: whether one rank may stand for many
  std::uint32_t credit = 0;  ///< messages that a link takes without its receiver; 0: the plan's least
  bool shared_ports = true;  ///< false: every link has ports of its own
  bool shared_processor = true;        ///< false: every lane has a processor of its own
  bool timeline = false;               ///< whether to keep SimulatorReport::steps and ::flights
  std::span<const RankMemory> memory;  ///< one per rank; empty: no data is moved
  /// Of an irregular problem, one per rank: its blocks, whose counts say how long everything is. Where data is moved they
  /// are where their pointers say, and `memory` has the scratch alone. Else the pointers are not looked at.
  std::span<const IrregularBuffers> irregular;
  /// nullptr: that of the plan's type and operator, or the copy. Another one counts elements whatever the collective, and
  /// gets divide_by on each last touch where the operator is the average.
  FoldFunction fold = nullptr;
  Disturbance disturbance;
};

/// One step of one pass, as it went. Seconds from the start of the run. Steps over nothing are left out.
struct SimulatedStep {
  int rank = 0;
  std::uint32_t lane = 0;
  std::uint32_t step = 0;
  std::uint64_t pass = 0;
  double arrived = 0;  ///< its lane stood at it
  double begin = 0;    ///< all that it waits for was there
  double end = 0;      ///< it retired
  std::uint64_t bytes = 0;
};

/// One message, as it went.
struct SimulatedFlight {
  std::uint32_t link = 0;  ///< index into SimulatorReport::links
  std::uint64_t bytes = 0;
  double begin = 0;      ///< its first byte entered the egress port, or the network
  double left = 0;       ///< its last byte did
  double delivered = 0;  ///< its last byte left the ingress port, or the network
};

/// What a link between two ranks carried.
struct LinkTraffic {
  int from = 0;
  int to = 0;
  std::uint32_t channel = 0;
  std::uint64_t alike = 1;  ///< links that this one stands for, itself included
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};

/// Seconds that a rank's parts were busy.
struct RankUse {
  double processor = 0;
  double egress = 0;  ///< 0 over a network
  double ingress = 0;
};

/// A rank that was simulated, and how many ranks it stands for, itself included.
struct SimulatedPlayer {
  int rank = 0;
  std::uint64_t alike = 1;
};

/// How a run ended.
struct SimulatorReport {
  enum class Verdict {
    completed,
    deadlock,  ///< `stuck` says who waits for what
    overrun,   ///< something left its memory, or messages do not pair up: `why`
  };
  Verdict verdict = Verdict::completed;
  std::string why;           ///< one sentence without its full stop; empty where completed
  std::vector<Fault> stuck;  ///< deadlock: all lanes that wait, by rank and lane
  double seconds = 0;        ///< until the last step retired
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::vector<LinkTraffic> links;  ///< of all programs, in the order in which they name them; the first of those alike
  std::vector<RankUse> ranks;      ///< all of them
  std::vector<SimulatedPlayer> rank_classes;  ///< all ranks, or the first of those alike
  std::vector<std::uint64_t> loads;           ///< over a network: bytes that each of its links carried
  std::vector<SimulatedStep> steps;           ///< where asked, in the order in which they retired
  std::vector<SimulatedFlight> flights;       ///< where asked, in the order in which they were delivered
};

/// Runs `programs` (one per rank, in order; any arrays of numbers) of `plan` for plan.problem.count elements a block, or
/// for config.irregular's. Needs no locks: it touches nothing but its arguments. Time about proportional to steps times the
/// logarithm of what is under way; memory to ranks, links and what is under way. Over a network that has fewer endpoints
/// than there are ranks, or where one cannot reach another, the verdict is `overrun`.
SimulatorReport simulate(const Plan& plan, std::span<const Program> programs, const SimulatorConfig& config);

/// The same for program classes, which have no data and blocks of one length: config.memory and config.irregular are empty.
/// The way to many ranks: over a network folded.
SimulatorReport simulate(const Plan& plan, const ProgramClasses& program_classes, const SimulatorConfig& config);

}  // namespace tutti
