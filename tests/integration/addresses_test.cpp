// Every form of an address at which ranks may be told to meet, in network namespaces of the test's own.
#include <gmock/gmock.h>
#include <net/if.h>

#include <array>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/support/child.h"
#include "tests/support/network.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What came of a creation at `address`: nothing where it did, and the sum of all ranks is right.
std::string joined(const std::string& address, int rank, int ranks, const char* secret, const char* transports = nullptr) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.secret = secret;
  config.transports = transports;
  config.connect_timeout_ns = 20'000'000'000;
  tutti_comm* comm = nullptr;
  if (tutti_comm_create_address(&comm, address.c_str(), ranks, rank, &config) != TUTTI_SUCCESS) return last_error();
  float x = 1;
  const tutti_status status = tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr);
  std::string problem = status != TUTTI_SUCCESS          ? error_of(comm).message
                        : x != static_cast<float>(ranks) ? "a wrong sum"
                                                         : "";
  if (problem.empty() && tutti_comm_finalize(comm) != TUTTI_SUCCESS) problem = last_error();
  tutti_comm_destroy(comm);
  return problem;
}

/// Two threads of this process meet, by their own way of writing the place, over tcp.
void expect_to_meet(const std::string& address_0, const std::string& address_1, const char* secret) {
  std::array<std::string, 2> problems;
  std::thread other([&] { problems[1] = joined(address_1, 1, 2, secret, "tcp"); });
  problems[0] = joined(address_0, 0, 2, secret, "tcp");
  other.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "") << address_0 << " " << address_1;
}

/// This process's network: loopback, and two interfaces joined by a wire, each with a link-local address.
void furnish() {
  ASSERT_TRUE(enter_own_network());
  ASSERT_TRUE(ip("link set lo up"));
  ASSERT_TRUE(ip("link add veth0 type veth peer name veth1"));
  for (const char* end : {"veth0", "veth1"}) {
    ASSERT_TRUE(ip(std::string("link set ") + end + " addrgenmode none") && ip(std::string("link set ") + end + " up"));
  }
  ASSERT_TRUE(ip("addr add fe80::1/64 dev veth0 nodad"));
}

#define NEEDS_NETWORKS() \
  if (!networks_allowed()) GTEST_SKIP() << "network namespaces need root and iproute2"

TEST(Address, OfEveryFormIsMetAt) {
  NEEDS_NETWORKS();
  const Child child([] {
    furnish();
    int port = 29500;
    const auto place = [&](const std::string& host) { return "tcp://" + host + ":" + std::to_string(port); };
    for (const char* secret : {static_cast<const char*>(nullptr), "s"}) {
      for (const char* host : {"[fe80::1%veth0]", "[fe80::1%25veth0]", "[FE80::1%veth0]", "[::ffff:127.0.0.1]", "127.1",
                               "0x7f.1", "127.0.0.1", "[::1]", "localhost", "LOCALHOST", "0.0.0.0", "[::]", "*"}) {
        expect_to_meet(place(host), place(host), secret);
        ++port;
      }
      const std::string zone = "[fe80::1%" + std::to_string(::if_nametoindex("veth0")) + "]";
      expect_to_meet(place("[fe80::1%veth0]"), place(zone), secret);
      ++port;
      expect_to_meet(place("[::ffff:7f00:1]"), place("127.0.0.1"), secret);
      ++port;
      for (const char* host : {"127.0.0.1", "localhost", "LOCALHOST"}) {
        expect_to_meet(place("*"), place(host), secret);
        ++port;
        expect_to_meet(place(host), place("localhost"), secret);
        ++port;
      }
    }
    // Whoever is behind the wildcard is called wherever that is.
    expect_to_meet(place("[::]"), place("[fe80::1%veth0]"), "s");
  });
}

TEST(Address, WithoutAZoneOrWithOneOfAnotherMachineIsASentenceWithTheForm) {
  NEEDS_NETWORKS();
  const Child child([] {
    furnish();
    for (const int rank : {0, 1}) {
      EXPECT_THAT(
          joined("tcp://[fe80::1]:29500", rank, 2, "s"),
          AllOf(HasSubstr("\"[fe80::1]:29500\" is a link-local address"),
                HasSubstr("Write it with a zone, as [fe80::1%veth0]:29500; interfaces of this machine that have such "
                          "addresses: veth0")));
      EXPECT_THAT(
          joined("tcp://[fe80::1%eth7]:29500", rank, 2, "s"),
          AllOf(HasSubstr("zone \"eth7\", which is no interface of this machine"), HasSubstr("with one of: veth0")));
    }
  });
}

TEST(Interface, ThatHasOnlyALinkLocalAddressServes) {
  NEEDS_NETWORKS();
  const Child child([] {
    furnish();
    ::setenv("TUTTI_INTERFACE", "veth0", 1);
    expect_to_meet("tcp://[fe80::1%veth0]:29500", "tcp://[fe80::1%veth0]:29500", "s");
    const TemporaryFolder folder;
    expect_to_meet("file://" + folder.file("meet"), "file://" + folder.file("meet"), nullptr);
    ::setenv("TUTTI_INTERFACE", "veth1", 1);
    EXPECT_THAT(joined("tcp://127.0.0.1:29501", 0, 2, "s"),
                AllOf(HasSubstr("\"veth1\" is down or has no address"), HasSubstr("one or more of: lo, veth0")));
    ::setenv("TUTTI_INTERFACE", "fe80::1%veth0", 1);
    EXPECT_THAT(joined("tcp://127.0.0.1:29501", 0, 2, "s"),
                AllOf(HasSubstr("\"fe80::1%veth0\" does not exist"), HasSubstr("one or more of: lo, veth0")));
  });
}

/// Says from one process to another that something has happened.
struct Bell {
  std::array<int, 2> ends{};
  Bell() { EXPECT_EQ(::pipe(ends.data()), 0); }
  void ring() const { EXPECT_EQ(::write(ends[1], "!", 1), 1); }
  void await() const {
    char one;
    EXPECT_EQ(::read(ends[0], &one, 1), 1);
  }
};

// As containers with the same ports and a /tmp in common.
TEST(TwoNetworks, UseTheSameAddressWithoutASecretAtTheSameTime) {
  NEEDS_NETWORKS();
  const std::string address = "tcp://127.0.0.1:29500";
  const Bell begun;
  const Bell met;
  const Child second([&] {
    furnish();
    begun.await();
    expect_to_meet(address, address, nullptr);
    met.ring();
  });
  const Child first([&] {
    furnish();
    std::thread rank_0([&] { EXPECT_EQ(joined(address, 0, 2, nullptr), ""); });
    ::usleep(50'000);  // it has written its file, most probably: the test is of use only then, and right always
    begun.ring();
    met.await();
    EXPECT_EQ(joined(address, 1, 2, nullptr), "");
    rank_0.join();
  });
}

// Nothing but link-local addresses joins the two, and each names the wire as it does.
TEST(TwoNetworks, ThatAreJoinedByLinkLocalAddressesAloneMeetAtOneAndByAnId) {
  NEEDS_NETWORKS();
  const TemporaryFolder folder;
  const std::string by_id = "file://" + folder.file("meet");
  const Bell apart;
  const Bell joined_up;
  const auto meet = [&](int rank, const std::string& interface) {
    EXPECT_EQ(joined("tcp://[fe80::1%" + interface + "]:29500", rank, 2, "s"), "");
    EXPECT_EQ(joined(by_id, rank, 2, nullptr), "");
  };
  const Child second([&] {
    ASSERT_TRUE(enter_own_network() && ip("link set lo up"));
    apart.ring();
    joined_up.await();
    ASSERT_TRUE(ip("link set veth1 up") && ip("addr add fe80::2/64 dev veth1 nodad"));
    meet(1, "veth1");
  });
  const Child first([&] {
    furnish();
    apart.await();
    ASSERT_TRUE(ip("link set veth1 netns " + std::to_string(second.pid())));
    joined_up.ring();
    meet(0, "veth0");
  });
}

}  // namespace
}  // namespace tutti::test
