// Control planes and rendezvous of a process without memory or descriptors: they fail, and end; neither the process nor a
// peer hangs.
#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "src/bootstrap/rendezvous_server.h"
#include "src/bootstrap/unique_id.h"
#include "src/links/registered_memory.h"
#include "tests/support/arenas.h"
#include "tests/support/holdings.h"
#include "tests/support/world.h"

namespace {

/// Allocations of this thread until one fails; negative: none does.
thread_local int allocations_left = -1;
/// The name of the library's threads that get no memory; NULL: all do.
std::atomic<const char*> starved{nullptr};

bool refused() {
  if (allocations_left == 0) return true;
  if (allocations_left > 0) --allocations_left;
  const char* const name = starved.load();
  if (name == nullptr) return false;
  char own[16] = "";
  ::pthread_getname_np(::pthread_self(), own, sizeof own);
  return std::strcmp(own, name) == 0;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const memory = refused() ? nullptr : std::malloc(bytes != 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return refused() ? nullptr : std::malloc(bytes != 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti::test {
namespace {

// Servers of other tests may end at any time, so this one comes first.
TEST(RendezvousServer, OfARendezvousThatIsDroppedIsGone) {
  std::thread([] {}).join();  // with which a sanitizer's own thread comes
  const Holdings before = Holdings::now();
  {
    const auto first = UniqueIdRendezvous::open(settings_of_test());
    const Holdings with_one = Holdings::now();
    for (int i = 0; i < 3; ++i) {
      const auto meeting = UniqueIdRendezvous::open(settings_of_test());
      ASSERT_TRUE(meeting.ok()) << meeting.status().text();
      EXPECT_EQ(Holdings::now(), with_one) << "all ids share a listening socket and a thread";
    }
    EXPECT_EQ(Holdings::now(), with_one);
  }
  EXPECT_TRUE(holds_no_more_than(before));
}

TEST(NoMemory, ABlockOfRegisteredMemoryIsAllocatedOrNotAndIsFreed) {
  const Arenas before = Arenas::now();
  RegisteredMemory& memory = RegisteredMemory::instance();
  std::vector<void*> blocks;
  blocks.reserve(4);
  int failures = 0;
  for (; blocks.size() < 4 && failures < 100; ++failures) {
    allocations_left = failures % 20;
    try {
      blocks.push_back(*memory.allocate(5000));
    } catch (const std::bad_alloc&) {
      // Nothing is changed.
    }
    allocations_left = -1;
  }
  ASSERT_EQ(blocks.size(), 4u);
  EXPECT_GT(failures, 5);
  for (const std::size_t which : {0, 2, 1, 3}) {
    allocations_left = 0;
    const bool freed = memory.free(blocks[which]).ok();
    allocations_left = -1;
    EXPECT_TRUE(freed) << which;
  }
  EXPECT_EQ(Arenas::now(), before);
}

TEST(NoMemory, AControlPlaneIsMadeOrNotAndEndsEitherWay) {
  ControlPlane::Options options;
  options.ranks = 2;
  bool made = false;
  int failures = 0;
  for (; !made && failures < 100; failures += made ? 0 : 1) {
    allocations_left = failures;
    try {
      const auto control = ControlPlane::make(options);
      allocations_left = -1;
      made = control.ok();
    } catch (const std::bad_alloc&) {
      allocations_left = -1;
    }
  }
  EXPECT_TRUE(made);
  EXPECT_GT(failures, 1);
}

TEST(NoMemory, AWatcherFailsTheCommunicatorAndTellsThePeersLater) {
  auto world = world_of(2);
  starved = "tutti-control";
  EXPECT_TRUE(eventually([&] { return world[0].control->failed() && world[1].control->failed(); }));
  EXPECT_EQ(world[0].control->first_error().code(), TUTTI_SYSTEM_ERROR);
  starved = nullptr;
  const auto all = world[0].control->allgather({}, patience_of(5));
  EXPECT_EQ(all.status().code(), TUTTI_SYSTEM_ERROR);
}

TEST(NoMemory, AnExchangeFailsOnBothRanksAndHoldsUpNoOther) {
  for (int n = 0;; ++n) {
    auto world = world_of(2);
    std::thread peer([&] {
      const auto all = world[1].control->allgather({}, patience_of(20));
      EXPECT_EQ(all.status().code(), all ? TUTTI_SUCCESS : TUTTI_SYSTEM_ERROR) << all.status().text();
    });
    Status status;
    bool thrown = false;
    const std::vector<std::byte> mine(100);
    const WaitLimits wait_limits = patience_of(20);
    allocations_left = n;
    try {
      status = world[0].control->allgather(mine, wait_limits).status();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    allocations_left = -1;
    EXPECT_FALSE(thrown) << "allocation " << n;
    peer.join();
    if (status) {
      EXPECT_GT(n, 1);
      return;
    }
    EXPECT_EQ(status.code(), TUTTI_SYSTEM_ERROR);
    EXPECT_EQ(world[0].control->allgather({}, patience_of(20)).status().code(), TUTTI_SYSTEM_ERROR);
  }
}

TEST(NoMemory, IdsThatWereUsedAreForgottenAllTheSame) {
  std::vector<Key> keys;
  for (int i = 0; i < 1100; ++i) keys.push_back(unpack_unique_id(id_of_test())->key);  // the last 1024 have roots
  starved = "tutti-meeting";
  for (const Key& key : keys) EXPECT_TRUE(use_up_id(key).ok());
  ::usleep(200'000);
  starved = nullptr;
  for (const Key& key : keys) EXPECT_EQ(use_up_id(key).code(), TUTTI_INVALID_USAGE);
}

TEST(NoMemory, ARootEndsAndTheRanksHearOfIt) {
  const tutti_unique_id id = id_of_test();
  starved = "tutti-meeting";
  const auto results = join_all(2, [&](int, JoinRequest& request) { request.id = &id; }, 3);
  starved = nullptr;
  for (const auto& result : results) EXPECT_FALSE(result.ok());
}

}  // namespace
}  // namespace tutti::test
