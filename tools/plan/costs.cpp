#include "tools/plan/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "src/tables/element_types.h"

namespace tutti::plan_tool {
namespace {

struct Row {
  Candidate candidate;
  std::optional<double> simulated;  ///< seconds on the network

  double seconds() const { return simulated.value_or(candidate.seconds); }
};

std::vector<Row> rows_of(const Comparison& comparison, const Simulation& simulation) {
  std::vector<Row> rows;
  for (const Candidate& c : rank_algorithms(comparison.problem, simulation.view, comparison.lanes)) {
    Row row{c, std::nullopt};
    if (simulation.network != nullptr) {
      const Plan plan = make_plan(*c.algorithm, comparison.problem, simulation.view, c.parameters, comparison.slot_bytes);
      row.simulated = simulated_seconds(*c.algorithm, plan, simulation);
    }
    rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    if (a.candidate.on_request != b.candidate.on_request) return b.candidate.on_request;
    if (a.simulated.has_value() != b.simulated.has_value()) return a.simulated.has_value();
    return a.seconds() < b.seconds();
  });
  return rows;
}

/// The quickest on the network's links, and who is chosen by ranks that know nothing of them but the model's constants.
std::string simulated_reason(const std::vector<Row>& rows) {
  const Row& by_model =
      *std::min_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.candidate < b.candidate; });
  std::string text = fmt::format("{} is chosen: on these links, shared as they are, it takes {:.2f} us less than {}",
                                 rows[0].candidate.algorithm->name, (rows[1].seconds() - rows[0].seconds()) * 1e6,
                                 rows[1].candidate.algorithm->name);
  if (by_model.candidate.algorithm == rows[0].candidate.algorithm) return text;
  if (!by_model.simulated) {
    return text + fmt::format("; {}, which the model puts first, takes too many steps to be simulated",
                              by_model.candidate.algorithm->name);
  }
  return text + fmt::format("; ranks choose by the model, which takes {}, unless a tuning table says otherwise",
                            by_model.candidate.algorithm->name);
}

/// The one that is chosen: by the user's word, by the tuning table's where it can be, else the quickest.
std::string_view chosen(const Comparison& comparison, const std::vector<Row>& rows) {
  if (!comparison.wish.empty()) return comparison.wish;
  if (!comparison.v_choice.empty()) return comparison.v_choice;
  const bool fits = std::any_of(rows.begin(), rows.end(),
                                [&](const Row& row) { return comparison.measured == row.candidate.algorithm->name; });
  return fits ? comparison.measured : rows[0].candidate.algorithm->name;
}

/// Why the first row is the quickest.
std::string reason_of_first(const std::vector<Row>& rows) {
  const Candidate& best = rows[0].candidate;
  if (rows.size() == 1) return fmt::format("{} is chosen: there is no other", best.algorithm->name);
  const Candidate& next = rows[1].candidate;
  if (rows[0].simulated && rows[1].simulated) return simulated_reason(rows);
  const auto gain = [](double ours, double theirs) {
    const double us = (theirs - ours) * 1e6;
    return std::abs(us) < .005 ? 0 : us;  // not -0.00
  };
  return fmt::format("{} is chosen: beside {} it saves {:.2f} us of latency, {:.2f} of transfer, {:.2f} of reduction",
                     best.algorithm->name, next.algorithm->name, gain(best.latency_seconds, next.latency_seconds),
                     gain(best.transfer_seconds, next.transfer_seconds),
                     gain(best.reduction_seconds, next.reduction_seconds));
}

/// Why that one is chosen.
std::string reason(const Comparison& comparison, const std::vector<Row>& rows) {
  if (!comparison.wish.empty()) return fmt::format("{} is chosen: --algorithm says so", comparison.wish);
  if (!comparison.v_choice.empty() && comparison.v_choice != rows[0].candidate.algorithm->name) {
    return fmt::format("{} is chosen: ranks go by the mean of the counts that all of them know, as a power of two",
                       comparison.v_choice);
  }
  if (comparison.measured.empty()) return reason_of_first(rows);
  if (chosen(comparison, rows) == comparison.measured) {
    return fmt::format("{} is chosen: the tuning table says that it was quickest here", comparison.measured);
  }
  return reason_of_first(rows) +
         fmt::format("; the tuning table names {}, which is not for such ranks", comparison.measured);
}

void tell(const Comparison& comparison, const Row& row, bool simulates, bool is_chosen, program::Output& output) {
  const Candidate& c = row.candidate;
  std::string line = fmt::format("{:<22}", c.algorithm->name);
  if (simulates) line += row.simulated ? fmt::format(" {:>12.2f}", *row.simulated * 1e6) : fmt::format(" {:>12}", "-");
  output.line(line + fmt::format(" {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f}", c.seconds * 1e6, c.latency_seconds * 1e6,
                                 c.transfer_seconds * 1e6, c.reduction_seconds * 1e6));
  program::JsonObject record;
  record.add("collective", std::string(kind_of(comparison.problem)));
  record.add("algorithm", std::string(c.algorithm->name)).add("ranks", std::int64_t{comparison.problem.ranks});
  record.add("seconds", row.seconds()).add("latency_seconds", c.latency_seconds);
  record.add("transfer_seconds", c.transfer_seconds).add("reduction_seconds", c.reduction_seconds);
  record.add_json("chosen", is_chosen ? "true" : "false");
  if (simulates) record.add("model_seconds", c.seconds).add_json("simulated", row.simulated ? "true" : "false");
  output.record(record);
}

}  // namespace

int tell_costs(const Comparison& comparison, const Simulation& simulation, program::Output& output) {
  const Problem& problem = comparison.problem;
  const Terms terms = terms_of(simulation.view);
  const bool simulates = simulation.network != nullptr;
  output.line(fmt::format("{} of {} on {} ranks{}; latency {:.2f} us, {:.2f} GB/s a link, {:.2f} GB/s reduced",
                          kind_of(problem), blocks_text(problem, simulation.blocks), problem.ranks,
                          simulates ? " of " + simulation.network_name : "", terms.alpha * 1e6, 1e-9 / terms.beta,
                          1e-9 / terms.gamma));
  output.line("constants: " + comparison.constants);
  output.line(fmt::format("{:<22}{} {:>12} {:>12} {:>12} {:>12}", "algorithm",
                          simulates ? fmt::format(" {:>12}", "simulated us") : "", simulates ? "model us" : "total us",
                          "latency", "transfer", "reduction"));
  const std::vector<Row> rows = rows_of(comparison, simulation);
  for (const Row& row : rows) {
    tell(comparison, row, simulates, chosen(comparison, rows) == row.candidate.algorithm->name, output);
  }
  output.line(reason(comparison, rows));
  return output.result(static_cast<int>(program::kGood));
}

}  // namespace tutti::plan_tool
