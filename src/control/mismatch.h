// Ranks that did not call the same: the error that names the first operation in which they differ.
#pragma once

#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/control/activity.h"
#include "src/control/members.h"

namespace tutti {

/// "broadcast of 10 float32 with root 2".
std::string call_words(const Called& called);

/// A rank and what it has called.
struct Side {
  const Member& member;
  const Activity& activity;
};

/// The error of two ranks that called different things; nothing where they did not, as far as is known. It is the cause of
/// whatever else befell them, so it is to be looked for before anything else is blamed.
/// where  what the message begins with, such as `all_reduce #3 of "world"`.
/// since  what became of the second one, such as "died: its process ended without a goodbye"; empty where it runs.
std::optional<Error> mismatch_between(const std::string& where, const Side& one, const Side& other,
                                      const std::string& since = {});

/// `member`, to blame, with its last completed operation.
Guilty guilty_of(const Member& member, const Activity& activity);

/// What every mismatch's remedy is.
inline constexpr const char* kCallTheSame =
    "Make all ranks call the same operations, in the same order, with the same arguments.";

}  // namespace tutti
