#include "src/executors/simulator/program_classes.h"

#include <algorithm>
#include <unordered_map>

namespace tutti {
namespace {

constexpr std::uint32_t unused = UINT32_MAX;
constexpr std::uint64_t sampled_work = 4'000'000;
constexpr std::uint64_t sampled_ranks = 64;

/// What a program does, as numbers: equal where programs take the same time whatever their peers do. Links are numbered in
/// the order in which steps use them.
struct Outline {
  std::vector<std::uint64_t> words;
  std::vector<std::uint32_t> links;  ///< by that number: index into Program::links
};

class Outliner {
 public:
  explicit Outliner(const Plan& plan) : plan_(plan), passes_(plan.passes(plan.problem.count)) {}

  Outline outline(const Program& program) const {
    Outline out;
    std::vector<std::uint32_t> number(program.links.size(), unused);
    out.words.reserve(program.steps.size() * 4);
    for (const Lane& lane : program.lanes) {
      out.words.push_back(lane.count);
      for (std::uint32_t s = lane.first; s < lane.first + lane.count; ++s) add(program, program.steps[s], number, out);
    }
    return out;
  }

 private:
  void add(const Program& program, const Step& step, std::vector<std::uint32_t>& number, Outline& out) const {
    const Range& range = program.operands[step.operands].range;
    out.words.push_back(std::uint64_t{step.sources} << 48 | std::uint64_t{step.destinations} << 32 | step.dependency_count);
    // Of a call's passes all but the last are full.
    out.words.push_back(length(range, 0));
    if (passes_ > 1) out.words.push_back(length(range, passes_ - 1));
    for (std::uint32_t o = step.operands; o < step.operands + step.sources + step.destinations; ++o) {
      const Operand& operand = program.operands[o];
      if (operand.place != Place::link) continue;
      const bool source = o < step.operands + step.sources;
      if (number[operand.link] == unused) {
        number[operand.link] = static_cast<std::uint32_t>(out.links.size());
        out.links.push_back(operand.link);
        out.words.push_back(program.links[operand.link].channel);
      }
      out.words.push_back(std::uint64_t{source} << 32 | number[operand.link]);
    }
    for (std::uint32_t d = step.dependencies; d < step.dependencies + step.dependency_count; ++d) {
      const Dependency& on = program.dependencies[d];
      out.words.push_back(on.lane);
      out.words.push_back(std::uint64_t{on.distance} << 32 | on.step);
    }
  }

  std::uint64_t length(const Range& range, std::uint64_t pass) const {
    return elements_of(plan_, plan_.problem.count, pass, range.chunk, range.chunks).size() * range.blocks;
  }

  const Plan& plan_;
  std::uint64_t passes_;
};

std::uint64_t hash_of(const std::vector<std::uint64_t>& words) {
  std::uint64_t hash = words.size();
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

/// Ranks as places on a torus, whose translations move one to another.
class Translations {
 public:
  explicit Translations(std::span<const int> sizes) : sizes_(sizes) {}

  std::int64_t ranks() const {
    std::int64_t product = sizes_.empty() ? 0 : 1;
    for (const int size : sizes_) product *= size;
    return product;
  }
  /// Where rank `place` comes to when rank 0 is moved to rank `by`.
  int moved(int place, int by) const {
    int result = 0, stride = 1;
    for (std::size_t d = sizes_.size(); d-- > 0;) {
      result += (place % sizes_[d] + by % sizes_[d]) % sizes_[d] * stride;
      place /= sizes_[d];
      by /= sizes_[d];
      stride *= sizes_[d];
    }
    return result;
  }

 private:
  std::span<const int> sizes_;
};

/// What it takes to write a program: cells of its operands.
std::uint64_t work_of(const Program& program) {
  std::uint64_t work = program.steps.size();
  for (const Operand& operand : program.operands) work += std::uint64_t{operand.range.chunks} * operand.range.blocks;
  return work;
}

/// Ranks to look at: powers of two, the last one, and as many more as the budget allows, evenly spread.
std::vector<int> sample(int ranks, std::uint64_t work) {
  const std::uint64_t more = std::max(sampled_ranks, sampled_work / std::max<std::uint64_t>(1, work));
  const auto most = static_cast<std::uint64_t>(ranks) - 1;
  std::vector<int> chosen;
  for (int r = 1; r < ranks; r *= 2) chosen.push_back(r);
  const std::uint64_t count = std::min(more, most);
  for (std::uint64_t i = 1; i <= count; ++i) chosen.push_back(static_cast<int>(i * most / count));
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

/// The classes by a symmetry; without ranks where it does not hold.
ProgramClasses by_symmetry(const Plan& plan, const ProgramOf& program_of, std::span<const int> symmetry) {
  const Translations translations(symmetry);
  const int ranks = plan.problem.ranks;
  if (translations.ranks() != ranks || !chunks_alike(plan)) return {};
  const Outliner outliner(plan);
  ProgramClasses program_classes;
  program_classes.programs.push_back(program_of(0));
  const Program& first = program_classes.programs[0];
  const Outline outline = outliner.outline(first);
  const std::vector<int> looked_at = sample(ranks, work_of(first));
  for (const int rank : looked_at) {
    const Program program = program_of(rank);
    const Outline other = outliner.outline(program);
    if (other.words != outline.words) return {};
    for (std::size_t l = 0; l < outline.links.size(); ++l) {
      const int expected = translations.moved(first.links[outline.links[l]].peer, rank);
      if (program.links[other.links[l]].peer != expected) return {};
    }
  }
  program_classes.by_symmetry = true;
  program_classes.programs_looked_at = looked_at.size() + 1;
  program_classes.class_of.assign(static_cast<std::size_t>(ranks), 0);
  std::vector<std::int32_t> base(first.links.size(), -1);
  for (const std::uint32_t link : outline.links) base[link] = first.links[link].peer;
  for (int r = 0; r < ranks; ++r) {
    program_classes.first_peer.push_back(program_classes.peers.size());
    for (const std::int32_t peer : base) program_classes.peers.push_back(peer < 0 ? -1 : translations.moved(peer, r));
  }
  program_classes.first_peer.push_back(program_classes.peers.size());
  return program_classes;
}

}  // namespace

bool chunks_alike(const Plan& plan) {
  const std::uint64_t passes = plan.passes(plan.problem.count);
  const auto alike = [&](std::uint64_t pass) {
    return elements_of(plan, plan.problem.count, pass, 0, 1).size() ==
           elements_of(plan, plan.problem.count, pass, plan.shape.chunks - 1, 1).size();
  };
  return passes == 0 || (alike(0) && alike(passes - 1));
}

std::uint64_t even_count(const Plan& plan) { return std::uint64_t{plan.shape.chunks} * plan.grain; }

ProgramClasses classify_programs(const Plan& plan, const ProgramOf& program_of, std::span<const int> symmetry) {
  if (!symmetry.empty()) {
    ProgramClasses program_classes = by_symmetry(plan, program_of, symmetry);
    if (program_classes.ranks() > 0) return program_classes;
  }
  const Outliner outliner(plan);
  ProgramClasses program_classes;
  std::vector<Outline> outlines;
  std::unordered_multimap<std::uint64_t, std::uint32_t> known;
  for (int r = 0; r < plan.problem.ranks; ++r) {
    Program program = program_of(r);
    Outline outline = outliner.outline(program);
    const std::uint64_t hash = hash_of(outline.words);
    const auto [begin, end] = known.equal_range(hash);
    const auto same = std::find_if(begin, end, [&](const auto& k) { return outlines[k.second].words == outline.words; });
    std::uint32_t own = same == end ? static_cast<std::uint32_t>(program_classes.programs.size()) : same->second;
    program_classes.class_of.push_back(own);
    program_classes.first_peer.push_back(program_classes.peers.size());
    const std::vector<std::uint32_t>& links = same == end ? outline.links : outlines[own].links;
    program_classes.peers.resize(
        program_classes.peers.size() + (same == end ? program : program_classes.programs[own]).links.size(), -1);
    for (std::size_t l = 0; l < links.size(); ++l) {
      program_classes.peers[program_classes.first_peer.back() + links[l]] = program.links[outline.links[l]].peer;
    }
    if (same != end) continue;
    known.emplace(hash, own);
    outlines.push_back(std::move(outline));
    program_classes.programs.push_back(std::move(program));
  }
  program_classes.first_peer.push_back(program_classes.peers.size());
  program_classes.programs_looked_at = static_cast<std::uint64_t>(plan.problem.ranks);
  return program_classes;
}

}  // namespace tutti
