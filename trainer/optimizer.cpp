#include "trainer/optimizer.h"

#include <cassert>

namespace tutti::trainer {

template <typename Scalar>
void Optimizer<Scalar>::step(std::span<Scalar> parameters, std::span<const Scalar> gradients, std::size_t begin,
                             std::size_t end, const StepSettings& settings) {
  assert(end <= velocity_.size() && parameters.size() == velocity_.size() && gradients.size() == velocity_.size());
  const auto rate = static_cast<Scalar>(settings.learning_rate);
  const auto momentum = static_cast<Scalar>(settings.momentum);
  const auto decay = static_cast<Scalar>(settings.weight_decay);
  Scalar* __restrict weight = parameters.data();
  Scalar* __restrict velocity = velocity_.data();
  const Scalar* __restrict gradient = gradients.data();
  for (std::size_t i = begin; i < end; ++i) {
    const Scalar v = momentum * velocity[i] + gradient[i] + decay * weight[i];
    velocity[i] = v;
    weight[i] -= rate * v;
  }
}

template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace tutti::trainer
