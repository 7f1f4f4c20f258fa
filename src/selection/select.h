// Selection: which algorithm a problem gets. It sees only what is equal on all ranks, so that they choose alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/base/status.h"
#include "src/selection/shared_cores.h"
#include "src/selection/tuning.h"
#include "topology/view.h"

namespace tutti {

/// What one algorithm would take, and what of. Ordered as selection prefers them.
struct Candidate {
  const Algorithm* algorithm = nullptr;
  Parameters parameters;
  double seconds = 0;
  double latency_seconds = 0;    ///< the part of α
  double transfer_seconds = 0;   ///< the part of β
  double reduction_seconds = 0;  ///< the part of γ
  bool on_request = false;       ///< behind all others, as it is taken on request alone

  bool operator<(const Candidate& other) const {
    return on_request == other.on_request ? seconds < other.seconds : other.on_request;
  }
};

/// The user's wishes: `TUTTI_ALGORITHM`, a comma-separated list of rules, of which the first that fits a call counts.
///   NAME                          every collective that has an algorithm of this name
///   COLLECTIVE:NAME               that collective
///   COLLECTIVE:FROM-TO:NAME       where a block has FROM to TO bytes, ends included; K, M, G; an end may be missing
class Overrides {
 public:
  /// Errors: TUTTI_INVALID_ARGUMENT naming the rule, and what there is to choose from.
  static Result<Overrides> parse(std::string_view text);
  /// The name for a problem, empty where no rule fits.
  std::string_view find(Collective collective, std::uint64_t bytes) const;

 private:
  struct Rule {
    bool any = true;
    Collective collective = Collective::all_reduce;
    std::uint64_t from = 0;
    std::uint64_t to = UINT64_MAX;
    std::string name;
  };
  static Result<Rule> parse_rule(std::string_view text);

  std::vector<Rule> rules_;
};

/// The α, β and γ that a collective over all ranks of the view meets: those of its dearest link, with the cores as they
/// are.
Terms terms_of(const View& view);
/// Those of links of one class, with the cores as they are.
Terms terms_of(const View& view, LinkClass on);

/// Every algorithm that fits, quickest first; of equal ones the earlier registered. Those on request come last, unless one
/// fold is asked for. Pure.
std::vector<Candidate> rank_algorithms(const Problem& problem, const View& view, std::uint32_t lanes);

/// The algorithm of a problem: the call's own wish (may be empty), else the overrides', else the tuning table's where it
/// fits the problem, else the quickest by the model. lanes: 0 or the user's. Errors: TUTTI_INVALID_ARGUMENT for a name that
/// the collective does not have, with the names it has.
Result<Candidate> select(const Problem& problem, const View& view, const Overrides& overrides, std::string_view wish,
                         std::uint32_t lanes, const Tuning& tuning = {});

}  // namespace tutti
