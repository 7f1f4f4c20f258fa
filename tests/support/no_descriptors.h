// Descriptors that cannot be had.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "src/base/status.h"

namespace tutti::test {

/// While it lives, this process gets no descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
    meet_types();
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int lowest = ::fcntl(0, F_DUPFD_CLOEXEC, 0);
    ::close(lowest);
    const rlimit none{static_cast<rlim_t>(lowest), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_EQ(::dup(0), -1);
  }
  ~NoDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  /// The undefined behaviour sanitizer asks through a pipe whether an object's memory can be read, the first time that it
  /// meets the type. Without descriptors it takes the object for none. So it meets those that the library uses then before:
  /// errors, and files that cannot be opened.
  static void meet_types() {
    const Status error(TUTTI_SYSTEM_ERROR, "none");
    const Status copy = error;
    EXPECT_FALSE(copy.ok());
    std::string line;
    EXPECT_FALSE(std::getline(std::ifstream("/dev/null"), line));
  }

  rlimit before_{};
};

}  // namespace tutti::test
