#include "src/communicator/plan_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "algorithms/algorithm.h"
#include "src/base/link_shape.h"
#include "src/base/saturating.h"
#include "src/executors/cuda/launch.h"
#include "src/reduction/reduction.h"
#include "src/reduction/user_fold.h"
#include "src/tables/operators.h"

namespace tutti {
namespace {

/// Up to so many ranks a program is looked at beside those of its peers: building them takes each rank time and memory.
constexpr int most_looked_at = 32;
/// So many plans are kept.
constexpr std::size_t most_plans = 4096;

/// Whether a device's messages tell of themselves: where a trip takes longer than the data. A barrier has no data. What is
/// folded has room in a line. Where ranks know no counts but their own, blocks may be long.
bool goes_by_lines(const Problem& problem) {
  if (problem.irregular && !info_of(problem.collective).knows_all_counts()) return false;
  return problem.processor == Processor::cuda && problem.collective != Collective::barrier &&
         bytes_of(problem.count, problem.type) <= line_message_bytes / problem.local_operands &&
         std::uint64_t{1} << unit_shift(problem) <= line_data_bytes;
}

/// Why a call that names a file, which is for its collective, ranks and root, does not run by it.
Status refused_file(const Problem& problem, const std::string& name) {
  const char* const remedy = "Leave the algorithm unset.";
  if (problem.irregular) {
    return {
        TUTTI_INVALID_ARGUMENT,
        fmt::format("{} cannot be done by \"{}\", a file whose chunks are those of equal blocks", kind_of(problem), name),
        remedy};
  }
  return {TUTTI_INVALID_ARGUMENT,
          fmt::format("{} in one fold, which is reproducible, rounds once and keeps the order of ranks, cannot be done by "
                      "\"{}\", a file that folds in an order of its own",
                      kind_of(problem), name),
          remedy};
}

}  // namespace

std::size_t ProblemHash::operator()(const Problem& problem) const {
  const std::uint64_t shape =
      static_cast<std::uint64_t>(problem.collective) | static_cast<std::uint64_t>(problem.type) << 8 |
      static_cast<std::uint64_t>(problem.op) << 24 | static_cast<std::uint64_t>(problem.root) << 40 |
      static_cast<std::uint64_t>(problem.processor) << 7 | (problem.irregular ? std::uint64_t{1} << 6 : 0) |
      (problem.one_fold ? std::uint64_t{1} << 5 : 0);
  // splitmix64's finaliser: every bit of both in every bit of the result.
  std::uint64_t x = shape + 0x9e3779b97f4a7c15u * (problem.count + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

const PreparedPlan* PlanCache::find_in_table(const Problem& problem, const std::string& wish) {
  last_ = nullptr;
  if (wish != last_wish_) return nullptr;
  const auto found = plans_.find(problem);
  if (found != plans_.end()) last_ = &found->second;
  return last_;
}

Result<const PreparedPlan*> PlanCache::make(const Problem& problem, const std::string& wish) {
  if (wish != last_wish_ || plans_.size() >= most_plans) plans_.clear();
  last_ = nullptr;
  auto choice = choose(problem, wish);
  if (!choice.ok()) return choice.status();
  PreparedPlan made;
  made.algorithm = choice->name;
  made.name = KindName(problem.irregular ? info_of(problem.collective).v_variant : name_of(problem.collective));
  made.algorithm_name = KindName(choice->name);
  made.fold = !combines(problem.collective) ? find_copy()
              : problem.op == user_operator ? find_user_fold()
                                            : find_fold(problem.type, problem.op);
  made.scratch = scratch_bytes(choice->plan);
  made.linked = link_program(*choice);
  made.plan = std::move(choice->plan);
  if (!problem.irregular) made.layouts = lay_out_for_host(made.plan, inputs_.rank, made.linked->lowered);
  last_wish_ = wish;
  last_ = &plans_.emplace(problem, std::move(made)).first->second;
  return last_;
}

void PlanCache::clear() {
  linked_.clear();
  plans_.clear();
  last_ = nullptr;
}

/// The program of a choice, lowered with the first plan that needs it.
std::shared_ptr<LinkedProgram> PlanCache::link_program(const PlanChoice& choice) {
  const Problem& problem = choice.plan.problem;
  auto& linked =
      linked_[fmt::format("{} {} {} {}", name_of(problem.collective), problem.root, problem.local_operands, choice.key)];
  if (linked == nullptr) {
    linked = std::make_shared<LinkedProgram>();
    linked->lowered = lower(choice.plan, inputs_.rank, choice.program_of(inputs_.rank),
                            problem.ranks <= most_looked_at ? choice.program_of : ProgramOf(),
                            Cores{inputs_.view.oversubscription > 1, inputs_.view.core});
  }
  return linked;
}

/// A file's chunks may join blocks, and nobody has looked in which order it folds.
bool PlanCache::files_serve(const Problem& problem) { return !problem.irregular && !problem.one_fold; }

/// The file that a call runs by; nullptr where none does.
const MscclAlgorithm* PlanCache::file_for(const Problem& problem, const std::string& wish) const {
  const std::uint64_t bytes = bytes_of(problem.count, problem.type);
  if (!files_serve(problem)) return nullptr;
  const bool overridden = wish.empty() && !inputs_.overrides.find(problem.collective, bytes).empty();
  return overridden ? nullptr : inputs_.files.msccl.find(problem, wish);
}

Result<Candidate> PlanCache::candidate_for(const Problem& problem, const std::string& wish) const {
  return select(problem, inputs_.view, inputs_.overrides, wish, inputs_.lanes, inputs_.files.tuning);
}

Result<double> PlanCache::expected_seconds(const Problem& problem, const std::string& wish) const {
  const auto candidate = candidate_for(problem, file_for(problem, wish) != nullptr ? std::string() : wish);
  if (!candidate.ok()) return candidate.status();
  return candidate->seconds;
}

Result<PlanChoice> PlanCache::choose(const Problem& problem, const std::string& wish) const {
  if (const MscclAlgorithm* const file = file_for(problem, wish); file != nullptr) {
    return PlanChoice{file->plan(problem, link_slot_bytes), file->name.c_str(),
                      [file](int r) { return file->programs[static_cast<std::size_t>(r)]; },
                      fmt::format("{} {:x}", file->name, file->digest)};
  }
  const bool names_a_file = !wish.empty() && inputs_.files.msccl.find(problem, wish) != nullptr;
  if (names_a_file && !files_serve(problem)) return refused_file(problem, wish);
  auto candidate = candidate_for(problem, wish);
  if (!candidate.ok()) return candidate.status();
  const Algorithm* const algorithm = candidate->algorithm;
  const bool by_lines = goes_by_lines(problem);
  candidate->parameters.protocol = by_lines ? Protocol::lines : Protocol::messages;
  Plan plan =
      make_plan(*algorithm, problem, inputs_.view, candidate->parameters, by_lines ? line_message_bytes : link_slot_bytes);
  if (problem.ranks > 1 && !problem.irregular && longest_message(plan) > plan.message_bytes) {
    return Status(
        TUTTI_INVALID_ARGUMENT,
        fmt::format("{} by {} on {} ranks would have messages of {} bytes, and a link takes {}",
                    name_of(problem.collective), algorithm->name, problem.ranks, longest_message(plan), plan.message_bytes),
        "Pass shorter elements, or fewer operands a rank.");
  }
  std::string key = fmt::format("{} {}", algorithm->name, plan.shape.chunks);
  ProgramOf program_of = [this, algorithm, plan](int r) { return make_program(*algorithm, plan, inputs_.view, r); };
  return PlanChoice{std::move(plan), algorithm->name, std::move(program_of), std::move(key)};
}

std::vector<AlgorithmUpTo> PlanCache::algorithms_by_size(Problem problem) const {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  const std::uint64_t element = bytes_of(1, problem.type);
  std::vector<AlgorithmUpTo> by_size;
  for (std::uint64_t bytes = 8; bytes <= most; bytes *= 2) {
    if (problem.collective != Collective::barrier) problem.count = std::max<std::uint64_t>(1, bytes / element);
    if (const MscclAlgorithm* const file = file_for(problem, ""); file != nullptr) {
      by_size.push_back({bytes, file->name});
    } else if (const auto candidate = candidate_for(problem, ""); candidate.ok()) {
      by_size.push_back({bytes, candidate->algorithm->name});
    }
  }
  return by_size;
}

}  // namespace tutti
