#include "src/executors/host/executor.h"

#include <algorithm>
#include <atomic>

#include "src/base/types.h"

namespace tutti {
namespace {

/// Below this, copying into a slot is cheaper than keeping track of an offer.
constexpr std::uint64_t least_offer = 4096;
/// The same for registered memory, which a peer reads in its own time while this rank would wait.
constexpr std::uint64_t least_registered = 16384;

/// Messages of a link whose source may be overwritten. Acquire: the transport's reads of that memory came before.
std::uint64_t reusable(const HostLink& link) {
  return std::atomic_ref<const std::uint64_t>(*link.state.reusable).load(std::memory_order_acquire);
}

Outcome interrupted() {
  Outcome outcome;
  outcome.kind = Outcome::Kind::interrupted;
  return outcome;
}

bool overlap(const std::byte* a, std::uint64_t a_bytes, const std::byte* b, std::uint64_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

std::size_t index_of(Place place) { return static_cast<std::size_t>(place); }

}  // namespace

std::uint64_t scratch_bytes(const Plan& plan) {
  const std::uint64_t window = std::min(plan.window, std::max<std::uint64_t>(1, plan.problem.count));
  return window * plan.shape.scratch_blocks * plan.shape.depth * element_bytes(plan.problem.type);
}

Lowered lower(const Plan& plan, int rank, Program program) {
  Lowered lowered;
  lowered.only_offered = only_offered(plan, rank, program);
  lowered.receives = receives(plan, rank, program);
  lowered.program = std::move(program);
  return lowered;
}

Outcome HostExecutor::run(const Plan& plan, const Lowered& lowered, const Binding& binding, FoldFunction fold,
                          std::span<HostLink* const> links, Agent& agent, int rank) {
  plan_ = &plan;
  lowered_ = &lowered;
  program_ = &lowered.program;
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
  const std::uint64_t block = binding_.count * element_;
  in_place_ = binding_.input_blocks != nullptr || binding_.output_blocks != nullptr ||
              overlap(binding_.input, block * blocks_[0], binding_.output, block * blocks_[1]);
  direct_ = binding_.input_blocks != nullptr || binding_.output_blocks != nullptr ||
            block * std::max(blocks_[0], blocks_[1]) >= least_offer;
  holds_.clear();
  lanes_.resize(program_->lanes.size());
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    LaneState& lane = lanes_[l];
    lane.pass = 0;
    lane.step = lane.ready = 0;
    lane.begun = lane.folded = false;
    lane.finished = program_->lanes[l].count == 0 || passes_ == 0;
    lane.window = window_at(0);
  }
  if (!direct_ || passes_ == 0) return;
  inboxes_.assign(links_.size(), {});
  for (std::uint32_t l = 0; l < links_.size(); ++l) grant_ahead(l);
}

HostExecutor::Window HostExecutor::window_at(std::uint64_t pass) const {
  const Elements all = elements_of(*plan_, binding_.count, pass, 0, plan_->shape.chunks);
  return {all.begin, all.size(), elements_of(*plan_, binding_.count, pass, 0, 1).size()};
}

std::uint64_t HostExecutor::bytes_of(const Window& window, std::uint64_t pass, const Operand& operand) const {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < operand.range.blocks; ++i) bytes += piece(window, pass, operand, i).size() * element_;
  return bytes;
}

Elements HostExecutor::piece(const Window& window, std::uint64_t pass, const Operand& operand, std::uint32_t index) const {
  const Buffer sizing = operand.place == Place::link ? operand.sizing : static_cast<Buffer>(operand.place);
  const tutti_block* blocks = sizing == Buffer::input    ? binding_.input_blocks
                              : sizing == Buffer::output ? binding_.output_blocks
                                                         : nullptr;
  const Range& range = operand.range;
  if (blocks != nullptr) {
    const std::uint32_t block = range.block_at(index, blocks_[static_cast<std::size_t>(sizing)]);
    return elements_of(*plan_, blocks[block].count, pass, range.chunk, range.chunks);
  }
  return {window.start + std::min(window.size, range.chunk * window.chunk_size),
          window.start + std::min(window.size, (std::uint64_t{range.chunk} + range.chunks) * window.chunk_size)};
}

std::byte* HostExecutor::address(const Window& window, std::uint64_t pass, const Operand& operand,
                                 std::uint32_t index) const {
  const std::uint32_t block = operand.range.block_at(index, blocks_[index_of(operand.place)]);
  const std::uint64_t begin = piece(window, pass, operand, index).begin;
  if (operand.place == Place::scratch) {
    const std::uint64_t longest = std::min(plan_->window, std::max<std::uint64_t>(1, plan_->problem.count));
    const std::uint64_t copy = pass % plan_->shape.depth * plan_->shape.scratch_blocks + block;
    return binding_.scratch + (copy * longest + begin - window.start) * element_;
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
  lane.bytes = bytes_of(lane.window, lane.pass, program_->operands[step.operands]);
  lane.ready = 0;
  lane.begun = true;
  lane.folded = lane.keeps = false;
}

HostExecutor::Turn HostExecutor::take_operands(LaneState& lane, const Step& step) {
  const std::uint32_t operands = step.sources + step.destinations;
  for (; lane.ready < operands; ++lane.ready) {
    const Operand& operand = program_->operands[step.operands + lane.ready];
    const Turn turn = lane.ready < step.sources ? take_source(lane, operand) : take_destination(lane, operand, step);
    if (turn != Turn::moved) return turn;
  }
  return Turn::moved;
}

HostExecutor::Turn HostExecutor::take_source(LaneState& lane, const Operand& operand) {
  if (operand.place != Place::link) {
    lane.at[lane.ready] = address(lane, operand, 0);
    return Turn::moved;
  }
  HostLink& link = *links_[operand.link];
  tutti_message message;
  const tutti_link_result result = link.transport->view(link.link, &message);
  if (result == TUTTI_LINK_NOT_YET) {
    if (direct_) grant_ahead(operand.link);
    return Turn::blocked;
  }
  if (result == TUTTI_LINK_BROKEN) return broken(link);
  if (direct_) saw(operand.link);
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

/// Tells a link where its messages shall land: the one that is taken next and the one after it, as far as their memory is
/// known and free. A refusal costs a copy; the next attempt is for the same message, as the link counts them, too.
void HostExecutor::grant_ahead(std::uint32_t l) {
  const std::vector<Receive>& receives = lowered_->receives[l];
  HostLink& link = *links_[l];
  const std::uint32_t can = TUTTI_CAN_GRANT_ANY | TUTTI_CAN_GRANT_REGISTERED;
  if (receives.empty() || (link.state.capabilities & can) == 0) return;
  Inbox& inbox = inboxes_[l];
  while (inbox.next <= inbox.released + 1 && skip_to_message(inbox, receives)) {
    const Receive& receive = receives[inbox.receive];
    const Step& step = program_->steps[program_->lanes[receive.lane].first + receive.step];
    const Operand& target = program_->operands[step.operands + step.sources];
    if (step.sources != 1 || target.place == Place::link || !contiguous(target) || !may_grant(receive, inbox.pass)) return;
    const bool any = (link.state.capabilities & TUTTI_CAN_GRANT_ANY) != 0;
    const tutti_region* const place = region(link, target.place);
    if (!any && place == nullptr) return;
    const Window window = window_at(inbox.pass);
    const std::uint64_t bytes = bytes_of(window, inbox.pass, target);
    std::byte* const memory = address(window, inbox.pass, target, 0);
    if (bytes < (any ? least_offer : least_registered) || held(memory, bytes)) return;
    if (link.transport->grant(link.link, place, memory, bytes, binding_.fingerprint) != TUTTI_LINK_OK) return;
    ++inbox.next;
    ++inbox.receive;
  }
}

/// Memory is free from the call's beginning where nothing else touches it, else when the step's turn has come.
bool HostExecutor::may_grant(const Receive& receive, std::uint64_t pass) const {
  if (receive.early && !in_place_) return true;
  const LaneState& lane = lanes_[receive.lane];
  return lane.begun && lane.pass == pass && lane.step == receive.step;
}

/// Moves an inbox on to the next message that is not empty; false: there is none in this call.
bool HostExecutor::skip_to_message(Inbox& inbox, const std::vector<Receive>& receives) const {
  for (; inbox.pass < passes_; ++inbox.pass, inbox.receive = 0) {
    const Window window = window_at(inbox.pass);
    for (; inbox.receive < receives.size(); ++inbox.receive) {
      const Receive& receive = receives[inbox.receive];
      const Step& step = program_->steps[program_->lanes[receive.lane].first + receive.step];
      if (bytes_of(window, inbox.pass, program_->operands[step.operands]) != 0) return true;
    }
  }
  return false;
}

/// A message was viewed: it takes no grant any more.
void HostExecutor::saw(std::uint32_t l) {
  Inbox& inbox = inboxes_[l];
  inbox.seen = inbox.released + 1;
  if (inbox.next >= inbox.seen || !skip_to_message(inbox, lowered_->receives[l])) return;
  ++inbox.next;
  ++inbox.receive;
}

HostExecutor::Turn HostExecutor::take_destination(LaneState& lane, const Operand& operand, const Step& step) {
  lane.offers[lane.ready] = OfferFrom::none;
  if (operand.place != Place::link) {
    for (std::uint32_t i = 0; !holds_.empty() && i < operand.range.blocks; ++i) {
      if (held(address(lane, operand, i), piece(lane, operand, i).size() * element_)) return Turn::blocked;
    }
    lane.at[lane.ready] = address(lane, operand, 0);
    return Turn::moved;
  }
  HostLink& link = *links_[operand.link];
  const OfferFrom from = offer_from(lane, step, link);
  if (from != OfferFrom::none) {
    lane.offers[lane.ready] = from;
    lane.keeps = lane.keeps || from == OfferFrom::destination;
    return Turn::moved;
  }
  void* room = link.transport->reserve(link.link, lane.bytes, binding_.fingerprint);
  if (room == nullptr)
    return link.transport->failure(link.link, nullptr, 0) == TUTTI_LINK_BROKEN ? broken(link) : Turn::blocked;
  lane.at[lane.ready] = static_cast<std::byte*>(room);
  return Turn::moved;
}

const tutti_region* HostExecutor::region(const HostLink& link, Place place) const {
  if (link.endpoint >= binding_.regions.size()) return nullptr;
  const Regions& regions = binding_.regions[link.endpoint];
  return place == Place::input ? regions.input : place == Place::output ? regions.output : nullptr;
}

bool HostExecutor::may_offer(const HostLink& link, Place place) const {
  return (link.state.capabilities & TUTTI_CAN_OFFER_ANY) != 0 || region(link, place) != nullptr;
}

/// Memory of one piece that holds what the step sends and that this link may read: the input where nothing overwrites it,
/// or where the step's result is written, or its only source.
HostExecutor::OfferFrom HostExecutor::offer_from(const LaneState& lane, const Step& step, const HostLink& link) const {
  const std::uint32_t can = link.state.capabilities;
  if ((can & (TUTTI_CAN_OFFER_ANY | TUTTI_CAN_OFFER_REGISTERED)) == 0 || !direct_) return OfferFrom::none;
  if (lane.bytes < ((can & TUTTI_CAN_OFFER_ANY) != 0 ? least_offer : least_registered)) return OfferFrom::none;
  const Operand& source = program_->operands[step.operands];
  const bool divides = divide_by_ > 1 && (step.flags & last_touch) != 0;
  const bool plain = step.sources == 1 && !divides && source.place != Place::link && contiguous(source) &&
                     may_offer(link, source.place);
  if (plain && source.place == Place::input && !in_place_) return OfferFrom::source;
  const Operand* const target = kept_operand(step);
  if (target != nullptr) return may_offer(link, target->place) ? OfferFrom::destination : OfferFrom::none;
  return plain ? OfferFrom::source : OfferFrom::none;
}

/// The first destination in memory, if it is of one piece.
const Operand* HostExecutor::kept_operand(const Step& step) const {
  for (std::uint32_t d = 0; d < step.destinations; ++d) {
    const Operand& operand = program_->operands[step.operands + step.sources + d];
    if (operand.place != Place::link && contiguous(operand)) return &operand;
  }
  return nullptr;
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
      if (lane.offers[o] != OfferFrom::none) continue;
      if (lowered_->only_offered[step.operands + o] != 0 && !lane.keeps) continue;
      std::byte* target = at(o);
      if (step.sources == 1 && target == fold_sources_[0].data && (divide_by_ <= 1 || (step.flags & last_touch) == 0))
        continue;
      fold_destinations_.push_back({target, ElementFormat::kUser, streams_ && stays(operands[o])});
    }
    done += elements * element_;
    if (fold_destinations_.empty()) continue;
    fold_({fold_sources_.data(), fold_destinations_.data(), static_cast<std::uint32_t>(fold_sources_.size()),
           static_cast<std::uint32_t>(fold_destinations_.size()), elements * unit_,
           (step.flags & last_touch) != 0 ? divide_by_ : 0});
  }
  for (std::uint32_t o = 0; o < step.sources; ++o) {
    if (operands[o].place == Place::link) release(operands[o].link);
  }
}

/// Whether what is written there is read next by neither this rank's executor nor its peer's.
bool HostExecutor::stays(const Operand& destination) const {
  if (destination.place != Place::link) return destination.place == Place::output;
  const HostLink& link = *links_[destination.link];
  return link.transport->granted != nullptr && link.transport->granted(link.link) != 0;
}

void HostExecutor::release(std::uint32_t l) {
  links_[l]->transport->release(links_[l]->link);
  if (!direct_) return;
  ++inboxes_[l].released;
  grant_ahead(l);
}

HostExecutor::Turn HostExecutor::hand_over(LaneState& lane, const Step& step) {
  for (; lane.ready < step.destinations; ++lane.ready) {
    const std::uint32_t o = step.sources + lane.ready;
    const Operand& operand = program_->operands[step.operands + o];
    if (operand.place != Place::link) continue;
    HostLink& link = *links_[operand.link];
    const OfferFrom from = lane.offers[o];
    const Operand& held_in = from == OfferFrom::destination ? *kept_operand(step) : program_->operands[step.operands];
    const std::byte* memory = from != OfferFrom::none ? address(lane, held_in, 0) : nullptr;
    const tutti_link_result result =
        memory != nullptr ? link.transport->offer(link.link, region(link, held_in.place), memory, lane.bytes, binding_.fingerprint)
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
    lane.window = window_at(lane.pass);
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
