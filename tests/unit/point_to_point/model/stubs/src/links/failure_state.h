// In the place of a communicator's failure: the first error is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/control/control.h"

namespace tutti {

class FailureState {
 public:
  static constexpr std::uint64_t culprit_ns = 300'000'000;

  static std::string name() { return "world"; }
  bool legal_now() const { return first_.ok(); }
  Status legal() const { return first_; }
  Status first_error() const { return first_; }
  Status fail(Error error) { return fail(Status(std::move(error))); }
  Status fail(const Status& status) {
    if (first_.ok()) first_ = status;
    return first_;
  }
  Status fail_by_hook(const char*) { return fail(Status(TUTTI_ABORTED, "the hook")); }
  static Guilty guilty(int) { return {}; }
  static std::unique_ptr<ControlPlane::Inquiry> inquire(int, std::uint64_t) {
    return std::make_unique<ControlPlane::Inquiry>();
  }
  static std::optional<Error> loss_of(const PeerReport&) { return {}; }
  static std::optional<Error> mismatch_with(const PeerReport&) { return {}; }
  static std::optional<Error> own_shortage(int, std::string_view) { return {}; }

 private:
  Status first_;
};

}  // namespace tutti
