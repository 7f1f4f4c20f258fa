// Cases of collectives as tests draw them: every verb with every type, operator and division of its blocks, as the
// library's tables list them, against an independent referee: tutti-perf's data.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"
#include "perf/data.h"
#include "src/schedule/problem.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"
#include "tests/support/ranks.h"

namespace tutti::test {

inline constexpr std::byte kSentinel{0xa5};
inline constexpr std::size_t kGuard = 64;  ///< bytes behind each block that nobody may write

/// How long blocks are. `whole` is the verb without _v.
enum class Division { whole, even, skewed, zeros, one_has_all };
inline constexpr const char* kDivisions[] = {"one count", "even", "skewed", "zeros", "one has all"};

struct Case {
  Collective collective = Collective::all_reduce;
  tutti_type type = TUTTI_INT32;
  tutti_op op = TUTTI_SUM;
  Division division = Division::whole;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  bool registered = false;
  std::uint32_t seed = 0;

  std::string text() const {
    return std::string(name_of(collective)) + " of " + std::to_string(count) + " " + text_of(type) + ", " + text_of(op) +
           ", " + kDivisions[static_cast<int>(division)] + ", root " + std::to_string(root) +
           (in_place ? ", in place" : "") + (registered ? ", registered" : "") + ", seed " + std::to_string(seed);
  }
  Problem problem(int ranks) const {
    Problem problem;
    problem.collective = collective;
    problem.root = root;
    problem.ranks = ranks;
    return problem;
  }
  /// The length of what rank `from` has for rank `to`; where only one of them counts, `to` is 0.
  std::size_t length(int from, int to, int ranks) const {
    std::mt19937 random(seed + static_cast<std::uint32_t>(from * 64 + to));
    switch (division) {
      case Division::skewed:
        return count >> random() % 10;
      case Division::zeros:
        return random() % 2 == 0 ? 0 : count;
      case Division::one_has_all:
        return from == ranks - 1 && (to == 0 || to == ranks - 1) ? count : 0;
      default:
        return count;
    }
  }
  /// Elements of block `block` of a rank's buffer.
  std::size_t length_in(Buffer buffer, int rank, std::uint32_t block, int ranks) const {
    const int b = static_cast<int>(block);
    if (collective == Collective::all_to_all)
      return buffer == Buffer::input ? length(rank, b, ranks) : length(b, rank, ranks);
    const bool is_list = blocks_of(problem(ranks), buffer, rank) != 1 || ranks == 1;
    return length(is_list ? b : rank, 0, ranks);
  }
};

inline std::vector<tutti_type> types_of(Collective collective) {
  std::vector<tutti_type> types;
  for (const ElementTypeInfo& row : element_types) types.push_back(row.type);
  if (reduces(collective)) return types;
  for (const int bytes : {3, 24, 1000}) types.push_back(static_cast<tutti_type>(TUTTI_OPAQUE + bytes));
  return types;
}

/// Every case of a world; root and seed are drawn.
inline std::vector<Case> all_cases(int ranks) {
  std::mt19937 random(static_cast<unsigned>(ranks));
  std::vector<Case> cases;
  for (const CollectiveRow& row : collectives) {
    if (row.info.senders == Role::nobody) continue;
    for (const tutti_type type : types_of(row.collective)) {
      for (const OperatorInfo& op : operators) {
        if (row.info.reduces() ? !applies_to(op.op, type) : op.op != TUTTI_SUM) continue;
        for (const Division division :
             {Division::whole, Division::even, Division::skewed, Division::zeros, Division::one_has_all}) {
          if (division != Division::whole && row.info.v_variant == nullptr) continue;
          for (const std::size_t count : {0u, 1u, 7u, 1013u, 40'001u}) {
            for (const unsigned flags : {0u, 1u, 2u, 3u}) {
              const int root = static_cast<int>(random() % static_cast<unsigned>(ranks));
              cases.push_back({row.collective, type, op.op, division, count, row.info.rooted() ? root : 0, (flags & 1) != 0,
                               (flags & 2) != 0, static_cast<std::uint32_t>(random() % 1000)});
            }
          }
        }
      }
    }
  }
  return cases;
}

/// The referee.
class Referee {
 public:
  Referee(const Case& of, int ranks) : pattern_{of.type, of.op, reduces(of.collective), ranks, of.seed} {}
  void input(int rank, std::uint32_t block, std::size_t count, std::byte* to) const {
    perf::fill_input(pattern_, rank, first(block), count, to);
  }
  void folded(std::uint32_t block, std::size_t count, std::byte* to) const {
    perf::fill_folded(pattern_, first(block), count, to);
  }

 private:
  /// Blocks of any length have indices of their own.
  static std::uint64_t first(std::uint32_t block) { return std::uint64_t{block} << 40; }
  perf::Pattern pattern_;
};

/// Where a case's blocks lie.
class BlockMemory {
 public:
  virtual ~BlockMemory() = default;
  /// Memory for a block, with a guard behind it, full of sentinels.
  virtual std::byte* take(std::size_t bytes) = 0;
  virtual void write(void* to, const std::vector<std::byte>& bytes) = 0;
  virtual std::vector<std::byte> read(const void* from, std::size_t bytes) = 0;
  /// Whether nobody wrote a guard.
  virtual bool is_intact() = 0;
};

/// One rank's part of a case: its blocks, the call, and what must have come of it.
class RankCase {
 public:
  /// of, memory: outlive it.
  RankCase(const Case& of, int rank, int ranks, BlockMemory& memory)
      : of_(of), rank_(rank), ranks_(ranks), memory_(memory), referee_(of, ranks) {
    const Problem problem = of.problem(ranks);
    const Alias alias = of.in_place ? in_place_alias(problem, rank) : Alias{};
    lay_out(Buffer::input, input_);
    lay_out(Buffer::output, output_);
    if (of.division == Division::whole) {
      allocate_in_one_piece(alias);
    } else {
      allocate_apart(alias);
    }
    fill();
  }
  /// Gives the inputs what they hold before a call.
  void fill() {
    for (std::uint32_t b = 0; b < input_.size(); ++b) {
      std::vector<std::byte> bytes(bytes_of(input_[b]));
      referee_.input(rank_, b, input_[b].count, bytes.data());
      memory_.write(input_[b].ptr, bytes);
    }
  }

  tutti_status call(tutti_comm* comm, tutti_stream stream = {}, const tutti_call* options = nullptr) const {
    const tutti_block none{};
    const tutti_block& in = input_.empty() ? none : input_[0];
    const tutti_block& out = output_.empty() ? none : output_[0];
    if (of_.division == Division::whole)
      return call_verb(of_.collective, {in.ptr, out.ptr, of_.count, of_.type, of_.op, of_.root, comm, stream, options});
    const std::size_t own = length_of_own();
    switch (of_.collective) {
      case Collective::all_gather:
        return tutti_all_gather_v(in.ptr, own, output_.data(), of_.type, comm, stream, options);
      case Collective::reduce_scatter:
        return tutti_reduce_scatter_v(input_.data(), out.ptr, own, of_.type, of_.op, comm, stream, options);
      case Collective::all_to_all:
        return tutti_all_to_all_v(input_.data(), output_.data(), of_.type, comm, stream, options);
      case Collective::gather:
        return tutti_gather_v(in.ptr, own, output_.data(), of_.type, of_.root, comm, stream, options);
      default:
        return tutti_scatter_v(input_.data(), out.ptr, own, of_.type, of_.root, comm, stream, options);
    }
  }

  void check() {
    for (std::uint32_t b = 0; b < output_.size(); ++b) {
      std::vector<std::byte> right(bytes_of(output_[b]), kSentinel);
      const BlockOrigin origin = info_of(of_.collective).origin(rank_, ranks_, of_.root, b);
      if (origin.fold && ranks_ > 1) {
        referee_.folded(origin.block, output_[b].count, right.data());
      } else {
        referee_.input(origin.fold ? rank_ : origin.rank, origin.block, output_[b].count, right.data());
      }
      ASSERT_TRUE(memory_.read(output_[b].ptr, right.size()) == right)
          << of_.text() << ", rank " << rank_ << " of " << ranks_ << ", block " << b;
    }
    ASSERT_TRUE(memory_.is_intact()) << of_.text() << ", rank " << rank_;
  }

 private:
  void lay_out(Buffer buffer, std::vector<tutti_block>& blocks) const {
    const std::uint32_t count = blocks_of(of_.problem(ranks_), buffer, rank_);
    for (std::uint32_t b = 0; b < count; ++b) blocks.push_back({nullptr, of_.length_in(buffer, rank_, b, ranks_)});
  }
  std::size_t length_of_own() const { return of_.length(rank_, 0, ranks_); }
  std::size_t bytes_of(const tutti_block& block) const { return block.count * element_bytes(of_.type); }
  void place(std::vector<tutti_block>& blocks, std::byte* base) const {
    for (tutti_block& block : blocks) {
      block.ptr = base;
      base += bytes_of(block);
    }
  }
  void allocate_in_one_piece(const Alias& alias) {
    const std::size_t block = of_.count * element_bytes(of_.type);
    const std::size_t in = input_.size() * block, out = output_.size() * block;
    if (!alias.any) {
      place(input_, memory_.take(in));
      place(output_, memory_.take(out));
      return;
    }
    std::byte* const both = memory_.take(std::max(in, out));
    place(input_, both + (out > in ? alias.output_block * block : 0));
    place(output_, both + (out < in ? alias.input_block * block : 0));
  }
  void allocate_apart(const Alias& alias) {
    for (tutti_block& block : input_) block.ptr = memory_.take(bytes_of(block));
    for (std::size_t b = output_.size(); b-- > 0;) {
      const bool shares = alias.any && (b == alias.output_block || (alias.all && b > alias.output_block));
      const std::size_t with = alias.input_block + (b - alias.output_block);
      // In place where both are equally long.
      output_[b].ptr =
          shares && input_[with].count == output_[b].count ? input_[with].ptr : memory_.take(bytes_of(output_[b]));
    }
  }

  const Case& of_;
  const int rank_;
  const int ranks_;
  BlockMemory& memory_;
  const Referee referee_;
  std::vector<tutti_block> input_;
  std::vector<tutti_block> output_;
};

}  // namespace tutti::test
