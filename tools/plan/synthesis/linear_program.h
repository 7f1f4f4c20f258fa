// A linear program that grows by columns, as a solver library solves it: COIN-OR's Clp, where the build found it.
//
//     greatest Σ x_j   with   Σ_j load(row, j) · x_j ≤ capacity(row),   x ≥ 0
#pragma once

#include <memory>
#include <vector>

#include "topology/transit_graph.h"

namespace tutti::synthesis {

/// Whether this build has a solver. Without one no LinearProgram may be made.
bool has_solver();

/// Deterministic. Not thread safe.
class LinearProgram {
 public:
  /// capacities: of each row, above 0, of any unit.
  explicit LinearProgram(const std::vector<double>& capacities);
  ~LinearProgram();
  LinearProgram(const LinearProgram&) = delete;
  LinearProgram& operator=(const LinearProgram&) = delete;

  /// Adds a column, with its loads by rows; they must not be empty, or the sum had no end.
  void add(const Loads& loads);
  /// Solves it, beginning at the last solution. False where the solver gives up.
  bool solve();

  // Of the last solution.
  double sum() const;
  std::vector<double> columns() const;  ///< x, in the order of adding
  /// What a unit of each row's capacity is worth, at least 0: a column that costs less than 1 would raise the sum.
  std::vector<double> prices() const;

 private:
  struct Model;
  std::unique_ptr<Model> model_;
};

}  // namespace tutti::synthesis
