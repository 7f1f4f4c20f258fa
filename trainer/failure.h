// How the trainer's functions fail: a sentence for the user and the exit code that goes with it.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace tutti::trainer {

/// Exit codes that all of Tutti's programs share (README.md).
enum class TrainerExit : int { good = 0, failed = 1, refused = 2, wrong_data = 3, peer_lost = 4 };

/// Why something did not work: one sentence that names what was given, why it is refused and what to do.
struct TrainingFailure {
  TrainerExit code = TrainerExit::failed;
  std::string sentence;
};

/// Nothing, or why not.
using TrainingOutcome = std::optional<TrainingFailure>;

inline TrainingFailure refused(std::string sentence) { return {TrainerExit::refused, std::move(sentence)}; }

/// A T, or the Failure that says why there is none.
template <typename T>
class [[nodiscard]] Fallible {
 public:
  Fallible(T value) : value_(std::move(value)) {}                      // NOLINT: implicit, so that `return value;` works
  Fallible(TrainingFailure failure) : failure_(std::move(failure)) {}  // NOLINT: likewise

  bool ok() const { return value_.has_value(); }
  /// Only where ok().
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  /// Only where !ok().
  const TrainingFailure& failure() const { return failure_; }

 private:
  std::optional<T> value_;
  TrainingFailure failure_;
};

}  // namespace tutti::trainer
