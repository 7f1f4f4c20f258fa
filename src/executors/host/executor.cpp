#include "src/executors/host/executor.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "src/base/link_shape.h"
#include "src/tables/element_types.h"

namespace tutti {
namespace {

/// Where no link takes an offer, calls are flat while their messages are shorter than this.
constexpr std::uint64_t least_of_lanes = std::uint64_t{1} << 18;

/// No operand of a step.
constexpr std::uint32_t no_operand = UINT32_MAX;

/// Messages of a link whose source may be overwritten. Acquire: the transport's reads of that memory came before.
std::uint64_t reusable(const HostLink& link) {
  return std::atomic_ref<const std::uint64_t>(*link.state.reusable).load(std::memory_order_acquire);
}

bool overlap(const std::byte* a, std::uint64_t a_bytes, const std::byte* b, std::uint64_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

/// Which peers share our core, and what follows from it.
void find_near(const Plan& plan, std::span<const std::int32_t> core, int rank, const ProgramOf& program_of,
               Lowered& lowered) {
  const NearOf same_core_of = [core](int r, const Program& program) {
    std::vector<std::uint8_t> same_core;
    for (const Link& link : program.links) {
      const bool same = core[static_cast<std::size_t>(link.peer)] == core[static_cast<std::size_t>(r)];
      same_core.push_back(same ? 1 : 0);
    }
    return same_core;
  };
  lowered.same_core = same_core_of(rank, lowered.program);
  lowered.on_core =
      static_cast<std::size_t>(std::count(core.begin(), core.end(), core[static_cast<std::size_t>(rank)])) - 1;
  if (!program_of || !near_first_goes_through(plan, program_of, same_core_of)) return;
  lowered.sequential_order = same_core_first(std::move(lowered.sequential_order), lowered.program, lowered.same_core,
                                             blocks_of(plan.problem, Buffer::output, rank));
}

}  // namespace

std::uint64_t scratch_bytes(const Plan& plan) {
  const std::uint64_t window = std::min(plan.window, std::max<std::uint64_t>(1, plan.problem.count));
  return window * plan.shape.scratch_blocks * plan.shape.depth * element_bytes(plan.problem.type);
}

Lowered lower(const Plan& plan, int rank, Program program, const ProgramOf& program_of, const Cores& cores) {
  Lowered lowered;
  lowered.only_offered = only_offered(plan, rank, program);
  lowered.receives = receives(plan, rank, program, program_of);
  lowered.sequential_order = sequential_order(plan, rank, program, program_of);
  for (const Step& step : program.steps) {
    lowered.most_operands = std::max(lowered.most_operands, std::uint32_t{step.sources} + step.destinations);
  }
  lowered.program = std::move(program);
  lowered.shares_cores = cores.shared;
  if (!cores.core.empty()) find_near(plan, cores.core, rank, program_of, lowered);
  return lowered;
}

namespace {

/// Lays the pieces of one pass out.
class Arranger {
 public:
  Arranger(const Plan& plan, int rank, std::uint64_t pass)
      : plan_(plan),
        pass_(pass),
        element_(element_bytes(plan.problem.type)),
        blocks_{blocks_of(plan.problem, Buffer::input, rank), blocks_of(plan.problem, Buffer::output, rank),
                plan.shape.scratch_blocks} {}

  Layout arrange(const Program& program) const {
    Layout layout;
    layout.message_bytes.resize(program.steps.size());
    for (const Operand& operand : program.operands) append(operand, layout);
    layout.first_piece.push_back(static_cast<std::uint32_t>(layout.pieces.size()));
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const std::uint32_t first = program.steps[s].operands;
      for (std::uint32_t p = layout.first_piece[first]; p < layout.first_piece[first + 1]; ++p)
        layout.message_bytes[s] += layout.pieces[p].bytes;
    }
    return layout;
  }

 private:
  void append(const Operand& operand, Layout& layout) const {
    layout.first_piece.push_back(static_cast<std::uint32_t>(layout.pieces.size()));
    const Range& range = operand.range;
    const std::uint64_t window_begin = pass_ * plan_.window;
    const Elements elements = elements_of(plan_, plan_.problem.count, pass_, range.chunk, range.chunks);
    const std::uint64_t bytes = elements.size() * element_;
    std::uint64_t of_message = 0;
    for (std::uint32_t i = 0; i < range.blocks; ++i, of_message += bytes) {
      const std::uint64_t within =
          operand.place == Place::link ? of_message : begin_of(operand, i) + (elements.begin - window_begin) * element_;
      layout.pieces.push_back({within, bytes});
    }
  }

  /// Bytes from a buffer's beginning to its block's.
  std::uint64_t begin_of(const Operand& operand, std::uint32_t i) const {
    const std::uint32_t block = operand.range.block_at(i, blocks_[static_cast<std::size_t>(operand.place)]);
    const std::uint64_t count = plan_.problem.count;
    const std::uint64_t size =
        operand.place == Place::scratch ? std::min(plan_.window, std::max<std::uint64_t>(1, count)) : count;
    return block * size * element_;
  }

  const Plan& plan_;
  const std::uint64_t pass_;
  const std::uint64_t element_;
  const std::array<std::uint32_t, 3> blocks_;
};

}  // namespace

std::uint32_t unit_shift(const Problem& problem) {
  return combines(problem.collective) ? static_cast<std::uint32_t>(std::countr_zero(element_bytes(problem.type))) : 0;
}

Layouts lay_out(const Plan& plan, int rank, const Lowered& lowered) {
  const Program& program = lowered.program;
  Layouts layouts;
  const std::uint64_t count = plan.problem.count;
  const std::uint64_t element = element_bytes(plan.problem.type);
  layouts.passes = plan.passes(count);
  if (layouts.passes == 0) return layouts;
  layouts.copies = plan.shape.depth;
  layouts.stride = {plan.window * element, plan.window * element, scratch_bytes(plan) / plan.shape.depth};
  for (const Buffer buffer : {Buffer::input, Buffer::output})
    layouts.bytes[static_cast<std::size_t>(buffer)] = count * element * blocks_of(plan.problem, buffer, rank);
  layouts.last = Arranger(plan, rank, layouts.passes - 1).arrange(program);
  if (layouts.passes > 1) layouts.full = Arranger(plan, rank, 0).arrange(program);
  for (const Layout* layout : {&layouts.full, &layouts.last}) {
    for (const std::uint64_t bytes : layout->message_bytes)
      layouts.longest_message = std::max(layouts.longest_message, bytes);
  }
  const bool flat = !lowered.sequential_order.empty() && layouts.passes == 1 && layouts.longest_message < least_of_lanes;
  if (flat) layouts.flat = compile_flat_call(plan.problem, lowered, layouts.last);
  return layouts;
}

const Outcome& HostExecutor::run(const Plan& plan, const Lowered& lowered, const Layouts& layouts, const Binding& binding,
                                 FoldFunction fold, std::span<HostLink* const> links, Agent& agent) {
  plan_ = &plan;
  lowered_ = &lowered;
  program_ = &lowered.program;
  layouts_ = &layouts;
  binding_ = binding;
  fold_ = fold;
  links_ = links;
  if (outcome_.kind != Outcome::Kind::completed) outcome_ = {};
  if (room_ < lowered.most_operands) make_room();
  std::uint32_t capabilities = 0;
  for (const HostLink* link : links_) capabilities |= link->state.capabilities;
  needs_progress_ = (capabilities & TUTTI_NEEDS_PROGRESS) != 0;
  const bool offers = !binding_.regions.empty() || (capabilities & TUTTI_CAN_OFFER_ANY) != 0;
  awaited_ = nullptr;
  holds_.clear();
  flat_ = !layouts.flat.instructions.empty() && (!offers || layouts.longest_message < least_offer);
  return flat_ ? run_flat(agent) : run_lanes(agent);
}

const Outcome& HostExecutor::run_lanes(Agent& agent) {
  prepare();
  std::uint32_t rounds = 0;
  for (std::size_t left = lanes_.size(); left != 0;) {
    bool moved = false;
    left = 0;
    for (std::uint32_t l = 0; l < lanes_.size(); ++l) {
      Turn turn = Turn::moved;
      while (!lanes_[l].finished && (turn = advance(lanes_[l], l)) == Turn::moved) moved = true;
      if (turn == Turn::failed) return outcome_;
      left += lanes_[l].finished ? 0 : 1;
    }
    if (moved) rounds = 0;
    if (++rounds == 1 && needs_progress_) {
      agent.progress();  // after every move, and before the first wait
    } else if (!moved && !agent.idle(rounds, needs_progress_)) {
      return interrupted();
    }
  }
  return finish(agent);
}

const Outcome& HostExecutor::finish(Agent& agent) {
  for (std::uint32_t rounds = 0;; ++rounds) {
    if (drain() != Turn::blocked) return outcome_;
    if (rounds == 0) {
      agent.progress();
    } else if (!agent.idle(rounds, true)) {
      return interrupted();
    }
  }
}

const Outcome& HostExecutor::interrupted() {
  outcome_.kind = Outcome::Kind::interrupted;
  return outcome_;
}

void HostExecutor::prepare() {
  divide_by_ = divisor(plan_->problem);
  unit_shift_ = unit_shift(plan_->problem);
  if (lanes_.size() != program_->lanes.size()) make_room();
  const Window first = window_at(0);
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    LaneState& lane = lanes_[l];
    lane.pass = 0;
    lane.step = lane.ready = 0;
    lane.begun = lane.folded = false;
    lane.finished = program_->lanes[l].count == 0 || layouts_->passes == 0;
    lane.window = first;
  }
  in_place_ = overlap(binding_.input, layouts_->bytes[0], binding_.output, layouts_->bytes[1]);
  const std::uint64_t touched = layouts_->bytes[1] + (in_place_ ? 0 : layouts_->bytes[0]);
  streams_ = use_non_temporal_ && use_non_temporal_(touched);
  direct_ = layouts_->longest_message >= least_offer;
  if (!direct_) return;
  inboxes_.assign(links_.size(), {});
  for (std::uint32_t l = 0; l < links_.size(); ++l) grant_ahead(l);
}

/// Working memory for the program; kept, so that the next run of its like allocates nothing.
void HostExecutor::make_room() {
  room_ = std::max(room_, lowered_->most_operands);
  lanes_.resize(program_->lanes.size());
  for (LaneState& lane : lanes_) {
    lane.at.resize(room_);
    lane.room_flags.resize(room_);
    lane.offers.resize(room_);
  }
  at_.resize(FlatCall::messages + room_);
  room_flags_.resize(FlatCall::messages + room_);
  fold_sources_.resize(room_);
  fold_destinations_.resize(room_);
}

HostExecutor::Window HostExecutor::window_at(std::uint64_t pass) const {
  // The input is never a destination; its address loses const only to share its place with the others'.
  return {&layout_at(pass),
          {const_cast<std::byte*>(binding_.input) + pass * layouts_->stride[0],
           binding_.output + pass * layouts_->stride[1], binding_.scratch + pass % layouts_->copies * layouts_->stride[2]}};
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
      Turn turn = take_operands(lane, step);
      if (turn == Turn::moved) turn = sweep(lane, step);
      if (turn != Turn::moved) return turn;
      lane.folded = true;
      lane.ready = 0;
    }
    const Turn turn = send_results(lane, step);
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
  lane.bytes = lane.window.layout->message_bytes[static_cast<std::size_t>(&step - program_->steps.data())];
  lane.ready = 0;
  lane.begun = true;
  lane.folded = lane.keeps = false;
}

HostExecutor::Turn HostExecutor::take_operands(LaneState& lane, const Step& step) {
  const std::uint32_t operands = step.sources + step.destinations;
  for (; lane.ready < operands; ++lane.ready) {
    const std::uint32_t operand = step.operands + lane.ready;
    const Turn turn = lane.ready < step.sources ? take_source(lane, operand) : take_destination(lane, operand, step);
    if (turn != Turn::moved) return turn;
  }
  return Turn::moved;
}

HostExecutor::Turn HostExecutor::take_source(LaneState& lane, std::uint32_t index) {
  const Operand& operand = program_->operands[index];
  if (operand.place != Place::link) {
    lane.at[lane.ready] = lane.window.base[static_cast<std::size_t>(operand.place)];
    return Turn::moved;
  }
  const Turn turn = view(*links_[operand.link], lane.bytes, lane.at[lane.ready]);
  if (direct_ && turn == Turn::blocked) grant_ahead(operand.link);
  if (direct_ && turn == Turn::moved) saw(operand.link);
  return turn;
}

/// The link's next message, which shall be one of this operation and so long. data: where it lies.
HostExecutor::Turn HostExecutor::view(const HostLink& link, std::uint64_t bytes, std::byte*& data) {
  tutti_message message;
  const tutti_link_result result = link.transport->view(link.link, &message);
  if (result == TUTTI_LINK_NOT_YET) return Turn::blocked;
  if (result == TUTTI_LINK_BROKEN) return broken(link);
  if (message.fingerprint != binding_.fingerprint || message.bytes != bytes) {
    outcome_ = {.kind = Outcome::Kind::mismatch,
                .peer = link.peer,
                .fingerprint = message.fingerprint,
                .bytes = message.bytes,
                .expected = bytes,
                .why = {}};
    return Turn::failed;
  }
  // Sources are only read; see window_at.
  data = const_cast<std::byte*>(static_cast<const std::byte*>(message.data));
  return Turn::moved;
}

/// Room for the link's next message of so many bytes. data: where it lies. flags: as tutti_room's.
HostExecutor::Turn HostExecutor::reserve(const HostLink& link, std::uint64_t bytes, std::byte*& data,
                                         std::uint32_t& flags) {
  tutti_room room;
  const tutti_link_result result = link.transport->reserve(link.link, bytes, binding_.fingerprint, &room);
  if (result == TUTTI_LINK_NOT_YET) return Turn::blocked;
  if (result == TUTTI_LINK_BROKEN) return broken(link);
  data = static_cast<std::byte*>(room.data);
  flags = room.flags;
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
    const Step& step = program_->steps[step_index(receive.lane, receive.step)];
    const std::uint32_t destination = step.operands + step.sources;
    const Operand& target = program_->operands[destination];
    if (step.sources != 1 || target.place == Place::link || !contiguous(target) ||
        !(is_early(receive) || its_turn(receive, inbox.pass))) {
      return;
    }
    const bool any = (link.state.capabilities & TUTTI_CAN_GRANT_ANY) != 0;
    const tutti_region* const place = region(link, target.place);
    if (!any && place == nullptr) return;
    const Window window = window_at(inbox.pass);
    const std::uint64_t bytes = window.layout->message_bytes[step_index(receive.lane, receive.step)];
    std::byte* const memory = address(window, destination);
    // What is granted early only its sender may still be reading, who will have read it when it writes.
    if (bytes < least_offer || (!is_early(receive) && held(memory, bytes))) return;
    if (link.transport->grant(link.link, place, memory, bytes, binding_.fingerprint) != TUTTI_LINK_OK) return;
    ++inbox.next;
    ++inbox.receive;
  }
}

/// The lane stands at the step: what it depends on has retired.
bool HostExecutor::its_turn(const Receive& receive, std::uint64_t pass) const {
  const LaneState& lane = lanes_[receive.lane];
  return lane.begun && lane.pass == pass && lane.step == receive.step;
}

/// Moves an inbox on to the next message that is not empty; false: there is none in this call.
bool HostExecutor::skip_to_message(Inbox& inbox, const std::vector<Receive>& receives) const {
  for (; inbox.pass < layouts_->passes; ++inbox.pass, inbox.receive = 0) {
    const Layout& layout = layout_at(inbox.pass);
    for (; inbox.receive < receives.size(); ++inbox.receive) {
      const Receive& receive = receives[inbox.receive];
      if (layout.message_bytes[step_index(receive.lane, receive.step)] != 0) return true;
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

HostExecutor::Turn HostExecutor::take_destination(LaneState& lane, std::uint32_t index, const Step& step) {
  lane.offers[lane.ready] = OfferFrom::none;
  const Operand& operand = program_->operands[index];
  if (operand.place != Place::link) {
    std::byte* const base = lane.window.base[static_cast<std::size_t>(operand.place)];
    const Layout& layout = *lane.window.layout;
    for (std::uint32_t p = layout.first_piece[index]; !holds_.empty() && p < layout.first_piece[index + 1]; ++p) {
      if (held(base + layout.pieces[p].offset, layout.pieces[p].bytes)) return Turn::blocked;
    }
    lane.at[lane.ready] = base;
    return Turn::moved;
  }
  HostLink& link = *links_[operand.link];
  const OfferFrom from = offer_from(lane, step, link);
  std::uint32_t& flags = lane.room_flags[lane.ready];
  if (from == OfferFrom::destination && (link.state.capabilities & TUTTI_WRITES_PEER) != 0) {
    // What the step computes goes into the peer's memory in the same sweep, where the peer has granted it; offered, the
    // peer would go over it once more.
    const Turn turn = reserve(link, lane.bytes, lane.at[lane.ready], flags);
    if (turn != Turn::moved || (flags & TUTTI_ROOM_GRANTED) != 0) return turn;
  }
  if (from != OfferFrom::none) {
    lane.offers[lane.ready] = from;
    lane.keeps = lane.keeps || from == OfferFrom::destination;
    return Turn::moved;
  }
  return reserve(link, lane.bytes, lane.at[lane.ready], flags);
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
  if (lane.bytes < least_offer) return OfferFrom::none;
  const Operand& source = program_->operands[step.operands];
  const bool divides = divide_by_ > 1 && (step.flags & last_touch) != 0;
  const bool plain =
      step.sources == 1 && !divides && source.place != Place::link && contiguous(source) && may_offer(link, source.place);
  if (plain && source.place == Place::input && !in_place_) return OfferFrom::source;
  const std::uint32_t kept = kept_operand(step);
  if (kept != no_operand) return may_offer(link, program_->operands[kept].place) ? OfferFrom::destination : OfferFrom::none;
  return plain ? OfferFrom::source : OfferFrom::none;
}

/// The first destination in memory that is of one piece, or no_operand.
std::uint32_t HostExecutor::kept_operand(const Step& step) const {
  const std::uint32_t first = step.operands + step.sources;
  for (std::uint32_t o = first; o < first + step.destinations; ++o) {
    if (program_->operands[o].place != Place::link && contiguous(program_->operands[o])) return o;
  }
  return no_operand;
}

HostExecutor::Turn HostExecutor::sweep(LaneState& lane, const Step& step) {
  const std::uint32_t pieces = program_->operands[step.operands].range.blocks;
  for (std::uint32_t p = 0; p < pieces; ++p) fold_piece(lane, step, p);
  for (std::uint32_t o = step.operands; o < step.operands + step.sources; ++o) {
    if (program_->operands[o].place != Place::link) continue;
    const std::uint32_t link = program_->operands[o].link;
    if (revalidate(*links_[link]) == Turn::failed) return Turn::failed;
    release(link);
  }
  return Turn::moved;
}

/// Whether what was read of a message was the message still, where it may have lain in its sender's memory.
HostExecutor::Turn HostExecutor::revalidate(const HostLink& link) {
  if (!direct_ || (link.state.capabilities & TUTTI_READS_PEER) == 0) return Turn::moved;
  return link.transport->revalidate(link.link) == TUTTI_LINK_OK ? Turn::moved : broken(link);
}

/// Folds one piece of the step's message. lane.at has the beginnings of buffers and messages.
void HostExecutor::fold_piece(const LaneState& lane, const Step& step, std::uint32_t piece) {
  const Layout& layout = *lane.window.layout;
  const std::uint32_t* const first = &layout.first_piece[step.operands];
  const auto at = [&](std::uint32_t o) { return lane.at[o] + layout.pieces[first[o] + piece].offset; };
  const std::uint64_t bytes = layout.pieces[first[0] + piece].bytes;
  if (bytes == 0) return;
  const bool divides = divide_by_ > 1 && (step.flags & last_touch) != 0;
  const std::uint32_t sources = step.sources;
  const std::uint32_t operands = sources + step.destinations;
  for (std::uint32_t o = 0; o < sources; ++o) fold_sources_[o].data = at(o);
  std::uint32_t targets = 0;
  for (std::uint32_t o = sources; o < operands; ++o) {
    if (lane.offers[o] != OfferFrom::none) continue;
    if (lowered_->only_offered[step.operands + o] != 0 && !lane.keeps) continue;
    std::byte* const target = at(o);
    // Nothing to do where the message landed in its place.
    if (sources == 1 && target == fold_sources_[0].data && !divides) continue;
    FoldDestination& destination = fold_destinations_[targets++];
    destination.data = target;
    destination.streaming = streams(program_->operands[step.operands + o], lane.bytes, lane.room_flags[o]);
  }
  if (targets == 0) return;
  fold_(
      {fold_sources_.data(), fold_destinations_.data(), sources, targets, bytes >> unit_shift_, divides ? divide_by_ : 0});
}

/// Whether what is written there, of a message of so many bytes, is best written past the caches: where the call is long
/// and neither this rank's executor nor its peer's reads it next, or where the link says so.
bool HostExecutor::streams(const Operand& destination, std::uint64_t bytes, std::uint32_t room_flags) const {
  if (destination.place != Place::link) return streams_ && destination.place == Place::output;
  if ((room_flags & TUTTI_ROOM_GRANTED) != 0) return streams_;
  return bytes >= least_streamed && (room_flags & TUTTI_ROOM_NON_TEMPORAL) != 0;
}

void HostExecutor::release(std::uint32_t l) {
  links_[l]->transport->release(links_[l]->link);
  if (!direct_) return;
  ++inboxes_[l].released;
  grant_ahead(l);
}

HostExecutor::Turn HostExecutor::send_results(LaneState& lane, const Step& step) {
  for (; lane.ready < step.destinations; ++lane.ready) {
    const std::uint32_t o = step.sources + lane.ready;
    const Operand& operand = program_->operands[step.operands + o];
    if (operand.place != Place::link) continue;
    HostLink& link = *links_[operand.link];
    const OfferFrom from = lane.offers[o];
    const std::uint32_t holder = from == OfferFrom::destination ? kept_operand(step) : step.operands;
    const std::byte* const memory = from != OfferFrom::none ? address(lane.window, holder) : nullptr;
    const tutti_link_result result = memory == nullptr
                                         ? link.transport->commit(link.link, lane.bytes, binding_.fingerprint)
                                         : link.transport->offer(link.link, region(link, program_->operands[holder].place),
                                                                 memory, lane.bytes, binding_.fingerprint);
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
  if (++lane.pass == layouts_->passes) {
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
  char why[TUTTI_WHY_MAX] = "";
  static_cast<void>(link.transport->failure(link.link, why, sizeof why));
  outcome_ = {.kind = Outcome::Kind::broken, .peer = link.peer, .fingerprint = 0, .bytes = 0, .expected = 0, .why = why};
  return Turn::failed;
}

std::vector<int> HostExecutor::waiting_for() const {
  if (awaited_ != nullptr) return {awaited_->peer};
  std::vector<int> peers;
  if (flat_) return peers;
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
