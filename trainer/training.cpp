#include "trainer/training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

#include "trainer/checkpoint.h"
#include "trainer/exchange.h"
#include "trainer/hash.h"
#include "trainer/sampling.h"
#include "trainer/stopwatch.h"

namespace tutti::trainer {
namespace {

constexpr std::uint64_t kFirstEpochStream = 16;  // streams of the seed below are taken by weights and split
constexpr double kDiverged = 1e6;                // times the first step's loss: no training comes back from there
constexpr std::size_t kLeastCapacity = 64;       // rows that an evaluation takes at once, however small the batches are

// One rank's run.
class Run {
 public:
  Run(const TrainingSettings& settings, const Dataset& data, Peers& peers, const TrainingWatcher& watcher);
  TrainingOutcome begin();
  TrainingOutcome train_all();
  Fallible<FinalReport> finish();

 private:
  TrainingOutcome settings_agree();
  TrainingOutcome place_gradients();
  TrainingOutcome resume();
  TrainingOutcome save(int epoch);
  Checkpoint description() const;
  TrainingOutcome train_epoch(int epoch, double& loss, double& correct);
  TrainingOutcome judge(int epoch, double loss) const;
  TrainingOutcome step(std::span<const std::uint32_t> batch, double& loss, double& correct);
  TrainingOutcome settle(std::size_t end);
  TrainingOutcome evaluate(const Images& images, std::span<const std::uint32_t> chosen, double& accuracy);
  TrainingOutcome report(int epoch, double loss, double accuracy, const Stopwatch& watch, double communication,
                         double waited);
  TrainingOutcome replicas_agree();

  const TrainingSettings& settings_;
  const Dataset& data_;
  Peers& peers_;
  const TrainingWatcher& watcher_;
  const DatasetSplit split_;
  const std::size_t batch_;     // never more than there are samples
  const std::size_t capacity_;  // rows the network takes at once
  Normalisation normal_;
  FeedForwardNetwork<float> network_;
  Optimizer<float> optimizer_;
  std::vector<std::span<float>> gradients_;   ///< of each part of a batch; the first becomes the sum of all ranks'
  std::optional<GradientExchange> exchange_;  ///< once there is memory for it
  StepSettings how_;                          ///< this epoch's
  std::vector<std::uint8_t> classes_;
  std::uint64_t hash_ = 0;
  double first_loss_ = -1;  // mean over the first step's samples; before the epoch's sum, this rank's part of it
  int epochs_done_ = 0;
};

std::uint64_t hash_images(const Images& images, std::uint64_t seed = 0) {
  return hash_bytes(images.labels.data(), images.labels.size(),
                    hash_bytes(images.pixels.data(), images.pixels.size(), seed));
}

std::size_t capacity(std::size_t batch, const Peers& peers) {
  return std::max(kLeastCapacity, share(batch, 0, peers.size()).size());
}

Run::Run(const TrainingSettings& settings, const Dataset& data, Peers& peers, const TrainingWatcher& watcher)
    : settings_(settings),
      data_(data),
      peers_(peers),
      watcher_(watcher),
      split_(split(data.train.count(), settings.validation, settings.seed)),
      batch_(std::min(settings.batch, split_.training.size())),
      capacity_(capacity(batch_, peers)),
      normal_(normalisation(data.train, split_.training)),
      network_(settings.layers, settings.loss, capacity_),
      optimizer_(network_.parameter_count()),
      classes_(capacity_) {}

TrainingOutcome Run::begin() {
  use_one_blas_thread();
  if (TrainingOutcome failure = settings_agree()) return failure;
  const auto ranks = static_cast<std::size_t>(peers_.size());
  if (settings_.micro_batches % ranks != 0) {
    return refused("--micro-batches " + std::to_string(settings_.micro_batches) + " cannot be shared evenly by " +
                   std::to_string(ranks) + " ranks; give a multiple of " + std::to_string(ranks) + ", or 0");
  }
  if (TrainingOutcome failure = place_gradients()) return failure;
  network_.initialise(settings_.seed);
  return settings_.resume ? resume() : TrainingOutcome{};
}

// Ranks that were started by hand may have been told different things: they would wait for each other in vain, or train
// different models.
TrainingOutcome Run::settings_agree() {
  const auto hash = [](const auto& value) { return hash_bytes(&value, sizeof value); };
  const StepSettings& step = settings_.step;
  const std::array<std::pair<const char*, std::uint64_t>, 14> told = {{
      {"--layers", hash_bytes(settings_.layers.data(), settings_.layers.size() * sizeof(int))},
      {"--loss", hash(settings_.loss)},
      {"--epochs", hash(settings_.epochs)},
      {"--batch", hash(settings_.batch)},
      {"--micro-batches", hash(settings_.micro_batches)},
      {"--learning-rate", hash(step.learning_rate)},
      {"--learning-rate-decay", hash(settings_.decay)},
      {"--momentum", hash(step.momentum)},
      {"--weight-decay", hash(step.weight_decay)},
      {"--seed", hash(settings_.seed)},
      {"--validation", hash(settings_.validation)},
      {"--bucket", hash(settings_.bucket_bytes)},
      {"--resume", hash(settings_.resume)},
      {"--data", hash_images(data_.test, hash_images(data_.train))},
  }};
  std::array<std::uint64_t, told.size()> mine{};
  std::transform(told.begin(), told.end(), mine.begin(), [](const auto& option) { return option.second; });
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(peers_.size()));
  if (TrainingOutcome failure = peers_.gather(mine.data(), sizeof mine, all.data())) return failure;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t option = i % told.size();
    if (all[i] == all[option]) continue;
    return refused(std::string(told[option].first) + " is not the same for rank " + std::to_string(i / told.size()) +
                   " as for rank 0; give all ranks the same");
  }
  return {};
}

// In memory that peers reach: each rank adds its share of all ranks' gradients up in place, on every rank. A second array
// for the sums would be out of the cache each time it is written.
TrainingOutcome Run::place_gradients() {
  const std::size_t each = network_.parameter_count();
  const std::size_t parts = std::max<std::size_t>(1, settings_.micro_batches / static_cast<std::size_t>(peers_.size()));
  Fallible<std::span<float>> gradients = peers_.memory(each * parts);
  if (!gradients.ok()) return gradients.failure();
  for (std::size_t part = 0; part < parts; ++part) gradients_.push_back(gradients->subspan(part * each, each));
  network_.put_gradients(gradients_.front());
  // What has several parts is exchanged once the last is there: all of it.
  const std::size_t bucket =
      settings_.micro_batches != 0 ? each : std::max<std::size_t>(1, settings_.bucket_bytes / sizeof(float));
  exchange_.emplace(peers_, gradients_.front(), bucket, settings_.micro_batches);
  network_.before_reading([this](std::size_t end) { settle(end); });  // step() looks at how that went
  return {};
}

Checkpoint Run::description() const {
  Checkpoint wanted;
  wanted.layers = settings_.layers;
  wanted.loss = settings_.loss;
  wanted.seed = settings_.seed;
  wanted.validation = settings_.validation;
  wanted.data_hash = hash_images(data_.train);
  wanted.parameters.resize(network_.parameter_count());
  return wanted;
}

// Rank 0 alone reads the file, so that it needs no shared file system; the others hear how it went.
TrainingOutcome Run::resume() {
  TrainingOutcome failure;
  std::array<double, 2> news = {0, 0};  // whether it worked, epochs done
  if (peers_.rank() == 0) {
    const Fallible<Checkpoint> saved = read_checkpoint(settings_.checkpoint);
    failure = saved.ok() ? matches(*saved, description(), settings_.checkpoint) : TrainingOutcome{saved.failure()};
    if (!failure) {
      news = {1, static_cast<double>(saved->epoch)};
      std::copy(saved->parameters.begin(), saved->parameters.end(), network_.parameters().begin());
      std::copy(saved->velocity.begin(), saved->velocity.end(), optimizer_.velocity().begin());
    }
  }
  if (TrainingOutcome lost = peers_.broadcast(news.data(), sizeof news)) return failure ? failure : lost;
  if (failure) return failure;
  if (news[0] != 1)
    return refused("rank 0 could not resume from the checkpoint \"" + settings_.checkpoint + "\", see its error");
  epochs_done_ = static_cast<int>(news[1]);
  if (TrainingOutcome lost = peers_.broadcast(network_.parameters().data(), network_.parameters().size_bytes()))
    return lost;
  return peers_.broadcast(optimizer_.velocity().data(), optimizer_.velocity().size_bytes());
}

TrainingOutcome Run::save(int epoch) {
  if (settings_.checkpoint.empty() || peers_.rank() != 0) return {};
  Checkpoint checkpoint = description();
  checkpoint.epoch = static_cast<std::uint32_t>(epoch);
  checkpoint.parameters.assign(network_.parameters().begin(), network_.parameters().end());
  checkpoint.velocity.assign(optimizer_.velocity().begin(), optimizer_.velocity().end());
  return write_checkpoint(settings_.checkpoint, checkpoint);
}

// Changes the parameters [0, end) by the last step's sums, which it waits for.
TrainingOutcome Run::settle(std::size_t end) {
  return exchange_->settle(end, [this](SampleRange range) {
    optimizer_.step(network_.parameters(), gradients_.front(), range.begin, range.end, how_);
  });
}

// What it changes the parameters by may still be under way when it returns; who reads them calls settle().
TrainingOutcome Run::step(std::span<const std::uint32_t> batch, double& loss, double& correct) {
  // Every rank divides by the global size: the sum over the ranks is then the mean over the batch, whatever the shares.
  const float weight = 1.0F / static_cast<float>(batch.size());
  const std::size_t block = settings_.bucket_bytes / sizeof(float);
  const int parts = static_cast<int>(gradients_.size());
  for (int part = 0; part < parts; ++part) {
    const SampleRange mine = share(batch.size(), peers_.rank() * parts + part, peers_.size() * parts);
    take_batch(data_.train, batch.subspan(mine.begin, mine.size()), normal_, network_.input(), classes_);
    const BatchResult result = network_.forward(mine.size(), classes_);
    if (TrainingOutcome failure = settle(network_.parameter_count())) return failure;
    loss += result.loss;
    correct += static_cast<double>(result.correct);
    network_.put_gradients(gradients_[static_cast<std::size_t>(part)]);
    // Parts are exchanged together, once the last one is complete.
    const bool last = part + 1 == parts;
    network_.backward(
        weight,
        [this, last](std::size_t end) {
          if (last) exchange_->ready(end);
        },
        block);
  }
  return {};
}

TrainingOutcome Run::train_epoch(int epoch, double& loss, double& correct) {
  std::vector<std::uint32_t> order =
      permutation(split_.training.size(), settings_.seed, kFirstEpochStream + static_cast<std::uint64_t>(epoch));
  for (std::uint32_t& sample : order) sample = split_.training[sample];
  how_ = settings_.step;
  how_.learning_rate *= std::pow(settings_.decay, epoch - 1);
  const std::size_t steps = (order.size() + batch_ - 1) / batch_;
  for (std::size_t s = 0; s < steps; ++s) {
    const std::size_t begin = s * batch_;
    const std::size_t size = std::min(batch_, order.size() - begin);
    if (TrainingOutcome failure = step(std::span(order).subspan(begin, size), loss, correct)) return failure;
    if (first_loss_ < 0) first_loss_ = loss / static_cast<double>(size);
    if (watcher_.step) watcher_.step(epoch, s + 1, steps);
  }
  return settle(network_.parameter_count());
}

TrainingOutcome Run::evaluate(const Images& images, std::span<const std::uint32_t> chosen, double& accuracy) {
  const SampleRange mine = share(chosen.size(), peers_.rank(), peers_.size());
  double correct = 0;
  for (std::size_t at = mine.begin; at < mine.end; at += capacity_) {
    const std::size_t size = std::min(capacity_, mine.end - at);
    take_batch(images, chosen.subspan(at, size), normal_, network_.input(), classes_);
    correct += static_cast<double>(network_.forward(size, classes_).correct);
  }
  if (TrainingOutcome failure = peers_.sum({&correct, 1})) return failure;
  accuracy = correct / std::max(1.0, static_cast<double>(chosen.size()));
  return {};
}

TrainingOutcome Run::replicas_agree() {
  hash_ = hash_model(settings_.layers, network_.parameters());
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(peers_.size()));
  if (TrainingOutcome failure = peers_.gather(&hash_, sizeof hash_, hashes.data())) return failure;
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    return TrainingFailure{TrainerExit::wrong_data,
                           "the replicas' weights differ: rank " + std::to_string(rank) + " has hash " +
                               hash_text(hashes[rank]) + ", rank 0 has " + hash_text(hashes[0]) +
                               "; their sums of gradients were not the same bits, which is a defect: please report it"};
  }
  return {};
}

TrainingOutcome Run::report(int epoch, double loss, double accuracy, const Stopwatch& watch, double communication,
                            double waited) {
  std::array<double, 3> mine = {watch.seconds(), peers_.communication_seconds() - communication,
                                exchange_->waited_seconds() - waited};
  std::vector<std::array<double, 3>> all(static_cast<std::size_t>(peers_.size()));
  if (TrainingOutcome failure = peers_.gather(mine.data(), sizeof mine, all.data())) return failure;
  for (const auto& other : all) {
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], other[i]);
  }
  if (watcher_.epoch) watcher_.epoch({epoch, loss, accuracy, mine[0], mine[1], mine[2]});
  return {};
}

// Told with the epoch's sums, which are the same on every rank.
TrainingOutcome Run::judge(int epoch, double loss) const {
  // Below 1, as after a good run that is resumed, the first loss is no scale.
  const double most = kDiverged * std::max(1.0, first_loss_);
  if (std::isfinite(loss) && loss <= most) return {};
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "the loss is %g in epoch %d, after %g at first: training has diverged; ", loss,
                epoch, first_loss_);
  return TrainingFailure{TrainerExit::failed, text.data() + std::string("lower --learning-rate or --momentum")};
}

TrainingOutcome Run::train_all() {
  for (int epoch = epochs_done_ + 1; epoch <= settings_.epochs; ++epoch) {
    const Stopwatch watch;
    const double communication = peers_.communication_seconds();
    const double waited = exchange_->waited_seconds();
    std::array<double, 3> sums = {0, 0, 0};
    const bool first = epoch == epochs_done_ + 1;
    if (TrainingOutcome failure = train_epoch(epoch, sums[0], sums[1])) return failure;
    sums[2] = first_loss_;
    if (TrainingOutcome failure = peers_.sum(sums)) return failure;
    if (first) first_loss_ = sums[2];
    const auto samples = static_cast<double>(split_.training.size());
    const double loss = sums[0] / samples;
    if (TrainingOutcome failure = judge(epoch, loss)) return failure;
    double accuracy = sums[1] / samples;
    if (!split_.validation.empty()) {
      if (TrainingOutcome failure = evaluate(data_.train, split_.validation, accuracy)) return failure;
    }
    if (TrainingOutcome failure = replicas_agree()) return failure;
    if (TrainingOutcome failure = report(epoch, loss, accuracy, watch, communication, waited)) return failure;
    if (TrainingOutcome failure = save(epoch)) return failure;
  }
  return {};
}

Fallible<FinalReport> Run::finish() {
  FinalReport result;
  std::vector<std::uint32_t> all(data_.test.count());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint32_t>(i);
  if (TrainingOutcome failure = evaluate(data_.test, all, result.test_accuracy)) return *failure;
  if (TrainingOutcome failure = replicas_agree()) return *failure;
  result.parameters = network_.parameter_count();
  result.weights_hash = hash_;
  return result;
}

}  // namespace

TrainingOutcome check_settings(const TrainingSettings& settings, const Dataset& data) {
  const auto pixels = static_cast<int>(data.train.pixels_each());
  if (settings.layers.front() != pixels) {
    return refused("--layers begins with " + std::to_string(settings.layers.front()) + " inputs, but the images have " +
                   std::to_string(data.train.rows) + " x " + std::to_string(data.train.columns) + " = " +
                   std::to_string(pixels) + " pixels; begin it with " + std::to_string(pixels));
  }
  const int classes = std::max(data.train.classes(), data.test.classes());
  if (settings.layers.back() < classes) {
    return refused("--layers ends with " + std::to_string(settings.layers.back()) + " outputs, but the labels name " +
                   std::to_string(classes) + " classes; end it with at least " + std::to_string(classes));
  }
  return {};
}

Fallible<FinalReport> train(const TrainingSettings& settings, const Dataset& data, Peers& peers,
                            const TrainingWatcher& watcher) {
  Run run(settings, data, peers, watcher);
  if (TrainingOutcome failure = run.begin()) return *failure;
  if (TrainingOutcome failure = run.train_all()) return *failure;
  return run.finish();
}

}  // namespace tutti::trainer
