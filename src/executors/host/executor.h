// The host executor: runs one rank's program over links, without a blocking call.
//
// It looks at each lane in turn and takes every step whose operands are there: messages that have come, room in the
// links it sends on, dependencies retired. A step is one fold (or copy) in one sweep over memory. Where nothing can move
// it asks its Agent, who makes the transports progress, waits, and says when to give up. A lane is {pass, step, operand}
// in memory, so a run may stop at any step's edge.
//
// How a message travels is decided here, per message, from what the link can do: folded straight into the link's slot;
// offered from the caller's memory where the link reads any memory; received where it is granted. The plan knows none
// of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "include/tutti/transport.h"
#include "src/executors/host/agent.h"
#include "src/executors/host/flat_call.h"
#include "src/executors/host/host_link.h"
#include "src/reduction/reduction.h"
#include "src/schedule/ir.h"
#include "src/schedule/layout.h"

namespace tutti {

/// What one call adds to a program. Addresses are in the caller's memory and not owned.
struct Binding {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;      ///< scratch_bytes(plan) bytes
  std::uint64_t fingerprint = 0;     ///< of the operation: travels with each message and is checked on arrival
  std::span<const Regions> regions;  ///< by HostLink::endpoint; empty: nothing is registered
};

/// How a run ended.
struct Outcome {
  enum class Kind {
    completed,
    broken,       ///< the link to or from `peer` broke: `why`
    mismatch,     ///< `peer` sent a message of another operation: `fingerprint`, or of another length
    interrupted,  ///< the agent gave up
  };
  Kind kind = Kind::completed;
  int peer = -1;
  std::uint64_t fingerprint = 0;
  std::uint64_t bytes = 0;     ///< mismatch: the message's length
  std::uint64_t expected = 0;  ///< mismatch: the length it should have
  std::string why;
};

/// Runs programs, one at a time. Keeps its working memory between runs, so that a warm run allocates nothing. Not thread
/// safe: one executor per thread of execution.
class HostExecutor {
 public:
  /// Says whether the result of a call that touches so many bytes of its caller's is best written past the caches. Asked
  /// once by every run of more than flat calls do; never throws.
  using UseNonTemporal = std::function<bool(std::uint64_t touched)>;

  /// use_non_temporal: empty for never.
  explicit HostExecutor(UseNonTemporal use_non_temporal = {}) : use_non_temporal_(std::move(use_non_temporal)) {}

  /// Runs a program of `plan` on `links` (one per Program::links, open). fold: of the plan's type and operator; find_copy
  /// for verbs without one (a barrier folds). Returns when every step has retired, all memory of the binding may be reused,
  /// and nothing that peers need is held back here. The outcome is this object's, valid until the next run.
  const Outcome& run(const Plan& plan, const Lowered& lowered, const HostLayouts& layouts, const Binding& binding,
                     FoldFunction fold, std::span<HostLink* const> links, Agent& agent);

  /// Whether the last run was flat (flat_call.h) and completed: then run_again may do the same over other buffers, as
  /// long as what that run was given still lives. input, output: of as many bytes.
  bool may_run_again() const { return flat_ && outcome_.kind == Outcome::Kind::completed; }
  const Outcome& run_again(const void* input, void* output, std::uint64_t fingerprint, Agent& agent) {
    binding_.input = static_cast<const std::byte*>(input);
    binding_.output = static_cast<std::byte*>(output);
    binding_.fingerprint = fingerprint;
    return run_flat(agent);
  }

  /// Where the lanes stood when the last run ended, for the flight recorder and for errors: peers that lanes wait for.
  std::vector<int> waiting_for() const;

 private:
  /// What a pass adds to a layout: where its window lies in input, output and scratch.
  struct Window {
    const Layout* layout = nullptr;
    std::array<std::byte*, 3> base{};
  };
  /// Which memory a message is offered from, if any.
  enum class OfferFrom : char { none, source, destination };
  struct LaneState {
    std::uint64_t pass = 0;
    std::uint32_t step = 0;
    std::uint32_t ready = 0;  ///< operands of the step that are in hand
    bool begun = false;       ///< the step's length is known
    bool folded = false;      ///< the sweep is done, offers remain
    bool finished = false;
    std::uint64_t bytes = 0;                ///< of the step's message
    std::uint64_t fingerprint = 0;          ///< likewise
    Window window;                          ///< the pass's
    std::vector<std::byte*> at;             ///< of each operand in hand, where its buffer's window or its message begins
    std::vector<std::uint32_t> room_flags;  ///< of each destination that is room in a link: as tutti_room's
    std::vector<OfferFrom> offers;          ///< by destination
    bool keeps = false;                     ///< some message is offered from where the step writes it
  };
  /// Where the messages of a receiving link stand: the grants run ahead of what has come. A message is (pass, which of the
  /// link's receives); empty ones do not exist.
  struct Inbox {
    std::uint64_t pass = 0;      ///< of the next message to grant
    std::uint32_t receive = 0;   ///< likewise
    std::uint64_t next = 0;      ///< its number in this call
    std::uint64_t seen = 0;      ///< messages that were viewed
    std::uint64_t released = 0;  ///< messages that were released
  };
  /// A message that was offered from memory and may still be read.
  struct Hold {
    const HostLink* link;
    std::uint64_t number;
    const std::byte* begin;
    const std::byte* end;
  };
  enum class Turn { moved, blocked, failed };

  // A call that is flat (flat_call.h).
  const Outcome& run_flat(Agent& agent);
  class FlatCallRun;

  /// Tries until it moves; false where the outcome says why not.
  template <typename Try>
  bool await(const HostLink& link, Agent& agent, Try&& try_it) {
    for (std::uint32_t rounds = 0;; ++rounds) {
      const Turn turn = try_it();
      if (turn != Turn::blocked) return turn == Turn::moved;
      awaited_ = &link;
      if (rounds == 0 && needs_progress_) {
        agent.progress();
      } else if (!agent.idle(rounds + 1, needs_progress_)) {
        outcome_.kind = Outcome::Kind::interrupted;
        return false;
      }
    }
  }

  // Every other.
  const Outcome& run_lanes(Agent& agent);
  const Outcome& finish(Agent& agent);
  void prepare();
  void make_room();
  Turn view(const HostLink& link, std::uint64_t bytes, std::uint64_t fingerprint, std::byte*& data);
  Turn reserve(const HostLink& link, std::uint64_t bytes, std::uint64_t fingerprint, std::byte*& data,
               std::uint32_t& flags);
  Turn advance(LaneState& lane, std::uint32_t index);
  bool may_begin_pass(const LaneState& lane) const;
  bool dependencies_hold(const LaneState& lane, const Step& step) const;
  void begin_step(LaneState& lane, const Step& step);
  Turn take_operands(LaneState& lane, const Step& step);
  Turn take_source(LaneState& lane, std::uint32_t operand);
  void grant_ahead(std::uint32_t link);
  bool is_early(const Receive& receive) const { return in_place_ ? receive.early_in_place : receive.early; }
  bool its_turn(const Receive& receive, std::uint64_t pass) const;
  bool skip_to_message(Inbox& inbox, const std::vector<Receive>& receives) const;
  void saw(std::uint32_t link);
  Turn take_destination(LaneState& lane, std::uint32_t operand, const Step& step);
  Turn sweep(LaneState& lane, const Step& step);
  Turn revalidate(const HostLink& link);
  void fold_piece(const LaneState& lane, const Step& step, std::uint32_t piece);
  Turn send_results(LaneState& lane, const Step& step);
  void retire(LaneState& lane, std::uint32_t index);
  Turn drain();
  Turn broken(const HostLink& link);
  const Outcome& interrupted();

  Window window_at(std::uint64_t pass) const;
  const Layout& layout_at(std::uint64_t pass) const { return layouts_->at(pass); }
  /// Of a step's messages.
  std::uint64_t fingerprint_of(const Layout& layout, std::size_t step) const {
    return binding_.fingerprint + (layout.tags.empty() ? 0 : layout.tags[step]);
  }
  std::uint32_t step_index(std::uint32_t lane, std::uint32_t step) const { return program_->lanes[lane].first + step; }
  /// Where piece 0 of an operand in memory begins. operand: index into the program's.
  std::byte* address(const Window& window, std::uint32_t operand) const {
    return window.base[static_cast<std::size_t>(program_->operands[operand].place)] +
           window.layout->pieces[window.layout->first_piece[operand]].offset;
  }
  const tutti_region* region(const HostLink& link, Place place) const;
  bool contiguous(const Operand& operand) const { return operand.range.blocks == 1; }
  bool held(const std::byte* begin, std::uint64_t bytes);
  bool may_offer(const HostLink& link, Place place) const;
  OfferFrom offer_from(const LaneState& lane, const Step& step, const HostLink& link) const;
  std::uint32_t kept_operand(const Step& step) const;
  bool streams(const Operand& destination, std::uint64_t bytes, std::uint32_t room_flags) const;
  void release(std::uint32_t link);

  const Plan* plan_ = nullptr;
  const Lowered* lowered_ = nullptr;
  const HostLayouts* layouts_ = nullptr;
  const Program* program_ = nullptr;
  Binding binding_;
  FoldFunction fold_ = nullptr;
  std::span<HostLink* const> links_;
  std::uint32_t unit_shift_ = 0;  ///< log2 of the bytes of what `fold_` counts: elements, or bytes where it copies
  std::uint64_t divide_by_ = 0;
  UseNonTemporal use_non_temporal_;
  bool streams_ = false;
  bool needs_progress_ = false;
  bool in_place_ = false;                  ///< input and output overlap, or may
  bool direct_ = false;                    ///< messages may be long enough to be offered or granted
  bool flat_ = false;                      ///< the last call was
  const HostLink* awaited_ = nullptr;      ///< in a flat call: the link that it waited for last
  std::vector<std::byte*> at_;             ///< likewise, by FlatCall::Instruction::place: where it begins
  std::vector<std::uint32_t> room_flags_;  ///< likewise: tutti_room's, of a message that is sent
  std::vector<LaneState> lanes_;
  std::vector<Inbox> inboxes_;  ///< by link; only where direct_
  std::vector<Hold> holds_;
  std::uint32_t room_ = 0;  ///< operands of a step that the working memory has places for
  std::vector<FoldSource> fold_sources_;
  std::vector<FoldDestination> fold_destinations_;
  Outcome outcome_;
};

}  // namespace tutti
