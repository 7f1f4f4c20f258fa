#include "src/executors/host/executor.h"

#include <algorithm>

namespace tutti {

const Outcome& HostExecutor::run(const Plan& plan, const Lowered& lowered, const HostLayouts& layouts,
                                 const Binding& binding, FoldFunction fold, std::span<HostLink* const> links,
                                 Agent& agent) {
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

/// The link's next message, which shall be one of this operation and so long. data: where it lies.
HostExecutor::Turn HostExecutor::view(const HostLink& link, std::uint64_t bytes, std::uint64_t fingerprint,
                                      std::byte*& data) {
  tutti_message message;
  const tutti_link_result result = link.transport->view(link.link, &message);
  if (result == TUTTI_LINK_NOT_YET) return Turn::blocked;
  if (result == TUTTI_LINK_BROKEN) return broken(link);
  if (message.fingerprint != fingerprint || message.bytes != bytes) {
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
HostExecutor::Turn HostExecutor::reserve(const HostLink& link, std::uint64_t bytes, std::uint64_t fingerprint,
                                         std::byte*& data, std::uint32_t& flags) {
  tutti_room room;
  const tutti_link_result result = link.transport->reserve(link.link, bytes, fingerprint, &room);
  if (result == TUTTI_LINK_NOT_YET) return Turn::blocked;
  if (result == TUTTI_LINK_BROKEN) return broken(link);
  data = static_cast<std::byte*>(room.data);
  flags = room.flags;
  return Turn::moved;
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
    if (hold.link->reusable() >= hold.number) continue;
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

}  // namespace tutti
