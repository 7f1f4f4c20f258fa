#include "src/schedule/lengths.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/schedule/layout.h"
#include "src/schedule/step_order.h"

namespace tutti {
namespace {

/// The numbers of a range's blocks, in its order.
using Lengths = std::vector<std::uint64_t>;

Lengths lengths_of(const Problem& problem, int rank, const Operand& operand) {
  const auto buffer = static_cast<Buffer>(operand.place);
  const std::uint32_t total = blocks_of(problem, buffer, rank);
  Lengths lengths;
  for (std::uint32_t i = 0; i < operand.range.blocks; ++i) {
    lengths.push_back(length_number(problem, buffer, rank, operand.range.block_at(i, total)));
  }
  return lengths;
}

/// A message, as one of its ends sees it.
struct LinkEnd {
  Fault where;  ///< without words
  Lengths lengths;
};

/// The scratch of one rank in one pass. Passes that are under way at once have copies of it, and each finds its copy
/// unwritten.
class ScratchLengths {
 public:
  explicit ScratchLengths(const Shape& shape) : shape_(shape) {}

  void begin_rank() { blocks_.clear(); }

  /// Empty where what is read has the length that its last writer gave it.
  std::string read(const Range& range, const Lengths& lengths) { return touch(range, lengths, false); }
  std::string write(const Range& range, const Lengths& lengths) { return touch(range, lengths, true); }

 private:
  struct Block {
    std::uint64_t length = 0;  ///< that the last writer gave it
    bool varies = false;       ///< an earlier one gave it another
    bool in_parts = false;     ///< some step touched not all of its chunks
  };

  std::string touch(const Range& range, const Lengths& lengths, bool writes) {
    for (std::uint32_t i = 0; i < range.blocks; ++i) {
      const auto [found, is_new] = blocks_.try_emplace(range.block_at(i, shape_.scratch_blocks), Block{lengths[i]});
      Block& block = found->second;
      if (!writes && (is_new || block.length != lengths[i]))
        return "reads scratch with another length than it was written with";
      block.varies = block.varies || block.length != lengths[i];
      block.in_parts = block.in_parts || range.chunks != shape_.chunks;
      block.length = lengths[i];
      // A chunk of a short block begins where another chunk of a long one lies.
      if (block.varies && block.in_parts)
        return "touches a block of the scratch that has several lengths in turn, and is not always touched whole";
    }
    return {};
  }

  const Shape& shape_;
  std::map<std::uint32_t, Block> blocks_;  ///< that were written
};

/// Looks at programs, and keeps what their messages are.
class LengthCheck {
 public:
  explicit LengthCheck(const Plan& plan) : problem_(plan.problem), scratch_(plan.shape) {}

  /// The first fault of a rank's steps, in an order that its waits allow: each read sees the write that it sees in a run.
  Fault look_at(int rank, const Program& program) {
    Fault fault;
    scratch_.begin_rank();
    visit_in_order(program, [&](std::uint32_t lane, std::uint32_t step) {
      const Fault where = {rank, lane, step};
      fault = where;
      fault.what = fault_of(program, program.steps[program.lanes[lane].first + step], where);
      return !fault.any();
    });
    return fault.any() ? fault : Fault{};
  }

  /// Both ends of each message.
  Fault compare() const {
    for (const auto& [link, messages] : sent_) {
      const auto found = taken_.find(link);
      for (std::size_t m = 0; found != taken_.end() && m < std::min(messages.size(), found->second.size()); ++m) {
        if (messages[m].lengths == found->second[m].lengths) continue;
        Fault fault = found->second[m].where;
        fault.what = "takes a message from rank " + std::to_string(std::get<0>(link)) +
                     ", which may be longer or shorter there: the two have other blocks in mind";
        return fault;
      }
    }
    return {};
  }

 private:
  /// Of a step of a program, whose place `where` says.
  std::string fault_of(const Program& program, const Step& step, const Fault& where) {
    const Operand* const sizing = block_operand(program, step);
    if (sizing == nullptr) return "moves no block of the input or output, so that nothing tells how long it is";
    const Lengths lengths = lengths_of(problem_, where.rank, *sizing);
    std::string fault;
    for (std::uint32_t o = 0; fault.empty() && o < std::uint32_t{step.sources} + step.destinations; ++o) {
      const Operand& operand = program.operands[step.operands + o];
      if (operand.place == Place::scratch) {
        fault = o < step.sources ? scratch_.read(operand.range, lengths) : scratch_.write(operand.range, lengths);
      } else if (operand.place == Place::link) {
        const Link& link = program.links[operand.link];
        auto& ends =
            link.sends ? sent_[{where.rank, link.peer, link.channel}] : taken_[{link.peer, where.rank, link.channel}];
        ends.push_back({where, lengths});
      } else if (lengths_of(problem_, where.rank, operand) != lengths) {
        fault = "has operands in blocks whose lengths a call may make different";
      }
    }
    return fault;
  }

  using LinkName = std::tuple<int, int, std::uint32_t>;  ///< sender, receiver, channel

  const Problem& problem_;
  ScratchLengths scratch_;
  std::map<LinkName, std::vector<LinkEnd>> sent_;
  std::map<LinkName, std::vector<LinkEnd>> taken_;
};

}  // namespace

std::uint64_t length_number(const Problem& problem, Buffer buffer, int rank, std::uint32_t block) {
  const CollectiveInfo& info = info_of(problem.collective);
  std::uint64_t giver = static_cast<std::uint64_t>(rank);
  std::uint64_t index = block;
  if (buffer == Buffer::output) {
    const BlockOrigin origin = info.origin(rank, problem.ranks, problem.root, block);
    giver = static_cast<std::uint64_t>(origin.rank);
    index = origin.block;
  }
  // Where receivers take blocks of their own, a block is as long as its receiver says; else as its giver does.
  if (!info.has_send_blocks()) return giver;
  if (!info.has_recv_blocks()) return index;
  return giver * static_cast<std::uint64_t>(problem.ranks) + index;
}

Fault check_lengths(const Plan& plan, std::span<const Program> programs) {
  LengthCheck check(plan);
  for (std::size_t r = 0; r < programs.size(); ++r) {
    if (Fault fault = check.look_at(static_cast<int>(r), programs[r]); fault.any()) return fault;
  }
  return check.compare();
}

}  // namespace tutti
