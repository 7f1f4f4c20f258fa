// Stochastic gradient descent with momentum and weight decay.
#pragma once

#include <cstddef>
#include <span>

#include "trainer/numbers.h"

namespace tutti::trainer {

/// What one step does: velocity = momentum · velocity + gradient + weight_decay · weight; weight −= learning_rate ·
/// velocity.
struct StepSettings {
  double learning_rate = 0.1;
  double momentum = 0;      ///< 0: plain descent
  double weight_decay = 0;  ///< of weights and biases alike
};

/// Keeps a velocity per parameter. Ranges may be stepped one by one, as their gradients come in. Not thread safe.
template <typename Scalar>
class Optimizer {
 public:
  explicit Optimizer(std::size_t parameters) : velocity_(parameters) {}

  /// Steps parameters [begin, end); both spans cover all parameters.
  void step(std::span<Scalar> parameters, std::span<const Scalar> gradients, std::size_t begin, std::size_t end,
            const StepSettings& settings);
  /// All velocities, to be saved and restored.
  std::span<Scalar> velocity() { return velocity_; }

 private:
  Numbers<Scalar> velocity_;
};

extern template class Optimizer<float>;
extern template class Optimizer<double>;

}  // namespace tutti::trainer
