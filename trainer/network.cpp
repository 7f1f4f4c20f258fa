#include "trainer/network.h"

#include <cblas.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "trainer/random.h"

namespace tutti::trainer {
namespace {

struct Operand {
  CBLAS_TRANSPOSE transpose;
  int stride;
};

// C [m x n] = A·B, row-major, C overwritten.
void multiply(const float* a, Operand ao, const float* b, Operand bo, float* c, int m, int n, int k) {
  cblas_sgemm(CblasRowMajor, ao.transpose, bo.transpose, m, n, k, 1.0F, a, ao.stride, b, bo.stride, 0.0F, c, n);
}

void multiply(const double* a, Operand ao, const double* b, Operand bo, double* c, int m, int n, int k) {
  cblas_dgemm(CblasRowMajor, ao.transpose, bo.transpose, m, n, k, 1.0, a, ao.stride, b, bo.stride, 0.0, c, n);
}

}  // namespace

void use_one_blas_thread() { openblas_set_num_threads(1); }

template <typename Scalar>
FeedForwardNetwork<Scalar>::FeedForwardNetwork(std::vector<int> layers, LossKind loss, std::size_t max_batch,
                                               OutputKind output)
    : layers_(std::move(layers)), loss_(loss), output_(output) {
  assert(layers_.size() >= 2);
  std::size_t offset = 0;
  for (std::size_t l = 0; l + 1 < layers_.size(); ++l) {
    const auto inputs = static_cast<std::size_t>(layers_[l]);
    const auto outputs = static_cast<std::size_t>(layers_[l + 1]);
    offsets_.push_back(offset);
    offset += outputs * inputs + outputs;
    activations_.emplace_back(max_batch * outputs);
    deltas_.emplace_back(max_batch * outputs);
  }
  offsets_.push_back(offset);
  parameters_.resize(offset);
  gradients_.resize(offset);
  input_.resize(max_batch * static_cast<std::size_t>(layers_[0]));
}

template <typename Scalar>
void FeedForwardNetwork<Scalar>::put_gradients(std::span<Scalar> memory) {
  assert(memory.size() == parameters_.size());
  elsewhere_ = memory;
  gradients_ = {};
}

template <typename Scalar>
std::size_t FeedForwardNetwork<Scalar>::biases_offset(std::size_t layer) const {
  return offsets_[layer] + static_cast<std::size_t>(layers_[layer]) * static_cast<std::size_t>(layers_[layer + 1]);
}

template <typename Scalar>
void FeedForwardNetwork<Scalar>::initialise(std::uint64_t seed) {
  Random random(seed, 1);
  std::fill(parameters_.begin(), parameters_.end(), Scalar{0});
  for (std::size_t l = 0; l + 1 < layers_.size(); ++l) {
    // Squared error's gradient grows with the outputs, softmax's does not: there the first outputs begin well below 1.
    const bool small = l + 2 == layers_.size() && loss_ == LossKind::squared;
    const double deviation = std::sqrt((small ? 0.1 : 2.0) / layers_[l]);
    for (std::size_t i = offsets_[l]; i < biases_offset(l); ++i)
      parameters_[i] = static_cast<Scalar>(deviation * random.normal());
  }
}

template <typename Scalar>
const Scalar* FeedForwardNetwork<Scalar>::layer_input(std::size_t layer) const {
  return layer == 0 ? input_.data() : activations_[layer - 1].data();
}

template <typename Scalar>
void FeedForwardNetwork<Scalar>::activate(std::size_t layer, bool relu) {
  const auto outputs = static_cast<std::size_t>(layers_[layer + 1]);
  const Scalar* bias = parameters_.data() + biases_offset(layer);
  const Scalar floor = relu ? Scalar{0} : -std::numeric_limits<Scalar>::infinity();
  for (std::size_t s = 0; s < samples_; ++s) {
    Scalar* row = activations_[layer].data() + s * outputs;
    for (std::size_t j = 0; j < outputs; ++j) {
      const Scalar sum = row[j] + bias[j];
      row[j] = sum < floor ? floor : sum;
    }
  }
}

template <typename Scalar>
BatchResult FeedForwardNetwork<Scalar>::run(std::size_t samples) {
  samples_ = samples;
  const std::size_t depth = layers_.size() - 1;
  for (std::size_t l = 0; l < depth; ++l) {
    if (reading_) reading_(offsets_[l + 1]);
    if (samples == 0) continue;
    const int inputs = layers_[l];
    const int outputs = layers_[l + 1];
    multiply(layer_input(l), {CblasNoTrans, inputs}, parameters_.data() + offsets_[l], {CblasTrans, inputs},
             activations_[l].data(), static_cast<int>(samples), outputs, inputs);
    activate(l, l + 1 < depth || output_ == OutputKind::relu);
  }
  return {};
}

template <typename Scalar>
BatchResult FeedForwardNetwork<Scalar>::cross_entropy(std::span<const std::uint8_t> classes) {
  BatchResult result;
  const auto outputs = static_cast<std::size_t>(layers_.back());
  for (std::size_t s = 0; s < samples_; ++s) {
    const Scalar* y = activations_.back().data() + s * outputs;
    Scalar* delta = deltas_.back().data() + s * outputs;
    const Scalar largest = *std::max_element(y, y + outputs);
    double sum = 0;
    for (std::size_t j = 0; j < outputs; ++j) {
      delta[j] = std::exp(y[j] - largest);  // the shift by the largest keeps exp from overflowing
      sum += static_cast<double>(delta[j]);
    }
    const auto inverse = static_cast<Scalar>(1.0 / sum);
    for (std::size_t j = 0; j < outputs; ++j) delta[j] *= inverse;
    result.loss += std::log(sum) - static_cast<double>(y[classes[s]] - largest);
    delta[classes[s]] -= Scalar{1};
  }
  return result;
}

template <typename Scalar>
BatchResult FeedForwardNetwork<Scalar>::forward(std::size_t samples, std::span<const std::uint8_t> classes) {
  assert(classes.size() >= samples);
  BatchResult result = run(samples);
  const auto outputs = static_cast<std::size_t>(layers_.back());
  if (loss_ == LossKind::cross_entropy) result = cross_entropy(classes);
  for (std::size_t s = 0; s < samples; ++s) {
    const Scalar* y = activations_.back().data() + s * outputs;
    if (std::max_element(y, y + outputs) - y == classes[s]) ++result.correct;
    if (loss_ == LossKind::cross_entropy) continue;
    Scalar* delta = deltas_.back().data() + s * outputs;
    for (std::size_t j = 0; j < outputs; ++j) {
      delta[j] = y[j] - (j == classes[s] ? Scalar{1} : Scalar{0});
      result.loss += 0.5 * static_cast<double>(delta[j]) * static_cast<double>(delta[j]);
    }
  }
  return result;
}

template <typename Scalar>
BatchResult FeedForwardNetwork<Scalar>::forward(std::size_t samples, std::span<const Scalar> targets) {
  assert(loss_ == LossKind::squared);
  const std::size_t values = samples * static_cast<std::size_t>(layers_.back());
  assert(targets.size() >= values);
  BatchResult result = run(samples);
  for (std::size_t i = 0; i < values; ++i) {
    const Scalar difference = activations_.back()[i] - targets[i];
    deltas_.back()[i] = difference;
    result.loss += 0.5 * static_cast<double>(difference) * static_cast<double>(difference);
  }
  return result;
}

template <typename Scalar>
void FeedForwardNetwork<Scalar>::layer_gradients(std::size_t layer, const Ready& ready, std::size_t block) {
  const auto inputs = static_cast<std::size_t>(layers_[layer]);
  const auto outputs = static_cast<std::size_t>(layers_[layer + 1]);
  const Scalar* delta = deltas_[layer].data();
  Scalar* bias = gradients().data() + biases_offset(layer);
  std::fill(bias, bias + outputs, Scalar{0});
  for (std::size_t s = 0; s < samples_; ++s) {
    for (std::size_t j = 0; j < outputs; ++j) bias[j] += delta[s * outputs + j];
  }
  const std::size_t rows = block == 0 ? outputs : (block + inputs - 1) / inputs;  // of a block, at least
  const std::size_t blocks = std::max<std::size_t>(1, outputs / rows);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t begin = outputs * b / blocks;
    const std::size_t end = outputs * (b + 1) / blocks;
    Scalar* weights = gradients().data() + offsets_[layer] + begin * inputs;
    if (samples_ > 0) {
      multiply(delta + begin, {CblasTrans, static_cast<int>(outputs)}, layer_input(layer), {CblasNoTrans, layers_[layer]},
               weights, static_cast<int>(end - begin), layers_[layer], static_cast<int>(samples_));
    } else {
      std::fill(weights, weights + (end - begin) * inputs, Scalar{0});
    }
    if (ready) ready(end < outputs ? offsets_[layer] + end * inputs : offsets_[layer + 1]);
  }
}

// From what goes wrong before this layer's ReLU to what goes wrong before that of the layer below.
template <typename Scalar>
void FeedForwardNetwork<Scalar>::take_error_down(std::size_t layer) {
  const int inputs = layers_[layer];
  const int outputs = layers_[layer + 1];
  Scalar* below = deltas_[layer - 1].data();
  multiply(deltas_[layer].data(), {CblasNoTrans, outputs}, parameters_.data() + offsets_[layer], {CblasNoTrans, inputs},
           below, static_cast<int>(samples_), inputs, outputs);
  const Scalar* activation = activations_[layer - 1].data();
  const std::size_t values = samples_ * static_cast<std::size_t>(inputs);
  for (std::size_t i = 0; i < values; ++i) below[i] = activation[i] > Scalar{0} ? below[i] : Scalar{0};
}

template <typename Scalar>
void FeedForwardNetwork<Scalar>::backward(Scalar weight, const Ready& ready, std::size_t block) {
  const std::size_t last = layers_.size() - 2;
  const std::size_t values = samples_ * static_cast<std::size_t>(layers_.back());
  for (std::size_t i = 0; i < values; ++i) {
    const bool passes = output_ == OutputKind::linear || activations_[last][i] > Scalar{0};
    deltas_[last][i] = passes ? deltas_[last][i] * weight : Scalar{0};
  }
  for (std::size_t l = last; l > 0 && samples_ > 0; --l) take_error_down(l);
  for (std::size_t l = 0; l <= last; ++l) layer_gradients(l, ready, block);
}

template class FeedForwardNetwork<float>;
template class FeedForwardNetwork<double>;

}  // namespace tutti::trainer
