// A run of lanes: every call that is not flat.
#include <algorithm>

#include "src/base/link_shape.h"
#include "src/executors/host/executor.h"

namespace tutti {
namespace {

/// No operand of a step.
constexpr std::uint32_t no_operand = UINT32_MAX;

bool overlap(const std::byte* a, std::uint64_t a_bytes, const std::byte* b, std::uint64_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

}  // namespace

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
    if (agent.contended() && !agent.give_way()) [[unlikely]]
      return interrupted();
    if (moved) rounds = 0;
    if (++rounds == 1 && needs_progress_) {
      agent.progress();  // after every move, and before the first wait
    } else if (!moved && !agent.idle(rounds, needs_progress_)) {
      return interrupted();
    }
  }
  return finish(agent);
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
  in_place_ = overlap(binding_.input, layouts_->span[0], binding_.output, layouts_->span[1]);
  const std::uint64_t touched = layouts_->bytes[1] + (in_place_ ? 0 : layouts_->bytes[0]);
  streams_ = use_non_temporal_ && use_non_temporal_(touched);
  direct_ = layouts_->longest_message >= least_offer;
  if (!direct_) return;
  inboxes_.assign(links_.size(), {});
  for (std::uint32_t l = 0; l < links_.size(); ++l) grant_ahead(l);
}

HostExecutor::Window HostExecutor::window_at(std::uint64_t pass) const {
  // The input is never a destination; its address loses const only to share its place with the others'.
  const auto offset = [this](std::size_t buffer, std::uint64_t nth) {
    return layouts_->begin[buffer] + nth * layouts_->stride[buffer];
  };
  return {&layout_at(pass),
          {const_cast<std::byte*>(binding_.input) + offset(0, pass), binding_.output + offset(1, pass),
           binding_.scratch + offset(2, pass % layouts_->copies)}};
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
  const auto index = static_cast<std::size_t>(&step - program_->steps.data());
  lane.bytes = lane.window.layout->message_bytes[index];
  lane.fingerprint = fingerprint_of(*lane.window.layout, index);
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
  const Turn turn = view(*links_[operand.link], lane.bytes, lane.fingerprint, lane.at[lane.ready]);
  if (direct_ && turn == Turn::blocked) grant_ahead(operand.link);
  if (direct_ && turn == Turn::moved) saw(operand.link);
  return turn;
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
    const std::uint32_t index = step_index(receive.lane, receive.step);
    const std::uint64_t bytes = window.layout->message_bytes[index];
    std::byte* const memory = address(window, destination);
    // What is granted early only its sender may still be reading, who will have read it when it writes.
    if (bytes < least_offer || (!is_early(receive) && held(memory, bytes))) return;
    const std::uint64_t fingerprint = fingerprint_of(*window.layout, index);
    if (link.transport->grant(link.link, place, memory, bytes, fingerprint) != TUTTI_LINK_OK) return;
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
      if (layout.pieces[p].bytes != 0 && held(base + layout.pieces[p].offset, layout.pieces[p].bytes)) return Turn::blocked;
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
    const Turn turn = reserve(link, lane.bytes, lane.fingerprint, lane.at[lane.ready], flags);
    if (turn != Turn::moved || (flags & TUTTI_ROOM_GRANTED) != 0) return turn;
  }
  if (from != OfferFrom::none) {
    lane.offers[lane.ready] = from;
    lane.keeps = lane.keeps || from == OfferFrom::destination;
    return Turn::moved;
  }
  return reserve(link, lane.bytes, lane.fingerprint, lane.at[lane.ready], flags);
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
                                         ? link.transport->commit(link.link, lane.bytes, lane.fingerprint)
                                         : link.transport->offer(link.link, region(link, program_->operands[holder].place),
                                                                 memory, lane.bytes, lane.fingerprint);
    if (result == TUTTI_LINK_NOT_YET) return Turn::blocked;
    if (result == TUTTI_LINK_BROKEN) return broken(link);
    ++link.offered;
    if (memory != nullptr && link.reusable() < link.offered) {
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
  std::erase_if(holds_, [](const Hold& hold) { return hold.link->reusable() >= hold.number; });
  return std::any_of(holds_.begin(), holds_.end(),
                     [&](const Hold& hold) { return hold.begin < begin + bytes && begin < hold.end; });
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
