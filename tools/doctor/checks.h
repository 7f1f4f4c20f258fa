// What the doctor looks at on this machine, one finding each.
#pragma once

#include <string>
#include <vector>

#include "topology/sysfs.h"

namespace tutti::doctor {

enum class Health { good, note, bad };

/// What one look gave. `remedy` is empty where there is nothing to better.
struct Finding {
  std::string name;
  Health health = Health::good;
  std::string text;
  std::string remedy;
};

/// All findings, in the order that people read them. Reads /proc, /sys and /dev under the root of `files`, and asks the
/// kernel; loads the CUDA driver, but makes no context. Thread safe.
std::vector<Finding> look_around(const Sysfs& files);

/// "good", "note", "bad".
const char* health_name(Health health);

}  // namespace tutti::doctor
