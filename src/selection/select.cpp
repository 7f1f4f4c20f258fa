#include "src/selection/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "src/base/saturating.h"
#include "src/tables/names.h"
#include "src/tables/units.h"

namespace tutti {
namespace {

std::string names_for(Collective collective) {
  std::string names;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (algorithm->collective != collective) continue;
    names += (names.empty() ? "" : ", ") + std::string(algorithm->name);
  }
  return names;
}

struct Range {
  std::uint64_t from, to;
};

/// "1K-64K", "-64K", "1K-"; nothing where it is malformed.
std::optional<Range> parse_range(std::string_view text) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto from = dash == 0 ? std::uint64_t{0} : parse_size(text.substr(0, dash)).value;
  const auto to = dash + 1 == text.size() ? UINT64_MAX : parse_size(text.substr(dash + 1)).value;
  if (!from || !to || *from > *to) return std::nullopt;
  return Range{*from, *to};
}

/// What stands before the next colon, which is taken off with it; nothing where there is no colon.
std::optional<std::string_view> take_part(std::string_view& rest) {
  const auto colon = rest.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view part = rest.substr(0, colon);
  rest.remove_prefix(colon + 1);
  return part;
}

Status refused(std::string_view rule, const std::string& why, std::optional<Collective> collective) {
  // Those of all collectives are more than a remedy holds.
  const std::string names =
      collective ? "names are " + names_for(*collective) : "`tutti-plan cost --collective COLLECTIVE` lists the names";
  return Status(TUTTI_INVALID_ARGUMENT, fmt::format("algorithm rule \"{}\" {}", rule, why),
                "Write NAME, COLLECTIVE:NAME or COLLECTIVE:FROM-TO:NAME; " + names);
}

}  // namespace

Result<Overrides::Rule> Overrides::parse_rule(std::string_view text) {
  Rule rule;
  std::string_view rest = text;
  std::optional<Collective> collective;
  if (const auto name = take_part(rest)) {
    collective = collective_of(*name);
    if (!collective) return refused(text, "names a collective that does not exist", std::nullopt);
    rule.any = false;
    rule.collective = *collective;
  }
  if (const auto bytes = take_part(rest)) {
    const auto range = parse_range(*bytes);
    if (!range) return refused(text, "has a malformed range", collective);
    rule.from = range->from;
    rule.to = range->to;
  }
  rule.name = rest;
  const auto known = [&](const Algorithm* a) { return rest == a->name && (!collective || a->collective == *collective); };
  const auto all = all_algorithms();
  if (std::none_of(all.begin(), all.end(), known))
    return refused(text, "names an algorithm that does not exist", collective);
  return rule;
}

Result<Overrides> Overrides::parse(std::string_view text) {
  Overrides out;
  while (!text.empty()) {
    const std::string_view rule = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), rule.size() + 1));
    if (rule.empty()) continue;
    auto parsed = parse_rule(rule);
    if (!parsed.ok()) return parsed.status();
    out.rules_.push_back(std::move(*parsed));
  }
  return out;
}

std::string_view Overrides::find(Collective collective, std::uint64_t bytes) const {
  for (const Rule& rule : rules_) {
    const bool fits = rule.any ? find_algorithm(collective, rule.name.c_str()) != nullptr : rule.collective == collective;
    if (fits && bytes >= rule.from && bytes <= rule.to) return rule.name;
  }
  return {};
}

Terms terms_of(const View& view) { return terms_of(view, std::max(LinkClass::same_numa, dearest_links(view))); }

Terms terms_of(const View& view, LinkClass on) {
  const LinkEstimate& link = view.link(on);
  return on_shared_cores({.alpha = link.alpha, .beta = link.beta, .gamma = view.gamma}, view, on);
}

std::vector<Candidate> rank_algorithms(const Problem& problem, const View& view, std::uint32_t lanes) {
  constexpr double posting = 0.25;  // of a wait, on shared memory as over TCP
  const Terms terms = terms_of(view);
  const double bytes = static_cast<double>(problem.count) * static_cast<double>(element_bytes(problem.type));
  std::vector<Candidate> out;
  for (const Algorithm* algorithm : all_algorithms()) {
    // One rank is a copy: algorithms, and their costs, begin at two.
    const bool fits = problem.ranks == 1 || algorithm->fits(problem, view);
    if (algorithm->collective != problem.collective || !fits) continue;
    if (problem.irregular && !algorithm->irregular) continue;
    if (problem.one_fold && problem.ranks > 1 && !algorithm->one_fold) continue;
    const Cost cost = problem.ranks > 1 ? on_shared_cores(algorithm->cost(problem, view), problem, view) : Cost{};
    Candidate candidate{.algorithm = algorithm, .parameters = {.lanes = lanes, .depth = 0}};
    candidate.on_request = algorithm->on_request && !problem.one_fold;
    candidate.latency_seconds = (cost.alphas + posting * cost.posted) * terms.alpha;
    candidate.transfer_seconds = cost.betas * bytes * terms.beta;
    for (std::size_t c = 0; c < kLinkClasses; ++c) {
      const Terms near = terms_of(view, static_cast<LinkClass>(c));
      candidate.latency_seconds += (cost.on[c].alphas + posting * cost.on[c].posted) * near.alpha;
      candidate.transfer_seconds += cost.on[c].betas * bytes * near.beta;
    }
    candidate.latency_seconds += cost.messages * terms.message;
    candidate.reduction_seconds = cost.gammas * bytes * terms.gamma;
    candidate.seconds = candidate.latency_seconds + candidate.transfer_seconds + candidate.reduction_seconds;
    out.push_back(candidate);
  }
  // By insertion: few, and of equal ones the registry's first stays first.
  for (auto i = out.begin(); i != out.end(); ++i) {
    const auto slower = [&](const Candidate& other) { return *i < other; };
    std::rotate(std::find_if(out.begin(), i, slower), i, std::next(i));
  }
  return out;
}

Result<Candidate> select(const Problem& problem, const View& view, const Overrides& overrides, std::string_view wish,
                         std::uint32_t lanes, const Tuning& tuning) {
  const std::uint64_t bytes = bytes_of(problem.count, problem.type);
  const std::string_view name = wish.empty() ? overrides.find(problem.collective, bytes) : wish;
  const std::vector<Candidate> ranked = rank_algorithms(problem, view, lanes);
  const auto named = [&](std::string_view wanted) {
    return std::find_if(ranked.begin(), ranked.end(), [&](const Candidate& c) { return wanted == c.algorithm->name; });
  };
  // What is set for all calls counts for v-variants and for single folds where it can be.
  const bool is_special = problem.irregular || problem.one_fold;
  const bool counts_for_nothing = is_special && wish.empty() && named(name) == ranked.end();
  if (name.empty() || counts_for_nothing) {
    const auto measured = named(tuning.use(problem));  // one that does not fit this problem counts for nothing
    return measured != ranked.end() ? *measured : ranked.front();
  }
  if (const auto wanted = named(name); wanted != ranked.end()) return *wanted;
  if (find_algorithm(problem.collective, std::string(name).c_str()) != nullptr) {
    std::string fitting;
    for (const Candidate& c : ranked) fitting += (fitting.empty() ? "" : ", ") + std::string(c.algorithm->name);
    if (problem.irregular) {
      return Status(
          TUTTI_INVALID_ARGUMENT,
          fmt::format("{} cannot be done by \"{}\", which joins blocks", info_of(problem.collective).v_variant, name),
          fmt::format("Choose from {}.", fitting));
    }
    if (problem.one_fold) {
      return Status(
          TUTTI_INVALID_ARGUMENT,
          fmt::format("{} in one fold, which is reproducible, rounds once and keeps the order of ranks, cannot be done "
                      "by \"{}\", which folds in an order of its own",
                      name_of(problem.collective), name),
          fmt::format("Choose from {}.", fitting));
    }
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("{} over these {} ranks cannot be done by \"{}\", which wants other places of ranks",
                              name_of(problem.collective), problem.ranks, name),
                  fmt::format("Choose from {}; TUTTI_MACHINE, TUTTI_RACK and TUTTI_TORUS say where ranks are.", fitting));
  }
  return Status(TUTTI_INVALID_ARGUMENT,
                fmt::format("{} over {} ranks has no algorithm \"{}\"", name_of(problem.collective), problem.ranks, name),
                fmt::format("Choose from {}, or leave it unset.", names_for(problem.collective)));
}

}  // namespace tutti
