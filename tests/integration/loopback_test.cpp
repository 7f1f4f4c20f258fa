// In fresh network namespaces: a machine, or a container, whose loopback interface is down; ports that nobody else has.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace tutti::test {
namespace {

constexpr int kNotPermitted = 77;

/// In this process, which has one thread: a network of its own, where 10.9.8.7 is up and loopback is down. It is gone with
/// the processes in it. The two ends have no link-local addresses, by which either would be reached from the other.
bool enter_fresh_network() {
  return ::unshare(CLONE_NEWNET) == 0 &&
         std::system(
             "{ ip link add tutti0 type veth peer name tutti1 && ip addr add 10.9.8.7/24 dev tutti0 && "
             "ip link set tutti0 addrgenmode none up && ip link set tutti1 addrgenmode none up; } 2>/dev/null") == 0;
}

/// Exit code of `life` in a process in such a network.
int live_there(const std::function<int()>& life, bool (*enter)() = enter_fresh_network) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(100);
    ::_exit(enter() ? life() : kNotPermitted);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define EXPECT_GOOD_OR_SKIP(code)                                                                           \
  if (const int ended = (code); ended == kNotPermitted) {                                                   \
    GTEST_SKIP() << "this user may not make network namespaces with a veth, or there is no ip of iproute2"; \
  } else {                                                                                                  \
    EXPECT_EQ(ended, 0);                                                                                    \
  }

tutti_config patient() {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.connect_timeout_ns = 80'000'000'000;
  return config;
}

int complain() {
  std::fprintf(stderr, "%s\n", last_error().c_str());
  return 1;
}

/// A rank's creation, its all_reduce and its end.
int reduce(const char* address, int ranks, int rank) {
  const tutti_config config = patient();
  tutti_comm* comm = nullptr;
  if (tutti_comm_create_address(&comm, address, ranks, rank, &config) != TUTTI_SUCCESS) return complain();
  std::vector<float> values(1000, static_cast<float>(rank + 1));
  const tutti_status status =
      tutti_all_reduce(values.data(), values.data(), values.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr);
  const bool right = values[7] == static_cast<float>(ranks * (ranks + 1) / 2);
  if (status != TUTTI_SUCCESS) complain();
  tutti_comm_destroy(comm);
  return status == TUTTI_SUCCESS && right ? 0 : 1;
}

int reduce_in_threads(const std::string& address, int ranks) {
  std::vector<int> failed(static_cast<std::size_t>(ranks), 1);
  std::vector<std::thread> running;
  for (int rank = 0; rank < ranks; ++rank) {
    running.emplace_back([&, rank] { failed[static_cast<std::size_t>(rank)] = reduce(address.c_str(), ranks, rank); });
  }
  for (std::thread& thread : running) thread.join();
  return std::accumulate(failed.begin(), failed.end(), 0);
}

TEST(WithoutLoopback, RanksOfOneProcessNeedNoNetwork) {
  EXPECT_GOOD_OR_SKIP(live_there([] {
    std::array<tutti_comm*, 3> comms{};
    const tutti_config config = patient();
    if (tutti_comm_create_all(comms.data(), 3, &config) != TUTTI_SUCCESS) return complain();
    for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
    return 0;
  }));
}

TEST(WithoutAnyInterface, RanksOfOneProcessNeedNoNetwork) {
  EXPECT_GOOD_OR_SKIP(live_there(
      [] {
        for (const int ranks : {1, 3}) {
          std::array<tutti_comm*, 3> comms{};
          const tutti_config config = patient();
          if (tutti_comm_create_all(comms.data(), ranks, &config) != TUTTI_SUCCESS) return complain();
          for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
        }
        const TemporaryFolder folder;
        return reduce_in_threads("file://" + folder.file("meet"), 2);
      },
      [] { return ::unshare(CLONE_NEWNET) == 0; }));
}

TEST(WithoutLoopback, RanksOfOneProcessMeetAtItsOwnAddress) {
  EXPECT_GOOD_OR_SKIP(live_there([] {
    ::setenv("TUTTI_SECRET", "s3cret", 1);
    tutti_unique_id id;
    std::string text(TUTTI_UNIQUE_ID_TEXT, '\0');
    if (tutti_get_unique_id(&id) != TUTTI_SUCCESS) return complain();
    tutti_unique_id_to_text(&id, text.data());
    return reduce_in_threads("tcp://10.9.8.7:4711", 4) + reduce_in_threads(text.c_str(), 3);
  }));
}

TEST(WithoutLoopback, TcpConnectsNoRanksOfOneMachineAndThatIsKnownAtOnce) {
  EXPECT_GOOD_OR_SKIP(live_there([] {
    std::array<tutti_comm*, 2> comms{};
    tutti_config config = patient();
    config.transports = "tcp";
    const auto begin = std::chrono::steady_clock::now();
    const tutti_status status = tutti_comm_create_all(comms.data(), 2, &config);
    complain();
    const bool told = last_error().find("no transport connects rank 0 and rank 1") != std::string::npos &&
                      last_error().find("tcp: the loopback interface is down") != std::string::npos &&
                      last_error().find("ip link set lo up") != std::string::npos;
    return status == TUTTI_UNSUPPORTED && told && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20) ? 0
                                                                                                                      : 1;
  }));
}

TEST(WithoutLoopback, AnotherProcessOfTheMachineIsToldSoAtOnce) {
  EXPECT_GOOD_OR_SKIP(live_there([] {
    int ends[2];
    if (::pipe(ends) != 0) return 1;
    tutti_unique_id id;
    const pid_t other = ::fork();  // as long as this process has one thread
    if (other == 0) {
      ::alarm(100);
      ::close(ends[1]);
      if (::read(ends[0], &id, sizeof id) != sizeof id) ::_exit(1);
      const tutti_config config = patient();
      tutti_comm* comm = nullptr;
      const auto begin = std::chrono::steady_clock::now();
      const tutti_status status = tutti_comm_create(&comm, 2, &id, 1, &config);
      complain();
      const bool told = last_error().find("loopback interface is down") != std::string::npos &&
                        last_error().find("ip link set lo up") != std::string::npos;
      const bool soon = std::chrono::steady_clock::now() - begin < std::chrono::seconds(20);
      ::_exit(status == TUTTI_SYSTEM_ERROR && told && soon ? 0 : 1);
    }
    if (tutti_get_unique_id(&id) != TUTTI_SUCCESS || ::write(ends[1], &id, sizeof id) != sizeof id) return complain();
    int status = 0;
    ::waitpid(other, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
  }));
}

TEST(AFreshNetwork, HasPortsEnoughWhereTheSentenceSaysSo) {
  // Two for each of two ranks, and one for the id. Which of them are given back before others are asked for is chance.
  for (const int ports : {5, 2}) {
    EXPECT_GOOD_OR_SKIP(live_there([ports] {
      ::setenv("TUTTI_TRANSPORTS", "tcp", 1);
      ::setenv("TUTTI_PORT_RANGE", ports == 5 ? "5000-5004" : "5000-5001", 1);
      std::array<tutti_comm*, 2> comms{};
      const tutti_config config = patient();
      if (std::system("ip link set lo up") != 0) return kNotPermitted;
      const tutti_status status = tutti_comm_create_all(comms.data(), 2, &config);
      if (ports == 5) return status == TUTTI_SUCCESS ? 0 : complain();
      return status == TUTTI_SYSTEM_ERROR && last_error().find(
                                                 "a rank needs 2, n ranks on one machine need 2n, and the "
                                                 "maker of a unique id needs 1 more") != std::string::npos
                 ? 0
                 : complain();
    }));
  }
}

/// Sets the ports that the system chooses from.
bool choose_ports(const std::string& low_high, const std::string& reserved = "") {
  const std::string folder = "/proc/sys/net/ipv4/ip_local_";
  const std::string command = "{ ip link set lo up && echo " + low_high + " > " + folder + "port_range && echo '" +
                              reserved + "' > " + folder + "reserved_ports; } 2>/dev/null";
  return std::system(command.c_str()) == 0;
}

/// A socket at a port of loopback; -1: none.
int bound(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 ? fd : -1;
}

/// A connection to the port that this side has ended: it holds the port for a minute.
bool leave_a_connection_at(int port) {
  const int listener = bound(port);
  const int client = bound(port + 1000);
  sockaddr_in at{};
  socklen_t length = sizeof at;
  if (listener < 0 || client < 0 || ::listen(listener, 1) != 0) return false;
  if (::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length) != 0) return false;
  if (::connect(client, reinterpret_cast<const sockaddr*>(&at), length) != 0) return false;
  const int server = ::accept(listener, nullptr, nullptr);
  for (const int fd : {server, client, listener}) ::close(fd);
  return server >= 0;
}

TEST(AFreshNetwork, WherePortsRestAfterTheirConnectionsHasThem) {
  EXPECT_GOOD_OR_SKIP(live_there([] {
    if (!choose_ports("40000 40009", "40000-40006,40008")) return kNotPermitted;
    for (const int port : {40'007, 40'009}) {
      if (!leave_a_connection_at(port)) return complain();
    }
    if (::listen(::socket(AF_INET, SOCK_STREAM, 0), 1) == 0) return complain();  // the system knows of none
    tutti_unique_id ids[2];
    for (tutti_unique_id& id : ids) {
      if (tutti_get_unique_id(&id) != TUTTI_SUCCESS) return complain();
    }
    // At neither of those that are reserved.
    return bound(40'003) >= 0 && bound(40'008) >= 0 ? 0 : complain();
  }));
}

TEST(AFreshNetwork, WhosePortsAreAllTakenIsSo) {
  EXPECT_GOOD_OR_SKIP(live_there([] {
    if (!choose_ports("40000 40002")) return kNotPermitted;
    // Held for as long as this process lives.
    for (int port = 40'000; port <= 40'002; ++port) {
      if (::listen(bound(port), 1) != 0) return complain();
    }
    tutti_unique_id id;
    const tutti_status status = tutti_get_unique_id(&id);
    return status == TUTTI_SYSTEM_ERROR &&
                   last_error().find("No port of net.ipv4.ip_local_port_range is free") != std::string::npos
               ? 0
               : complain();
  }));
}

}  // namespace
}  // namespace tutti::test
