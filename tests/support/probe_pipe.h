// A pipe for the undefined behaviour sanitizer where a test leaves no descriptors. It looks at an object of a type that it
// has not met lately through one, and takes the object for damaged where it gets none. Nobody else in such tests' programs
// calls pipe().
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

/// In the place of the system's: lifts the limit, up to the hard one, for as long as it makes the pipe.
extern "C" inline __attribute__((used, visibility("default"))) int pipe(int ends[2]) noexcept {
  if (::pipe2(ends, O_CLOEXEC) == 0) return 0;
  rlimit before{};
  if (errno != EMFILE || ::getrlimit(RLIMIT_NOFILE, &before) != 0) return -1;
  const rlimit lifted{before.rlim_max, before.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &lifted) != 0) return -1;
  const int made = ::pipe2(ends, O_CLOEXEC);
  return ::setrlimit(RLIMIT_NOFILE, &before) == 0 ? made : -1;
}
