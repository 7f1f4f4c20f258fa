// Waits: each ends, forgets nothing, and calls the caller's hook.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

constexpr std::uint64_t ms = 1'000'000;

/// A communicator whose hook counts its calls on the thread that made this, and ends waits when told to.
class Hooked {
 public:
  Hooked() {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.poll = [](void* self) { return static_cast<Hooked*>(self)->poll(); };
    config.poll_ctx = this;
    EXPECT_EQ(tutti_comm_create_all(comms_.data(), 2, &config), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_queue_create(&queue_), TUTTI_SUCCESS);
  }
  ~Hooked() {
    EXPECT_EQ(tutti_queue_destroy(queue_), TUTTI_SUCCESS);
    for (tutti_comm* comm : comms_) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  }
  Hooked(const Hooked&) = delete;
  Hooked& operator=(const Hooked&) = delete;

  /// Begins an all_reduce on rank 0's queue, which rank 1 joins 200 ms later.
  tutti_work* begin() {
    tutti_call call = TUTTI_CALL_INIT;
    tutti_work* work = nullptr;
    call.work = &work;
    EXPECT_EQ(tutti_barrier(comms_[0], {TUTTI_STREAM_QUEUE, queue_}, &call), TUTTI_SUCCESS) << last_error();
    late_ = std::thread([this] {
      usleep(200'000);
      EXPECT_EQ(tutti_barrier(comms_[1], {}, nullptr), TUTTI_SUCCESS) << last_error();
    });
    return work;
  }
  void join() { late_.join(); }
  tutti_queue* queue() const { return queue_; }
  std::atomic<int> calls{0};
  std::atomic<bool> ends{false};

 private:
  int poll() {
    if (std::this_thread::get_id() != owner_) return 0;
    ++calls;
    return ends ? 1 : 0;
  }
  const std::thread::id owner_ = std::this_thread::get_id();
  std::array<tutti_comm*, 2> comms_{};
  tutti_queue* queue_ = nullptr;
  std::thread late_;
};

TEST(Waits, ForWorksAndQueuesCallTheHookEveryMillisecond) {
  constexpr int few = 20;  // of the about 200 that 200 ms have room for
  Hooked world;
  tutti_work* work = world.begin();
  world.calls = 0;
  EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error();
  EXPECT_GT(world.calls, few);
  tutti_work_release(work);
  world.join();
  work = world.begin();
  world.calls = 0;
  EXPECT_EQ(tutti_queue_wait(world.queue(), 0), TUTTI_SUCCESS) << last_error();
  EXPECT_GT(world.calls, few);
  tutti_work_release(work);
  world.join();
}

TEST(Waits, EndWhereTheHookSaysSoAndLeaveTheOperationRunning) {
  Hooked world;
  tutti_work* work = world.begin();
  world.ends = true;
  EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_ABORTED);
  EXPECT_THAT(last_error(), testing::HasSubstr("poll hook"));
  EXPECT_EQ(tutti_queue_wait(world.queue(), 0), TUTTI_ABORTED);
  world.ends = false;
  EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_queue_wait(world.queue(), 0), TUTTI_SUCCESS) << last_error();
  tutti_work_release(work);
  world.join();
}

TEST(Waits, ForAWorkInAnOpenGroupEnd) {
  const Ranks ranks(1);
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_barrier(ranks[0], {}, &call), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_IN_PROGRESS);  // after its grace: nobody issues it meanwhile
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS);
  tutti_work_release(work);
}

TEST(Queues, RememberTransfersAndErrorsThatAnEarlierWaitDidNotSee) {
  const Ranks ranks(2);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  int x = 0;
  tutti_call call = TUTTI_CALL_INIT;
  call.timeout_ns = 400 * ms;
  ASSERT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 1, ranks[0], {TUTTI_STREAM_QUEUE, queue}, &call), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_queue_wait(queue, 50 * ms), TUTTI_IN_PROGRESS);
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_TIMEOUT);
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << "an error is told once";
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

TEST(Queues, WaitOnceForOperationsAndTransfersTogether) {
  const Ranks ranks(2);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  std::thread late([&] {
    usleep(300'000);
    EXPECT_EQ(tutti_barrier(ranks[1], {}, nullptr), TUTTI_SUCCESS);
  });
  int x = 0;
  int seven = 7;
  tutti_call call = TUTTI_CALL_INIT;
  call.timeout_ns = 20'000 * ms;
  EXPECT_EQ(tutti_barrier(ranks[0], {TUTTI_STREAM_QUEUE, queue}, nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 1, ranks[0], {TUTTI_STREAM_QUEUE, queue}, &call), TUTTI_SUCCESS);
  // 300 ms of the limit go to the barrier; were the transfer given the whole of it again, its message would be seen.
  std::thread later([&] {
    usleep(1'200'000);
    EXPECT_EQ(tutti_send(&seven, 1, TUTTI_INT32, 0, ranks[1], {}, nullptr), TUTTI_SUCCESS);
  });
  EXPECT_EQ(tutti_queue_wait(queue, 1'000 * ms), TUTTI_IN_PROGRESS);
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
  late.join();
  later.join();
  EXPECT_EQ(x, 7);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

TEST(Queues, DestructionCompletesTransfers) {
  const Ranks ranks(2);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  int x = 0;
  int seven = 7;
  ASSERT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 1, ranks[0], {TUTTI_STREAM_QUEUE, queue}, &call), TUTTI_SUCCESS);
  std::thread late([&] {
    usleep(200'000);
    EXPECT_EQ(tutti_send(&seven, 1, TUTTI_INT32, 0, ranks[1], {}, nullptr), TUTTI_SUCCESS);
  });
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_work_test(work), TUTTI_SUCCESS);
  EXPECT_EQ(x, 7);
  tutti_work_release(work);
  late.join();
}

}  // namespace
}  // namespace tutti::test
