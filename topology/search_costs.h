// What the searches for rings and trees agree on.
#pragma once

#include <limits>

namespace tutti {

/// Costs of what cannot be.
constexpr double kNever = std::numeric_limits<double>::infinity();
/// What a link costs besides its price: too little to matter beside a price, enough to prefer NVLink to PCIe.
constexpr double kPerLink = 1e-11;
/// Relative rounding errors of sums of rates stay below it.
constexpr double kRounding = 1e-9;

}  // namespace tutti
