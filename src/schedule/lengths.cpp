#include "src/schedule/lengths.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/schedule/layout.h"

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

/// Looks at programs, and keeps what their messages are.
class LengthCheck {
 public:
  explicit LengthCheck(const Plan& plan) : problem_(plan.problem), scratch_blocks_(plan.shape.scratch_blocks) {}

  /// Fault of a step of a program, whose place `where` says.
  std::string look_at(const Program& program, const Step& step, const Fault& where) {
    const Operand* const sizing = block_operand(program, step);
    if (sizing == nullptr) return "moves no block of the input or output, so that nothing tells how long it is";
    const Lengths lengths = lengths_of(problem_, where.rank, *sizing);
    for (std::uint32_t o = step.operands; o < step.operands + step.sources + step.destinations; ++o) {
      const Operand& operand = program.operands[o];
      if (operand.place == Place::scratch) {
        if (!agrees_with_scratch(operand.range, where.rank, lengths))
          return "takes what lies in the scratch to have another length than another step does";
      } else if (operand.place == Place::link) {
        const Link& link = program.links[operand.link];
        auto& ends =
            link.sends ? sent_[{where.rank, link.peer, link.channel}] : taken_[{link.peer, where.rank, link.channel}];
        ends.push_back({where, lengths});
      } else if (lengths_of(problem_, where.rank, operand) != lengths) {
        return "has operands in blocks whose lengths a call may make different";
      }
    }
    return {};
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
  /// Whether all steps take a scratch chunk to have the same length. That is more than is needed, and simple.
  bool agrees_with_scratch(const Range& range, int rank, const Lengths& lengths) {
    for (std::uint32_t i = 0; i < range.blocks; ++i) {
      const std::uint32_t block = range.block_at(i, scratch_blocks_);
      for (std::uint32_t c = range.chunk; c < range.chunk + range.chunks; ++c) {
        if (scratch_.emplace(std::tuple(rank, block, c), lengths[i]).first->second != lengths[i]) return false;
      }
    }
    return true;
  }

  using LinkName = std::tuple<int, int, std::uint32_t>;  ///< sender, receiver, channel

  const Problem& problem_;
  const std::uint32_t scratch_blocks_;
  std::map<std::tuple<int, std::uint32_t, std::uint32_t>, std::uint64_t> scratch_;  ///< by rank, block and chunk
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
  Fault fault;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    const Program& program = programs[r];
    for (std::size_t l = 0; l < program.lanes.size(); ++l) {
      for (std::uint32_t s = 0; s < program.lanes[l].count; ++s) {
        const Fault where = {static_cast<int>(r), static_cast<std::int64_t>(l), s};
        const std::string what = check.look_at(program, program.steps[program.lanes[l].first + s], where);
        if (what.empty()) continue;
        fault = where;
        fault.what = what;
        return fault;
      }
    }
  }
  return check.compare();
}

}  // namespace tutti
