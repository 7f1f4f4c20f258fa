// tutti-train: trains a fully connected network on several ranks, the reference consumer of Tutti's public face.
#include <algorithm>
#include <cstdlib>
#include <new>
#include <optional>

#include "src/program/launcher_detection.h"
#include "src/program/options.h"
#include "src/program/output.h"
#include "src/program/run_ranks.h"
#include "trainer/command.h"
#include "trainer/communicator.h"
#include "trainer/dataset.h"
#include "trainer/digits.h"
#include "trainer/report.h"
#include "trainer/training.h"

namespace tutti::trainer {
namespace {

// One rank's part of the job.
class Job {
 public:
  Job(const TrainCommand& command, bool layers_given, TrainingSettings settings, const program::RankMember& member,
      program::Output& output)
      : command_(command),
        layers_given_(layers_given),
        settings_(std::move(settings)),
        member_(member),
        output_(output),
        peers_(member.comm) {}
  int run();

 private:
  TrainingOutcome prepare();
  int tell(const TrainingFailure& failure);
  int tell_together(const TrainingOutcome& mine);
  int train_and_report();

  const TrainCommand& command_;
  const bool layers_given_;
  TrainingSettings settings_;
  const program::RankMember& member_;
  program::Output& output_;
  CommunicatorPeers peers_;
  Dataset data_;
};

int Job::tell(const TrainingFailure& failure) {
  if (peers_.status() != TUTTI_SUCCESS) return output_.fail_as(member_.rank, member_.comm, peers_.status());
  return output_.fail_as(member_.rank, static_cast<int>(failure.code), failure.sentence);
}

// Loads what is trained on, and checks the settings against it.
TrainingOutcome Job::prepare() {
  if (command_.data.empty()) {
    data_ = embedded_digits();
  } else {
    Fallible<Dataset> loaded = load_idx_folder(command_.data);
    if (!loaded.ok()) return loaded.failure();
    data_ = std::move(*loaded);
  }
  if (!layers_given_) {
    settings_.layers.front() = static_cast<int>(data_.train.pixels_each());
    settings_.layers.back() = std::max({settings_.layers.back(), data_.train.classes(), data_.test.classes()});
  }
  return check_settings(settings_, data_);
}

// The ranks compare how preparing went: if it failed anywhere, all end.
int Job::tell_together(const TrainingOutcome& mine) {
  const int code = mine ? static_cast<int>(mine->code) : program::kGood;
  std::vector<int> codes(static_cast<std::size_t>(member_.ranks));
  if (TrainingOutcome lost = peers_.gather(&code, sizeof code, codes.data())) return tell(mine ? *mine : *lost);
  if (mine) return tell(*mine);
  for (std::size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank] == program::kGood) continue;
    return output_.echo_as(member_.rank, codes[rank], "rank " + std::to_string(rank) + " could not begin, see its error");
  }
  return program::kGood;
}

int Job::train_and_report() {
  const bool speaks = member_.rank == 0;
  std::optional<TrainingReport> report;
  if (speaks) report.emplace(output_, settings_, member_.ranks, command_.parallelism);
  ProgressBar bar(speaks && !output_.quiet(), settings_.epochs);
  TrainingWatcher watcher;
  if (speaks) {
    watcher.step = [&](int epoch, std::size_t step, std::size_t steps) { bar.show(epoch, step, steps); };
    watcher.epoch = [&](const EpochReport& epoch) {
      bar.wipe();
      report->epoch(epoch);
    };
  }
  const Fallible<FinalReport> result = train(settings_, data_, peers_, watcher);
  bar.wipe();
  if (!result.ok()) return tell(result.failure());
  if (!speaks) return program::kGood;
  report->final(*result);
  if (command_.plot.empty()) return program::kGood;
  const std::string sentence = report->plot(command_.plot);
  return sentence.empty() ? program::kGood : output_.fail(program::kFailed, sentence);
}

int Job::run() {
  if (TrainingOutcome failure = peers_.open()) return tell(*failure);
  if (const int code = tell_together(prepare()); code != program::kGood) return code;
  return train_and_report();
}

int run_program(int argc, char** argv) {
  // Read when OpenBLAS is loaded: spares the ranks that this process starts a pool of threads that only wait.
  ::setenv("OPENBLAS_NUM_THREADS", "1", 0);
  program::Output output("tutti-train");
  program::Options options("tutti-train", "Trains a fully connected network on labelled images, on several ranks.");
  TrainCommand command;
  declare(options, command);
  if (const std::optional<int> code = options.parse(argc, argv, output)) return *code;
  const Fallible<TrainingSettings> settings = settings_of(command);
  if (!settings.ok()) return output.fail(static_cast<int>(settings.failure().code), settings.failure().sentence);
  const bool layers_given = options.given("--layers");
  const std::optional<program::LauncherRank> place = program::detect_launcher().place;
  tutti_config config = TUTTI_CONFIG_INIT;
  config.spin = spin_of(*settings, place ? place->ranks : static_cast<int>(command.ranks.ranks),
                        static_cast<int>(program::allowed_cpus().size()));
  output.writes("--checkpoint", command.checkpoint);
  output.writes("--plot", command.plot);
  const int code =
      program::run_ranks(options, command.ranks, argv, &config, output, [&](const program::RankMember& member) {
        try {
          return Job(command, layers_given, *settings, member, output).run();
        } catch (const std::bad_alloc&) {
          return output.fail_as(member.rank, program::kFailed,
                                "memory ran out; give fewer or narrower --layers, a smaller --batch, or less data");
        }
      });
  return output.result(code);
}

}  // namespace
}  // namespace tutti::trainer

int main(int argc, char** argv) { return tutti::trainer::run_program(argc, argv); }
