#include "tests/support/referee.h"

#include <algorithm>
#include <vector>

#include "src/executors/simulator/simulator.h"
#include "src/schedule/layout.h"

namespace tutti::testing {
namespace {

using Number = std::uint64_t;
constexpr Number poison = 0xdeadbeefdeadbeefu;

/// Applies `combine` from left to right; the last touch is x → 3x + 1, so that it shows where it is missing or twice.
template <typename Combine>
void fold_with(const FoldArguments& fold, Combine combine) {
  for (std::uint64_t i = 0; i < fold.count; ++i) {
    Number all = 0;
    for (std::uint32_t s = 0; s < fold.source_count; ++s)
      all = combine(all, static_cast<const Number*>(fold.sources[s].data)[i]);
    if (fold.divide_by != 0) all = 3 * all + 1;
    for (std::uint32_t d = 0; d < fold.destination_count; ++d) static_cast<Number*>(fold.destinations[d].data)[i] = all;
  }
}
void add(const FoldArguments& fold) {
  fold_with(fold, [](Number a, Number b) { return a + b; });
}
/// A barrier's tokens are everybody's bit.
void unite(const FoldArguments& fold) {
  fold_with(fold, [](Number a, Number b) { return a | b; });
}

/// One rank's buffers.
struct Buffers {
  std::vector<Number> contribution;  ///< what the input held at first
  std::vector<Number> input, output, scratch;
  std::vector<std::uint64_t> input_begins, output_begins;  ///< of each block in its buffer, and the end
  std::vector<tutti_block> input_blocks, output_blocks;    ///< of an irregular problem
  std::uint64_t output_at = 0;                             ///< in place, the output may be a block of the input
  bool in_place = false;
};

/// One match.
class Field {
 public:
  Field(const Schedule& schedule, const Match& match, std::mt19937_64& random)
      : schedule_(schedule), plan_(schedule.plan), match_(match), random_(random) {
    Problem& problem = plan_.problem;
    barrier_ = problem.collective == Collective::barrier;
    problem.type = TUTTI_UINT64;
    problem.op = TUTTI_AVG;  // for its last touch
    problem.count = count_ = barrier_ ? 1 : match.count;
    for (int r = 0; r < problem.ranks; ++r) set_up(r);
  }

  std::string run() {
    SimulatorConfig config;
    config.view = flat_view(plan_.problem.ranks);
    config.credit = match_.credit;
    config.shared_processor = config.shared_ports = random_() % 4 == 0;
    config.fold = barrier_ ? unite : add;
    // Pauses of as much as twenty times a message's time.
    config.disturbance = {random_(), 20 * config.view.link(LinkClass::same_numa).alpha, match_.pulled, match_.put};
    for (Buffers& rank : ranks_) memory_.push_back(memory_of(rank));
    config.memory = memory_;
    std::vector<IrregularBuffers> irregular;
    if (plan_.problem.irregular) {
      for (std::size_t r = 0; r < ranks_.size(); ++r) irregular.push_back(blocks_of_rank(ranks_[r], memory_[r]));
    }
    config.irregular = irregular;
    const SimulatorReport report = simulate(plan_, schedule_.programs, config);
    if (report.verdict != SimulatorReport::Verdict::completed) return report.why;
    for (int r = 0; r < plan_.problem.ranks && error_.empty(); ++r) check(r);
    return error_;
  }

 private:
  bool chance(double share) { return std::uniform_real_distribution(0.0, 1.0)(random_) < share; }
  std::uint32_t blocks(int rank, Buffer buffer) const { return blocks_of(plan_.problem, buffer, rank); }

  /// Where a rank's blocks begin, one behind the other, and the end.
  std::vector<std::uint64_t> begins(int rank, Buffer buffer) const {
    std::vector<std::uint64_t> counts(blocks(rank, buffer), count_);
    if (plan_.problem.irregular) counts = match_.counts->of(plan_.problem, buffer, rank);
    std::vector<std::uint64_t> begins = {0};
    for (const std::uint64_t count : counts) begins.push_back(begins.back() + count);
    return begins;
  }

  void set_up(int rank) {
    Buffers& own = ranks_.emplace_back();
    own.input_begins = begins(rank, Buffer::input);
    own.output_begins = begins(rank, Buffer::output);
    const Alias alias = in_place_alias(plan_.problem, rank);
    // Blocks that become each other have one place: where there are several, they are equally long.
    own.in_place = chance(match_.in_place) && alias.any && (!alias.all || own.input_begins == own.output_begins);
    own.input.resize(own.input_begins.back());
    for (Number& number : own.input) number = random_();
    own.contribution = own.input;
    own.output.assign(own.output_begins.back(), poison);
    own.scratch.assign(scratch_bytes(plan_) / sizeof(Number), poison);
    if (barrier_ && !own.scratch.empty()) own.scratch[0] = Number{1} << (rank % 64);
    if (!own.in_place) return;
    // The smaller buffer is a block of the larger one, as in the API.
    if (is_within_input(own)) {
      own.output_at = own.input_begins[alias.input_block];
    } else {
      own.output_at = own.output_begins[alias.output_block];
      std::copy(own.input.begin(), own.input.end(), own.output.begin() + static_cast<std::ptrdiff_t>(own.output_at));
    }
  }
  static bool is_within_input(const Buffers& rank) { return rank.output_begins.size() < rank.input_begins.size(); }

  static std::vector<tutti_block> list_of(const std::byte* base, const std::vector<std::uint64_t>& begins) {
    std::vector<tutti_block> list;
    for (std::size_t b = 0; b + 1 < begins.size(); ++b) {
      auto* const at = const_cast<std::byte*>(base) + begins[b] * sizeof(Number);
      list.push_back({at, begins[b + 1] - begins[b]});
    }
    return list;
  }
  static IrregularBuffers blocks_of_rank(Buffers& rank, const RankMemory& memory) {
    rank.input_blocks = list_of(memory.input, rank.input_begins);
    rank.output_blocks = list_of(memory.output, rank.output_begins);
    return {rank.input_blocks, rank.output_blocks};
  }

  static RankMemory memory_of(Buffers& rank) {
    const auto bytes = [](Number* at) { return reinterpret_cast<std::byte*>(at); };
    RankMemory memory{bytes(rank.input.data()), bytes(rank.output.data()), bytes(rank.scratch.data())};
    if (rank.in_place && is_within_input(rank)) {
      memory.output = bytes(rank.input.data() + rank.output_at);
    } else if (rank.in_place) {
      memory.input = bytes(rank.output.data() + rank.output_at);
    }
    return memory;
  }

  void check(int rank) {
    const Buffers& own = ranks_[static_cast<std::size_t>(rank)];
    const std::string name = "rank " + std::to_string(rank);
    if (barrier_) {
      Number all = 0;
      for (int r = 0; r < plan_.problem.ranks; ++r) all |= Number{1} << (r % 64);
      if (own.scratch.empty() || own.scratch[0] != all) error_ = name + " did not hear of all";
      return;
    }
    const auto* output = reinterpret_cast<const Number*>(memory_[static_cast<std::size_t>(rank)].output);
    for (std::uint32_t b = 0; b < blocks(rank, Buffer::output); ++b) {
      const std::uint64_t begin = own.output_begins[b];
      for (std::uint64_t e = 0; e < own.output_begins[b + 1] - begin; ++e) {
        if (output[begin + e] == expected(rank, b, e)) continue;
        error_ = name + " ends with element " + std::to_string(e) + " of block " + std::to_string(b) + " wrong" +
                 (own.in_place ? " in place" : "");
        return;
      }
    }
  }

  Number expected(int rank, std::uint32_t block, std::uint64_t element) const {
    const Problem& problem = plan_.problem;
    const auto of = [&](int from, std::uint32_t b) {
      const Buffers& giver = ranks_[static_cast<std::size_t>(from)];
      return giver.contribution[giver.input_begins[b] + element];
    };
    const BlockOrigin from = info_of(problem.collective).origin(rank, problem.ranks, problem.root, block);
    if (!from.fold) return of(from.rank, from.block);
    Number sum = 0;
    for (int r = 0; r < problem.ranks; ++r) sum += of(r, from.block);
    return 3 * sum + 1;
  }

  const Schedule& schedule_;
  Plan plan_;
  Match match_;
  std::mt19937_64& random_;
  bool barrier_ = false;
  std::uint64_t count_ = 0;
  std::vector<Buffers> ranks_;
  std::vector<RankMemory> memory_;
  std::string error_;
};

}  // namespace

std::string referee(const Schedule& schedule, const Match& match, std::mt19937_64& random) {
  return Field(schedule, match, random).run();
}

}  // namespace tutti::testing
