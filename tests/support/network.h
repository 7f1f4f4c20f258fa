// Network namespaces of a test's own: they are gone when the last process in them has ended.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace tutti::test {

/// From now on this process, which has one thread, is in a network namespace of its own; false: that is not allowed.
inline bool enter_own_network() { return ::unshare(CLONE_NEWNET) == 0; }

/// Runs iproute2's `ip` with these words; whether it did it.
inline bool ip(const std::string& words) { return std::system(("ip " + words + " 2>/dev/null").c_str()) == 0; }

/// Whether this process may make network namespaces and has what they are furnished with.
inline bool networks_allowed() {
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(enter_own_network() && ip("link set lo up") && ip("link add veth0 type veth peer name veth1") ? 0 : 1);
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace tutti::test
