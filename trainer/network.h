// A fully connected network: forward, loss and backward of one rank's share of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "trainer/numbers.h"

namespace tutti::trainer {

/// What the network's last layer is compared with its target by.
enum class LossKind {
  cross_entropy,  ///< softmax of the outputs, then −log of the target class's share
  squared,        ///< ½ Σ (output − target)²; a class's target is 1 at its place and 0 elsewhere
};

/// Whether the last layer's outputs pass through ReLU as the hidden layers' do.
enum class OutputKind { linear, relu };

/// What one forward pass came to, summed over its samples.
struct BatchResult {
  double loss = 0;          ///< Σ over samples, not yet weighted
  std::size_t correct = 0;  ///< samples whose largest output is their class
};

/// Makes BLAS run in the calling thread alone: ranks are the parallelism, and cores are shared among them. Process wide.
void use_one_blas_thread();

/// Layers of any size with ReLU between them. Scalar is float (training) or double (to check the mathematics).
///
/// All parameters lie in one array, layer by layer, each layer's weights [outputs x inputs] row-major and then its
/// biases; gradients lie in an array of the same shape. Back-propagation takes the error down through all layers first and
/// then completes the gradients from the beginning of the array to its end, the order in which the next forward pass
/// needs the parameters that they change: what it needs first has the longest time to be exchanged.
///
/// Owns parameters, gradients and work space for `max_batch` samples; nothing is allocated after construction. Not thread
/// safe, but gradients that have been reported ready are not touched until the next backward().
template <typename Scalar>
class FeedForwardNetwork {
 public:
  /// layers   widths, at least two, each at least 1: inputs, hidden …, outputs.
  FeedForwardNetwork(std::vector<int> layers, LossKind loss, std::size_t max_batch, OutputKind output = OutputKind::linear);

  const std::vector<int>& layers() const { return layers_; }
  std::size_t parameter_count() const { return parameters_.size(); }
  std::span<Scalar> parameters() { return parameters_; }
  std::span<const Scalar> parameters() const { return parameters_; }
  std::span<Scalar> gradients() { return elsewhere_.empty() ? std::span<Scalar>(gradients_) : elsewhere_; }
  /// Puts the gradients into the caller's memory, parameter_count() long, instead of the network's own; copies of the
  /// network then share it.
  void put_gradients(std::span<Scalar> memory);
  /// Layer l (0 is the one next to the inputs): its weights [outputs x inputs], then its biases, as offsets.
  std::size_t weights_offset(std::size_t layer) const { return offsets_[layer]; }
  std::size_t biases_offset(std::size_t layer) const;
  /// What layer l's neurons gave for the last forward pass, max_batch x outputs, row-major; after ReLU where it has one.
  std::span<const Scalar> activations(std::size_t layer) const { return activations_[layer]; }

  /// He et al. 2015: weights normal with variance 2 / inputs (the last layer's, with squared error, 0.1 / inputs), biases
  /// 0. The same for a seed on every rank.
  void initialise(std::uint64_t seed);

  /// Where the caller puts the next batch's inputs: max_batch x inputs, row-major.
  std::span<Scalar> input() { return input_; }

  /// Called with `end` in each forward pass before the first of the parameters [last end or 0, end) is read.
  using Reading = std::function<void(std::size_t end)>;
  /// From now on; replaces the one before.
  void before_reading(Reading reading) { reading_ = std::move(reading); }

  /// Computes the outputs of the first `samples` rows of input(), and compares them with `classes` (that many, each
  /// below the last layer's width).
  BatchResult forward(std::size_t samples, std::span<const std::uint8_t> classes);
  /// The same with real-valued targets, samples x outputs; squared loss only. `correct` is 0.
  BatchResult forward(std::size_t samples, std::span<const Scalar> targets);

  /// Called with `end`: gradients [0, end) are complete. Comes with rising `end`, at last parameter_count().
  using Ready = std::function<void(std::size_t end)>;

  /// Gradients of weight · Σ loss over the samples of the last forward(), from the first layer to the last. A layer's
  /// weights are computed in blocks of rows of about the same size, at least `block` parameters each where the layer has
  /// as many (0: whole layers); `ready` after each.
  void backward(Scalar weight, const Ready& ready, std::size_t block = 0);

 private:
  BatchResult run(std::size_t samples);
  void activate(std::size_t layer, bool relu);
  BatchResult cross_entropy(std::span<const std::uint8_t> classes);
  void take_error_down(std::size_t layer);
  void layer_gradients(std::size_t layer, const Ready& ready, std::size_t block);
  const Scalar* layer_input(std::size_t layer) const;

  std::vector<int> layers_;
  LossKind loss_;
  OutputKind output_;
  std::size_t samples_ = 0;
  std::vector<std::size_t> offsets_;  ///< of each layer's weights; one more for the end
  Numbers<Scalar> parameters_, gradients_;
  std::span<Scalar> elsewhere_;  ///< instead of gradients_, where it is not empty
  Numbers<Scalar> input_;
  Reading reading_;
  std::vector<Numbers<Scalar>> activations_;  ///< [layer] max_batch x outputs
  std::vector<Numbers<Scalar>> deltas_;       ///< [layer] ∂loss/∂(before ReLU), max_batch x outputs
};

extern template class FeedForwardNetwork<float>;
extern template class FeedForwardNetwork<double>;

}  // namespace tutti::trainer
