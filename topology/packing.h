// The linear program under the search: how much of which rings or trees to use so that their sum is greatest and no link
// carries more than it can.
//
//     greatest Σ x_j   with   Σ_j x_j · times(j passes link l) ≤ capacity_l,   x ≥ 0
//
// There are far more rings than could be listed, so they come one at a time: the program's dual prices the links, whoever
// finds a ring that passes links worth less than 1 together enters it, and when there is none the sum is the greatest of
// all (column generation; Dantzig & Wolfe 1960; Gilmore & Gomory 1961).
#pragma once

#include <cstddef>
#include <vector>

#include "topology/transit_graph.h"

namespace tutti {

/// The revised simplex method with the basis' inverse written out, rows being links. Ties are broken lexicographically, so
/// that it ends (Dantzig, Orden & Wolfe 1955). Deterministic.
class Packing {
 public:
  /// capacity  of each link, above 0.
  explicit Packing(const std::vector<double>& capacity);

  /// Takes a column in whose loads cost less than 1 at prices(), and mends the prices until none is negative. False where
  /// it does not raise the sum after all (by less than rounding), or where steps run out.
  bool enter(int column, const Loads& loads, Steps& steps);

  /// What a unit of each link is worth, at least 0. A column that costs less than 1 would raise the sum.
  const std::vector<double>& prices() const { return prices_; }
  double cost(const Loads& loads) const;
  /// Σ x, in the capacities' unit.
  double sum() const;
  /// The columns with x > 0, in the order of their numbers.
  std::vector<std::pair<int, double>> used() const;

 private:
  bool pivot(int column, const std::vector<double>& entering);
  bool raise_negative(Steps& steps);
  std::size_t leaving(const std::vector<double>& entering) const;
  double& inverse(std::size_t row, std::size_t link) { return inverse_[row * rows_ + link]; }
  double inverse(std::size_t row, std::size_t link) const { return inverse_[row * rows_ + link]; }

  std::size_t rows_;
  double unit_;                  // the widest capacity
  std::vector<double> inverse_;  // of the basis, by rows
  std::vector<double> x_;        // of the basic columns, in unit_
  std::vector<int> basis_;       // the column of each row; kSlack: what is left of a link
  std::vector<double> prices_;
};

}  // namespace tutti
