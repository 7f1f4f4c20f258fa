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
#include <span>
#include <string>
#include <vector>

#include "include/tutti/transport.h"
#include "src/reduction/reduction.h"
#include "src/schedule/ir.h"

namespace tutti {

/// An open link, as the executor uses it. The link belongs to its transport's endpoint.
struct HostLink {
  const tutti_transport* transport = nullptr;
  tutti_link* link = nullptr;
  tutti_link_state state{};
  int peer = -1;
  std::uint64_t offered = 0;  ///< messages sent so far on this link, by commit or offer
};

/// What one call adds to a program. Addresses are in the caller's memory and not owned.
struct Binding {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;    ///< scratch_bytes(plan) bytes
  std::uint64_t count = 0;         ///< elements of a block
  std::uint64_t fingerprint = 0;   ///< of the operation: travels with each message and is checked on arrival
  const tutti_block* input_blocks = nullptr;   ///< instead of `input` and `count`, one per block: the v-variants
  const tutti_block* output_blocks = nullptr;  ///< likewise
};

/// Bytes of scratch that a run of the plan needs.
std::uint64_t scratch_bytes(const Plan& plan);

/// Whoever runs an executor: makes the world move while it waits.
class Agent {
 public:
  virtual ~Agent() = default;
  /// Moves what only moves when asked (sockets). Called once per round while any link needs it.
  virtual void progress() = 0;
  /// Nothing could move, `rounds` times in a row (from 1). Pauses, yields or sleeps. False: give up.
  virtual bool idle(std::uint32_t rounds) = 0;
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
  /// stream_from: results of at least this many bytes a call are written past the caches; 0: never.
  explicit HostExecutor(std::uint64_t stream_from = 0) : stream_from_(stream_from) {}

  /// Runs `program` of `plan` on `links` (one per Program::links, open). fold: of the plan's type and operator; find_copy for
  /// verbs without one (a barrier folds). Returns when every step has retired, all memory of the binding may be reused, and nothing that peers
  /// need is held back here.
  Outcome run(const Plan& plan, const Program& program, const Binding& binding, FoldFunction fold,
              std::span<HostLink* const> links, Agent& agent, int rank);

  /// Where the lanes stood when the last run ended, for the flight recorder and for errors: peers that lanes wait for.
  std::vector<int> waiting_for() const;

 private:
  /// Elements [start, start + size) of a block, in chunks of chunk_size.
  struct Window {
    std::uint64_t start = 0;
    std::uint64_t size = 0;
    std::uint64_t chunk_size = 0;
  };
  struct LaneState {
    std::uint64_t pass = 0;
    std::uint32_t step = 0;
    std::uint32_t ready = 0;     ///< operands of the step that are in hand
    bool begun = false;          ///< the step's length is known
    bool granted = false;        ///< the link was told where its message shall land
    bool folded = false;         ///< the sweep is done, offers remain
    bool finished = false;
    std::uint64_t bytes = 0;     ///< of the step's message
    Window window;               ///< the pass's, for blocks of the call's count
    std::vector<std::byte*> at;  ///< address of each operand in hand
    std::vector<char> offers;    ///< destination will be offered from memory
  };
  /// A message that was offered from memory and may still be read.
  struct Hold {
    const HostLink* link;
    std::uint64_t number;
    const std::byte* begin;
    const std::byte* end;
  };
  enum class Turn { moved, blocked, failed };

  void prepare();
  Turn advance(LaneState& lane, std::uint32_t index);
  bool may_begin_pass(const LaneState& lane) const;
  bool dependencies_hold(const LaneState& lane, const Step& step) const;
  void begin_step(LaneState& lane, const Step& step);
  Turn take_operands(LaneState& lane, const Step& step);
  Turn take_source(LaneState& lane, const Operand& operand, const Step& step);
  void grant(LaneState& lane, HostLink& link, const Step& step);
  Turn take_destination(LaneState& lane, const Operand& operand, const Step& step);
  void sweep(LaneState& lane, const Step& step);
  Turn hand_over(LaneState& lane, const Step& step);
  void retire(LaneState& lane, std::uint32_t index);
  Turn drain();
  Turn broken(const HostLink& link);

  Elements piece(const LaneState& lane, const Operand& operand, std::uint32_t index) const;
  Window window_of(std::uint64_t count, std::uint64_t pass) const;
  std::byte* address(const LaneState& lane, const Operand& operand, std::uint32_t index) const;
  bool contiguous(const Operand& operand) const { return operand.range.blocks == 1; }
  bool held(const std::byte* begin, std::uint64_t bytes);
  const std::byte* offer_source(const LaneState& lane, const Step& step) const;

  const Plan* plan_ = nullptr;
  const Program* program_ = nullptr;
  Binding binding_;
  FoldFunction fold_ = nullptr;
  std::span<HostLink* const> links_;
  std::uint64_t passes_ = 0;
  std::uint64_t element_ = 1;
  std::uint64_t unit_ = 1;  ///< what `fold_` counts in: elements, or bytes where it copies
  std::uint64_t divide_by_ = 0;
  std::uint64_t stream_from_ = 0;
  bool streams_ = false;
  bool needs_progress_ = false;
  int rank_ = 0;
  std::array<std::uint32_t, 3> blocks_{};  ///< of input, output and scratch
  std::vector<LaneState> lanes_;
  std::vector<Hold> holds_;
  std::vector<FoldSource> fold_sources_;
  std::vector<FoldDestination> fold_destinations_;
  Outcome outcome_;
};

}  // namespace tutti
