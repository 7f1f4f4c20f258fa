// The plans that a communicator has made. A repeated call finds its plan by one comparison, any other in a hash table.
//
//     problem (collective, count, type, op, root) ──→ PreparedPlan ──→ LinkedProgram, shared by all counts
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/status.h"
#include "src/control/activity.h"
#include "src/control/log_lines.h"
#include "src/executors/host/executor.h"
#include "src/schedule/ir.h"
#include "src/selection/msccl_files.h"
#include "src/selection/select.h"
#include "src/selection/tuning.h"
#include "topology/view.h"

namespace tutti {

/// What files of the user's say about choosing an algorithm.
struct SelectionFiles {
  Tuning tuning;
  MscclFiles msccl;
};

/// What plans are chosen by and made from: set before the first call, and not changed afterwards.
struct PlanInputs {
  int rank = 0;
  std::uint32_t lanes = 0;  ///< TUTTI_LANES
  View view;
  Overrides overrides;  ///< TUTTI_ALGORITHM
  SelectionFiles files;
};

/// A program and its links. Calls of one (collective, root, algorithm, parameters) share it, whatever their count.
struct LinkedProgram {
  Lowered lowered;
  std::vector<HostLink*> links;
  bool open = false;
  std::vector<int> waiting;  ///< peers whose links are not open yet, each once
};

/// A plan ready to run.
struct PreparedPlan {
  Plan plan;
  FoldFunction fold = nullptr;
  std::shared_ptr<LinkedProgram> linked;
  HostLayouts layouts;
  std::uint64_t scratch = 0;
  const char* algorithm = nullptr;  ///< its name; lives as long as the communicator
  KindName name;                    ///< of the collective
  KindName algorithm_name;
};

/// A plan, everybody's programs of it, and what tells these from other plans' of the same collective and root.
struct PlanChoice {
  Plan plan;
  const char* name = nullptr;  ///< the algorithm's; lives as long as the communicator
  ProgramOf program_of;
  std::string key;
};

struct ProblemHash {
  std::size_t operator()(const Problem& problem) const;
};

/// Plans by problem. A wish is the algorithm that a call asks for by name, or empty; plans of the last wish are kept. Not
/// thread safe.
class PlanCache {
 public:
  /// inputs: outlive this object.
  explicit PlanCache(const PlanInputs& inputs) : inputs_(inputs) {}

  /// The plan of a call; nullptr where it has to be made. Valid until `make` or `clear`.
  const PreparedPlan* find(const Problem& problem, const std::string& wish) {
    if (last_ != nullptr && last_->plan.problem == problem && last_wish_ == wish) [[likely]]
      return last_;
    return find_in_table(problem, wish);
  }
  /// Chooses an algorithm by the call's own wish, else TUTTI_ALGORITHM's, else a file's, else the tuning table's or the
  /// model's. The plan is found from now on. Errors: as of `select`.
  Result<const PreparedPlan*> make(const Problem& problem, const std::string& wish);
  /// What a call is expected to take, by the terms that algorithms are chosen by. Files' schedules count as what would be
  /// chosen without them. Thread safe. Errors: as of `select`.
  Result<double> expected_seconds(const Problem& problem, const std::string& wish) const;
  /// The plan that `make` would make, and everybody's programs. Pure. Errors: as of `select`, and TUTTI_INVALID_ARGUMENT
  /// where the call names a file that cannot serve it, or messages are longer than links take.
  Result<PlanChoice> choose(const Problem& problem, const std::string& wish) const;
  /// Forgets all plans and their links.
  void clear();
  /// The algorithms that calls like this one run by without a wish, of 8 B to 1 GiB a block, in powers of two.
  std::vector<AlgorithmUpTo> algorithms_by_size(Problem problem) const;

 private:
  const PreparedPlan* find_in_table(const Problem& problem, const std::string& wish);
  /// Whether files' schedules may do what the problem asks for.
  static bool files_serve(const Problem& problem);
  const MscclAlgorithm* file_for(const Problem& problem, const std::string& wish) const;
  Result<Candidate> candidate_for(const Problem& problem, const std::string& wish) const;
  std::shared_ptr<LinkedProgram> link_program(const PlanChoice& choice);

  const PlanInputs& inputs_;
  std::unordered_map<Problem, PreparedPlan, ProblemHash> plans_;
  std::map<std::string, std::shared_ptr<LinkedProgram>> linked_;
  std::string last_wish_;
  const PreparedPlan* last_ = nullptr;  ///< the plan of the last call
};

}  // namespace tutti
