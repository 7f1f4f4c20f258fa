// What an MSCCL file means: every rank's steps run on symbolic chunks, so that it is known of each what it moves.
//
// MSCCL's chunks are all of one size, so a file may lay any of them anywhere. Ours are cut from a block's window, and the
// last may be short: chunk 3 of a block only fits the place of a chunk 3. The run finds out which chunk of its block every
// piece of data is, where it comes from, and in which step a fold has every rank's share; msccl_programs.h writes that
// down. What is wrong is found here, where it can be said in the file's own terms; the verifier still has the last word.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/msccl_file.h"

namespace tutti::msccl {

/// One rank's memory as a file sees it, numbered: input, output, scratch. Where a file is right in place only, a chunk that
/// is input and output at once has one number, the output's.
class Locations {
 public:
  /// of_block: chunks of a block. problem: with its root. aliased: the file is right in place only.
  Locations(const Problem& problem, int rank, const Gpu& gpu, std::uint32_t of_block, bool aliased);

  std::uint32_t size() const { return end_; }
  std::uint32_t number(Buffer buffer, std::uint32_t chunk) const;
  /// Whether a step copies every chunk onto itself, as it may where input is output: it then does nothing.
  bool copies_onto_itself(const Step& step) const;
  /// Where a number belongs.
  Place place(std::uint32_t location) const;
  /// The chunk of the caller's input that is there in the beginning. location: such a one.
  std::uint32_t initial_chunk(std::uint32_t location) const;
  bool is_output(Place place) const { return place.buffer == Buffer::output && place.chunk < outputs_; }
  std::uint32_t inputs() const { return inputs_; }
  std::uint32_t outputs() const { return outputs_; }

 private:
  std::uint32_t of_block_;
  std::uint32_t inputs_ = 0;   ///< chunks that the caller gives
  std::uint32_t outputs_ = 0;  ///< chunks that the caller gets
  std::uint32_t output_ = 0;   ///< number of output chunk 0
  std::uint32_t scratch_ = 0;
  std::uint32_t end_ = 0;
  Alias alias_;
  bool swapped_ = false;  ///< output chunks are input chunks: a rank of a reduce whose output nobody wants
};

/// A chunk of data where it lies: at its location since the beginning, or written there. `chunk` counts within a block.
struct Version {
  std::uint32_t location = 0;
  std::uint32_t chunk = 0;
  bool initial = false;
  bool operator==(const Version&) const = default;
};

/// What an action does with one of its chunks. Operands are the message, where there is one, then the sources.
struct FlowCell {
  std::uint32_t chunk = 0;
  bool complete = false;             ///< the fold has every rank's share now
  std::vector<std::uint16_t> order;  ///< the operands as they are folded: that of the lowest rank first
  std::vector<Version> sources;
  Version destination;  ///< where the action writes
};

struct Wait {
  std::uint32_t block = 0;
  std::uint32_t action = 0;
  auto operator<=>(const Wait&) const = default;
};

inline constexpr std::uint32_t nothing = UINT32_MAX;

/// A step of a thread block, or several folds into the same place that follow each other, which are one. Nops are none.
struct FlowAction {
  std::uint32_t first_step = 0;  ///< of the file
  std::uint32_t last_step = 0;
  StepType type = StepType::nop;
  std::uint32_t count = 0;
  std::vector<Place> sources;  ///< first chunks
  Place destination;
  std::uint32_t received = nothing;  ///< number of the message among all of the file
  std::uint32_t sent = nothing;
  std::uint64_t time = 0;       ///< in an order in which all actions of all ranks may run
  std::vector<Wait> waits;      ///< for other thread blocks' actions, but those that the thread block waited for before
  std::vector<FlowCell> cells;  ///< count of them
};

/// One end each of a message.
struct FlowTransfer {
  std::uint32_t from = 0, from_block = 0, from_action = 0;
  std::uint32_t to = 0, to_block = 0, to_action = 0;
  std::uint32_t channel = 0;
};

/// The meaning of a file. Plain data.
struct Flow {
  Problem problem;             ///< collective, ranks and root; the rest is nominal
  std::uint32_t of_block = 1;  ///< chunks of a block
  bool aliased = false;
  std::vector<Locations> locations;                           ///< by rank
  std::vector<std::vector<std::vector<FlowAction>>> actions;  ///< by rank and thread block
  std::vector<FlowTransfer> transfers;
  std::vector<std::vector<bool>> written;  ///< by rank and output chunk: whether any step writes it as the output
};

/// Runs a file whose root, where it has one, is `root`. Errors: TUTTI_INVALID_ARGUMENT, a sentence that names rank, thread
/// block and step: two steps that race, a message without its other end, a wait for ever, memory that nobody wrote, a
/// rank's share twice, a wrong result. Pure.
Result<Flow> follow(const File& file, int root);

/// The roots that a rooted file may be right with, ascending, found in one run in which every rank has the memory of a
/// root: the rank whose input rank 0 ends with, or those that end with what a root is to get. `follow` says whether it is
/// right with one of them; it is with no other (unless some rank keeps different things where a root's buffers would be
/// one). Errors: as follow's. Pure.
Result<std::vector<int>> find_roots(const File& file);

}  // namespace tutti::msccl
