// What the tests of shared memory have in common.
#pragma once

#include <gtest/gtest.h>

#include "tests/conformance/world.h"
#include "tests/support/no_descriptors.h"
#include "transports/shm/shm.h"

namespace tutti::shm {

/// A region of `rank`'s, in a file of its own, and fit to be granted.
struct RegisteredFile {
  RegisteredFile(conformance::World& world, int rank, std::uint64_t bytes) : memory(bytes), endpoint(world[rank].get()) {
    EXPECT_EQ(conformance::register_file(*transport(), endpoint, memory.data(), bytes, memory.fd(), &region),
              TUTTI_SUCCESS);
  }
  ~RegisteredFile() {
    if (region.handle != nullptr) transport()->unregister_memory(endpoint, &region);
  }
  RegisteredFile(const RegisteredFile&) = delete;
  RegisteredFile& operator=(const RegisteredFile&) = delete;
  conformance::FileMemory memory;
  tutti_endpoint* endpoint;
  tutti_region region{};
};

using test::NoDescriptors;

}  // namespace tutti::shm
