// An id whose maker forks: what the children do with a rendezvous that is their parent's.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <filesystem>

#include "src/base/authenticated_acceptor.h"
#include "src/base/authenticated_connector.h"
#include "src/tables/units.h"
#include "tests/support/world.h"

namespace tutti::test {
namespace {

/// Joins in a forked child; its exit code is 0 if that was right and took less than `most_ns`.
pid_t join_in_child(const tutti_unique_id& id, int rank, int ranks, std::uint64_t most_ns) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(30);
  const std::uint64_t begin = now_ns();
  JoinRequest request = request_of(rank, ranks);
  request.id = &id;
  const auto joined = join(request);
  const std::uint64_t took = now_ns() - begin;
  if (!joined) std::fprintf(stderr, "rank %d: %s\n", rank, joined.status().text().c_str());
  if (took > most_ns) std::fprintf(stderr, "rank %d took %s\n", rank, duration_text(took).c_str());
  ::_exit(!joined ? 1 : took > most_ns ? 2 : 0);
}

int end_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A wait for a thread that does not exist in the child would take a second.
constexpr std::uint64_t kSoonNs = 500'000'000;

TEST(ForkOfAnIdsMaker, RanksMeetAtOnce) {
  const tutti_unique_id id = id_of_test();
  const pid_t children[] = {join_in_child(id, 0, 2, kSoonNs), join_in_child(id, 1, 2, kSoonNs)};
  for (const pid_t child : children) EXPECT_EQ(end_of(child), 0);
}

TEST(ForkOfAnIdsMaker, ARankAloneNeedsNoRoot) {
  const tutti_unique_id id = id_of_test();
  EXPECT_EQ(end_of(join_in_child(id, 0, 1, kSoonNs)), 0);
}

TEST(ForkOfAnIdsMaker, TheChildsOwnIdsServe) {
  const tutti_unique_id parents = id_of_test();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(world_of(2).size() == 2 ? 0 : 1);
  }
  EXPECT_EQ(end_of(child), 0);
  const auto results = join_all(2, [&](int, JoinRequest& request) { request.id = &parents; });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
}

std::ptrdiff_t descriptors() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

// In a process that has made no id: all later ones share what the first one takes.
TEST(TheFirstId, HasAllItsDescriptorsOrIsRefused) {
  const Settings settings = settings_of_test();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const std::ptrdiff_t there = descriptors();
    for (rlim_t most = 0; most < 1000; ++most) {
      const rlimit low{most, before.rlim_max};  // numbers below this may be used
      ::setrlimit(RLIMIT_NOFILE, &low);
      const bool made = make_unique_id(settings).ok();
      ::setrlimit(RLIMIT_NOFILE, &before);
      if (made) ::_exit(descriptors() - there > 3 ? 0 : 1);
      if (descriptors() != there) ::_exit(2);
    }
    ::_exit(3);
  }
  EXPECT_EQ(end_of(child), 0);
}

TEST(AnotherProcess, IsToldAtOnceThatAnIdWasUsed) {
  for (const bool failed : {false, true}) {
    const tutti_unique_id id = id_of_test();
    if (failed) {
      JoinRequest alone = request_of(0, 2, 0.3);  // long enough to reach the server on a busy machine
      alone.id = &id;
      EXPECT_EQ(join(alone).status().code(), TUTTI_TIMEOUT);
    } else {
      for (const auto& result : join_all(2, [&](int, JoinRequest& request) { request.id = &id; })) {
        EXPECT_TRUE(result.ok()) << result.status().text();
      }
    }
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);
      JoinRequest request = request_of(1, 2, 120);
      request.id = &id;
      const std::string text = join(request).status().text();
      std::fprintf(stderr, "%s\n", text.c_str());
      ::_exit(text.find("An id serves one creation") != std::string::npos ? 0 : 1);
    }
    EXPECT_EQ(end_of(child), 0);
  }
}

TEST(AnotherProcess, IsToldSoonThatAnIdsMakerHasEndedThoughAForkOfItLives) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t maker = ::fork();
  if (maker == 0) {
    const tutti_unique_id made = id_of_test();
    if (::fork() == 0) {
      ::alarm(20);
      ::pause();
    }
    ::_exit(::write(ends[1], &made, sizeof made) == sizeof made ? 0 : 1);
  }
  EXPECT_EQ(end_of(maker), 0);
  tutti_unique_id id{};
  ASSERT_EQ(::read(ends[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  const std::uint64_t begin = now_ns();
  JoinRequest request = request_of(1, 2, 120);
  request.id = &id;
  const auto result = join(request);
  EXPECT_EQ(result.status().code(), TUTTI_REMOTE_ERROR);
  EXPECT_THAT(result.status().text(), HasSubstr("or its process has ended"));
  EXPECT_LT(now_ns() - begin, 10'000'000'000u);
}

TEST(AnotherProcess, ThatCannotTakePartIsToldToAllByItsId) {
  const tutti_unique_id id = id_of_test();
  const auto holder = listen_on("lo", 0, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    JoinRequest request = request_of(1, 2, 120);
    request.id = &id;
    const std::uint16_t taken = holder->addresses.front().port();
    request.settings.port_range = {taken, taken};
    ::_exit(join(request).status().code() == TUTTI_SYSTEM_ERROR ? 0 : 1);
  }
  const std::uint64_t begin = now_ns();
  JoinRequest request = request_of(0, 2, 120);
  request.id = &id;
  const auto result = join(request);
  EXPECT_THAT(result.status().text(), HasSubstr("is free to listen on"));
  ASSERT_FALSE(result.status().error().guilty.empty());
  EXPECT_EQ(result.status().error().guilty[0].rank, 1);
  EXPECT_EQ(result.status().error().guilty[0].pid, child);
  EXPECT_LT(now_ns() - begin, 15'000'000'000u);
  EXPECT_EQ(end_of(child), 0);
}

/// A child that has copies of all descriptors, and sleeps.
class Forked {
 public:
  Forked() : child_(::fork()) {
    if (child_ == 0) {
      ::pause();
      ::_exit(0);
    }
  }
  ~Forked() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;

 private:
  const pid_t child_;
};

bool quiet(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, 0) == 0;
}

UniqueFd connected_to(const SocketAddress& address) {
  auto socket = connect_to(address);
  EXPECT_TRUE(socket.ok() && eventually([&] { return connect_result(socket->get()) == 0; }));
  return std::move(socket).value();
}

TEST(ForkedCopies, KeepNoDoorAwake) {
  auto listener = listen_on("lo", 0, 0);
  ASSERT_TRUE(listener.ok());
  Acceptor acceptor(std::move(*listener), random_key(), "test", {});
  UniqueFd stranger = connected_to(acceptor.addresses().front());
  EXPECT_TRUE(eventually([&] { return !quiet(acceptor.fd()); }));
  acceptor.step();
  const Forked child;
  ::shutdown(stranger.get(), SHUT_RDWR);  // the child has a copy of this end, too
  stranger.reset();
  EXPECT_TRUE(eventually([&] {
    acceptor.step();
    return acceptor.strangers() == 1;
  }));
  EXPECT_TRUE(quiet(acceptor.fd()));
}

TEST(ForkedCopies, KeepNoCallerAwake) {
  auto listener = listen_on("lo", 0, 0);
  ASSERT_TRUE(listener.ok());
  Connector connector({listener->addresses.front()}, random_key(), "test", {});
  connector.step();
  UniqueFd other;
  EXPECT_TRUE(eventually([&] {
    other = accept_one(listener->sockets.front().get());
    return static_cast<bool>(other);
  }));
  const Forked child;
  ::shutdown(other.get(), SHUT_RDWR);
  other.reset();
  const auto explained = connector.explain();
  EXPECT_TRUE(eventually([&] {
    connector.step();
    return connector.explain() != explained;
  }));
  listener->sockets.clear();
  EXPECT_TRUE(eventually([&] { return quiet(connector.fd()); }));
}

TEST(ForkedCopies, KeepNoAddressOfAMeetingTaken) {
  const std::string address = "tcp://127.0.0.1:" + std::to_string(free_port());
  std::optional<Forked> child;
  for (int creation = 0; creation < 2; ++creation) {
    const auto results = join_all(2, [&](int rank, JoinRequest& request) {
      request.address = address;
      if (rank == 0 || child) return;
      ::usleep(300'000);  // rank 0 waits there, and listens
      child.emplace();
    });
    for (const auto& result : results) EXPECT_TRUE(result.ok()) << creation << ": " << result.status().text();
  }
}

TEST(ForkedCopies, KeepNoRootAwake) {
  const tutti_unique_id id = id_of_test();
  const pid_t guest = ::fork();
  if (guest == 0) {
    JoinRequest request = request_of(1, 3);
    request.id = &id;
    static_cast<void>(join(request));
    ::_exit(0);
  }
  ::usleep(200'000);  // it has joined
  const Forked child;
  ::kill(guest, SIGKILL);
  ::waitpid(guest, nullptr, 0);
  ::usleep(100'000);  // the root knows
  const auto busy_ns = [] {
    timespec t;
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
  };
  const std::uint64_t before = busy_ns();
  ::usleep(500'000);
  EXPECT_LT(busy_ns() - before, 100'000'000u);  // one that spins takes most of a core
}

}  // namespace
}  // namespace tutti::test
