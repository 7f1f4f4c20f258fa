#include "src/executors/host/executor.h"

#include <algorithm>
#include <atomic>

#include "src/base/types.h"

namespace tutti {
namespace {

/// Below this, copying into a slot is cheaper than keeping track of an offer.
constexpr std::uint64_t least_offer = 4096;

/// Messages of a link whose source may be overwritten. Acquire: the transport's reads of that memory came before.
std::uint64_t reusable(const HostLink& link) {
  return std::atomic_ref<const std::uint64_t>(*link.state.reusable).load(std::memory_order_acquire);
}

Outcome interrupted() {
  Outcome outcome;
  outcome.kind = Outcome::Kind::interrupted;
  return outcome;
}

std::size_t index_of(Place place) { return static_cast<std::size_t>(place); }

}  // namespace

std::uint64_t scratch_bytes(const Plan& plan) {
  const std::uint64_t window = std::min(plan.window, std::max<std::uint64_t>(1, plan.problem.count));
  return window * plan.shape.scratch_blocks * plan.shape.depth * element_bytes(plan.problem.type);
}

Outcome HostExecutor::run(const Plan& plan, const Program& program, const Binding& binding, FoldFunction fold,
                          std::span<HostLink* const> links, Agent& agent, int rank) {
  plan_ = &plan;
  program_ = &program;
  binding_ = binding;
  fold_ = fold;
  links_ = links;
  rank_ = rank;
  prepare();
  std::uint32_t rounds = 0;
  for (std::size_t left = lanes_.size(); left != 0;) {
    bool moved = false;
    left = 0;
    for (std::uint32_t l = 0; l < lanes_.size(); ++l) {
      Turn turn = Turn::moved;
      while (!lanes_[l].finished && (turn = advance(lanes_[l], l)) == Turn::moved) moved = true;
      if (turn == Turn::failed) return std::move(outcome_);
      left += lanes_[l].finished ? 0 : 1;
    }
    if (needs_progress_) agent.progress();
    rounds = moved ? 0 : rounds + 1;
    if (rounds != 0 && !agent.idle(rounds)) return interrupted();
  }
  for (rounds = 0;; ++rounds) {
    const Turn turn = drain();
    if (turn == Turn::moved) return std::move(outcome_);
    if (turn == Turn::failed) return std::move(outcome_);
    agent.progress();
    if (rounds != 0 && !agent.idle(rounds)) return interrupted();
  }
}

void HostExecutor::prepare() {
  const Problem& problem = plan_->problem;
  outcome_ = {};
  element_ = element_bytes(problem.type);
  divide_by_ = problem.op == TUTTI_AVG && reduces(problem.collective) ? static_cast<std::uint64_t>(problem.ranks) : 0;
  blocks_ = {blocks_of(problem, Buffer::input, rank_), blocks_of(problem, Buffer::output, rank_),
             plan_->shape.scratch_blocks};
  unit_ = reduces(problem.collective) || problem.collective == Collective::barrier ? 1 : element_;
  passes_ = plan_->passes(binding_.count);
  streams_ = stream_from_ != 0 && binding_.count * element_ * std::max(1u, blocks_[1]) >= stream_from_;
  needs_progress_ = std::any_of(links_.begin(), links_.end(), [](const HostLink* link) {
    return (link->state.capabilities & TUTTI_NEEDS_PROGRESS) != 0;
  });
  holds_.clear();
  lanes_.resize(program_->lanes.size());
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    LaneState& lane = lanes_[l];
    lane.pass = 0;
    lane.step = lane.ready = 0;
    lane.begun = lane.folded = false;
    lane.finished = program_->lanes[l].count == 0 || passes_ == 0;
    lane.window = window_of(binding_.count, 0);
  }
}

HostExecutor::Window HostExecutor::window_of(std::uint64_t count, std::uint64_t pass) const {
  const Elements all = elements_of(*plan_, count, pass, 0, plan_->shape.chunks);
  return {all.begin, all.size(), elements_of(*plan_, count, pass, 0, 1).size()};
}

Elements HostExecutor::piece(const LaneState& lane, const Operand& operand, std::uint32_t index) const {
  const Buffer sizing = operand.place == Place::link ? operand.sizing : static_cast<Buffer>(operand.place);
  const tutti_block* blocks = sizing == Buffer::input    ? binding_.input_blocks
                              : sizing == Buffer::output ? binding_.output_blocks
                                                         : nullptr;
  const Range& range = operand.range;
  if (blocks != nullptr) {
    const std::uint32_t block = range.block_at(index, blocks_[static_cast<std::size_t>(sizing)]);
    return elements_of(*plan_, blocks[block].count, lane.pass, range.chunk, range.chunks);
  }
  const Window& w = lane.window;
  return {w.start + std::min(w.size, range.chunk * w.chunk_size),
          w.start + std::min(w.size, (std::uint64_t{range.chunk} + range.chunks) * w.chunk_size)};
}

std::byte* HostExecutor::address(const LaneState& lane, const Operand& operand, std::uint32_t index) const {
  const std::uint32_t block = operand.range.block_at(index, blocks_[index_of(operand.place)]);
  const std::uint64_t begin = piece(lane, operand, index).begin;
  if (operand.place == Place::scratch) {
    const std::uint64_t window = std::min(plan_->window, std::max<std::uint64_t>(1, plan_->problem.count));
    const std::uint64_t copy = lane.pass % plan_->shape.depth * plan_->shape.scratch_blocks + block;
    return binding_.scratch + (copy * window + begin - lane.window.start) * element_;
  }
  // The input is never a destination; its address loses const only to share this function.
  const bool in = operand.place == Place::input;
  const tutti_block* blocks = in ? binding_.input_blocks : binding_.output_blocks;
  if (blocks != nullptr) return static_cast<std::byte*>(blocks[block].ptr) + begin * element_;
  std::byte* base = in ? const_cast<std::byte*>(binding_.input) : binding_.output;
  return base + (block * binding_.count + begin) * element_;
}

HostExecutor::Turn HostExecutor::advance(LaneState& lane, std::uint32_t index) {
  const Step& step = program_->steps[program_->lanes[index].first + lane.step];
  if (!lane.begun) {
    if (lane.step == 0 && !may_begin_pass(lane)) return Turn::blocked;
    if (!dependencies_hold(lane, step)) return Turn::blocked;
    begin_step(lane, step);
  }
  if (lane.bytes != 0) {
    if (!lane.folded) {
      const Turn turn = take_operands(lane, step);
      if (turn != Turn::moved) return turn;
      sweep(lane, step);
      lane.folded = true;
      lane.ready = 0;
    }
    const Turn turn = hand_over(lane, step);
    if (turn != Turn::moved) return turn;
  }
  retire(lane, index);
  return Turn::moved;
}

bool HostExecutor::may_begin_pass(const LaneState& lane) const {
  const std::uint64_t depth = plan_->shape.depth;
  return lane.pass < depth || std::all_of(
                                  lanes_.begin(), lanes_.end(),
                                  [&](const LaneState& other) { return other.finished || other.pass > lane.pass - depth; });
}

bool HostExecutor::dependencies_hold(const LaneState& lane, const Step& step) const {
  for (std::uint32_t d = step.dependencies; d < step.dependencies + step.dependency_count; ++d) {
    const Dependency& on = program_->dependencies[d];
    if (lane.pass < on.distance) continue;
    const LaneState& other = lanes_[on.lane];
    const std::uint64_t pass = lane.pass - on.distance;
    if (!other.finished && (other.pass < pass || (other.pass == pass && other.step <= on.step))) return false;
  }
  return true;
}

void HostExecutor::begin_step(LaneState& lane, const Step& step) {
  const std::size_t operands = std::size_t{step.sources} + step.destinations;
  if (lane.at.size() < operands) {
    lane.at.resize(operands);
    lane.offers.resize(operands);
  }
  const Operand& any = program_->operands[step.operands];
  lane.bytes = 0;
  for (std::uint32_t i = 0; i < any.range.blocks; ++i) lane.bytes += piece(lane, any, i).size() * element_;
  lane.ready = 0;
  lane.begun = true;
  lane.folded = lane.granted = false;
}

HostExecutor::Turn HostExecutor::take_operands(LaneState& lane, const Step& step) {
  const std::uint32_t operands = step.sources + step.destinations;
  for (; lane.ready < operands; ++lane.ready) {
    const Operand& operand = program_->operands[step.operands + lane.ready];
    const Turn turn = lane.ready < step.sources ? take_source(lane, operand, step) : take_destination(lane, operand, step);
    if (turn != Turn::moved) return turn;
  }
  return Turn::moved;
}

HostExecutor::Turn HostExecutor::take_source(LaneState& lane, const Operand& operand, const Step& step) {
  if (operand.place != Place::link) {
    lane.at[lane.ready] = address(lane, operand, 0);
    return Turn::moved;
  }
  HostLink& link = *links_[operand.link];
  tutti_message message;
  const tutti_link_result result = link.transport->view(link.link, &message);
  if (result == TUTTI_LINK_NOT_YET) {
    if (!lane.granted) grant(lane, link, step);
    return Turn::blocked;
  }
  if (result == TUTTI_LINK_BROKEN) return broken(link);
  if (message.fingerprint != binding_.fingerprint || message.bytes != lane.bytes) {
    outcome_ = {.kind = Outcome::Kind::mismatch,
                .peer = link.peer,
                .fingerprint = message.fingerprint,
                .bytes = message.bytes,
                .expected = lane.bytes,
                .why = {}};
    return Turn::failed;
  }
  // Sources are only read; see `address`.
  lane.at[lane.ready] = const_cast<std::byte*>(static_cast<const std::byte*>(message.data));
  return Turn::moved;
}

/// A message that is alone and bound for one piece of memory may land there. Once a step: another grant would be for the
/// message after it. A hint, so its answer does not matter.
void HostExecutor::grant(LaneState& lane, HostLink& link, const Step& step) {
  const Operand& target = program_->operands[step.operands + step.sources];
  if (step.sources != 1 || (link.state.capabilities & TUTTI_CAN_GRANT_ANY) == 0 || target.place == Place::link ||
      !contiguous(target) || lane.bytes < least_offer || held(address(lane, target, 0), lane.bytes)) {
    return;
  }
  lane.granted = true;
  static_cast<void>(link.transport->grant(link.link, nullptr, address(lane, target, 0), lane.bytes, binding_.fingerprint));
}

HostExecutor::Turn HostExecutor::take_destination(LaneState& lane, const Operand& operand, const Step& step) {
  lane.offers[lane.ready] = 0;
  if (operand.place != Place::link) {
    for (std::uint32_t i = 0; !holds_.empty() && i < operand.range.blocks; ++i) {
      if (held(address(lane, operand, i), piece(lane, operand, i).size() * element_)) return Turn::blocked;
    }
    lane.at[lane.ready] = address(lane, operand, 0);
    return Turn::moved;
  }
  HostLink& link = *links_[operand.link];
  if ((link.state.capabilities & TUTTI_CAN_OFFER_ANY) != 0 && lane.bytes >= least_offer &&
      offer_source(lane, step) != nullptr) {
    lane.offers[lane.ready] = 1;
    return Turn::moved;
  }
  void* room = link.transport->reserve(link.link, lane.bytes, binding_.fingerprint);
  if (room == nullptr)
    return link.transport->failure(link.link, nullptr, 0) == TUTTI_LINK_BROKEN ? broken(link) : Turn::blocked;
  lane.at[lane.ready] = static_cast<std::byte*>(room);
  return Turn::moved;
}

/// Memory of one piece that holds what the step sends: where its result is written, or its only source.
const std::byte* HostExecutor::offer_source(const LaneState& lane, const Step& step) const {
  for (std::uint32_t d = 0; d < step.destinations; ++d) {
    const Operand& operand = program_->operands[step.operands + step.sources + d];
    if (operand.place != Place::link && contiguous(operand)) return address(lane, operand, 0);
  }
  const Operand& source = program_->operands[step.operands];
  const bool plain = step.sources == 1 && source.place != Place::link && contiguous(source);
  return plain ? address(lane, source, 0) : nullptr;
}

void HostExecutor::sweep(LaneState& lane, const Step& step) {
  const Operand* operands = &program_->operands[step.operands];
  std::uint64_t done = 0;  // bytes of the message before this piece
  for (std::uint32_t i = 0; i < operands->range.blocks; ++i) {
    const std::uint64_t elements = piece(lane, operands[0], i).size();
    if (elements == 0) continue;
    fold_sources_.clear();
    fold_destinations_.clear();
    const auto at = [&](std::uint32_t o) {
      return operands[o].place == Place::link ? lane.at[o] + done : i == 0 ? lane.at[o] : address(lane, operands[o], i);
    };
    for (std::uint32_t o = 0; o < step.sources; ++o) fold_sources_.push_back({at(o)});
    for (std::uint32_t o = step.sources; o < static_cast<std::uint32_t>(step.sources) + step.destinations; ++o) {
      if (lane.offers[o] != 0) continue;
      std::byte* target = at(o);
      if (step.sources == 1 && target == fold_sources_[0].data && (divide_by_ <= 1 || (step.flags & last_touch) == 0))
        continue;
      fold_destinations_.push_back({target, ElementFormat::kUser, streams_ && operands[o].place == Place::output});
    }
    done += elements * element_;
    if (fold_destinations_.empty()) continue;
    fold_({fold_sources_.data(), fold_destinations_.data(), static_cast<std::uint32_t>(fold_sources_.size()),
           static_cast<std::uint32_t>(fold_destinations_.size()), elements * unit_,
           (step.flags & last_touch) != 0 ? divide_by_ : 0});
  }
  for (std::uint32_t o = 0; o < step.sources; ++o) {
    if (operands[o].place == Place::link) links_[operands[o].link]->transport->release(links_[operands[o].link]->link);
  }
}

HostExecutor::Turn HostExecutor::hand_over(LaneState& lane, const Step& step) {
  for (; lane.ready < step.destinations; ++lane.ready) {
    const std::uint32_t o = step.sources + lane.ready;
    const Operand& operand = program_->operands[step.operands + o];
    if (operand.place != Place::link) continue;
    HostLink& link = *links_[operand.link];
    const std::byte* memory = lane.offers[o] != 0 ? offer_source(lane, step) : nullptr;
    const tutti_link_result result =
        memory != nullptr ? link.transport->offer(link.link, nullptr, memory, lane.bytes, binding_.fingerprint)
                          : link.transport->commit(link.link, lane.bytes, binding_.fingerprint);
    if (result == TUTTI_LINK_NOT_YET) return Turn::blocked;
    if (result == TUTTI_LINK_BROKEN) return broken(link);
    ++link.offered;
    if (memory != nullptr && reusable(link) < link.offered) {
      holds_.push_back({&link, link.offered, memory, memory + lane.bytes});
    }
  }
  return Turn::moved;
}

void HostExecutor::retire(LaneState& lane, std::uint32_t index) {
  lane.begun = false;
  if (++lane.step < program_->lanes[index].count) return;
  lane.step = 0;
  if (++lane.pass == passes_) {
    lane.finished = true;
  } else {
    lane.window = window_of(binding_.count, lane.pass);
  }
}

/// Whether offered memory in [begin, begin + bytes) may still be read.
bool HostExecutor::held(const std::byte* begin, std::uint64_t bytes) {
  std::erase_if(holds_, [](const Hold& hold) { return reusable(*hold.link) >= hold.number; });
  return std::any_of(holds_.begin(), holds_.end(),
                     [&](const Hold& hold) { return hold.begin < begin + bytes && begin < hold.end; });
}

/// Moved: nothing that peers need, and no memory of the call's, is held back here.
HostExecutor::Turn HostExecutor::drain() {
  for (HostLink* link : links_) {
    if ((link->state.capabilities & TUTTI_NEEDS_PROGRESS) == 0) continue;
    const tutti_link_result result = link->transport->flushed(link->link);
    if (result == TUTTI_LINK_NOT_YET) return Turn::blocked;
    // A peer that took all it needed may have gone already: only what it still owes us would matter, and nothing is left.
  }
  for (const Hold& hold : holds_) {
    if (reusable(*hold.link) >= hold.number) continue;
    return hold.link->transport->failure(hold.link->link, nullptr, 0) == TUTTI_LINK_BROKEN ? broken(*hold.link)
                                                                                           : Turn::blocked;
  }
  return Turn::moved;
}

HostExecutor::Turn HostExecutor::broken(const HostLink& link) {
  char why[256] = "";
  static_cast<void>(link.transport->failure(link.link, why, sizeof why));
  outcome_ = {.kind = Outcome::Kind::broken, .peer = link.peer, .fingerprint = 0, .bytes = 0, .expected = 0, .why = why};
  return Turn::failed;
}

std::vector<int> HostExecutor::waiting_for() const {
  std::vector<int> peers;
  if (program_ == nullptr) return peers;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const LaneState& lane = lanes_[l];
    if (lane.finished || !lane.begun) continue;
    const Step& step = program_->steps[program_->lanes[l].first + lane.step];
    const std::uint32_t at = step.operands + lane.ready + (lane.folded ? step.sources : 0u);
    const Operand& operand = program_->operands[at];
    if (operand.place == Place::link) peers.push_back(links_[operand.link]->peer);
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace tutti
