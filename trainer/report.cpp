#include "trainer/report.h"

#include <unistd.h>

#include <array>
#include <cstdio>

#include "src/program/plot.h"
#include "src/tables/units.h"
#include "trainer/hash.h"

namespace tutti::trainer {

ProgressBar::ProgressBar(bool wanted, int epochs) : wanted_(wanted && ::isatty(STDERR_FILENO) == 1), epochs_(epochs) {}

void ProgressBar::show(int epoch, std::size_t step, std::size_t steps) {
  if (!wanted_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  constexpr std::size_t width = 40;
  const std::size_t full = steps == 0 ? width : width * step / steps;
  const std::string bar = std::string(full, '=') + std::string(width - full, ' ');
  std::fprintf(stderr, "\repoch %d/%d [%s] %3zu %%", epoch, epochs_, bar.c_str(), steps == 0 ? 100 : 100 * step / steps);
  std::fflush(stderr);
}

void ProgressBar::wipe() {
  if (!drawn_) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

TrainingReport::TrainingReport(program::Output& output, const TrainingSettings& settings, int ranks,
                               std::string parallelism)
    : output_(output), ranks_(ranks), parallelism_(std::move(parallelism)) {
  std::string layers;
  for (const int width : settings.layers) {
    if (!layers.empty()) layers += '-';
    layers += std::to_string(width);
  }
  heading_ = layers + " on " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + ", batch " +
             std::to_string(settings.batch) + ", seed " + std::to_string(settings.seed);
}

// Told with the first result, so that a run that is refused on the way says nothing but why.
void TrainingReport::heading() {
  if (heading_.empty()) return;
  output_.line(heading_);
  output_.line("epoch        loss   accuracy        time   communication   waited for");
  heading_.clear();
}

void TrainingReport::epoch(const EpochReport& epoch) {
  epochs_.push_back(epoch);
  heading();
  char text[160];
  std::snprintf(text, sizeof text, "%5d  %10.6f  %7.2f %%  %10s      %10s   %10s", epoch.epoch, epoch.loss,
                100 * epoch.accuracy, time_text(epoch.seconds).c_str(), time_text(epoch.communication_seconds).c_str(),
                time_text(epoch.waiting_seconds).c_str());
  output_.line(text);
  program::JsonObject record;
  record.add("epoch", epoch.epoch).add("loss", epoch.loss).add("accuracy", epoch.accuracy);
  record.measured("seconds", epoch.seconds).measured("communication_seconds", epoch.communication_seconds);
  record.measured("waiting_seconds", epoch.waiting_seconds);
  output_.record(record);
}

void TrainingReport::final(const FinalReport& result) {
  heading();
  char text[160];
  std::snprintf(text, sizeof text, "test accuracy %.2f %%, %zu parameters, weights %s", 100 * result.test_accuracy,
                result.parameters, hash_text(result.weights_hash).c_str());
  output_.line(text);
  program::JsonObject record;
  record.add("final", true)
      .add("test_accuracy", result.test_accuracy)
      .add("ranks", ranks_)
      .add("parallelism", parallelism_);
  record.add("parameters", std::uint64_t{result.parameters}).add("weights_hash", hash_text(result.weights_hash));
  output_.record(record);
}

std::string TrainingReport::plot(const std::string& file) const {
  program::Plot plot;
  plot.title = "tutti-train on " + std::to_string(ranks_) + (ranks_ == 1 ? " rank" : " ranks");
  plot.x_label = "epoch";
  plot.y_label = "mean loss, share correct";
  program::Series loss{"training loss", {}, {}};
  program::Series accuracy{"accuracy", {}, {}};
  for (const EpochReport& epoch : epochs_) {
    loss.x.push_back(epoch.epoch);
    loss.y.push_back(epoch.loss);
    accuracy.x.push_back(epoch.epoch);
    accuracy.y.push_back(epoch.accuracy);
  }
  plot.series = {loss, accuracy};
  return program::draw_plot(plot, file);
}

}  // namespace tutti::trainer
