#include "trainer/command.h"

#include <algorithm>
#include <charconv>

#include "src/program/files.h"
#include "src/program/plot.h"

namespace tutti::trainer {

void declare(program::Options& options, TrainCommand& command) {
  program::add_rank_options(options, command.ranks);
  options.text(
      "--data", &command.data, "DIR",
      "Folder of MNIST-style IDX files, plain or .gz (train-images-idx3-ubyte, train-labels-idx1-ubyte, "
      "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte; or with .idx for -idx), or torchvision's root above MNIST/raw; "
      "without it, embedded drawn digits of 28 x 28 pixels");
  options.text("--layers", &command.layers, "WIDTHS", "Widths of the layers: inputs, hidden ones, outputs");
  options.integer("--epochs", &command.epochs, 1, 1'000'000, "Passes over the training samples");
  options.integer("--batch,--batch-size", &command.batch, 1, 1 << 30, "Samples to a step, over all ranks together");
  options.integer("--micro-batches", &command.micro_batches, 0, 4096,
                  "Parts that a batch is cut into, a multiple of the ranks, which compute on as many each; weights_hash is "
                  "then the same for any number of ranks. 0: each rank's share at once");
  options.real("--learning-rate,--lr", &command.learning_rate, 0, 1e6,
               "Length of a step in the first epoch; 0 takes 0.1 with cross_entropy and 0.01 with squared");
  options.real("--learning-rate-decay", &command.decay, 0, 1, "Factor of the learning rate from each epoch to the next");
  options.integer("--seed", &command.seed, 0, INT64_MAX, "What first weights, split and order of the samples follow from");
  options.choice("--parallelism", &command.parallelism, {"data", "model", "pipeline", "server"},
                 "How ranks share the work; data: each has the whole model and a share of every batch");
  options.choice("--loss", &command.loss, {"cross_entropy", "squared"}, "Softmax cross-entropy, or half the squared error");
  options.real("--momentum", &command.momentum, 0, 0.999999, "Part of a step's velocity that the next one keeps");
  options.real("--weight-decay", &command.weight_decay, 0, 1e6, "Part of each weight that is added to its gradient");
  options.real("--validation", &command.validation, 0, 0.99,
               "Fraction of the training samples that is held out for an epoch's accuracy; with 0 that is the training "
               "samples' own");
  options.choice("--memory", &command.memory, {"host", "cuda"}, "Where weights and gradients lie; cuda is not there yet");
  options.size("--bucket", &command.bucket,
               "Bytes of gradients that are exchanged as soon as they are computed; it decides in which order floats are "
               "added up, and with that the last bits of the weights");
  options.text("--checkpoint", &command.checkpoint, "FILE", "Written after each epoch, whole or not at all");
  options.flag("--resume", &command.resume,
               "Goes on from --checkpoint; layers, loss, seed, validation and data must be as they were");
  options.text("--plot", &command.plot, "FILE", "Loss and accuracy over the epochs, as .svg or .png");
  options.example("tutti-train --ranks 2", "trains two ranks on the embedded digits");
  options.example("tutti-train --ranks 4 --data mnist --layers 784,256,10 --json",
                  "trains on files, reports in JSON lines");
  options.note(
      "weights_hash is the same from run to run for the same seed, ranks, --batch, --bucket and algorithm: any of them\n"
      "changes the order in which floats are added up, and with that the last bits. With --micro-batches it depends on\n"
      "the seed, --batch and --micro-batches alone: a run on 2 ranks may go on on 4. Training whose loss is no longer\n"
      "finite, or more than a million times the first step's, has diverged: exit code 1.");
  options.example("mpirun -n 4 tutti-train --checkpoint run.ckpt --resume", "goes on with a run, under Open MPI");
  options.example("tutti-train --ranks 3 --micro-batches 12",
                  "gives the weights that 1, 2, 4, 6 or 12 ranks give, bit for bit");
}

namespace {

std::uint64_t parameters_of(const std::vector<int>& widths) {
  std::uint64_t parameters = 0;
  for (std::size_t l = 1; l < widths.size(); ++l) {
    parameters += (static_cast<std::uint64_t>(widths[l - 1]) + 1) * static_cast<std::uint64_t>(widths[l]);
  }
  return parameters;
}

}  // namespace

Fallible<std::vector<int>> parse_layers(const std::string& text) {
  constexpr int widest = 1'000'000;
  const auto no = [&text](const std::string& why) {
    return refused("--layers " + text + ": " + why + "; give comma-separated widths such as 784,128,10");
  };
  std::vector<int> widths;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    int width = 0;
    const auto [rest, error] = std::from_chars(at, end, width);
    if (error != std::errc() || width < 1 || width > widest || (rest != end && *rest != ',')) {
      const std::string item(at, std::find(at, end, ','));
      return no("\"" + item + "\" is no whole number from 1 to 1000000");
    }
    widths.push_back(width);
    if (rest == end) break;
    at = rest + 1;
  }
  if (widths.size() < 2) return no("it takes at least two widths, the inputs' and the outputs'");
  if (widths.size() > 1024) return no("it takes at most 1024 widths");
  const std::uint64_t parameters = parameters_of(widths);
  if (parameters > std::uint64_t{1} << 32)
    return no("its " + std::to_string(parameters) + " parameters are more than 2^32");
  return widths;
}

namespace {

// What cannot be written is refused before the first epoch, not after it.
TrainingOutcome check_files(const TrainCommand& command) {
  std::string sentence;
  if (!command.checkpoint.empty()) sentence = program::check_writable("--checkpoint", command.checkpoint);
  if (sentence.empty() && !command.plot.empty()) sentence = program::check_plot_file(command.plot);
  return sentence.empty() ? TrainingOutcome{} : refused(sentence);
}

TrainingOutcome not_there_yet(const TrainCommand& command) {
  if (command.parallelism != "data") {
    return refused("--parallelism " + command.parallelism + " is not there yet; leave it out, or give data");
  }
  if (command.memory != "host") {
    return refused("--memory " + command.memory + " is not there yet; leave it out, or give host");
  }
  return {};
}

}  // namespace

Fallible<TrainingSettings> settings_of(const TrainCommand& command) {
  if (TrainingOutcome failure = not_there_yet(command)) return *failure;
  Fallible<std::vector<int>> layers = parse_layers(command.layers);
  if (!layers.ok()) return layers.failure();
  if (command.resume && command.checkpoint.empty()) {
    return refused("--resume needs --checkpoint FILE, the file to go on from; give both");
  }
  if (command.bucket < sizeof(float) || command.bucket % sizeof(float) != 0) {
    return refused("--bucket " + std::to_string(command.bucket) +
                   ": a bucket holds whole gradients of 4 bytes; give a multiple of 4, from 4 on");
  }
  if (TrainingOutcome failure = check_files(command)) return *failure;
  TrainingSettings settings;
  settings.layers = std::move(*layers);
  settings.loss = command.loss == "squared" ? LossKind::squared : LossKind::cross_entropy;
  settings.epochs = static_cast<int>(command.epochs);
  settings.batch = static_cast<std::size_t>(command.batch);
  settings.micro_batches = static_cast<std::size_t>(command.micro_batches);
  const double usual = settings.loss == LossKind::squared ? 0.01 : 0.1;
  settings.step = {command.learning_rate > 0 ? command.learning_rate : usual, command.momentum, command.weight_decay};
  settings.decay = command.decay;
  settings.seed = static_cast<std::uint64_t>(command.seed);
  settings.validation = command.validation;
  settings.bucket_bytes = command.bucket;
  settings.checkpoint = command.checkpoint;
  settings.resume = command.resume;
  return settings;
}

int spin_of(const TrainingSettings& settings, int ranks, int cpus) {
  constexpr int adapt = 0;
  constexpr int never = -1;
  const bool several_buckets = parameters_of(settings.layers) * sizeof(float) > settings.bucket_bytes;
  return several_buckets && 2 * ranks > cpus ? never : adapt;
}

}  // namespace tutti::trainer
