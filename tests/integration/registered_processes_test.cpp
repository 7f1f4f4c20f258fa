// Memory of tutti_memory_alloc between processes: whose it is when an operation has failed, what a forked child may do to
// it, and what becomes of it where descriptors or lengths of files are short. Ranks are processes here, and the one that
// forks them has no thread.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/arenas.h"
#include "tests/support/child.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"

namespace tutti::test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Says from one process or thread to another that something has happened.
class Signal {
 public:
  Signal() { EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~Signal() {
    for (const int end : ends_) ::close(end);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  /// May be called by a signal's handler.
  void give() const { static_cast<void>(!::write(ends_[1], "!", 1)); }
  void await() const { EXPECT_TRUE(within(-1)); }
  /// Whether it was given in that time. Likewise.
  bool within(int milliseconds) const {
    pollfd readable{ends_[0], POLLIN, 0};
    char one;
    return ::poll(&readable, 1, milliseconds) == 1 && ::read(ends_[0], &one, 1) == 1;
  }

 private:
  std::array<int, 2> ends_{};
};

constexpr std::size_t some = 1 << 16;
/// Of a block that has a file of its own.
constexpr std::size_t large = std::size_t{17} << 20;

unsigned char* given_out(std::size_t bytes) {
  void* memory = nullptr;
  EXPECT_EQ(tutti_memory_alloc(&memory, bytes), TUTTI_SUCCESS) << last_error();
  return static_cast<unsigned char*>(memory);
}

/// Where a meeting of this folder is.
std::string address_in(const TemporaryFolder& folder, int number) {
  return "file://" + folder.file(std::to_string(number));
}

tutti_comm* join(const std::string& address, int rank, tutti_config config) {
  config.transports = "shm";
  tutti_comm* comm = nullptr;
  EXPECT_EQ(tutti_comm_create_address(&comm, address.c_str(), 2, rank, &config), TUTTI_SUCCESS) << last_error();
  return comm;
}

/// Memory with a page on which whoever touches it first is held up: in the middle of the sweep over it.
class Snag {
 public:
  static constexpr std::size_t count = 1 << 20;
  static constexpr std::size_t bytes = count * sizeof(std::int32_t);

  Snag() {
    void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(data, MAP_FAILED);
    data_ = static_cast<std::int32_t*>(data);
    std::fill(data_, data_ + count, 5);
    page = reinterpret_cast<char*>(data_) + 65536;
    struct sigaction action{};
    action.sa_sigaction = &touched;
    action.sa_flags = SA_SIGINFO;
    EXPECT_EQ(::sigaction(SIGSEGV, &action, nullptr), 0);
  }
  ~Snag() { ::munmap(data_, bytes); }
  Snag(const Snag&) = delete;
  Snag& operator=(const Snag&) = delete;

  std::int32_t* data() const { return data_; }
  /// held_up: runs where the page is touched, in a signal's handler.
  void set(void (*held_up)()) const {
    then = held_up;
    untouched = true;
    EXPECT_EQ(::mprotect(page, 4096, PROT_NONE), 0);
  }
  /// Whether nobody has touched the page since then.
  bool is_set() const { return untouched; }

 private:
  static void touched(int, siginfo_t* info, void*) {
    if (static_cast<char*>(info->si_addr) < page || static_cast<char*>(info->si_addr) >= page + 4096) ::abort();
    ::mprotect(page, 4096, PROT_READ | PROT_WRITE);
    untouched = false;
    then();
  }
  static inline char* page = nullptr;
  static inline volatile bool untouched = false;  ///< written in the handler
  static inline void (*then)() = nullptr;
  std::int32_t* data_ = nullptr;
};

/// What a rank's poll hook does: says that the rank waits, and that it goes on doing so although its operation has failed;
/// and ends the wait when it is told to.
struct Waiting {
  const Signal* says;
  const Signal* says_failed;
  const tutti_comm* comm = nullptr;  ///< where it listens
  std::atomic<bool> ends{false};
  bool said = false;
  bool said_failed = false;
  static int poll(void* self) {
    Waiting& waiting = *static_cast<Waiting*>(self);
    if (waiting.comm == nullptr) return 0;
    if (!std::exchange(waiting.said, true)) waiting.says->give();
    if (!waiting.said_failed && error_of(waiting.comm).status != TUTTI_SUCCESS) {
      waiting.said_failed = true;
      waiting.says_failed->give();
    }
    return waiting.ends ? 1 : 0;
  }
};

tutti_status broadcast_from_1(void* memory, tutti_comm* comm) {
  return tutti_broadcast(memory, memory, Snag::count, TUTTI_INT32, 1, comm, {}, nullptr);
}

struct Meeting {
  std::string address;
  Signal waits;     ///< rank 0 does, in the operation: what it grants at first is granted
  Signal sweeps;    ///< rank 1 does, and is held up there
  Signal fails;     ///< rank 0's operation has failed
  Signal returned;  ///< rank 0's call has
  Signal over;      ///< rank 1's operation is
  Signal missed;    ///< it was over before rank 1 swept: on a slow machine a short deadline passes sooner
};
Meeting* met = nullptr;  ///< for rank 1's handlers

/// Rank 1: sends from memory that cannot be offered, so that it writes into what rank 0 grants; held up on its way.
void send_slowly(Meeting& meeting, void (*handler)()) {
  Snag snag;
  met = &meeting;
  tutti_comm* const comm = join(meeting.address, 1, TUTTI_CONFIG_INIT);
  EXPECT_EQ(broadcast_from_1(snag.data(), comm), TUTTI_SUCCESS) << last_error();
  snag.set(handler);
  meeting.waits.await();
  static_cast<void>(broadcast_from_1(snag.data(), comm));
  if (snag.is_set()) {
    meeting.missed.give();
    meeting.sweeps.give();  // whoever waits for that
  }
  meeting.over.give();
  tutti_comm_destroy(comm);
}

void write_to(void* memory) { std::fill_n(static_cast<std::int32_t*>(memory), Snag::count, -7); }

std::ptrdiff_t changed(const void* memory, std::int32_t value) {
  const auto* const data = static_cast<const std::int32_t*>(memory);
  return static_cast<std::ptrdiff_t>(Snag::count) - std::count(data, data + Snag::count, value);
}

enum class Way { abort, hook, deadline, death };

/// Rank 0, which receives into registered memory, and has done so once.
class Receiver {
 public:
  explicit Receiver(Meeting& meeting) : waiting{&meeting.waits, &meeting.fails} {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.poll = &Waiting::poll;
    config.poll_ctx = &waiting;
    comm = join(meeting.address, 0, config);
    memory = given_out(Snag::bytes);
    EXPECT_EQ(broadcast_from_1(memory, comm), TUTTI_SUCCESS) << last_error();
    waiting.comm = comm;
  }
  ~Receiver() {
    tutti_comm_destroy(comm);
    EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS);
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// From here on the memory is the caller's.
  void write_to_memory() const { write_to(memory); }
  std::ptrdiff_t changed_since() const { return changed(memory, -7); }

  Waiting waiting;
  tutti_comm* comm = nullptr;
  void* memory = nullptr;
};

/// Rank 0: its operation fails while rank 1 writes into its memory; from its return on, that memory is the caller's.
void fail_while_written(Meeting& meeting, Way way, std::uint64_t deadline_ns) {
  Receiver receiver(meeting);
  if (way == Way::deadline) tutti_comm_set_timeout(receiver.comm, deadline_ns);
  std::thread other([&] {
    meeting.sweeps.await();
    if (way == Way::abort) static_cast<void>(tutti_comm_abort(receiver.comm));
    receiver.waiting.ends = way == Way::hook;
  });
  const tutti_status expected = way == Way::deadline ? TUTTI_TIMEOUT
                                : way == Way::death  ? TUTTI_REMOTE_ERROR
                                                     : TUTTI_ABORTED;
  EXPECT_EQ(broadcast_from_1(receiver.memory, receiver.comm), expected) << last_error();
  receiver.write_to_memory();
  meeting.returned.give();
  meeting.fails.give();
  meeting.waits.give();  // a deadline may pass before the hook is asked
  EXPECT_THAT(error_of(nullptr).message, Not(HasSubstr("may still write")));
  if (way != Way::death) meeting.over.await();
  EXPECT_EQ(receiver.changed_since(), 0) << "elements changed after the call had returned";
  other.join();
}

class AfterAFailure : public testing::TestWithParam<Way> {};

TEST_P(AfterAFailure, NoPeerWritesIntoTheCallersMemory) {
  const TemporaryFolder folder;
  int number = 0;
  std::uint64_t deadline_ns = 20'000'000;
  for (int turn = 0; turn < 12;) {
    Meeting meeting{address_in(folder, ++number), {}, {}, {}, {}, {}, {}};
    const bool dies = GetParam() == Way::death;
    // Goes on when the other's call has failed, and has returned or waits for this.
    const auto nap = [] {
      met->sweeps.give();
      if (met->fails.within(10'000)) static_cast<void>(met->returned.within(100));
    };
    const auto die = [] {
      met->sweeps.give();
      ::raise(SIGKILL);
    };
    {
      const Child sender([&] { send_slowly(meeting, dies ? +die : +nap); }, dies ? SIGKILL : 0);
      const Child receiver([&] { fail_while_written(meeting, GetParam(), deadline_ns); });
    }
    if (!meeting.missed.within(0)) {
      ++turn;
    } else {
      ASSERT_EQ(GetParam(), Way::deadline);
      deadline_ns *= 2;
      ASSERT_LT(deadline_ns, 20'000'000'000u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, AfterAFailure, testing::Values(Way::abort, Way::hook, Way::deadline, Way::death),
                         [](const testing::TestParamInfo<Way>& way) {
                           return std::string(way.param == Way::abort      ? "Abort"
                                              : way.param == Way::hook     ? "Hook"
                                              : way.param == Way::deadline ? "Deadline"
                                                                           : "Death");
                         });

/// Rank 1: gathers into memory that nobody may read, held up in the middle of reading what rank 0 offers.
void gather_slowly(Meeting& meeting, std::size_t count) {
  Snag snag;
  met = &meeting;
  tutti_comm* const comm = join(meeting.address, 1, TUTTI_CONFIG_INIT);
  snag.set([] {
    met->sweeps.give();
    static_cast<void>(met->returned.within(10'000));
  });
  const std::vector<std::int32_t> own(count, 1);
  const tutti_status status = tutti_gather(own.data(), snag.data(), count, TUTTI_INT32, 1, comm, {}, nullptr);
  EXPECT_EQ(status, TUTTI_ABORTED) << std::count(snag.data(), snag.data() + count, 2) << " elements are no more rank 0's";
  tutti_comm_destroy(comm);
}

/// Rank 0: its call is aborted while rank 1 reads its memory, which is the caller's then.
void abort_while_read(Meeting& meeting, std::size_t count) {
  tutti_comm* const comm = join(meeting.address, 0, TUTTI_CONFIG_INIT);
  void* memory = nullptr;
  ASSERT_EQ(tutti_memory_alloc(&memory, count * sizeof(std::int32_t)), TUTTI_SUCCESS) << last_error();
  std::fill_n(static_cast<std::int32_t*>(memory), count, 1);
  std::thread other([&] {
    meeting.sweeps.await();
    static_cast<void>(tutti_comm_abort(comm));
  });
  EXPECT_EQ(tutti_gather(memory, nullptr, count, TUTTI_INT32, 1, comm, {}, nullptr), TUTTI_ABORTED) << last_error();
  std::fill_n(static_cast<std::int32_t*>(memory), count, 2);
  meeting.returned.give();
  other.join();
  tutti_comm_destroy(comm);
  EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS);
}

/// Whatever its own memory is: calls that offer nothing themselves run by another loop.
TEST(AfterAnAbort, WhatAPeerWasReadingIsNoSuccess) {
  const TemporaryFolder folder;
  int number = 0;
  for (const std::size_t count : {20'000, 32'768, 60'000, 100'000}) {
    SCOPED_TRACE(count);
    Meeting meeting{address_in(folder, ++number), {}, {}, {}, {}, {}, {}};
    const Child reader([&] { gather_slowly(meeting, count); });
    const Child owner([&] { abort_while_read(meeting, count); });
  }
}

/// Rank 0, whose peer is stopped in the middle of a sweep and goes on after the call has returned.
void outlast_a_stopped_peer(Meeting& meeting, pid_t peer, std::uint64_t deadline_ns) {
  unsigned char* const neighbour = given_out(some);  // so that the file which both lie in goes on
  Receiver receiver(meeting);
  tutti_comm_set_timeout(receiver.comm, deadline_ns);
  EXPECT_EQ(broadcast_from_1(receiver.memory, receiver.comm), TUTTI_TIMEOUT) << last_error();
  meeting.waits.give();
  meeting.sweeps.await();
  if (meeting.missed.within(0)) return meeting.missed.give();
  for (const tutti_comm* of : {static_cast<const tutti_comm*>(nullptr), static_cast<const tutti_comm*>(receiver.comm)}) {
    const tutti_error error = error_of(of);
    const std::string message = error.message;
    EXPECT_THAT(message, HasSubstr("rank 1 ("));
    EXPECT_THAT(message, HasSubstr("may still write into the recv buffer of broadcast #1"));
    EXPECT_THAT(message, HasSubstr("must not be reused"));
    EXPECT_THAT(error.remedy, HasSubstr("Free that memory"));
  }
  // Given back, it is nobody's: what is allocated later, in the same file too, is other memory.
  const auto* const stale = static_cast<unsigned char*>(std::exchange(receiver.memory, nullptr));
  EXPECT_EQ(tutti_memory_free(const_cast<unsigned char*>(stale)), TUTTI_SUCCESS);
  std::vector<unsigned char*> later;
  for (int i = 0; i < 8; ++i) {
    later.push_back(given_out(Snag::bytes));
    EXPECT_TRUE(later.back() >= stale + Snag::bytes || later.back() + Snag::bytes <= stale) << "block " << i;
    write_to(later.back());
  }
  EXPECT_EQ(::kill(peer, SIGCONT), 0);
  meeting.over.await();
  for (unsigned char* memory : later) {
    EXPECT_EQ(changed(memory, -7), 0);
    EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS);
  }
  EXPECT_EQ(tutti_memory_free(neighbour), TUTTI_SUCCESS);
}

TEST(AStoppedPeer, ThatMayStillWriteIsNamed) {
  const TemporaryFolder folder;
  const auto stop = [] {
    met->sweeps.give();
    ::raise(SIGSTOP);
  };
  bool missed = true;
  for (std::uint64_t deadline_ns = 100'000'000; missed && deadline_ns < 20'000'000'000; deadline_ns *= 2) {
    Meeting meeting{address_in(folder, static_cast<int>(deadline_ns / 100'000'000)), {}, {}, {}, {}, {}, {}};
    {
      const Child sender([&] { send_slowly(meeting, stop); });
      const Child receiver([&] { outlast_a_stopped_peer(meeting, sender.pid(), deadline_ns); });
    }
    missed = meeting.missed.within(0);
  }
  EXPECT_FALSE(missed);
}

bool has_everywhere(const unsigned char* memory, int value) {
  return std::count(memory, memory + some, value) == static_cast<std::ptrdiff_t>(some);
}

// Both have the pages of the parent's file.
TEST(AfterAFork, ParentAndChildAllocateMemoryOfTheirOwn) {
  unsigned char* const neighbour = given_out(some);
  const Signal parent_wrote, child_wrote;
  const auto fill = [](int value) {
    std::vector<unsigned char*> blocks;
    for (int i = 0; i < 20; ++i) {
      blocks.push_back(given_out(some));
      EXPECT_TRUE(has_everywhere(blocks.back(), 0));
      std::memset(blocks.back(), value, some);
    }
    return blocks;
  };
  const auto check = [](const std::vector<unsigned char*>& blocks, int value) {
    for (unsigned char* block : blocks) {
      EXPECT_TRUE(has_everywhere(block, value));
      EXPECT_EQ(tutti_memory_free(block), TUTTI_SUCCESS);
    }
  };
  std::memset(neighbour, 7, some);
  const Child child([&] {
    parent_wrote.await();
    const auto blocks = fill(3);
    child_wrote.give();
    check(blocks, 3);
    EXPECT_TRUE(has_everywhere(neighbour, 7));
  });
  const auto blocks = fill(4);
  parent_wrote.give();
  child_wrote.await();
  check(blocks, 4);
  EXPECT_EQ(tutti_memory_free(neighbour), TUTTI_SUCCESS);
}

// A program that forks often, and whose children end at once, needs no descriptor for each.
TEST(AfterAFork, TheParentGoesOnWithTheFilesThatItHas) {
  unsigned char* const neighbour = given_out(some);
  const Arenas before = Arenas::now();
  for (int turn = 0; turn < 50; ++turn) {
    unsigned char* const across = given_out(some);
    {
      const Child child([&] { EXPECT_EQ(tutti_memory_free(neighbour), TUTTI_SUCCESS); });
    }
    unsigned char* const later = given_out(some);
    EXPECT_TRUE(has_everywhere(later, 0));
    for (unsigned char* block : {across, later}) {
      std::memset(block, 1, some);
      EXPECT_EQ(tutti_memory_free(block), TUTTI_SUCCESS);
    }
  }
  EXPECT_EQ(Arenas::now(), before);
  EXPECT_EQ(tutti_memory_free(neighbour), TUTTI_SUCCESS);
}

TEST(AfterAFork, MemoryThatTheChildFreesStaysItsParents) {
  unsigned char* const memory = given_out(some);
  std::memset(memory, 7, some);
  {
    const Child child([&] {
      memory[5] = 9;
      EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_memory_free(memory), TUTTI_INVALID_ARGUMENT) << "it was freed before";
      unsigned char* const own = given_out(some);
      EXPECT_TRUE(has_everywhere(own, 0));
      EXPECT_EQ(tutti_memory_free(own), TUTTI_SUCCESS);
    });
  }
  EXPECT_EQ(memory[5], 9) << "it is shared with children";
  EXPECT_EQ(std::count(memory, memory + some, 7), static_cast<std::ptrdiff_t>(some) - 1);
  EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS);
}

TEST(AfterAFork, MemoryThatTheParentFreesStaysItsChilds) {
  unsigned char* const memory = given_out(some);
  unsigned char* const neighbour = given_out(some);
  std::memset(memory, 7, some);
  const Signal freed;
  const Child child([&] {
    freed.await();
    EXPECT_TRUE(has_everywhere(memory, 7));
  });
  EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS);
  // Nor is it given out again in the file that both still have.
  std::vector<unsigned char*> later = {neighbour};
  for (int i = 0; i < 4; ++i) {
    later.push_back(given_out(some));
    EXPECT_TRUE(later.back() >= memory + some || later.back() + some <= memory);
    std::memset(later.back(), 9, some);
  }
  for (unsigned char* block : later) EXPECT_EQ(tutti_memory_free(block), TUTTI_SUCCESS);
  freed.give();
}

// Freeing much memory takes a while, under a lock: nearly every fork falls into it.
TEST(AfterAFork, AChildIsNotHeldUpByWhatOtherThreadsDid) {
  const Child outer([] {
    std::atomic<bool> over{false};
    std::thread busy([&] {
      while (!over) {
        unsigned char* const memory = given_out(8 << 20);
        std::memset(memory, 1, 8 << 20);
        EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS);
      }
    });
    for (int turn = 0; turn < 40; ++turn) {
      const Child child([] {
        ::alarm(10);
        EXPECT_EQ(tutti_memory_free(given_out(some)), TUTTI_SUCCESS);
      });
    }
    over = true;
    busy.join();
  });
}

/// Takes all descriptors that this process may have, now and, but for a pipe of the sanitizer's, from now on.
void leave_no_descriptors() {
  rlimit limits{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limits), 0);
  limits.rlim_cur = std::min<rlim_t>(128, limits.rlim_max - 2);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limits), 0);
  while (::dup(0) >= 0) continue;
}

/// Sums the memory of all ranks in place.
void sum(void* memory, std::size_t count, int ranks, tutti_comm* comm) {
  auto* const data = static_cast<std::int32_t*>(memory);
  std::fill_n(data, count, 3);
  ASSERT_EQ(tutti_all_reduce(data, data, count, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(std::count(data, data + count, 3 * ranks), static_cast<std::ptrdiff_t>(count));
}

// The system's answer to a file that is too long is a signal that ends the process.
TEST(WhereFilesMustBeShort, MemoryIsGivenAllTheSame) {
  const Child child([] {
    limit(RLIMIT_FSIZE, 1 << 16);
    unsigned char* const memory = given_out(1 << 20);
    ASSERT_NE(memory, nullptr);
    std::memset(memory, 1, 1 << 20);
    EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS);
  });
}

TEST(WhereFilesMustBeShort, BlocksShareShorterOnes) {
  const Child child([] {
    limit(RLIMIT_FSIZE, 3 << 20);
    const Arenas before = Arenas::now();
    for (int i = 0; i < 100; ++i) std::memset(given_out(4096), 1, 4096);
    EXPECT_EQ(Arenas::now().descriptors, before.descriptors + 1);
    std::memset(given_out(3 << 20), 1, 3 << 20);
    EXPECT_EQ(Arenas::now().descriptors, before.descriptors + 2) << "as long as a file may be";
    std::memset(given_out(4 << 20), 1, 4 << 20);
    EXPECT_EQ(Arenas::now().descriptors, before.descriptors + 2);
  });
}

/// From here on this process maps `bytes` more at most.
void limit_address_space(std::size_t bytes) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  limit(RLIMIT_AS, pages * 4096 + bytes);
}

TEST(WhereTheAddressSpaceIsShort, BlocksShareShorterFiles) {
  if (under_tsan || under_asan) GTEST_SKIP() << "the sanitizer needs much of it";
  const Child child([] {
    limit_address_space(40 << 20);
    const Arenas before = Arenas::now();
    for (int i = 0; i < 100; ++i) std::memset(given_out(4096), 1, 4096);
    EXPECT_EQ(Arenas::now().descriptors, before.descriptors + 1);
    EXPECT_EQ(Arenas::now().mappings, before.mappings + 1);
  });
}

// What one rank cannot map of the other's memory travels by slot, and nobody is said to have died.
TEST(WhereTheAddressSpaceIsShort, ARankThatCannotMapItsPeersMemoryStillGetsEveryMessage) {
  if (under_tsan || under_asan) GTEST_SKIP() << "the sanitizer needs much of it";
  const TemporaryFolder folder;
  const std::string address = address_in(folder, 0);
  const auto body = [&](int rank) {
    const Arenas before = Arenas::now();
    tutti_comm* const comm = join(address, rank, TUTTI_CONFIG_INIT);
    std::vector<std::int32_t> plain(some);
    sum(plain.data(), plain.size(), 2, comm);
    if (rank == 1) limit_address_space(16 << 20);
    unsigned char* const memory = rank == 0 ? given_out(large) : nullptr;
    void* const data = rank == 0 ? static_cast<void*>(memory) : plain.data();
    for (int turn = 0; turn < 3; ++turn) {
      sum(data, some, 2, comm);
      for (const int root : {0, 1}) {
        EXPECT_EQ(tutti_broadcast(data, data, some, TUTTI_INT32, root, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      }
    }
    EXPECT_EQ(Arenas::now().mappings, before.mappings + (rank == 0 ? 1 : 0)) << "it is mapped by its owner alone";
    tutti_comm_destroy(comm);
  };
  const Child first([&] { body(0); });
  const Child second([&] { body(1); });
}

TEST(WhereDescriptorsAreFew, MemoryLeavesEnoughOfThem) {
  const Child child([] {
    limit(RLIMIT_NOFILE, 128);
    std::vector<unsigned char*> memory;
    for (int i = 0; i < 200; ++i) memory.push_back(given_out(large));
    {
      const Ranks ranks(2);
      ranks.run([&](int rank, tutti_comm* comm) {
        for (const std::size_t from : {std::size_t{0}, memory.size() - 4}) {
          sum(memory[from + static_cast<std::size_t>(rank)], some / 4, 2, comm);
        }
      });
    }
    for (unsigned char* one : memory) EXPECT_EQ(tutti_memory_free(one), TUTTI_SUCCESS);
  });
}

TEST(WhereDescriptorsAreFew, AnyNumberOfBuffersIsUsedByBothRanks) {
  const TemporaryFolder folder;
  const std::string address = address_in(folder, 0);
  const auto body = [&](int rank) {
    limit(RLIMIT_NOFILE, 1024);
    tutti_comm* const comm = join(address, rank, TUTTI_CONFIG_INIT);
    for (int i = 0; i < 600; ++i) sum(given_out(large), some / 2, 2, comm);
    tutti_comm_destroy(comm);
  };
  const Child first([&] { body(0); });
  const Child second([&] { body(1); });
}

/// One of two ranks that sum each of many blocks in place, in files that they share.
void sum_blocks(const std::string& address, int rank, int blocks, std::size_t bytes) {
  tutti_comm* const comm = join(address, rank, TUTTI_CONFIG_INIT);
  const Arenas before = Arenas::now();
  const std::size_t files = (static_cast<std::size_t>(blocks) * bytes + (64 << 20) - 1) / (64 << 20);
  std::vector<unsigned char*> memory;
  for (int i = 0; i < blocks; ++i) {
    memory.push_back(given_out(bytes));
    sum(memory.back(), bytes / sizeof(std::int32_t), 2, comm);
  }
  EXPECT_LE(Arenas::now().descriptors, before.descriptors + files);
  EXPECT_LE(Arenas::now().mappings, before.mappings + 2 * files) << "its own, and its peer's";
  if (bytes >= 16384) {
    EXPECT_GT(Arenas::now().mappings, before.mappings + files) << "nothing of its peer's is mapped";
  }
  // Whoever ends first ends the other's use of its memory.
  sum(memory.front(), 1, 2, comm);
  tutti_comm_destroy(comm);
  for (unsigned char* block : memory) EXPECT_EQ(tutti_memory_free(block), TUTTI_SUCCESS);
  EXPECT_EQ(Arenas::now(), before);
}

TEST(ManyBlocks, OfTwoProcessesAreUsedInPlaceInAFewFiles) {
  const TemporaryFolder folder;
  int number = 0;
  for (const auto& [blocks, bytes] : {std::pair{10'000, std::size_t{4096}}, std::pair{2'000, some}}) {
    SCOPED_TRACE(blocks);
    const std::string address = address_in(folder, ++number);
    const Child first([&] { sum_blocks(address, 0, blocks, bytes); });
    const Child second([&] { sum_blocks(address, 1, blocks, bytes); });
  }
}

// One rank takes none of the other's memory: what would lie there travels by slot, and nobody is said to have died.
TEST(WhereDescriptorsAreFew, ARankThatHasNoneLeftStillGetsEveryMessage) {
  const TemporaryFolder folder;
  const std::string address = address_in(folder, 0);
  const auto body = [&](int rank) {
    tutti_comm* const comm = join(address, rank, TUTTI_CONFIG_INIT);
    std::vector<std::int32_t> plain(some);
    sum(plain.data(), plain.size(), 2, comm);
    if (rank == 1) leave_no_descriptors();
    for (int i = 0; i < 5; ++i) {
      unsigned char* const memory = given_out(large);
      for (int turn = 0; turn < 3; ++turn) {
        sum(memory, some, 2, comm);
        sum(rank == 0 ? static_cast<void*>(memory) : plain.data(), some, 2, comm);
        EXPECT_EQ(tutti_broadcast(memory, memory, some, TUTTI_INT32, 0, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
        EXPECT_EQ(tutti_broadcast(memory, memory, some, TUTTI_INT32, 1, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      }
    }
    tutti_comm_destroy(comm);
  };
  const Child first([&] { body(0); });
  const Child second([&] { body(1); });
}

}  // namespace
}  // namespace tutti::test
