// What the tests of shared memory have in common.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/conformance/world.h"
#include "tests/support/probe_pipe.h"
#include "transports/shm/shm.h"

namespace tutti::shm {

/// A region of `rank`'s, in a file of its own, and fit to be granted.
struct RegisteredFile {
  RegisteredFile(conformance::World& world, int rank, std::uint64_t bytes) : memory(bytes), endpoint(world[rank].get()) {
    EXPECT_EQ(transport()->register_region(endpoint, memory.data(), bytes, memory.fd(), 0, &region), TUTTI_SUCCESS);
  }
  ~RegisteredFile() {
    if (region.handle != nullptr) transport()->unregister_region(endpoint, &region);
  }
  RegisteredFile(const RegisteredFile&) = delete;
  RegisteredFile& operator=(const RegisteredFile&) = delete;
  conformance::FileMemory memory;
  tutti_endpoint* endpoint;
  tutti_region region{};
};

/// While it lives, this process gets no descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
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
  rlimit before_{};
};

}  // namespace tutti::shm
