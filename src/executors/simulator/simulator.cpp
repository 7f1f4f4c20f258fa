#include "src/executors/simulator/simulator.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "src/executors/simulator/events.h"
#include "src/executors/simulator/flows.h"
#include "src/executors/simulator/fold.h"
#include "src/executors/simulator/indices.h"
#include "src/executors/simulator/memory.h"
#include "src/executors/simulator/simulation_setup.h"
#include "src/executors/simulator/wire_queues.h"
#include "src/schedule/layout.h"
#include "src/tables/element_types.h"

namespace tutti {
namespace {

using namespace simulator;

/// What a lane waits for.
enum class Wait { nothing, earlier_passes, dependency, message, room, readers };

/// A message that a step is reading.
struct Taken {
  std::uint32_t wire = 0;
  Message message;
};

/// One lane of one strand of one rank.
struct LaneRun {
  std::uint32_t rank_class = 0;
  std::uint32_t strand = 0;
  std::uint32_t lane = 0;
  std::uint64_t pass = 0;  ///< of the plan, one of the strand's
  std::uint32_t step = 0;
  bool finished = false;
  Wait wait = Wait::nothing;
  std::uint32_t waits_on = 0;  ///< wire: a message, room
  std::uint32_t ready = 0;     ///< operands of the step that need not be looked at again
  double arrived = 0;          ///< as in SimulatedStep
  double begin = 0;
  std::uint64_t bytes = 0;        ///< of the step's message
  std::vector<std::byte> result;  ///< of the step that runs; where there is data
  std::vector<Taken> taken;       ///< by it
};

/// What the lanes of a rank class share.
struct RankRun {
  Memory memory;
  std::uint32_t first_lane = 0;
  std::uint32_t lanes = 0;  ///< of each strand: those of one follow each other
  Server processor;
  double busy = 0;                     ///< seconds of the processor
  std::vector<std::uint32_t> waiting;  ///< lanes that look again when a step retires or a hold ends
};

/// Events so near to each other are one moment over a network, relative to the time since the start: what rounding has torn
/// apart is then still found fair rates for at once.
constexpr double moment = 1e-11;

/// One run. The indices of all arguments have been checked.
class Run {
 public:
  Run(const Plan& plan, SimulationSetup setup, const SimulatorConfig& config);
  SimulatorReport run();

 private:
  using LaneId = std::uint32_t;

  // When things happen.
  void advance_all();
  void handle_moment();
  void handle(const Event& event);
  void wake(std::vector<LaneId>& lanes);
  void advance(LaneId id);
  bool passed_by_others(const LaneRun& lane) const;
  bool dependencies_hold(const LaneRun& lane, const Step& step) const;
  bool blocked(LaneId id, const Step& step);
  Wait operands_wait(LaneRun& lane, const Step& step);
  bool operand_sound(const LaneRun& lane, const Step& step, std::size_t operand);
  double work(const LaneRun& lane, const Step& step) const;
  double pause();
  bool chance(double share) { return share > 0 && std::uniform_real_distribution(0.0, 1.0)(random_) < share; }

  // What happens.
  bool begin(LaneId id, const Step& step);
  void take(LaneRun& lane, const Operand& operand);
  void compute(LaneRun& lane, const Step& step);
  Pieces write(const LaneRun& lane, const Step& step);
  void finish(LaneId id);
  void send(const LaneRun& lane, std::uint32_t index, const Pieces& kept);
  void share_links();
  void leave(std::uint32_t index);
  void begin_to_leave(WireQueue& wire);
  void plan_leaving(std::uint32_t index);
  bool put(WireQueue& wire, const LaneRun& sender);
  void let_go(LaneRun& lane);
  void retire(LaneId id);

  // How it ends.
  void fail(const LaneRun& lane, std::string what);
  SimulatorReport report();
  void find_stuck(SimulatorReport& report) const;
  void find_left_over(SimulatorReport& report) const;
  std::string reason(const LaneRun& lane) const;

  const Program& program_of(const LaneRun& lane) const { return *setup_.rank_classes[lane.rank_class].program; }
  int rank_number(const LaneRun& lane) const { return setup_.rank_classes[lane.rank_class].rank; }
  RankRun& rank_of(const LaneRun& lane) { return ranks_[lane.rank_class]; }
  const RankRun& rank_of(const LaneRun& lane) const { return ranks_[lane.rank_class]; }
  /// The first lane of its strand.
  std::uint32_t first_lane_of(const LaneRun& lane) const {
    return rank_of(lane).first_lane + lane.strand * rank_of(lane).lanes;
  }
  std::uint32_t wire_of(const LaneRun& lane, const Operand& operand) const {
    return setup_.wire_of(lane.rank_class, operand.link, lane.strand);
  }
  const Step& step_of(const LaneRun& lane) const {
    const Program& program = program_of(lane);
    return program.steps[program.lanes[lane.lane].first + lane.step];
  }
  std::span<const Operand> operands_of(const LaneRun& lane, const Step& step) const {
    return {program_of(lane).operands.data() + step.operands, std::size_t{step.sources} + step.destinations};
  }
  Pieces pieces_of(const LaneRun& lane, const Step& step, std::size_t operand) const {
    return rank_of(lane).memory.pieces(operands_of(lane, step), operand, lane.pass);
  }

  const Plan& plan_;
  SimulationSetup setup_;
  const SimulatorConfig& config_;
  bool looks_at_memory_;  ///< there is data, or messages are pulled
  std::uint64_t credit_;
  std::uint64_t longest_;    ///< bytes that a message may have
  std::uint64_t unit_;       ///< bytes of what `fold_` counts
  std::uint64_t divide_by_;  ///< on the last touch
  FoldFunction fold_;
  WireQueues wires_;
  std::optional<Flows> flows_;  ///< over a network
  std::vector<RankRun> ranks_;  ///< by rank class
  std::vector<LaneRun> lanes_;
  Events events_;
  std::vector<LaneId> ready_;
  std::vector<LaneId> round_;  ///< lanes that advance now
  std::mt19937_64 random_;
  double last_retired_ = 0;
  Fault fault_;
  SimulatorReport report_;
};

Run::Run(const Plan& plan, SimulationSetup setup, const SimulatorConfig& config)
    : plan_(plan),
      setup_(std::move(setup)),
      config_(config),
      looks_at_memory_(!config.memory.empty() || config.disturbance.pulled > 0),
      credit_(std::max(1u, config.credit != 0 ? config.credit : plan.shape.credit)),
      wires_(setup_, config),
      random_(config.disturbance.seed) {
  const Problem& problem = plan.problem;
  const std::uint64_t element = element_bytes(problem.type);
  const bool folding = combines(problem.collective);
  longest_ = std::max<std::uint64_t>(1, plan.window / plan.shape.chunks) * plan.shape.message_cells * element;
  unit_ = config.fold != nullptr ? element : std::uint64_t{1} << unit_shift(problem);
  divide_by_ = divisor(problem);
  fold_ = config.fold != nullptr ? config.fold : folding ? find_fold(problem.type, problem.op) : find_copy();
  if (config.network != nullptr) flows_.emplace(std::move(setup_.routes));
  for (std::uint32_t p = 0; p < setup_.rank_classes.size(); ++p) {
    const SimulationSetup::RankClass& rank_class = setup_.rank_classes[p];
    const RankMemory* real = config.memory.empty() ? nullptr : &config.memory[static_cast<std::size_t>(rank_class.rank)];
    const auto first = static_cast<std::uint32_t>(lanes_.size());
    const auto count = static_cast<std::uint32_t>(rank_class.program->lanes.size());
    const IrregularBuffers* own =
        config.irregular.empty() ? nullptr : &config.irregular[static_cast<std::size_t>(rank_class.rank)];
    ranks_.push_back({Memory(plan, rank_class.rank, real, own), first, count, {}, 0, {}});
    for (std::uint32_t l = 0; l < count * plan.strands; ++l) {
      LaneRun& lane = lanes_.emplace_back();
      lane.rank_class = p;
      lane.strand = l / count;
      lane.lane = l % count;
      lane.pass = lane.strand;
      lane.finished = lane.pass >= ranks_.back().memory.passes() || rank_class.program->lanes[lane.lane].count == 0;
    }
  }
}

SimulatorReport Run::run() {
  std::vector<LaneId> all;
  for (LaneId id = 0; id < lanes_.size(); ++id) all.push_back(id);
  wake(all);
  while (!fault_.any()) {
    if (!ready_.empty()) {
      advance_all();
    } else if (flows_ && flows_->unsettled()) {
      share_links();
    } else if (!events_.empty()) {
      handle_moment();
    } else {
      break;
    }
  }
  return report();
}

/// Advances the lanes that are ready, in their order: at one time nothing depends on the order in which events were
/// planned, so that ranks which go through the same stay alike.
void Run::advance_all() {
  round_.clear();
  std::swap(round_, ready_);
  std::sort(round_.begin(), round_.end());
  for (const LaneId id : round_) advance(id);
}

/// Handles what happens now.
void Run::handle_moment() {
  const double until = flows_ ? events_.next_time() * (1 + moment) : events_.next_time();
  do {
    handle(events_.next());
  } while (!events_.empty() && events_.next_time() <= until && (flows_ || ready_.empty()));
}

void Run::handle(const Event& event) {
  switch (event.kind) {
    case Event::Kind::lane_awake:
      ready_.push_back(event.index);
      return;
    case Event::Kind::step_ends:
      finish(event.index);
      ready_.push_back(event.index);
      return;
    case Event::Kind::message_leaves:
      if (event.bytes == wires_[event.index].version) leave(event.index);
      return;
    case Event::Kind::message_heads: {
      const double there = wires_.land(event.index, event.bytes, event.time);
      events_.plan(there, Event::Kind::message_there, event.index);
      return;
    }
    case Event::Kind::message_there: {
      WireQueue& wire = wires_[event.index];
      const Message& message = wire.queue[wire.arrived++];
      if (config_.timeline) {
        report_.flights.push_back({event.index, message.bytes, message.begin, message.left, event.time});
      }
      return wake(wire.waiting);
    }
    case Event::Kind::room_back: {
      WireQueue& wire = wires_[event.index];
      --wire.under_way;
      return wake(wire.waiting);
    }
  }
}

void Run::wake(std::vector<LaneId>& lanes) {
  for (const LaneId id : lanes) {
    if (config_.disturbance.pause > 0) {
      events_.plan(events_.now() + pause(), Event::Kind::lane_awake, id);
    } else {
      ready_.push_back(id);
    }
  }
  lanes.clear();
}

/// Takes a lane, which is not running a step, as far as it gets now.
void Run::advance(LaneId id) {
  while (!lanes_[id].finished && !fault_.any()) {
    const Step& step = step_of(lanes_[id]);
    if (blocked(id, step)) return;
    if (lanes_[id].bytes == 0) {
      retire(id);
    } else if (!begin(id, step)) {
      return;
    }
  }
}

bool Run::passed_by_others(const LaneRun& lane) const {
  const std::uint64_t depth = std::uint64_t{plan_.shape.depth} * plan_.strands;
  if (lane.pass < depth) return true;
  const auto first = lanes_.begin() + first_lane_of(lane);
  return std::all_of(first, first + rank_of(lane).lanes,
                     [&](const LaneRun& other) { return other.finished || other.pass > lane.pass - depth; });
}

bool Run::dependencies_hold(const LaneRun& lane, const Step& step) const {
  const auto first = program_of(lane).dependencies.begin() + step.dependencies;
  return std::all_of(first, first + step.dependency_count, [&](const Dependency& on) {
    const std::uint64_t distance = std::uint64_t{on.distance} * plan_.strands;
    if (lane.pass < distance) return true;
    const LaneRun& other = lanes_[first_lane_of(lane) + on.lane];
    const std::uint64_t pass = lane.pass - distance;
    return other.finished || other.pass > pass || (other.pass == pass && other.step > on.step);
  });
}

/// Whether a lane has to wait, or a fault was found. Where it waits it is listed with what will wake it. Sets its bytes.
bool Run::blocked(LaneId id, const Step& step) {
  LaneRun& lane = lanes_[id];
  RankRun& rank = rank_of(lane);
  lane.wait = Wait::nothing;
  if (lane.step == 0 && !passed_by_others(lane)) {
    lane.wait = Wait::earlier_passes;
  } else if (!dependencies_hold(lane, step)) {
    lane.wait = Wait::dependency;
  } else if (const char* wrong = rank.memory.length_fault(operands_of(lane, step)); wrong != nullptr) {
    fail(lane, wrong);
  } else {
    lane.bytes = rank.memory.bytes(operands_of(lane, step), lane.pass);
    if (lane.bytes != 0) lane.wait = operands_wait(lane, step);
  }
  if (lane.wait == Wait::nothing) return fault_.any();
  const bool at_wire = lane.wait == Wait::message || lane.wait == Wait::room;
  (at_wire ? wires_[lane.waits_on].waiting : rank.waiting).push_back(id);
  return true;
}

Wait Run::operands_wait(LaneRun& lane, const Step& step) {
  const Memory& memory = rank_of(lane).memory;
  const auto operands = operands_of(lane, step);
  for (; lane.ready < operands.size(); ++lane.ready) {
    const Operand& operand = operands[lane.ready];
    const bool source = lane.ready < step.sources;
    if (!operand_sound(lane, step, lane.ready)) return Wait::nothing;
    if (operand.place == Place::link) {
      lane.waits_on = wire_of(lane, operand);
      if (lane.waits_on == nothing) continue;
      const WireQueue& wire = wires_[lane.waits_on];
      if (source && wire.arrived == 0) return Wait::message;
      if (!source && wire.under_way >= credit_) return Wait::room;
      if (!source && lane.bytes > longest_)
        fail(lane, "overruns a message: it has " + std::to_string(lane.bytes) + " bytes");
    } else if (!source) {
      if (operand.place == Place::input) fail(lane, "writes the input");
      if (memory.anything_held() && memory.held(memory.pieces(operands, lane.ready, lane.pass))) return Wait::readers;
    }
  }
  return Wait::nothing;
}

bool Run::operand_sound(const LaneRun& lane, const Step& step, std::size_t operand) {
  const Memory& memory = rank_of(lane).memory;
  const auto operands = operands_of(lane, step);
  if (const char* wrong = memory.fault(operands[operand]); wrong != nullptr) {
    fail(lane, wrong);
  } else if (!memory.fits(operands, operand, lane.pass)) {
    fail(lane, "has operands of different lengths");
  }
  return !fault_.any();
}

/// Seconds of its rank's processor that a step takes.
double Run::work(const LaneRun& lane, const Step& step) const {
  const auto bytes = static_cast<double>(lane.bytes);
  if (step.sources > 1) return config_.view.gamma * bytes * (step.sources - 1);
  const auto operands = operands_of(lane, step);
  const bool linked =
      std::any_of(operands.begin(), operands.end(), [](const Operand& operand) { return operand.place == Place::link; });
  return linked ? 0 : config_.view.link(LinkClass::self).beta * bytes;
}

/// Mostly short and now and then long, so that lanes overtake each other now by a step, now by many.
double Run::pause() {
  const double most = config_.disturbance.pause;
  return most > 0 ? most * std::exp2(-static_cast<double>(random_() % 12)) : 0;
}

/// Reads and computes. True where the step has ended already.
bool Run::begin(LaneId id, const Step& step) {
  LaneRun& lane = lanes_[id];
  for (const Operand& operand : operands_of(lane, step).first(step.sources)) {
    if (operand.place == Place::link) take(lane, operand);
  }
  if (fault_.any()) return false;
  if (!config_.memory.empty()) compute(lane, step);
  const double seconds = work(lane, step);
  RankRun& rank = rank_of(lane);
  rank.busy += seconds;
  const double now = events_.now();
  lane.begin = config_.shared_processor && seconds > 0 ? rank.processor.serve(now, seconds) : now;
  const double end = lane.begin + seconds + pause();
  if (end > now) {
    events_.plan(end, Event::Kind::step_ends, id);
    return false;
  }
  finish(id);
  return true;
}

void Run::take(LaneRun& lane, const Operand& operand) {
  const std::uint32_t index = wire_of(lane, operand);
  if (index == nothing) return;
  WireQueue& wire = wires_[index];
  if (wire.arrived == 0) return fail(lane, "takes two messages where there is one");
  lane.taken.push_back({index, std::move(wire.queue.front())});
  wire.queue.erase(wire.queue.begin());
  --wire.arrived;
  if (flows_) --wire.left;
  const std::uint64_t bytes = lane.taken.back().message.bytes;
  if (bytes == lane.bytes) return;
  fail(lane, "takes " + std::to_string(lane.bytes) + " bytes where rank " + std::to_string(wire.traffic.from) + " sent " +
                 std::to_string(bytes));
}

/// Folds the step's sources into its lane's result.
void Run::compute(LaneRun& lane, const Step& step) {
  std::vector<std::vector<std::byte>> loaded(step.sources);
  std::vector<FoldSource> sources;
  std::size_t message = 0;
  const auto operands = operands_of(lane, step);
  for (std::size_t o = 0; o < step.sources; ++o) {
    const bool linked = operands[o].place == Place::link;
    const Message* from = linked ? &lane.taken[message++].message : nullptr;
    if (from != nullptr && !from->put && from->pulled.empty()) {
      sources.push_back({from->copied.data()});
      continue;
    }
    // What was put is where the step would write it.
    const Pieces pieces = from == nullptr ? pieces_of(lane, step, o)
                          : from->put     ? pieces_of(lane, step, step.sources)
                                          : from->pulled;
    loaded[o].resize(lane.bytes);
    load(pieces, loaded[o].data());
    sources.push_back({loaded[o].data()});
  }
  lane.result.resize(lane.bytes);
  const FoldDestination destination{lane.result.data()};
  fold_({sources.data(), &destination, static_cast<std::uint32_t>(sources.size()), 1, lane.bytes / unit_,
         (step.flags & last_touch) != 0 ? divide_by_ : 0});
}

/// Writes a step's result to memory. Returns what its messages may be pulled from: the first destination in memory, or
/// else an only source there.
Pieces Run::write(const LaneRun& lane, const Step& step) {
  const auto operands = operands_of(lane, step);
  Pieces kept;
  for (std::size_t o = step.sources; o < operands.size(); ++o) {
    if (operands[o].place == Place::link) continue;
    const Pieces pieces = pieces_of(lane, step, o);
    if (!config_.memory.empty()) store(lane.result.data(), pieces);
    if (kept.empty()) kept = pieces;
  }
  if (kept.empty() && step.sources == 1 && operands[0].place != Place::link) kept = pieces_of(lane, step, 0);
  return kept;
}

/// Writes, sends and retires.
void Run::finish(LaneId id) {
  LaneRun& lane = lanes_[id];
  const Step& step = step_of(lane);
  const auto operands = operands_of(lane, step);
  const Pieces kept = looks_at_memory_ ? write(lane, step) : Pieces{};
  for (const Operand& operand : operands.subspan(step.sources)) {
    const std::uint32_t wire = operand.place == Place::link ? wire_of(lane, operand) : nothing;
    if (wire != nothing) send(lane, wire, kept);
  }
  let_go(lane);
  if (config_.timeline) {
    report_.steps.push_back(
        {rank_number(lane), lane.lane, lane.step, lane.pass, lane.arrived, lane.begin, events_.now(), lane.bytes});
  }
  retire(id);
}

void Run::send(const LaneRun& lane, std::uint32_t index, const Pieces& kept) {
  WireQueue& wire = wires_[index];
  Message message;
  message.bytes = lane.bytes;
  if (wire.queue.empty() && chance(config_.disturbance.put) && put(wire, lane)) {
    message.put = true;
  } else if (!kept.empty() && chance(config_.disturbance.pulled)) {
    message.pulled = kept;
    rank_of(lane).memory.hold(kept);
  } else {
    message.copied = lane.result;
  }
  ++wire.under_way;
  ++wire.traffic.messages;
  wire.traffic.bytes += message.bytes;
  if (flows_) {
    wire.queue.push_back(std::move(message));
    if (wire.left + 1 == wire.queue.size()) {
      begin_to_leave(wire);
      flows_->start(index);
    }
    return;
  }
  const double there = wires_.depart(index, message, events_.now(), pause());
  events_.plan(there, Event::Kind::message_heads, index, message.bytes);
  wire.queue.push_back(std::move(message));
}

/// Gives the flows that came, or whose neighbours came or went, their rates.
void Run::share_links() {
  if (!flows_->unsettled()) return;
  for (const std::uint32_t index : flows_->settle()) {
    WireQueue& wire = wires_[index];
    wire.remaining = std::max(0.0, wire.remaining - wire.rate * (events_.now() - wire.since));
    wire.since = events_.now();
    wire.rate = flows_->rate(index);
    plan_leaving(index);
  }
}

/// The wire's first message that waits to leave begins to; its rate is settled at the end of this moment.
void Run::begin_to_leave(WireQueue& wire) {
  Message& message = wire.queue[wire.left];
  message.begin = events_.now();
  wire.remaining = static_cast<double>(message.bytes);
  wire.since = events_.now();
}

void Run::plan_leaving(std::uint32_t index) {
  WireQueue& wire = wires_[index];
  ++wire.version;
  events_.plan(events_.now() + wire.remaining / wire.rate, Event::Kind::message_leaves, index, wire.version);
}

/// The last byte of a wire's message has left: it arrives after the wire's latency, and the next one begins to leave.
void Run::leave(std::uint32_t index) {
  WireQueue& wire = wires_[index];
  wire.queue[wire.left].left = events_.now();
  ++wire.left;
  events_.plan(events_.now() + wire.estimate.alpha + pause(), Event::Kind::message_there, index);
  if (wire.left == wire.queue.size()) return flows_->stop(index);
  begin_to_leave(wire);
  plan_leaving(index);
}

/// Writes a message straight to its destination, where the receiver waits for just this one and nobody reads there.
bool Run::put(WireQueue& wire, const LaneRun& sender) {
  for (const LaneId id : wire.waiting) {
    const LaneRun& lane = lanes_[id];
    if (lane.wait != Wait::message || rank_number(lane) != wire.traffic.to || lane.bytes != sender.bytes) continue;
    const Step& step = step_of(lane);
    const auto operands = operands_of(lane, step);
    const Operand& target = operands[step.sources];
    const Memory& memory = rank_of(lane).memory;
    if (step.sources != 1 || target.place == Place::link || target.place == Place::input ||
        memory.fault(target) != nullptr) {
      return false;
    }
    const Pieces pieces = memory.pieces(operands, step.sources, lane.pass);
    if (bytes_of(pieces) != sender.bytes || memory.held(pieces)) return false;
    if (!config_.memory.empty()) store(sender.result.data(), pieces);
    return true;
  }
  return false;
}

/// Gives back the room and the memory of the messages that a step took.
void Run::let_go(LaneRun& lane) {
  for (const Taken& taken : lane.taken) {
    const WireQueue& wire = wires_[taken.wire];
    events_.plan(events_.now() + wire.estimate.alpha, Event::Kind::room_back, taken.wire);
    if (taken.message.pulled.empty()) continue;
    RankRun& sender = ranks_[setup_.wires[taken.wire].sender];
    sender.memory.release(taken.message.pulled);
    wake(sender.waiting);
  }
  lane.taken.clear();
}

void Run::retire(LaneId id) {
  LaneRun& lane = lanes_[id];
  last_retired_ = events_.now();
  lane.arrived = last_retired_;
  lane.ready = 0;
  if (++lane.step == program_of(lane).lanes[lane.lane].count) {
    lane.step = 0;
    lane.pass += plan_.strands;
    lane.finished = lane.pass >= rank_of(lane).memory.passes();
  }
  wake(rank_of(lane).waiting);
}

void Run::fail(const LaneRun& lane, std::string what) {
  if (fault_.any()) return;
  fault_ = {rank_number(lane), lane.lane, lane.step, static_cast<std::int64_t>(lane.pass), std::move(what)};
}

SimulatorReport Run::report() {
  SimulatorReport report = std::move(report_);
  report.seconds = last_retired_;
  for (std::uint32_t w = 0; w < wires_.size(); ++w) {
    const LinkTraffic& traffic = wires_[w].traffic;
    report.links.push_back(traffic);
    report.messages += traffic.messages * traffic.alike;
    report.bytes += traffic.bytes * traffic.alike;
  }
  for (const SimulationSetup::RankClass& rank_class : setup_.rank_classes)
    report.rank_classes.push_back({rank_class.rank, rank_class.members});
  for (const std::uint32_t rank_class : setup_.class_of_rank) {
    report.ranks.push_back(wires_.use()[rank_class]);
    report.ranks.back().processor = ranks_[rank_class].busy;
  }
  if (flows_) {
    const std::vector<double> carried = flows_->carried([&](std::uint32_t w) { return wires_[w].traffic.bytes; });
    for (const std::uint32_t link : setup_.link_of) {
      report.loads.push_back(link == nothing ? 0 : static_cast<std::uint64_t>(std::llround(carried[link])));
    }
  }
  if (fault_.any()) {
    report.verdict = SimulatorReport::Verdict::overrun;
    report.why = fault_.text();
    return report;
  }
  find_stuck(report);
  if (report.stuck.empty()) find_left_over(report);
  return report;
}

void Run::find_stuck(SimulatorReport& report) const {
  for (const LaneRun& lane : lanes_) {
    if (lane.finished) continue;
    report.stuck.push_back({rank_number(lane), lane.lane, lane.step, static_cast<std::int64_t>(lane.pass), reason(lane)});
  }
  if (report.stuck.empty()) return;
  constexpr std::size_t told = 4;
  report.verdict = SimulatorReport::Verdict::deadlock;
  for (std::size_t s = 0; s < std::min(told, report.stuck.size()); ++s) {
    report.why += (s == 0 ? "deadlock: " : "; ") + report.stuck[s].text();
  }
  if (report.stuck.size() > told) report.why += "; and " + std::to_string(report.stuck.size() - told) + " lanes more";
}

std::string Run::reason(const LaneRun& lane) const {
  switch (lane.wait) {
    case Wait::earlier_passes:
      return "waits for earlier passes of other lanes";
    case Wait::dependency:
      return "waits for a step of another lane";
    case Wait::message:
      return "waits for a message from rank " + std::to_string(wires_[lane.waits_on].traffic.from);
    case Wait::room:
      return "waits for room on the link to rank " + std::to_string(wires_[lane.waits_on].traffic.to);
    default:
      return "waits for a peer to read what it is to overwrite";
  }
}

void Run::find_left_over(SimulatorReport& report) const {
  for (std::uint32_t w = 0; w < wires_.size(); ++w) {
    const WireQueue& wire = wires_[w];
    if (wire.queue.empty()) continue;
    report.verdict = SimulatorReport::Verdict::overrun;
    const std::size_t left = wire.queue.size();
    report.why = "rank " + std::to_string(wire.traffic.from) + " sent " + std::to_string(left) +
                 (left == 1 ? " message" : " messages") + " too many to rank " + std::to_string(wire.traffic.to) +
                 " on channel " + std::to_string(wire.traffic.channel);
    return;
  }
}

SimulatorReport overrun(std::string why) {
  SimulatorReport report;
  report.verdict = SimulatorReport::Verdict::overrun;
  report.why = std::move(why);
  return report;
}

SimulatorReport run_strands(const Plan& plan, SimulationSetup setup, const SimulatorConfig& config) {
  add_strands(setup, plan.strands);
  return Run(plan, std::move(setup), config).run();
}

/// Runs all ranks, folded where the config says so and there is a network. Blocks of different lengths make ranks differ.
SimulatorReport run_company(const Plan& plan, RankLinks rank_links, const SimulatorConfig& config) {
  if (config.network == nullptr) return run_strands(plan, unfolded_setup(rank_links), config);
  if (std::string why = find_ways(rank_links, *config.network); !why.empty()) return overrun(std::move(why));
  const Disturbance& disturbance = config.disturbance;
  const bool alike = config.memory.empty() && config.irregular.empty() && disturbance.pause == 0 &&
                     disturbance.pulled == 0 && disturbance.put == 0;
  SimulationSetup setup =
      folded_setup(rank_links, *config.network, classes_of(rank_links, *config.network, config.fold_ranks && alike));
  rank_links = {};
  return run_strands(plan, std::move(setup), config);
}

}  // namespace

SimulatorReport simulate(const Plan& plan, std::span<const Program> programs, const SimulatorConfig& config) {
  const Fault fault = check_indices(plan, programs, config);
  return fault.any() ? overrun(fault.text()) : run_company(plan, rank_links_of(programs), config);
}

SimulatorReport simulate(const Plan& plan, const ProgramClasses& program_classes, const SimulatorConfig& config) {
  const Fault fault = check_indices(plan, program_classes, config);
  return fault.any() ? overrun(fault.text()) : run_company(plan, rank_links_of(program_classes), config);
}

}  // namespace tutti
