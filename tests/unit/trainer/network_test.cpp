// The mathematics: the two worked examples to the digit, and every gradient against finite differences.
#include "trainer/network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "trainer/exchange.h"
#include "trainer/optimizer.h"
#include "trainer/random.h"

namespace tutti::trainer {
namespace {

// Example A: x = (1, 0), ReLU everywhere, L = (Y − 2)², rate .01. Neurons 1, 2 → 3, 4 → 5.
template <typename Scalar>
class TwoNeurons {
 public:
  TwoNeurons() : network_({2, 2, 1}, LossKind::squared, 1, OutputKind::relu), optimizer_(network_.parameter_count()) {
    const Scalar start[] = {.5, .5, 1, 1, 0, .5, 1, 1, .5};  // W31 W32 W41 W42 b3 b4 W53 W54 b5
    std::copy(std::begin(start), std::end(start), network_.parameters().begin());
    network_.input()[0] = 1;
    network_.input()[1] = 0;
  }
  // One step; weight 2 turns the network's ½(Y − Ye)² into (Y − Ye)².
  double step() {
    const Scalar target[] = {2};
    const double loss = 2 * network_.forward(1, std::span<const Scalar>(target)).loss;
    h3 = static_cast<double>(network_.activations(0)[0]);
    h4 = static_cast<double>(network_.activations(0)[1]);
    y = static_cast<double>(network_.activations(1)[0]);
    network_.backward(Scalar{2}, {});
    gradients.assign(network_.gradients().begin(), network_.gradients().end());
    optimizer_.step(network_.parameters(), network_.gradients(), 0, network_.parameter_count(), {.learning_rate = .01});
    return loss;
  }
  std::vector<double> parameters() { return {network_.parameters().begin(), network_.parameters().end()}; }

  double h3 = 0, h4 = 0, y = 0;
  std::vector<double> gradients;

 private:
  FeedForwardNetwork<Scalar> network_;
  Optimizer<Scalar> optimizer_;
};

template <typename Scalar>
class ExampleA : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(ExampleA, Scalars);

TYPED_TEST(ExampleA, HoldsToTheDigitForThreeSteps) {
  // Printed digits, as far as the type can tell them apart.
  const double digit = std::is_same_v<TypeParam, float> ? 5e-7 : 1e-14;
  const double printed = std::is_same_v<TypeParam, float> ? 5e-7 : 5.1e-9;
  TwoNeurons<TypeParam> net;
  EXPECT_NEAR(net.step(), .25, digit);
  EXPECT_EQ(net.h3, .5);
  EXPECT_EQ(net.h4, 1.5);
  EXPECT_EQ(net.y, 2.5);
  EXPECT_EQ(net.gradients, (std::vector<double>{1, 0, 1, 0, 1, 1, .5, 1.5, 1}));
  const std::vector<double> expected = {.49, .5, .99, 1, -.01, .49, .995, .985, .49};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(net.parameters()[i], expected[i], digit) << i;

  EXPECT_NEAR(net.step(), .18096516, digit);
  EXPECT_NEAR(net.h3, .48, digit);
  EXPECT_NEAR(net.h4, 1.48, digit);
  EXPECT_NEAR(net.y, 2.4254, digit);

  EXPECT_NEAR(net.step(), .13192907, printed);
  EXPECT_NEAR(net.y, 2.36322041, printed);
}

TEST(ExampleA, IsExactInDoubleWhereThePrintedDigitsEnd) {
  TwoNeurons<double> net;
  net.step();
  net.step();
  net.step();
  // Worked by hand from the second step's H3 = .48, H4 = 1.48, Y − 2 = .4254, dL/dY = .8508.
  const double d = .8508 * .01;
  const double w31 = .49 - d * .995, b3 = -.01 - d * .995, w41 = .99 - d * .985, b4 = .49 - d * .985;
  EXPECT_NEAR(net.h3, w31 + b3, 1e-14);
  EXPECT_NEAR(net.h4, w41 + b4, 1e-14);
}

// Example B: y = a·x + b, L = ½ Σ (y − ŷ)², a = b = 1, rate .1.
class Line {
 public:
  Line() : network_({1, 1}, LossKind::squared, 2), optimizer_(2) {
    network_.parameters()[0] = network_.parameters()[1] = 1;
  }
  double forward(const std::vector<float>& x, const std::vector<float>& y) {
    std::copy(x.begin(), x.end(), network_.input().begin());
    const double loss = network_.forward(x.size(), std::span<const float>(y)).loss;
    network_.backward(1.0F, {});
    return loss;
  }
  float prediction(std::size_t sample) { return network_.activations(0)[sample]; }
  void step() { optimizer_.step(network_.parameters(), network_.gradients(), 0, 2, {.learning_rate = .1}); }
  std::span<float> gradients() { return network_.gradients(); }
  float a() { return network_.parameters()[0]; }
  float b() { return network_.parameters()[1]; }

 private:
  FeedForwardNetwork<float> network_;
  Optimizer<float> optimizer_;
};

TEST(ExampleB, HoldsToTheDigitOnOneRank) {
  Line line;
  EXPECT_FLOAT_EQ(static_cast<float>(line.forward({1, 2}, {5, 7})), 12.5F);
  EXPECT_EQ(line.prediction(0), 2.0F);
  EXPECT_EQ(line.prediction(1), 3.0F);
  EXPECT_EQ(line.gradients()[0], -11.0F);
  EXPECT_EQ(line.gradients()[1], -7.0F);
  line.step();
  EXPECT_EQ(line.a(), 2.1F);
  EXPECT_EQ(line.b(), 1.7F);
  EXPECT_NEAR(line.forward({3, 5}, {9, 13}), .82, 1e-6);
  EXPECT_NEAR(line.prediction(0), 8.0, 1e-6);
  EXPECT_NEAR(line.prediction(1), 12.2, 1e-6);
  EXPECT_NEAR(line.gradients()[0], -7.0, 5e-6);
  EXPECT_NEAR(line.gradients()[1], -1.8, 2e-6);
  line.step();
  EXPECT_NEAR(line.a(), 2.8, 1e-6);
  EXPECT_NEAR(line.b(), 1.88, 1e-6);
}

TEST(ExampleB, IsReproducedByTwoRanksWithOneSampleEach) {
  Line one;
  Line rank[2];
  const float x[2][2] = {{1, 2}, {3, 5}};
  const float y[2][2] = {{5, 7}, {9, 13}};
  for (int batch = 0; batch < 2; ++batch) {
    one.forward({x[batch][0], x[batch][1]}, {y[batch][0], y[batch][1]});
    one.step();
    for (int r = 0; r < 2; ++r) rank[r].forward({x[batch][r]}, {y[batch][r]});
    for (std::size_t i = 0; i < 2; ++i) {
      const float sum = rank[0].gradients()[i] + rank[1].gradients()[i];
      rank[0].gradients()[i] = rank[1].gradients()[i] = sum;
    }
    for (Line& r : rank) {
      r.step();
      if (batch == 0) {
        EXPECT_EQ(r.a(), 2.1F);
        EXPECT_EQ(r.b(), 1.7F);
      }
      EXPECT_NEAR(r.a(), one.a(), 1e-6) << "batch " << batch;  // 2.8 and 1.88 are no floats: a fused multiply-add may show
      EXPECT_NEAR(r.b(), one.b(), 1e-6) << "batch " << batch;
    }
  }
}

struct GradientCase {
  std::vector<int> layers;
  LossKind loss;
  OutputKind output;
  std::size_t samples;
};

class Gradients : public testing::TestWithParam<GradientCase> {};

TEST_P(Gradients, AgreeWithFiniteDifferences) {
  const GradientCase& c = GetParam();
  FeedForwardNetwork<double> network(c.layers, c.loss, c.samples + 2, c.output);
  network.initialise(7);
  Random random(11);
  for (double& p : network.parameters()) p += 0.1 * random.normal();  // biases away from 0 too
  for (double& x : network.input()) x = random.normal();
  std::vector<std::uint8_t> classes(c.samples);
  for (auto& k : classes) k = static_cast<std::uint8_t>(random.below(static_cast<std::uint64_t>(c.layers.back())));
  const double weight = 0.37;
  network.forward(c.samples, classes);
  network.backward(weight, {}, 3);
  const std::vector<double> gradients(network.gradients().begin(), network.gradients().end());
  const double h = 1e-6;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const double kept = network.parameters()[i];
    network.parameters()[i] = kept + h;
    const double above = weight * network.forward(c.samples, classes).loss;
    network.parameters()[i] = kept - h;
    const double below = weight * network.forward(c.samples, classes).loss;
    network.parameters()[i] = kept;
    EXPECT_NEAR(gradients[i], (above - below) / (2 * h), 1e-6 * std::max(1.0, std::abs(gradients[i]))) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Gradients,
                         testing::Values(GradientCase{{4, 3}, LossKind::cross_entropy, OutputKind::linear, 5},
                                         GradientCase{{4, 3}, LossKind::squared, OutputKind::linear, 5},
                                         GradientCase{{5, 7, 3}, LossKind::cross_entropy, OutputKind::linear, 6},
                                         GradientCase{{5, 7, 3}, LossKind::squared, OutputKind::relu, 6},
                                         GradientCase{{3, 1, 2}, LossKind::cross_entropy, OutputKind::linear, 1},
                                         GradientCase{{6, 5, 4, 3, 2}, LossKind::cross_entropy, OutputKind::linear, 9},
                                         GradientCase{{6, 5, 4, 3, 2}, LossKind::squared, OutputKind::linear, 9},
                                         GradientCase{{1, 17, 1, 5}, LossKind::squared, OutputKind::linear, 4}));

TEST(FeedForwardNetwork, ReportsGradientsFromTheBeginningToTheEndAndOnlyWhenTheyAreFinal) {
  FeedForwardNetwork<float> network({20, 30, 10}, LossKind::cross_entropy, 4);
  network.initialise(1);
  Random random(3);
  for (float& x : network.input()) x = static_cast<float>(random.normal());
  const std::vector<std::uint8_t> classes = {1, 2, 3, 4};
  network.forward(4, classes);
  network.backward(1.0F, {});
  const std::vector<float> whole(network.gradients().begin(), network.gradients().end());
  std::fill(network.gradients().begin(), network.gradients().end(), -1.0F);
  network.forward(4, classes);
  std::size_t last = 0;
  std::size_t calls = 0;
  network.backward(
      1.0F,
      [&](std::size_t end) {
        EXPECT_GE(end - last, 60U);
        last = end;
        ++calls;
        for (std::size_t i = 0; i < end; ++i) ASSERT_NEAR(network.gradients()[i], whole[i], 1e-6F) << i;
      },
      60);
  EXPECT_EQ(last, network.parameter_count());
  EXPECT_EQ(calls, 10U + 5U);  // blocks of 3 rows of 20 weights, of 2 rows of 30
}

TEST(FeedForwardNetwork, SplitsLayersIntoBlocksThatAreNeverSmallerThanAsked) {
  FeedForwardNetwork<float> network({7, 50, 11, 3}, LossKind::cross_entropy, 2);
  const std::vector<std::uint8_t> classes = {1, 2};
  network.forward(2, classes);
  for (std::size_t block = 1; block < 900; ++block) {
    std::size_t last = 0;
    std::vector<std::size_t> ends;
    network.backward(
        1.0F,
        [&](std::size_t end) {
          const bool whole_layer = end - last == 400U || end - last == 561U || end - last == 36U;
          EXPECT_TRUE(whole_layer || end - last >= block) << block << ": " << end - last;
          last = end;
          ends.push_back(end);
        },
        block);
    for (const std::size_t layer : {400U, 961U, 997U})
      EXPECT_NE(std::find(ends.begin(), ends.end(), layer), ends.end()) << block;
  }
}

// What a layer is changed by may come as late as the moment before it is read, and makes no difference then.
TEST(FeedForwardNetwork, AsksForEachLayersParametersBeforeItReadsThem) {
  FeedForwardNetwork<float> network({20, 30, 10}, LossKind::cross_entropy, 4);
  network.initialise(1);
  std::fill(network.input().begin(), network.input().end(), 0.5F);
  const std::vector<std::uint8_t> classes = {1, 2, 3, 4};
  const double loss = network.forward(4, classes).loss;
  const std::vector<float> right(network.parameters().begin(), network.parameters().end());
  std::fill(network.parameters().begin(), network.parameters().end(), 100.0F);
  std::size_t last = 0;
  network.before_reading([&](std::size_t end) {
    for (; last < end; ++last) network.parameters()[last] = right[last];
  });
  EXPECT_EQ(network.forward(4, classes).loss, loss);
  EXPECT_EQ(last, network.parameter_count());
}

TEST(FeedForwardNetwork, GivesZeroGradientsForAnEmptyShare) {
  FeedForwardNetwork<float> network({3, 4, 2}, LossKind::cross_entropy, 1);
  network.initialise(1);
  std::fill(network.gradients().begin(), network.gradients().end(), 5.0F);
  EXPECT_EQ(network.forward(0, std::span<const std::uint8_t>()).loss, 0);
  network.backward(1.0F, {});
  for (const float g : network.gradients()) EXPECT_EQ(g, 0.0F);
}

TEST(FeedForwardNetwork, SurvivesOutputsThatWouldOverflowSoftmax) {
  FeedForwardNetwork<float> network({1, 2}, LossKind::cross_entropy, 1);
  network.parameters()[0] = 1000;
  network.input()[0] = 1;
  const std::vector<std::uint8_t> right = {0}, wrong = {1};
  EXPECT_NEAR(network.forward(1, right).loss, 0, 1e-6);
  EXPECT_NEAR(network.forward(1, wrong).loss, 1000, 1e-2);
}

TEST(FeedForwardNetwork, InitialisesAsHeAndTheSameForASeed) {
  FeedForwardNetwork<float> a({400, 300, 10}, LossKind::cross_entropy, 1);
  FeedForwardNetwork<float> b = a;
  a.initialise(5);
  b.initialise(5);
  EXPECT_TRUE(std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin()));
  b.initialise(6);
  EXPECT_FALSE(std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin()));
  double squares = 0;
  for (std::size_t i = 0; i < a.biases_offset(0); ++i) squares += std::pow(static_cast<double>(a.parameters()[i]), 2);
  EXPECT_NEAR(squares / static_cast<double>(a.biases_offset(0)), 2.0 / 400, 0.02 * 2.0 / 400);
  for (std::size_t i = a.biases_offset(0); i < a.weights_offset(1); ++i) EXPECT_EQ(a.parameters()[i], 0.0F);
}

TEST(Optimizer, FollowsMomentumAndDecay) {
  Optimizer<double> optimizer(1);
  std::vector<double> weight = {2};
  const std::vector<double> gradient = {1};
  const StepSettings settings{.learning_rate = .1, .momentum = .5, .weight_decay = .25};
  optimizer.step(weight, gradient, 0, 1, settings);  // v = 1 + .5 = 1.5
  EXPECT_DOUBLE_EQ(weight[0], 2 - .15);
  optimizer.step(weight, gradient, 0, 1, settings);  // v = .75 + 1 + .25 · 1.85
  EXPECT_DOUBLE_EQ(weight[0], 1.85 - .1 * (.75 + 1 + .25 * 1.85));
}

TEST(Numbers, OfAHugePageOrMoreBeginAtOne) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, HugePages<float>::page / 4, std::size_t{3'000'001}}) {
    Numbers<float> numbers(count);
    EXPECT_EQ(numbers, Numbers<float>(count, 0.0F));
    if (count * sizeof(float) < HugePages<float>::page) continue;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(numbers.data()) % HugePages<float>::page, 0u);
  }
  EXPECT_THROW(HugePages<double>().allocate(std::numeric_limits<std::size_t>::max() / sizeof(double)), std::bad_alloc);
}

}  // namespace
}  // namespace tutti::trainer
