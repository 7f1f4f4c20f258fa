#include <ClpSimplex.hpp>
#include <algorithm>

#include "tools/plan/synthesis/linear_program.h"

namespace tutti::synthesis {

bool has_solver() { return true; }

struct LinearProgram::Model {
  ClpSimplex simplex;
  double unit = 1;  // capacities are told as parts of the widest, so that the solver's tolerances fit
};

LinearProgram::LinearProgram(const std::vector<double>& capacities) : model_(std::make_unique<Model>()) {
  ClpSimplex& simplex = model_->simplex;
  simplex.setLogLevel(0);
  model_->unit = *std::max_element(capacities.begin(), capacities.end());
  simplex.resize(static_cast<int>(capacities.size()), 0);
  for (std::size_t row = 0; row < capacities.size(); ++row) {
    simplex.setRowBounds(static_cast<int>(row), -COIN_DBL_MAX, capacities[row] / model_->unit);
  }
}

LinearProgram::~LinearProgram() = default;

void LinearProgram::add(const Loads& loads) {
  std::vector<int> rows;
  std::vector<double> elements;
  for (const auto& [row, load] : loads) {
    rows.push_back(static_cast<int>(row));
    elements.push_back(load);
  }
  // The solver's usual direction is down.
  model_->simplex.addColumn(static_cast<int>(rows.size()), rows.data(), elements.data(), 0, COIN_DBL_MAX, -1);
}

bool LinearProgram::solve() {
  model_->simplex.primal(1);
  return model_->simplex.isProvenOptimal();
}

double LinearProgram::sum() const { return -model_->simplex.objectiveValue() * model_->unit; }

std::vector<double> LinearProgram::columns() const {
  const double* const x = model_->simplex.primalColumnSolution();
  std::vector<double> columns(x, x + model_->simplex.numberColumns());
  for (double& column : columns) column = std::max(0.0, column) * model_->unit;
  return columns;
}

std::vector<double> LinearProgram::prices() const {
  const double* const dual = model_->simplex.dualRowSolution();
  std::vector<double> prices(dual, dual + model_->simplex.numberRows());
  for (double& price : prices) price = std::max(0.0, -price);
  return prices;
}

}  // namespace tutti::synthesis
