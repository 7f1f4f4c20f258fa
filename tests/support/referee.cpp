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
  std::uint64_t output_at = 0;  ///< in place, the output may be a block of the input
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
    const SimulatorReport report = simulate(plan_, schedule_.programs, config);
    if (report.verdict != SimulatorReport::Verdict::completed) return report.why;
    for (int r = 0; r < plan_.problem.ranks && error_.empty(); ++r) check(r);
    return error_;
  }

 private:
  bool chance(double share) { return std::uniform_real_distribution(0.0, 1.0)(random_) < share; }
  std::uint32_t blocks(int rank, Buffer buffer) const { return blocks_of(plan_.problem, buffer, rank); }

  void set_up(int rank) {
    Buffers& own = ranks_.emplace_back();
    own.in_place = chance(match_.in_place) && in_place_alias(plan_.problem, rank).any;
    own.input.resize(blocks(rank, Buffer::input) * count_);
    for (Number& number : own.input) number = random_();
    own.contribution = own.input;
    own.output.assign(blocks(rank, Buffer::output) * count_, poison);
    own.scratch.assign(scratch_bytes(plan_) / sizeof(Number), poison);
    if (barrier_ && !own.scratch.empty()) own.scratch[0] = Number{1} << (rank % 64);
    if (!own.in_place) return;
    // The smaller buffer is a block of the larger one, as in the API.
    const Alias alias = in_place_alias(plan_.problem, rank);
    if (own.output.size() < own.input.size()) {
      own.output_at = alias.input_block * count_;
    } else {
      std::copy(own.input.begin(), own.input.end(), own.output.begin() + offset(alias.output_block));
      own.output_at = alias.output_block * count_;
    }
  }

  static RankMemory memory_of(Buffers& rank) {
    const auto bytes = [](Number* at) { return reinterpret_cast<std::byte*>(at); };
    RankMemory memory{bytes(rank.input.data()), bytes(rank.output.data()), bytes(rank.scratch.data())};
    if (rank.in_place && rank.output.size() < rank.input.size()) {
      memory.output = bytes(rank.input.data() + rank.output_at);
    } else if (rank.in_place) {
      memory.input = bytes(rank.output.data() + rank.output_at);
    }
    return memory;
  }

  std::ptrdiff_t offset(std::uint32_t block) const { return static_cast<std::ptrdiff_t>(block * count_); }

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
      for (std::uint64_t e = 0; e < count_; ++e) {
        if (output[b * count_ + e] == expected(rank, b, e)) continue;
        error_ = name + " ends with element " + std::to_string(e) + " of block " + std::to_string(b) + " wrong" +
                 (own.in_place ? " in place" : "");
        return;
      }
    }
  }

  Number expected(int rank, std::uint32_t block, std::uint64_t element) const {
    const Problem& problem = plan_.problem;
    const auto of = [&](int from, std::uint32_t b) {
      return ranks_[static_cast<std::size_t>(from)].contribution[b * count_ + element];
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
