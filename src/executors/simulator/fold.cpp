#include "src/executors/simulator/fold.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace tutti::simulator {
namespace {

/// Hops and ends that may be looked at in all: some seconds' worth.
constexpr std::uint64_t most_work = 600'000'000;

/// Not the same for (a, b) and (b, a), and no value that it keeps.
std::uint64_t mix(std::uint64_t state, std::uint64_t value) {
  std::uint64_t mixed = (state ^ state >> 31) * 0x9e3779b97f4a7c15u + value + 0x632be59bd9b4e019u;
  mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
  return mixed ^ mixed >> 32;
}

/// Gives equal keys equal numbers, in the order of their first occurrence. Returns how many there are.
std::uint32_t renumber(const std::vector<std::uint64_t>& keys, std::vector<std::uint32_t>& numbers) {
  std::unordered_map<std::uint64_t, std::uint32_t> known;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (numbers[i] == nothing) continue;
    numbers[i] = known.try_emplace(keys[i], static_cast<std::uint32_t>(known.size())).first->second;
  }
  return static_cast<std::uint32_t>(known.size());
}

class Refinement {
 public:
  Refinement(const RankLinks& rank_links, const Network& network) : rank_links_(rank_links), uses_(uses_of(rank_links)) {
    const std::size_t wires = rank_links.wires.size();
    classes_.rank.assign(rank_links.program.size(), 0);
    classes_.wire.assign(wires, 0);
    classes_.link.assign(network.links(), nothing);
    for (const std::uint32_t link : rank_links.hops) classes_.link[link] = 0;
    std::vector<std::uint64_t> rank_keys(rank_links.program_class.begin(), rank_links.program_class.end());
    std::vector<std::uint64_t> wire_keys(wires), link_keys(network.links());
    for (std::size_t w = 0; w < wires; ++w)
      wire_keys[w] = mix(use(rank_links.wires[w].sending), use(rank_links.wires[w].receiving));
    std::map<std::pair<double, double>, std::uint64_t> kinds;
    for (std::uint32_t l = 0; l < network.links(); ++l) {
      if (classes_.link[l] == nothing) continue;
      const NetworkLink link = network.link(l);
      link_keys[l] = kinds.try_emplace({link.bytes_per_second, link.latency_s}, kinds.size()).first->second;
    }
    number_all(rank_keys, wire_keys, link_keys);
  }

  /// True where it came to an end, and there are few enough classes.
  bool run() {
    const std::uint64_t work = rank_links_.hops.size() + rank_links_.wire_of.size() + rank_links_.wires.size();
    for (std::uint64_t done = 0; done < most_work; done += work) {
      const auto before = std::tuple(classes_.ranks, classes_.wires, classes_.links);
      if (classes_.ranks * std::uint64_t{2} > classes_.rank.size()) return false;
      round();
      if (before == std::tuple(classes_.ranks, classes_.wires, classes_.links)) return exact();
    }
    return false;
  }

  Classes take() && { return std::move(classes_); }

 private:
  std::uint64_t use(std::uint32_t end) const { return end == nothing ? nothing : uses_[end]; }
  std::uint64_t rank_class(std::int32_t rank) const { return classes_.rank[static_cast<std::size_t>(rank)]; }

  void number_all(const std::vector<std::uint64_t>& ranks, const std::vector<std::uint64_t>& wires,
                  const std::vector<std::uint64_t>& links) {
    classes_.ranks = renumber(ranks, classes_.rank);
    classes_.wires = renumber(wires, classes_.wire);
    classes_.links = renumber(links, classes_.link);
  }

  void round() {
    std::vector<std::uint64_t> rank_keys(classes_.rank.size()), wire_keys(classes_.wire.size());
    std::vector<std::uint64_t> link_keys(classes_.link.size());
    for (std::uint32_t w = 0; w < wire_keys.size(); ++w) {
      const RankLinks::Wire& wire = rank_links_.wires[w];
      std::uint64_t key = mix(mix(classes_.wire[w], rank_class(wire.from)), rank_class(wire.to));
      for (const std::uint32_t link : rank_links_.way(w)) key = mix(key, classes_.link[link]);
      wire_keys[w] = key;
      // Sums do not depend on the order.
      for (const std::uint32_t link : rank_links_.way(w)) link_keys[link] += mix(1, key);
    }
    for (std::size_t l = 0; l < link_keys.size(); ++l) link_keys[l] = mix(classes_.link[l], link_keys[l]);
    for (std::size_t r = 0; r < rank_keys.size(); ++r) {
      std::uint64_t sum = 0;
      for (std::uint32_t e = rank_links_.first_end[r]; e < rank_links_.first_end[r + 1]; ++e) {
        if (rank_links_.wire_of[e] != nothing) sum += mix(uses_[e], wire_keys[rank_links_.wire_of[e]]);
      }
      rank_keys[r] = mix(classes_.rank[r], sum);
    }
    number_all(rank_keys, wire_keys, link_keys);
  }

  /// Whether the partition is equitable, without trusting hashes: every member is compared with its class's first.
  bool exact() const { return wires_alike() && ranks_alike() && links_alike(); }

  bool wires_alike() const {
    std::vector<std::uint32_t> first(classes_.wires, nothing);
    for (std::uint32_t w = 0; w < classes_.wire.size(); ++w) {
      std::uint32_t& model = first[classes_.wire[w]];
      if (model == nothing) model = w;
      const RankLinks::Wire& a = rank_links_.wires[model];
      const RankLinks::Wire& b = rank_links_.wires[w];
      const auto same_link = [&](std::uint32_t x, std::uint32_t y) { return classes_.link[x] == classes_.link[y]; };
      if (rank_class(a.from) != rank_class(b.from) || rank_class(a.to) != rank_class(b.to) ||
          use(a.sending) != use(b.sending) || use(a.receiving) != use(b.receiving) ||
          !std::ranges::equal(rank_links_.way(model), rank_links_.way(w), same_link)) {
        return false;
      }
    }
    return true;
  }

  bool ranks_alike() const {
    using Ends = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // use and wire class
    std::vector<Ends> first(classes_.ranks);
    std::vector<std::uint32_t> program_class(classes_.ranks, nothing);
    for (std::size_t r = 0; r < classes_.rank.size(); ++r) {
      Ends ends;
      for (std::uint32_t e = rank_links_.first_end[r]; e < rank_links_.first_end[r + 1]; ++e) {
        if (rank_links_.wire_of[e] != nothing) ends.emplace_back(uses_[e], classes_.wire[rank_links_.wire_of[e]]);
      }
      std::sort(ends.begin(), ends.end());
      const std::uint32_t own = classes_.rank[r];
      if (program_class[own] == nothing) {
        program_class[own] = rank_links_.program_class[r];
        first[own] = std::move(ends);
      } else if (program_class[own] != rank_links_.program_class[r] || first[own] != ends) {
        return false;
      }
    }
    return true;
  }

  bool links_alike() const {
    // The wires' classes by link, as a counting sort lays them out.
    std::vector<std::uint64_t> begin(classes_.link.size() + 1);
    for (const std::uint32_t link : rank_links_.hops) ++begin[link + 1];
    for (std::size_t l = 1; l < begin.size(); ++l) begin[l] += begin[l - 1];
    std::vector<std::uint32_t> passing(rank_links_.hops.size());
    std::vector<std::uint64_t> at(begin.begin(), begin.end() - 1);
    for (std::uint32_t w = 0; w < classes_.wire.size(); ++w) {
      for (const std::uint32_t link : rank_links_.way(w)) passing[at[link]++] = classes_.wire[w];
    }
    std::vector<std::uint32_t> first(classes_.links, nothing);
    for (std::uint32_t l = 0; l < classes_.link.size(); ++l) {
      if (classes_.link[l] == nothing) continue;
      const auto own = std::span(passing).subspan(begin[l], begin[l + 1] - begin[l]);
      std::sort(own.begin(), own.end());
      std::uint32_t& model = first[classes_.link[l]];
      if (model == nothing) model = l;
      if (!std::ranges::equal(own, std::span(passing).subspan(begin[model], begin[model + 1] - begin[model]))) return false;
    }
    return true;
  }

  const RankLinks& rank_links_;
  std::vector<std::uint32_t> uses_;
  Classes classes_;
};

Classes everybody(const RankLinks& rank_links, const Network& network) {
  Classes classes;
  classes.rank.resize(rank_links.program.size());
  classes.wire.resize(rank_links.wires.size());
  classes.link.assign(network.links(), nothing);
  for (std::uint32_t& rank : classes.rank) rank = classes.ranks++;
  for (std::uint32_t& wire : classes.wire) wire = classes.wires++;
  for (const std::uint32_t link : rank_links.hops) {
    if (classes.link[link] == nothing) classes.link[link] = classes.links++;
  }
  return classes;
}

}  // namespace

std::vector<std::uint32_t> uses_of(const RankLinks& rank_links) {
  std::map<std::vector<std::uint64_t>, std::uint32_t> known;
  std::unordered_map<const Program*, std::vector<std::uint32_t>> of_program;
  std::vector<std::uint32_t> uses;
  uses.reserve(rank_links.wire_of.size());
  for (const Program* program : rank_links.program) {
    auto [own, added] = of_program.try_emplace(program);
    if (added) {
      // Which class's, which direction, and which steps.
      std::vector<std::vector<std::uint64_t>> steps(program->links.size());
      for (std::size_t l = 0; l < steps.size(); ++l) steps[l] = {of_program.size(), program->links[l].sends ? 1u : 0u};
      for (std::uint64_t s = 0; s < program->steps.size(); ++s) {
        const Step& step = program->steps[s];
        for (std::uint32_t o = step.operands; o < step.operands + step.sources + step.destinations; ++o) {
          if (program->operands[o].place == Place::link) steps[program->operands[o].link].push_back(s);
        }
      }
      for (auto& list : steps) {
        own->second.push_back(known.try_emplace(std::move(list), static_cast<std::uint32_t>(known.size())).first->second);
      }
    }
    uses.insert(uses.end(), own->second.begin(), own->second.end());
  }
  return uses;
}

Classes classes_of(const RankLinks& rank_links, const Network& network, bool fold) {
  if (fold) {
    Refinement refinement(rank_links, network);
    if (refinement.run()) {
      Classes classes = std::move(refinement).take();
      classes.folded = true;
      return classes;
    }
  }
  return everybody(rank_links, network);
}

}  // namespace tutti::simulator
