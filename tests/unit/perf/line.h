// A command line of tutti-perf, read but not run.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "perf/options.h"

namespace tutti::perf {

/// What a command line came to.
struct Line {
  Request request;
  std::optional<int> code;
  std::string err;

  explicit Line(const std::vector<const char*>& given, const char* started_as = "tutti-perf") {
    std::vector<const char*> arguments = {started_as};
    for (const char* argument : given) arguments.push_back(argument);
    program::Output output("tutti-perf");
    program::Options options("tutti-perf", "");
    testing::internal::CaptureStderr();
    code = read_request(options, static_cast<int>(arguments.size()), arguments.data(), output, request);
    err = testing::internal::GetCapturedStderr();
  }
};

}  // namespace tutti::perf
