#include "src/executors/host/flat_call.h"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "src/base/copy.h"
#include "src/executors/host/bounded_spin.h"
#include "src/executors/host/executor.h"

namespace tutti {
namespace {

/// Where no link takes an offer, calls are flat while their messages are shorter than this.
constexpr std::uint64_t least_of_lanes = std::uint64_t{1} << 18;

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
    // As same_core_first, within the step.
    for (const bool same_core : {true, false}) {
      for (std::size_t o = 0; o < whole.sources; ++o) {
        const Operand& operand = lowered_.program.operands[taken[o]];
        if (operand.place == Place::link && on_same_core(operand.link) == same_core)
          push(FlatCall::Kind::view, whole, operand, o);
      }
    }
    whole.divide_by = (step.flags & last_touch) != 0 ? divisor(problem_) : 0;
    const bool in_one_piece = whole.sources == 1 && lowered_.program.operands[taken[0]].range.blocks == 1;
    if (in_one_piece && whole.divide_by <= 1 && bytes < least_streamed) take_sends(whole, taken);
    push_to_links(FlatCall::Kind::reserve, whole, taken);
    append_pieces(whole, step, taken);
    // Before anything of it is sent on. That this rank offers nothing says nothing of its peers.
    if (bytes >= least_offer) push_from_links(FlatCall::Kind::revalidate, whole, taken);
    push_to_links(FlatCall::Kind::commit, whole, taken);
    push_from_links(FlatCall::Kind::release, whole, taken);
  }

  /// Where nobody knows who shares a core with whom, ranks tell whether they run. Else, where all of our core exchange
  /// messages, and theirs are here, they wait as well, and so do most likely those of another core, or are about to send:
  /// then both cores go on in step, and are handed over as seldom as can be.
  FlatCall take() {
    using Kind = FlatCall::Kind;
    if (lowered_.same_core.empty()) {
      if (lowered_.shares_cores) look_from(flat_.instructions.begin(), FlatCall::Look::running);
      return std::move(flat_);
    }
    const bool meets_all = meets({Kind::view}) == lowered_.on_core && meets({Kind::send, Kind::commit}) == lowered_.on_core;
    if (lowered_.on_core != 0 && meets_all) {
      const auto last_same_core = std::find_if(flat_.instructions.rbegin(), flat_.instructions.rend(),
                                               [this](const FlatCall::Instruction& instruction) {
                                                 return instruction.kind == Kind::view && on_same_core(instruction.link);
                                               });
      look_from(last_same_core.base(), FlatCall::Look::even_if_descheduled);
    }
    return std::move(flat_);
  }

 private:
  void look_from(std::vector<FlatCall::Instruction>::iterator instruction, FlatCall::Look look) {
    for (; instruction != flat_.instructions.end(); ++instruction) {
      if (instruction->kind == FlatCall::Kind::view) instruction->look = look;
    }
  }
  bool on_same_core(std::uint32_t link) const { return !lowered_.same_core.empty() && lowered_.same_core[link] != 0; }
  /// Ranks of our core with which that is done.
  std::size_t meets(std::initializer_list<FlatCall::Kind> kinds) const {
    std::set<int> peers;
    for (const FlatCall::Instruction& instruction : flat_.instructions) {
      if (std::ranges::count(kinds, instruction.kind) != 0 && on_same_core(instruction.link))
        peers.insert(lowered_.program.links[instruction.link].peer);
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
    FlatCall::Instruction instruction = whole;
    instruction.operand = static_cast<std::uint32_t>(flat_.operands.size());
    const std::uint64_t offset = layout_.pieces[layout_.first_piece[taken[0]]].offset;
    flat_.operands.push_back({places_[0], lowered_.program.operands[taken[0]].link, offset});
    push_to_links(FlatCall::Kind::send, instruction, taken);
    taken.erase(std::remove_if(taken.begin() + 1, taken.end(), is_link), taken.end());
    find_places(taken);
  }

  void push_to_links(FlatCall::Kind kind, const FlatCall::Instruction& instruction,
                     const std::vector<std::uint32_t>& taken) {
    for (std::size_t o = instruction.sources; o < taken.size(); ++o) {
      const Operand& operand = lowered_.program.operands[taken[o]];
      if (operand.place == Place::link) push(kind, instruction, operand, o);
    }
  }

  void push_from_links(FlatCall::Kind kind, const FlatCall::Instruction& instruction,
                       const std::vector<std::uint32_t>& taken) {
    for (std::size_t o = 0; o < instruction.sources; ++o) {
      const Operand& operand = lowered_.program.operands[taken[o]];
      if (operand.place == Place::link) push(kind, instruction, operand, o);
    }
  }

  void push(FlatCall::Kind kind, FlatCall::Instruction instruction, const Operand& operand, std::size_t o) {
    instruction.kind = kind;
    instruction.link = operand.link;
    instruction.place = places_[o];
    flat_.instructions.push_back(instruction);
  }

  void append_pieces(FlatCall::Instruction instruction, const Step& step, const std::vector<std::uint32_t>& taken) {
    instruction.destinations = static_cast<std::uint32_t>(taken.size()) - instruction.sources;
    if (instruction.destinations == 0) return;
    const bool copies = instruction.sources == 1 && instruction.destinations == 1 && instruction.divide_by <= 1;
    instruction.kind = copies ? FlatCall::Kind::copy : FlatCall::Kind::fold;
    const std::uint32_t blocks = lowered_.program.operands[step.operands].range.blocks;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      const std::uint64_t bytes = layout_.pieces[layout_.first_piece[step.operands] + b].bytes;
      if (bytes == 0) continue;
      instruction.count = copies ? bytes : bytes >> unit_shift(problem_);
      instruction.operand = static_cast<std::uint32_t>(flat_.operands.size());
      for (std::size_t o = 0; o < taken.size(); ++o) {
        const std::uint32_t link = lowered_.program.operands[taken[o]].link;
        flat_.operands.push_back({places_[o], link, layout_.pieces[layout_.first_piece[taken[o]] + b].offset});
      }
      flat_.instructions.push_back(instruction);
    }
  }

  const Problem& problem_;
  const Lowered& lowered_;
  const Layout& layout_;
  std::vector<std::uint32_t> places_;  ///< of the step's operands
  FlatCall flat_;
};

}  // namespace

FlatCall flatten(const Plan& plan, const Lowered& lowered, const Layouts& layouts) {
  const bool flat = !lowered.sequential_order.empty() && layouts.passes == 1 && layouts.longest_message < least_of_lanes;
  if (!flat) return {};
  FlatCallCompiler compiler(plan.problem, lowered, layouts.at(0));
  for (const std::uint32_t step : lowered.sequential_order) compiler.append(step);
  return compiler.take();
}

HostLayouts lay_out_for_host(const Plan& plan, int rank, const Lowered& lowered, std::uint32_t strand) {
  HostLayouts layouts{lay_out(plan, rank, lowered.program, strand), {}};
  // A flat call counts from its buffers' beginnings, which only the first strand begins at.
  if (strand == 0) layouts.flat = flatten(plan, lowered, layouts);
  return layouts;
}

/// One flat call under way. What mostly comes about at once is within one function once compiled, and nothing else is:
/// a call of a few bytes has no time for more.
class HostExecutor::FlatCallRun {
 public:
  FlatCallRun(HostExecutor& executor, Agent& agent)
      : executor_(executor),
        agent_(agent),
        links_(executor.links_.data()),
        at_(executor.at_.data()),
        room_flags_(executor.room_flags_.data()),
        operands_(executor.layouts_->flat.operands.data()),
        fingerprint_(executor.binding_.fingerprint) {
    // Only read from; see window_at.
    at_[0] = const_cast<std::byte*>(executor.binding_.input);
    at_[1] = executor.binding_.output;
    at_[2] = executor.binding_.scratch;
  }

  /// False: the outcome says why the call did not come about.
  bool run(const FlatCall& flat) {
    for (const FlatCall::Instruction& instruction : flat.instructions) {
      if (instruction.kind == FlatCall::Kind::copy) {
        copy(instruction, operands_ + instruction.operand);
      } else if (instruction.kind == FlatCall::Kind::fold) {
        fold(instruction, operands_ + instruction.operand);
      } else if (HostLink& link = *links_[instruction.link]; !at_once(instruction, link) && !wait_for(instruction, link)) {
        return false;
      }
    }
    return true;
  }

 private:
  std::byte* address(const FlatCall::Operand& operand) const { return at_[operand.place] + operand.offset; }

  /// What is to be done on a link; false: it has to be attempted again.
  bool at_once(const FlatCall::Instruction& instruction, HostLink& link) {
    const tutti_transport& transport = *link.transport;
    if (instruction.kind == FlatCall::Kind::view) {
      tutti_message message;
      if (transport.view(link.link, &message) != TUTTI_LINK_OK) return false;
      at_[instruction.place] = const_cast<std::byte*>(static_cast<const std::byte*>(message.data));  // only read from
      return message.fingerprint == fingerprint_ && message.bytes == instruction.count;
    }
    if (instruction.kind == FlatCall::Kind::reserve) {
      tutti_room room;
      if (transport.reserve(link.link, instruction.count, fingerprint_, &room) != TUTTI_LINK_OK) return false;
      at_[instruction.place] = static_cast<std::byte*>(room.data);
      room_flags_[instruction.place] = room.flags;
      return true;
    }
    if (instruction.kind == FlatCall::Kind::release) return transport.release(link.link), true;
    if (instruction.kind == FlatCall::Kind::revalidate) return revalidate(link) == TUTTI_LINK_OK;
    return send(instruction, link) == TUTTI_LINK_OK;
  }

  [[gnu::noinline]] static tutti_link_result revalidate(const HostLink& link) {
    return (link.state.capabilities & TUTTI_READS_PEER) == 0 ? TUTTI_LINK_OK : link.transport->revalidate(link.link);
  }

  /// What did not come about at once; false: it never will.
  [[gnu::noinline]] bool wait_for(const FlatCall::Instruction& instruction, HostLink& link) {
    const bool even_if_descheduled = instruction.look == FlatCall::Look::even_if_descheduled;
    if (looks(instruction) && spin_briefly(link, even_if_descheduled, [&] { return at_once(instruction, link); }))
      return true;
    return executor_.await(link, agent_, [&] { return attempt(instruction, link); });
  }

  /// A send or a commit.
  tutti_link_result send(const FlatCall::Instruction& instruction, HostLink& link) {
    const tutti_transport& transport = *link.transport;
    tutti_link_result result = TUTTI_LINK_OK;
    if (instruction.kind == FlatCall::Kind::commit) {
      result = transport.commit(link.link, instruction.count, fingerprint_);
    } else {
      result = transport.send(link.link, address(operands_[instruction.operand]), instruction.count, fingerprint_);
    }
    if (result == TUTTI_LINK_OK) ++link.offered;
    return result;
  }

  /// Looking does not help where links move only when asked.
  bool looks(const FlatCall::Instruction& instruction) const {
    return instruction.look != FlatCall::Look::none && !executor_.needs_progress_ && agent_.shares_core();
  }

  /// What did not come about at once, again, and what stands in its way.
  Turn attempt(const FlatCall::Instruction& instruction, HostLink& link) {
    if (instruction.kind == FlatCall::Kind::view)
      return executor_.view(link, instruction.count, fingerprint_, at_[instruction.place]);
    if (instruction.kind == FlatCall::Kind::reserve)
      return executor_.reserve(link, instruction.count, fingerprint_, at_[instruction.place],
                               room_flags_[instruction.place]);
    if (instruction.kind == FlatCall::Kind::revalidate)
      return revalidate(link) == TUTTI_LINK_OK ? Turn::moved : executor_.broken(link);
    const tutti_link_result result = send(instruction, link);
    if (result == TUTTI_LINK_OK) return Turn::moved;
    return result == TUTTI_LINK_BROKEN ? executor_.broken(link) : Turn::blocked;
  }

  /// Whether it is a message that is best filled past the caches.
  bool streams(const FlatCall::Instruction& instruction, const FlatCall::Operand& destination) const {
    return instruction.message >= least_streamed && destination.place >= FlatCall::messages &&
           (room_flags_[destination.place] & TUTTI_ROOM_NON_TEMPORAL) != 0;
  }

  void copy(const FlatCall::Instruction& instruction, const FlatCall::Operand* operand) const {
    std::byte* const source = address(operand[0]);
    std::byte* const target = address(operand[1]);
    if (source == target) return;  // a message may have landed in its place
    if (streams(instruction, operand[1])) return stream(source, target, instruction.count);
    copy_memory(target, source, instruction.count);
  }

  [[gnu::noinline]] static void stream(const std::byte* source, std::byte* target, std::uint64_t bytes) {
    const FoldSource from = {source};
    const FoldDestination to = {target, true};
    find_copy()({&from, &to, 1, 1, bytes});
  }

  void fold(const FlatCall::Instruction& instruction, const FlatCall::Operand* operand) const {
    if (instruction.sources != 2 || instruction.destinations != 1) return fold_any(instruction, operand);
    // What most are.
    FoldSource* const sources = executor_.fold_sources_.data();
    FoldDestination& destination = executor_.fold_destinations_.front();
    sources[0].data = address(operand[0]);
    sources[1].data = address(operand[1]);
    destination.data = address(operand[2]);
    destination.streaming = streams(instruction, operand[2]);
    executor_.fold_({sources, &destination, 2, 1, instruction.count, instruction.divide_by});
  }

  [[gnu::noinline]] void fold_any(const FlatCall::Instruction& instruction, const FlatCall::Operand* operand) const {
    FoldSource* const sources = executor_.fold_sources_.data();
    FoldDestination* const destinations = executor_.fold_destinations_.data();
    // Nothing to do where one source lies in its place already.
    const bool may_lie_there = instruction.sources == 1 && instruction.divide_by <= 1;
    for (std::uint32_t o = 0; o < instruction.sources; ++o) sources[o].data = address(*operand++);
    std::uint32_t targets = 0;
    for (std::uint32_t o = 0; o < instruction.destinations; ++o, ++operand) {
      std::byte* const target = address(*operand);
      if (may_lie_there && target == sources[0].data) continue;
      destinations[targets].data = target;
      destinations[targets++].streaming = streams(instruction, *operand);
    }
    if (targets != 0)
      executor_.fold_({sources, destinations, instruction.sources, targets, instruction.count, instruction.divide_by});
  }

  HostExecutor& executor_;
  Agent& agent_;
  HostLink* const* const links_;
  std::byte** const at_;
  std::uint32_t* const room_flags_;
  const FlatCall::Operand* const operands_;
  const std::uint64_t fingerprint_;
};

const Outcome& HostExecutor::run_flat(Agent& agent) {
  if (!FlatCallRun(*this, agent).run(layouts_->flat)) return outcome_;
  awaited_ = nullptr;
  // Nothing was offered, so only what a socket still holds is not with the peers yet.
  return needs_progress_ ? finish(agent) : outcome_;
}

}  // namespace tutti
