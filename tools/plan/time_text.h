// Times as the tool tells them.
#pragma once

#include <fmt/format.h>

#include <string>

namespace tutti::plan_tool {

/// A number of seconds to three places in the unit that suits it: us, ms or s.
inline std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.3f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

}  // namespace tutti::plan_tool
