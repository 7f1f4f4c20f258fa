// Status and Result: how every fallible function of the library answers. No exception crosses a room.
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "include/tutti/tutti.h"

namespace tutti {

/// A rank to blame for an error, as far as it is known.
struct Guilty {
  int rank = -1;
  int pid = 0;
  std::string host;
  std::uint64_t last_operation = UINT64_MAX;  ///< number of its last completed operation, UINT64_MAX: unknown
  std::string last_operation_kind;
};

/// All that tutti_error_get tells. `message` is one sentence without its final full stop: who, what, which limit.
struct Error {
  tutti_status status = TUTTI_INTERNAL_ERROR;
  int system_error = 0;
  std::string message;
  std::string remedy;
  std::uint64_t operation = UINT64_MAX;
  std::string operation_kind;
  std::uint64_t limit_ns = 0;
  std::vector<Guilty> guilty;
};

/// Success, or an Error. A success costs one null pointer; copies share the error, which is immutable.
class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(Error error) : error_(std::make_shared<const Error>(std::move(error))) {}
  Status(tutti_status status, std::string message, std::string remedy = {}) {
    Error error;
    error.status = status;
    error.message = std::move(message);
    error.remedy = std::move(remedy);
    error_ = std::make_shared<const Error>(std::move(error));
  }

  bool ok() const { return error_ == nullptr; }
  explicit operator bool() const { return ok(); }
  tutti_status code() const { return error_ ? error_->status : TUTTI_SUCCESS; }
  /// Only where !ok().
  const Error& error() const {
    assert(error_);
    return *error_;
  }
  /// "message. remedy", or "success".
  std::string text() const {
    if (!error_) return "success";
    return error_->remedy.empty() ? error_->message : error_->message + ". " + error_->remedy;
  }

 private:
  std::shared_ptr<const Error> error_;
};

/// A T, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit, so that `return value;` works
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }  // NOLINT: likewise

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

/// Whether an error number says that this process or the system has no descriptor or memory to spare just now.
bool is_shortage(int number);
/// What is to be done about that.
inline constexpr const char* kShortageRemedy = "Raise the limit of open files (`ulimit -n`), or end what uses memory";

/// A Status of the system's error `number` (errno): "message: text of errno". Without a remedy a shortage has the usual
/// one.
Status system_error(std::string message, int number, std::string remedy = {});

}  // namespace tutti
