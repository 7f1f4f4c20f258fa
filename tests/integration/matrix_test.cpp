// Every verb with every type, operator and division of its blocks, as the library's tables list them, against an
// independent referee: tutti-perf's data.
//
// The quick test takes a sample by a seed, TEST_SEED. With TEST_WHOLE=1 every case is taken (docs/verification.md).
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "perf/data.h"
#include "src/schedule/problem.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitizers.h"

namespace tutti::test {
namespace {

constexpr std::byte kSentinel{0xa5};
constexpr std::size_t kGuard = 64;  ///< bytes behind each block that nobody may write
/// Of a world; calls take many times as long under the sanitizers.
constexpr std::size_t kQuickCases = under_tsan || under_asan ? 60 : 250;

/// How long blocks are. `whole` is the verb without _v.
enum class Division { whole, even, skewed, zeros, one_has_all };
constexpr const char* kDivisions[] = {"one count", "even", "skewed", "zeros", "one has all"};

struct World {
  int ranks;
  const char* transports;
};

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

std::vector<tutti_type> types_of(Collective collective) {
  std::vector<tutti_type> types;
  for (const ElementTypeInfo& row : element_types) types.push_back(row.type);
  if (reduces(collective)) return types;
  for (const int bytes : {3, 24, 1000}) types.push_back(static_cast<tutti_type>(TUTTI_OPAQUE + bytes));
  return types;
}

/// Every case of a world; root and seed are drawn.
std::vector<Case> all_cases(int ranks) {
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

std::vector<Case> cases_of(int ranks) {
  std::vector<Case> cases = all_cases(ranks);
  if (std::getenv("TEST_WHOLE") != nullptr) return cases;
  const char* const given = std::getenv("TEST_SEED");
  std::mt19937 random(given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : 1);
  std::vector<Case> sample;
  for (std::size_t n = 0; n < kQuickCases; ++n) sample.push_back(cases[random() % cases.size()]);
  return sample;
}

/// The referee, which knows opaque elements as bytes.
class Referee {
 public:
  Referee(const Case& of, int ranks) : unit_(is_opaque(of.type) ? element_bytes(of.type) : 1) {
    pattern_ = {is_opaque(of.type) ? TUTTI_UINT8 : of.type, of.op, reduces(of.collective), ranks, of.seed};
  }
  void input(int rank, std::uint32_t block, std::size_t count, std::byte* to) const {
    perf::fill_input(pattern_, rank, first(block), count * unit_, to);
  }
  void folded(std::uint32_t block, std::size_t count, std::byte* to) const {
    perf::fill_folded(pattern_, first(block), count * unit_, to);
  }

 private:
  /// Blocks of any length have indices of their own.
  static std::uint64_t first(std::uint32_t block) { return std::uint64_t{block} << 40; }
  perf::Pattern pattern_;
  std::size_t unit_;
};

/// Bytes with a guard behind them.
class Memory {
 public:
  Memory(std::size_t bytes, bool registered) : bytes_(bytes), plain_(registered ? 0 : bytes + kGuard) {
    if (registered) {
      EXPECT_EQ(tutti_memory_alloc(&memory_, bytes + kGuard), TUTTI_SUCCESS) << last_error();
    }
    std::memset(data(), std::to_integer<int>(kSentinel), bytes + kGuard);
  }
  ~Memory() { EXPECT_EQ(tutti_memory_free(memory_), TUTTI_SUCCESS); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() { return memory_ != nullptr ? static_cast<std::byte*>(memory_) : plain_.data(); }
  bool is_intact() {
    return std::all_of(data() + bytes_, data() + bytes_ + kGuard, [](std::byte b) { return b == kSentinel; });
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> plain_;
  void* memory_ = nullptr;
};

/// One rank's part of a case: its blocks, the call, and what must have come of it.
class RankCase {
 public:
  RankCase(const Case& of, int rank, int ranks) : of_(of), rank_(rank), ranks_(ranks), referee_(of, ranks) {
    const Problem problem = of.problem(ranks);
    const Alias alias = of.in_place ? in_place_alias(problem, rank) : Alias{};
    lay_out(Buffer::input, input_);
    lay_out(Buffer::output, output_);
    if (of.division == Division::whole) {
      allocate_in_one_piece(alias);
    } else {
      allocate_apart(alias);
    }
    for (std::uint32_t b = 0; b < input_.size(); ++b)
      referee_.input(rank, b, input_[b].count, static_cast<std::byte*>(input_[b].ptr));
  }

  tutti_status call(tutti_comm* comm) const {
    const tutti_block none{};
    const tutti_block& in = input_.empty() ? none : input_[0];
    const tutti_block& out = output_.empty() ? none : output_[0];
    if (of_.division == Division::whole)
      return call_verb(of_.collective, {in.ptr, out.ptr, of_.count, of_.type, of_.op, of_.root, comm, {}, nullptr});
    const std::size_t own = length_of_own();
    switch (of_.collective) {
      case Collective::all_gather:
        return tutti_all_gather_v(in.ptr, own, output_.data(), of_.type, comm, {}, nullptr);
      case Collective::reduce_scatter:
        return tutti_reduce_scatter_v(input_.data(), out.ptr, own, of_.type, of_.op, comm, {}, nullptr);
      case Collective::all_to_all:
        return tutti_all_to_all_v(input_.data(), output_.data(), of_.type, comm, {}, nullptr);
      case Collective::gather:
        return tutti_gather_v(in.ptr, own, output_.data(), of_.type, of_.root, comm, {}, nullptr);
      default:
        return tutti_scatter_v(input_.data(), out.ptr, own, of_.type, of_.root, comm, {}, nullptr);
    }
  }

  void check() {
    std::vector<std::byte> right;
    for (std::uint32_t b = 0; b < output_.size(); ++b) {
      const std::size_t bytes = output_[b].count * element_bytes(of_.type);
      right.assign(bytes, kSentinel);
      const BlockOrigin origin = info_of(of_.collective).origin(rank_, ranks_, of_.root, b);
      if (origin.fold && ranks_ > 1) {
        referee_.folded(origin.block, output_[b].count, right.data());
      } else {
        referee_.input(origin.fold ? rank_ : origin.rank, origin.block, output_[b].count, right.data());
      }
      ASSERT_TRUE(bytes == 0 || std::memcmp(right.data(), output_[b].ptr, bytes) == 0)
          << of_.text() << ", rank " << rank_ << " of " << ranks_ << ", block " << b;
    }
    for (const auto& memory : memory_) ASSERT_TRUE(memory->is_intact()) << of_.text() << ", rank " << rank_;
  }

 private:
  void lay_out(Buffer buffer, std::vector<tutti_block>& blocks) const {
    const std::uint32_t count = blocks_of(of_.problem(ranks_), buffer, rank_);
    for (std::uint32_t b = 0; b < count; ++b) blocks.push_back({nullptr, of_.length_in(buffer, rank_, b, ranks_)});
  }
  std::size_t length_of_own() const { return of_.length(rank_, 0, ranks_); }
  std::byte* take(std::size_t bytes) {
    memory_.push_back(std::make_unique<Memory>(bytes, of_.registered));
    return memory_.back()->data();
  }
  void place(std::vector<tutti_block>& blocks, std::byte* base) const {
    for (tutti_block& block : blocks) {
      block.ptr = base;
      base += block.count * element_bytes(of_.type);
    }
  }
  void allocate_in_one_piece(const Alias& alias) {
    const std::size_t block = of_.count * element_bytes(of_.type);
    const std::size_t in = input_.size() * block, out = output_.size() * block;
    if (!alias.any) {
      place(input_, take(in));
      place(output_, take(out));
      return;
    }
    std::byte* const both = take(std::max(in, out));
    place(input_, both + (out > in ? alias.output_block * block : 0));
    place(output_, both + (out < in ? alias.input_block * block : 0));
  }
  void allocate_apart(const Alias& alias) {
    const std::size_t element = element_bytes(of_.type);
    for (tutti_block& block : input_) block.ptr = take(block.count * element);
    for (std::size_t b = output_.size(); b-- > 0;) {
      const bool shares = alias.any && (b == alias.output_block || (alias.all && b > alias.output_block));
      const std::size_t with = alias.input_block + (b - alias.output_block);
      // In place where both are equally long.
      output_[b].ptr =
          shares && input_[with].count == output_[b].count ? input_[with].ptr : take(output_[b].count * element);
    }
  }

  const Case& of_;
  const int rank_;
  const int ranks_;
  const Referee referee_;
  std::vector<tutti_block> input_;
  std::vector<tutti_block> output_;
  std::vector<std::unique_ptr<Memory>> memory_;
};

class Matrix : public testing::TestWithParam<World> {};

TEST_P(Matrix, IsRightByAnIndependentReferee) {
  const Ranks ranks(GetParam().ranks, GetParam().transports);
  const std::vector<Case> cases = cases_of(ranks.size());
  ranks.run([&](int rank, tutti_comm* comm) {
    for (const Case& each : cases) {
      RankCase part(each, rank, ranks.size());
      ASSERT_EQ(part.call(comm), TUTTI_SUCCESS) << each.text() << ": " << last_error();
      ASSERT_NO_FATAL_FAILURE(part.check());
    }
  });
  std::printf("%zu calls\n", cases.size());
}

INSTANTIATE_TEST_SUITE_P(Worlds, Matrix,
                         testing::Values(World{1, "shm"}, World{2, "shm"}, World{2, "tcp"}, World{3, "shm"},
                                         World{3, "tcp"}, World{4, "shm"}, World{4, "tcp"}, World{5, "shm"},
                                         World{5, "tcp"}, World{7, "shm"}, World{7, "tcp"}, World{8, "shm"},
                                         World{8, "tcp"}),
                         [](const testing::TestParamInfo<World>& of) {
                           return std::to_string(of.param.ranks) + "Over" + of.param.transports;
                         });

}  // namespace
}  // namespace tutti::test
