#include "src/executors/host/straight.h"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "src/base/copy.h"
#include "src/executors/host/executor.h"
#include "src/executors/host/look.h"

namespace tutti {
namespace {

/// Takes a call's steps apart, one after the other.
class FlatCallCompiler {
 public:
  FlatCallCompiler(const Problem& problem, const Lowered& lowered, const Layout& layout)
      : problem_(problem), lowered_(lowered), layout_(layout) {}

  void append(std::uint32_t index) {
    const Step& step = lowered_.program.steps[index];
    const std::uint64_t bytes = layout_.message_bytes[index];
    if (bytes == 0) return;
    FlatCall::Instruction whole;
    whole.count = bytes;
    whole.message = bytes;
    whole.sources = step.sources;
    std::vector<std::uint32_t> taken;
    for (std::uint32_t o = step.operands; o < step.operands + step.sources + step.destinations; ++o) {
      if (lowered_.only_offered[o] == 0) taken.push_back(o);
    }
    find_places(taken);
    // As near_first, within the step.
    for (const bool near : {true, false}) {
      for (std::size_t o = 0; o < whole.sources; ++o) {
        const Operand& operand = lowered_.program.operands[taken[o]];
        if (operand.place == Place::link && is_near(operand.link) == near) push(FlatCall::Kind::view, whole, operand, o);
      }
    }
    whole.divide_by = (step.flags & last_touch) != 0 ? divisor(problem_) : 0;
    const bool in_one_piece = whole.sources == 1 && lowered_.program.operands[taken[0]].range.blocks == 1;
    if (in_one_piece && whole.divide_by <= 1 && bytes < least_streamed) take_sends(whole, taken);
    push_to_links(FlatCall::Kind::reserve, whole, taken);
    append_pieces(whole, step, taken);
    // Before anything of it is sent on. That this rank offers nothing says nothing of its peers.
    if (bytes >= least_offer) push_from_links(FlatCall::Kind::recheck, whole, taken);
    push_to_links(FlatCall::Kind::commit, whole, taken);
    push_from_links(FlatCall::Kind::release, whole, taken);
  }

  /// Where nobody knows who shares a core with whom, ranks tell whether they run. Else, where all of our core exchange
  /// messages, and theirs are here, they wait as well, and so do most likely those of another core, or are about to send:
  /// then both cores go on in step, and are handed over as seldom as can be.
  FlatCall take() {
    using Kind = FlatCall::Kind;
    if (lowered_.near.empty()) {
      if (lowered_.shares_cores) look_from(straight_.acts.begin(), FlatCall::Look::running);
      return std::move(straight_);
    }
    const bool meets_all = meets({Kind::view}) == lowered_.on_core && meets({Kind::send, Kind::commit}) == lowered_.on_core;
    if (lowered_.on_core != 0 && meets_all) {
      const auto last_near =
          std::find_if(straight_.acts.rbegin(), straight_.acts.rend(),
                       [this](const FlatCall::Instruction& act) { return act.kind == Kind::view && is_near(act.link); });
      look_from(last_near.base(), FlatCall::Look::anyhow);
    }
    return std::move(straight_);
  }

 private:
  void look_from(std::vector<FlatCall::Instruction>::iterator act, FlatCall::Look look) {
    for (; act != straight_.acts.end(); ++act) {
      if (act->kind == FlatCall::Kind::view) act->look = look;
    }
  }
  bool is_near(std::uint32_t link) const { return !lowered_.near.empty() && lowered_.near[link] != 0; }
  /// Ranks of our core with which that is done.
  std::size_t meets(std::initializer_list<FlatCall::Kind> kinds) const {
    std::set<int> peers;
    for (const FlatCall::Instruction& act : straight_.acts) {
      if (std::ranges::count(kinds, act.kind) != 0 && is_near(act.link))
        peers.insert(lowered_.program.links[act.link].peer);
    }
    return peers.size();
  }

  /// Of a step's operands that are taken, each with its place.
  void find_places(const std::vector<std::uint32_t>& taken) {
    places_.clear();
    for (std::size_t o = 0; o < taken.size(); ++o) {
      const Operand& operand = lowered_.program.operands[taken[o]];
      places_.push_back(operand.place == Place::link ? FlatCall::messages + static_cast<std::uint32_t>(o)
                                                     : static_cast<std::uint32_t>(operand.place));
    }
  }

  /// Sends the step's one source, which is short and lies in one piece, to all its links. What is taken is then as if they
  /// were none of its destinations.
  void take_sends(const FlatCall::Instruction& whole, std::vector<std::uint32_t>& taken) {
    const auto is_link = [this](std::uint32_t o) { return lowered_.program.operands[o].place == Place::link; };
    if (std::none_of(taken.begin() + 1, taken.end(), is_link)) return;
    FlatCall::Instruction act = whole;
    act.operand = static_cast<std::uint32_t>(straight_.operands.size());
    const std::uint64_t offset = layout_.pieces[layout_.first_piece[taken[0]]].offset;
    straight_.operands.push_back({places_[0], lowered_.program.operands[taken[0]].link, offset});
    push_to_links(FlatCall::Kind::send, act, taken);
    taken.erase(std::remove_if(taken.begin() + 1, taken.end(), is_link), taken.end());
    find_places(taken);
  }

  void push_to_links(FlatCall::Kind kind, const FlatCall::Instruction& act, const std::vector<std::uint32_t>& taken) {
    for (std::size_t o = act.sources; o < taken.size(); ++o) {
      const Operand& operand = lowered_.program.operands[taken[o]];
      if (operand.place == Place::link) push(kind, act, operand, o);
    }
  }

  void push_from_links(FlatCall::Kind kind, const FlatCall::Instruction& act, const std::vector<std::uint32_t>& taken) {
    for (std::size_t o = 0; o < act.sources; ++o) {
      const Operand& operand = lowered_.program.operands[taken[o]];
      if (operand.place == Place::link) push(kind, act, operand, o);
    }
  }

  void push(FlatCall::Kind kind, FlatCall::Instruction act, const Operand& operand, std::size_t o) {
    act.kind = kind;
    act.link = operand.link;
    act.place = places_[o];
    straight_.acts.push_back(act);
  }

  void append_pieces(FlatCall::Instruction act, const Step& step, const std::vector<std::uint32_t>& taken) {
    act.destinations = static_cast<std::uint32_t>(taken.size()) - act.sources;
    if (act.destinations == 0) return;
    const bool copies = act.sources == 1 && act.destinations == 1 && act.divide_by <= 1;
    act.kind = copies ? FlatCall::Kind::copy : FlatCall::Kind::fold;
    const std::uint32_t blocks = lowered_.program.operands[step.operands].range.blocks;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      const std::uint64_t bytes = layout_.pieces[layout_.first_piece[step.operands] + b].bytes;
      if (bytes == 0) continue;
      act.count = copies ? bytes : bytes >> unit_shift(problem_);
      act.operand = static_cast<std::uint32_t>(straight_.operands.size());
      for (std::size_t o = 0; o < taken.size(); ++o) {
        const std::uint32_t link = lowered_.program.operands[taken[o]].link;
        straight_.operands.push_back({places_[o], link, layout_.pieces[layout_.first_piece[taken[o]] + b].offset});
      }
      straight_.acts.push_back(act);
    }
  }

  const Problem& problem_;
  const Lowered& lowered_;
  const Layout& layout_;
  std::vector<std::uint32_t> places_;  ///< of the step's operands
  FlatCall straight_;
};

}  // namespace

FlatCall straighten(const Problem& problem, const Lowered& lowered, const Layout& layout) {
  FlatCallCompiler straightener(problem, lowered, layout);
  for (const std::uint32_t step : lowered.single_file) straightener.append(step);
  return straightener.take();
}

/// One straight call under way. What mostly comes about at once is within one function once compiled, and nothing else is:
/// a call of a few bytes has no time for more.
class HostExecutor::StraightRun {
 public:
  StraightRun(HostExecutor& executor, Agent& agent)
      : executor_(executor),
        agent_(agent),
        links_(executor.links_.data()),
        at_(executor.at_.data()),
        operands_(executor.layouts_->straight.operands.data()),
        fingerprint_(executor.binding_.fingerprint) {
    // Only read from; see window_at.
    at_[0] = const_cast<std::byte*>(executor.binding_.input);
    at_[1] = executor.binding_.output;
    at_[2] = executor.binding_.scratch;
  }

  /// False: the outcome says why the call did not come about.
  bool run(const FlatCall& straight) {
    for (const FlatCall::Instruction& act : straight.acts) {
      if (act.kind == FlatCall::Kind::copy) {
        copy(act, operands_ + act.operand);
      } else if (act.kind == FlatCall::Kind::fold) {
        fold(act, operands_ + act.operand);
      } else if (HostLink& link = *links_[act.link]; !at_once(act, link) && !wait_for(act, link)) {
        return false;
      }
    }
    return true;
  }

 private:
  std::byte* address(const FlatCall::Operand& operand) const { return at_[operand.place] + operand.offset; }

  /// What is to be done on a link; false: it has to be attempted again.
  bool at_once(const FlatCall::Instruction& act, HostLink& link) {
    const tutti_transport& transport = *link.transport;
    if (act.kind == FlatCall::Kind::view) {
      tutti_message message;
      if (transport.view(link.link, &message) != TUTTI_LINK_OK) return false;
      at_[act.place] = const_cast<std::byte*>(static_cast<const std::byte*>(message.data));  // only read from
      return message.fingerprint == fingerprint_ && message.bytes == act.count;
    }
    if (act.kind == FlatCall::Kind::reserve) {
      at_[act.place] = static_cast<std::byte*>(transport.reserve(link.link, act.count, fingerprint_));
      return at_[act.place] != nullptr;
    }
    if (act.kind == FlatCall::Kind::release) return transport.release(link.link), true;
    if (act.kind == FlatCall::Kind::recheck) return recheck(act, link);
    return hand_over(act, link) == TUTTI_LINK_OK;
  }

  [[gnu::noinline]] static bool recheck(const FlatCall::Instruction& act, const HostLink& link) {
    tutti_message same;
    return (link.state.capabilities & TUTTI_READS_PEER) == 0 ||
           (link.transport->view(link.link, &same) == TUTTI_LINK_OK && same.bytes == act.count);
  }

  /// What did not come about at once; false: it never will.
  [[gnu::noinline]] bool wait_for(const FlatCall::Instruction& act, HostLink& link) {
    const bool anyhow = act.look == FlatCall::Look::anyhow;
    if (looks(act) && comes_soon(link, anyhow, [&] { return at_once(act, link); })) return true;
    return executor_.await(link, agent_, [&] { return attempt(act, link); });
  }

  /// A send or a commit.
  tutti_link_result hand_over(const FlatCall::Instruction& act, HostLink& link) {
    const tutti_transport& transport = *link.transport;
    tutti_link_result result = TUTTI_LINK_OK;
    if (act.kind == FlatCall::Kind::commit) {
      result = transport.commit(link.link, act.count, fingerprint_);
    } else {
      const std::byte* const source = address(operands_[act.operand]);
      result = transport.send != nullptr ? transport.send(link.link, source, act.count, fingerprint_)
                                         : send_in_parts(transport, link.link, source, act.count);
    }
    if (result == TUTTI_LINK_OK) ++link.offered;
    return result;
  }

  /// Where a transport does not send in one.
  [[gnu::noinline]] tutti_link_result send_in_parts(const tutti_transport& transport, tutti_link* link,
                                                    const std::byte* source, std::uint64_t bytes) const {
    void* const room = transport.reserve(link, bytes, fingerprint_);
    if (room == nullptr)
      return transport.failure(link, nullptr, 0) == TUTTI_LINK_BROKEN ? TUTTI_LINK_BROKEN : TUTTI_LINK_NOT_YET;
    copy_memory(room, source, bytes);
    return transport.commit(link, bytes, fingerprint_);
  }

  /// Looking does not help where links move only when asked.
  bool looks(const FlatCall::Instruction& act) const {
    return act.look != FlatCall::Look::none && !executor_.needs_progress_ && agent_.shares_core();
  }

  /// What did not come about at once, again, and what stands in its way.
  Turn attempt(const FlatCall::Instruction& act, HostLink& link) {
    if (act.kind == FlatCall::Kind::view || act.kind == FlatCall::Kind::recheck)
      return executor_.view(link, act.count, at_[act.place]);
    if (act.kind == FlatCall::Kind::reserve) return executor_.reserve(link, act.count, at_[act.place]);
    const tutti_link_result result = hand_over(act, link);
    if (result == TUTTI_LINK_OK) return Turn::moved;
    return result == TUTTI_LINK_BROKEN ? executor_.broken(link) : Turn::blocked;
  }

  /// Whether it is a message that is best filled past the caches.
  bool streams(const FlatCall::Instruction& act, const FlatCall::Operand& destination) const {
    return act.message >= least_streamed && destination.place >= FlatCall::messages &&
           links_[destination.link]->streams(act.message);
  }

  void copy(const FlatCall::Instruction& act, const FlatCall::Operand* operand) const {
    std::byte* const source = address(operand[0]);
    std::byte* const target = address(operand[1]);
    if (source == target) return;  // a message may have landed in its place
    if (streams(act, operand[1])) return stream(source, target, act.count);
    copy_memory(target, source, act.count);
  }

  [[gnu::noinline]] static void stream(const std::byte* source, std::byte* target, std::uint64_t bytes) {
    const FoldSource from = {source};
    const FoldDestination to = {target, ElementFormat::kUser, true};
    find_copy()({&from, &to, 1, 1, bytes});
  }

  void fold(const FlatCall::Instruction& act, const FlatCall::Operand* operand) const {
    if (act.sources != 2 || act.destinations != 1) return fold_any(act, operand);
    // What most are.
    FoldSource* const sources = executor_.fold_sources_.data();
    FoldDestination& destination = executor_.fold_destinations_.front();
    sources[0].data = address(operand[0]);
    sources[1].data = address(operand[1]);
    destination.data = address(operand[2]);
    destination.streaming = streams(act, operand[2]);
    executor_.fold_({sources, &destination, 2, 1, act.count, act.divide_by});
  }

  [[gnu::noinline]] void fold_any(const FlatCall::Instruction& act, const FlatCall::Operand* operand) const {
    FoldSource* const sources = executor_.fold_sources_.data();
    FoldDestination* const destinations = executor_.fold_destinations_.data();
    // Nothing to do where one source lies in its place already.
    const bool may_lie_there = act.sources == 1 && act.divide_by <= 1;
    for (std::uint32_t o = 0; o < act.sources; ++o) sources[o].data = address(*operand++);
    std::uint32_t targets = 0;
    for (std::uint32_t o = 0; o < act.destinations; ++o, ++operand) {
      std::byte* const target = address(*operand);
      if (may_lie_there && target == sources[0].data) continue;
      destinations[targets].data = target;
      destinations[targets++].streaming = streams(act, *operand);
    }
    if (targets != 0) executor_.fold_({sources, destinations, act.sources, targets, act.count, act.divide_by});
  }

  HostExecutor& executor_;
  Agent& agent_;
  HostLink* const* const links_;
  std::byte** const at_;
  const FlatCall::Operand* const operands_;
  const std::uint64_t fingerprint_;
};

const Outcome& HostExecutor::run_flat(Agent& agent) {
  if (!StraightRun(*this, agent).run(layouts_->straight)) return outcome_;
  awaited_ = nullptr;
  // Nothing was offered, so only what a socket still holds is not with the peers yet.
  return needs_progress_ ? finish(agent) : outcome_;
}

}  // namespace tutti
