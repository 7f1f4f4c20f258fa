#include "topology/packing.h"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

constexpr int kSlack = -1;
constexpr double kTiny = 1e-10;  // what rounding may leave of a 0
constexpr double kPivot = 1e-8;  // nothing smaller is divided by

}  // namespace

Packing::Packing(const std::vector<double>& capacity)
    : rows_(capacity.size()),
      unit_(capacity.empty() ? 1 : *std::max_element(capacity.begin(), capacity.end())),
      inverse_(rows_ * rows_, 0),
      basis_(rows_, kSlack),
      prices_(rows_, 0) {
  for (std::size_t i = 0; i < rows_; ++i) {
    inverse(i, i) = 1;
    x_.push_back(capacity[i] / unit_);
  }
}

double Packing::cost(const Loads& loads) const {
  double sum = 0;
  for (const auto& [link, times] : loads) sum += prices_[link] * times;
  return sum;
}

double Packing::sum() const {
  double sum = 0;
  for (std::size_t i = 0; i < rows_; ++i) sum += basis_[i] == kSlack ? 0 : x_[i];
  return sum * unit_;
}

std::vector<std::pair<int, double>> Packing::used() const {
  std::vector<std::pair<int, double>> found;
  for (std::size_t i = 0; i < rows_; ++i) {
    if (basis_[i] != kSlack && x_[i] > kTiny) found.emplace_back(basis_[i], x_[i] * unit_);
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The row whose column becomes 0 first as the entering one grows. Among equals the row of the inverse that is least in
/// lexicographic order after division, which never comes back to a basis it has left. rows_ where nothing bounds it.
std::size_t Packing::leaving(const std::vector<double>& entering) const {
  std::size_t best = rows_;
  for (std::size_t i = 0; i < rows_; ++i) {
    if (entering[i] <= kPivot) continue;
    if (best == rows_) {
      best = i;
      continue;
    }
    double difference = x_[i] / entering[i] - x_[best] / entering[best];
    for (std::size_t j = 0; j < rows_ && std::abs(difference) <= kTiny; ++j) {
      difference = inverse(i, j) / entering[i] - inverse(best, j) / entering[best];
    }
    if (difference < -kTiny) best = i;
  }
  return best;
}

/// Puts a column (kSlack: one of the slacks) in the place of the one that leaves.
bool Packing::pivot(int column, const std::vector<double>& entering) {
  const std::size_t row = leaving(entering);
  if (row == rows_) return false;
  for (std::size_t j = 0; j < rows_; ++j) inverse(row, j) /= entering[row];
  x_[row] = std::max(0., x_[row] / entering[row]);
  for (std::size_t i = 0; i < rows_; ++i) {
    if (i == row || entering[i] == 0) continue;
    for (std::size_t j = 0; j < rows_; ++j) inverse(i, j) -= entering[i] * inverse(row, j);
    x_[i] = std::max(0., x_[i] - entering[i] * x_[row]);
  }
  basis_[row] = column;
  // Anew from the basis, so that rounding does not add up.
  std::fill(prices_.begin(), prices_.end(), 0);
  for (std::size_t i = 0; i < rows_; ++i) {
    if (basis_[i] == kSlack) continue;
    for (std::size_t j = 0; j < rows_; ++j) prices_[j] += inverse(i, j);
  }
  return true;
}

bool Packing::enter(int column, const Loads& loads, Steps& steps) {
  if (1 - cost(loads) <= kTiny || !steps.take(rows_ * rows_)) return false;
  std::vector<double> entering(rows_, 0);
  for (std::size_t i = 0; i < rows_; ++i) {
    for (const auto& [link, times] : loads) entering[i] += inverse(i, link) * times;
  }
  return pivot(column, entering) && raise_negative(steps);
}

/// A link with a negative price is used too much: its slack comes back.
bool Packing::raise_negative(Steps& steps) {
  for (;;) {
    const auto least = std::min_element(prices_.begin(), prices_.end());
    if (least == prices_.end() || *least >= -kTiny) break;
    if (!steps.take(rows_ * rows_)) return false;
    const auto link = static_cast<std::size_t>(least - prices_.begin());
    std::vector<double> entering(rows_);
    for (std::size_t i = 0; i < rows_; ++i) entering[i] = inverse(i, link);
    if (!pivot(kSlack, entering)) return false;
  }
  for (double& price : prices_) price = std::max(0., price);
  return true;
}

}  // namespace tutti
