// Peers of one machine: who is let in, what passes between them, and how a death shows.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "src/base/clock.h"
#include "src/base/socket.h"
#include "tests/support/child.h"
#include "tests/support/no_descriptors.h"
#include "transports/near/local_connection.h"

namespace tutti::near {
namespace {

using State = LocalConnection::State;

constexpr Service kService{'t', 'e', 's', 't'};

struct Words {
  std::uint64_t number = 0;
  std::array<char, 200> text{};
};
using Packet = DescriptorMessage<Words>;

LocalEndpointConfig config_of(int rank) {
  LocalEndpointConfig config;
  config.service = kService;
  config.purpose = "tutti test 1";
  config.name = "test";
  config.rank = rank;
  config.ranks = 3;
  config.key.fill(7);
  return config;
}

/// A rank with a connection to one peer.
struct Side {
  Side(LocalEndpointConfig config, int peer)
      : endpoint(std::move(LocalEndpoint::open(std::move(config))).value()), connection(*endpoint, poller, 1, peer) {
    EXPECT_TRUE(poller.watch(endpoint->fd(), 2, true, false));
  }
  Side(int rank, int peer) : Side(config_of(rank), peer) {}
  void step() {
    for (LocalArrival& arrival : endpoint->accept()) {
      ++arrivals;
      if (arrival.rank == connection.rank()) connection.adopt(std::move(arrival.socket));
    }
    connection.advance();
  }

  Poller poller;
  std::unique_ptr<LocalEndpoint> endpoint;
  LocalConnection connection;
  int arrivals = 0;
};

bool until(const std::vector<Side*>& sides, const std::function<bool()>& done, std::uint64_t limit_ns = 20'000'000'000) {
  const Deadline deadline = Deadline::in(limit_ns);
  while (!done()) {
    if (deadline.passed()) return false;
    for (Side* side : sides) side->step();
  }
  return true;
}

/// Ranks 0 and 1, connected.
struct Pair {
  Pair() {
    low.connection.meet(high.endpoint->address());
    high.connection.meet(low.endpoint->address());
    EXPECT_TRUE(until({&low, &high}, [&] {
      return low.connection.state() == State::kConnected && high.connection.state() == State::kConnected;
    })) << high.connection.trouble();
  }
  Side low{0, 1}, high{1, 0};
};

/// Sends all of it; a socket that is not full takes it at once.
void send(const LocalConnection& connection, const Packet& packet) {
  std::size_t begun = 0;
  EXPECT_EQ(connection.send(packet, begun), SocketResult::kDone);
}

SocketResult receive(const LocalConnection& connection, Packet& packet, std::uint64_t limit_ns = 20'000'000'000) {
  std::size_t begun = 0;
  const Deadline deadline = Deadline::in(limit_ns);
  SocketResult result = SocketResult::kAgain;
  while (result == SocketResult::kAgain && !deadline.passed()) result = connection.receive(packet, begun);
  return result;
}

SharedFd event_descriptor(int flags) { return std::make_shared<const UniqueFd>(::eventfd(0, flags | EFD_CLOEXEC)); }

TEST(NearAddress, IsReachedFromThisMachineAndNetworkNamespaceAlone) {
  const LocalAddress here = *new_local_address(kService, 0);
  LocalAddress there = *new_local_address(kService, 1);
  EXPECT_EQ(unreachable(here, there), "");
  EXPECT_NE(here.socket(), there.socket());
  there.network_inode += 1;
  EXPECT_NE(unreachable(here, there).find("network namespace"), std::string::npos);
  there.boot[3] = there.boot[3] == '0' ? '1' : '0';
  EXPECT_NE(unreachable(here, there).find("another machine"), std::string::npos);
}

TEST(NearAddress, OfAnotherServiceOrLengthIsNone) {
  const LocalAddress address = *new_local_address(kService, 1);
  const auto parsed = parse_local_address(kService, &address, sizeof address);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->socket(), address.socket());
  EXPECT_EQ(parse_local_address({'o'}, &address, sizeof address).status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(parse_local_address(kService, &address, sizeof address - 1).status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(parse_local_address(kService, nullptr, 0).status().code(), TUTTI_INVALID_ARGUMENT);
}

TEST(NearConnection, PassesMessagesBothWaysAndKnowsItsPeer) {
  Pair pair;
  Packet packet;
  packet.message.number = 5;
  send(pair.low.connection, packet);
  packet.message.number = 6;
  send(pair.high.connection, packet);
  EXPECT_EQ(receive(pair.high.connection, packet), SocketResult::kDone);
  EXPECT_EQ(packet.message.number, 5u);
  EXPECT_EQ(receive(pair.low.connection, packet), SocketResult::kDone);
  EXPECT_EQ(packet.message.number, 6u);
  EXPECT_EQ(pair.high.connection.name(), "rank 0 (pid " + std::to_string(::getpid()) + ")");
}

TEST(NearConnection, LetsInAPeerThatCallsBeforeItIsMet) {
  Side low(0, 1), high(1, 0);
  high.connection.meet(low.endpoint->address());
  EXPECT_TRUE(until({&low, &high}, [&] { return low.connection.state() == State::kConnected; }));
}

TEST(NearConnection, APeerThatIsNotInACallIsLateNotLost) {
  Side low(0, 1), high(1, 0);
  EXPECT_FALSE(high.connection.is_reached());
  high.connection.meet(low.endpoint->address());
  EXPECT_TRUE(until({&high}, [&] { return high.connection.is_reached(); }));
  EXPECT_EQ(high.connection.state(), State::kConnecting);
  low.connection.meet(high.endpoint->address());
  EXPECT_TRUE(until({&low}, [&] { return low.connection.is_reached(); }));
}

TEST(NearConnection, WakesWhoSleepsOnThePoller) {
  Side low(0, 1), high(1, 0);
  high.connection.meet(low.endpoint->address());
  pollfd events{low.poller.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&events, 1, 10'000), 1) << "a caller waits";
  low.step();
  events.fd = high.poller.fd();
  EXPECT_EQ(::poll(&events, 1, 10'000), 1) << "it was answered";
}

TEST(NearConnection, RefusesAWrongKey) {
  auto other = config_of(1);
  other.key[31] ^= 1;
  Side low(0, 1), high(other, 0);
  high.connection.meet(low.endpoint->address());
  EXPECT_TRUE(until({&low, &high}, [&] { return high.connection.state() == State::kEnded; }));
  EXPECT_NE(high.connection.why_ended().find("could not be authenticated"), std::string::npos)
      << high.connection.why_ended();
  EXPECT_EQ(low.arrivals, 0);
}

TEST(NearConnection, LetsInNobodyOfAnotherCommunicatorOrClassOrOfALowerRank) {
  auto larger = config_of(1), other_class = config_of(1), lower = config_of(0);
  larger.ranks = 4;
  other_class.endpoint_class = 1;
  for (const auto& config : {larger, other_class, lower}) {
    Side here(1, 2);
    const Side there(config, 2);
    Connector connector = there.endpoint->connector_to(here.endpoint->address());
    EXPECT_TRUE(until({&here}, [&] { return connector.step(); }));
    const AuthenticatedConnection made = connector.take();
    char byte = 0;
    EXPECT_TRUE(until({&here}, [&] { return ::recv(made.fd.get(), &byte, 1, MSG_DONTWAIT) == 0; }));
    EXPECT_EQ(here.arrivals, 0);
  }
}

TEST(NearConnection, PassesDescriptorsInTheirOrder) {
  Pair pair;
  Packet sent;
  sent.descriptors = {event_descriptor(EFD_NONBLOCK), event_descriptor(0)};
  send(pair.low.connection, sent);
  Packet received;
  ASSERT_EQ(receive(pair.high.connection, received), SocketResult::kDone);
  ASSERT_TRUE(received.descriptors[0] && received.descriptors[1]);
  EXPECT_FALSE(received.lost);
  EXPECT_TRUE(is_doorbell(*received.descriptors[0]));
  EXPECT_FALSE(is_doorbell(*received.descriptors[1])) << "it blocks";
  ring_doorbell(*received.descriptors[0]);
  std::uint64_t rung = 0;
  EXPECT_EQ(::read(sent.descriptors[0]->get(), &rung, sizeof rung), static_cast<ssize_t>(sizeof rung));
  EXPECT_EQ(rung, 1u);
}

TEST(NearConnection, SaysThatDescriptorsDidNotArrive) {
  Pair pair;
  Packet sent;
  sent.message.number = 9;
  sent.descriptors[0] = event_descriptor(0);
  send(pair.low.connection, sent);
  const test::NoDescriptors none;
  Packet received;
  ASSERT_EQ(receive(pair.high.connection, received), SocketResult::kDone);
  EXPECT_TRUE(received.lost);
  EXPECT_EQ(received.message.number, 9u);
}

TEST(NearConnection, ARankIsConnectedWithItself) {
  Side self(1, 1);
  self.connection.meet(self.endpoint->address());
  EXPECT_EQ(self.connection.state(), State::kConnected);
  Packet packet;
  packet.message.number = 3;
  send(self.connection, packet);
  EXPECT_EQ(receive(self.connection, packet), SocketResult::kDone);
}

/// A rank in a process of its own, which calls `there`, says one message, and sleeps until it is killed.
void live(const LocalAddress& there, int tell) {
  Side side(1, 0);
  EXPECT_EQ(::write(tell, &side.endpoint->address(), sizeof(LocalAddress)), static_cast<ssize_t>(sizeof(LocalAddress)));
  side.connection.meet(there);
  until({&side}, [&] { return side.connection.state() == State::kConnected; });
  send(side.connection, {});
  EXPECT_EQ(::write(tell, "!", 1), 1);
  for (;;) ::pause();
}

TEST(NearDeath, OfAKilledPeerEndsTheConnectionBehindWhatItSent) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  Side low(0, 1);
  const test::Child peer([&] { live(low.endpoint->address(), ends[1]); }, SIGKILL);
  EXPECT_TRUE(until({&low}, [&] { return low.connection.state() == State::kConnected; }));
  std::array<char, sizeof(LocalAddress) + 1> told{};
  for (std::size_t got = 0; got < told.size();)
    got += static_cast<std::size_t>(::read(ends[0], told.data() + got, told.size() - got));
  ::kill(peer.pid(), SIGKILL);
  Packet packet;
  EXPECT_EQ(receive(low.connection, packet), SocketResult::kDone);
  EXPECT_EQ(receive(low.connection, packet), SocketResult::kEnded);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(NearDeath, IsNoticedByWhoWaitsToBeCalled) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  Side low(0, 1);
  LocalAddress there;
  {
    // Nobody accepts its call meanwhile.
    const test::Child peer([&] { live(low.endpoint->address(), ends[1]); }, SIGKILL);
    ASSERT_EQ(::read(ends[0], &there, sizeof there), static_cast<ssize_t>(sizeof there));
    low.connection.meet(there);
    EXPECT_TRUE(low.connection.is_reached());
    ::kill(peer.pid(), SIGKILL);
  }
  EXPECT_TRUE(until({&low}, [&] { return low.connection.state() == State::kEnded; }));
  EXPECT_NE(low.connection.why_ended().find("rank 1 (pid " + std::to_string(there.pid) + ") cannot be reached"),
            std::string::npos)
      << low.connection.why_ended();
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(NearDeath, OfWhoIsCalledIsNoticedAtOnce) {
  Side high(1, 0);
  LocalAddress gone;
  {
    const Side low(0, 1);
    gone = low.endpoint->address();
  }
  high.connection.meet(gone);
  EXPECT_EQ(high.connection.state(), State::kEnded);
}

TEST(NearFork, AChildThatEndsDisturbsNothing) {
  Pair pair;
  {
    const test::Child child([] {});
  }
  Packet packet;
  packet.message.number = 4;
  send(pair.low.connection, packet);
  EXPECT_EQ(receive(pair.high.connection, packet), SocketResult::kDone);
  EXPECT_EQ(packet.message.number, 4u);
}

TEST(NearFork, WhoLeavesIsSilentInThePollerThoughAChildHasItsDescriptors) {
  Pair pair;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const test::Child child([&] {
    ::close(ends[1]);
    char byte = 0;
    EXPECT_EQ(::read(ends[0], &byte, 1), 0);
  });
  ::close(ends[0]);
  send(pair.high.connection, {});
  pollfd events{pair.low.poller.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&events, 1, 10'000), 1);
  pair.low.connection.end("enough").reset();
  EXPECT_EQ(::poll(&events, 1, 0), 0);
  ::close(ends[1]);
}

TEST(NearStrangers, AreBoundedAndKeepNoPeerOut) {
  Side low(0, 1), high(1, 0);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 600; ++i) {
    auto stranger = connect_to(low.endpoint->address().socket());
    ASSERT_TRUE(stranger.ok());
    if (i % 2 == 0) {
      EXPECT_EQ(::send(stranger->get(), "nonsense", 8, MSG_NOSIGNAL), 8);
    }
    strangers.push_back(std::move(*stranger));
    low.step();
  }
  high.connection.meet(low.endpoint->address());
  EXPECT_TRUE(until({&low, &high}, [&] { return low.connection.state() == State::kConnected; }, 4'000'000'000));
  const auto is_closed = [](const UniqueFd& fd) {
    char unread[256];
    ssize_t n = 1;
    while (n > 0) n = ::recv(fd.get(), unread, sizeof unread, MSG_DONTWAIT);
    return n == 0 || errno != EAGAIN;
  };
  EXPECT_GE(std::ranges::count_if(strangers, is_closed), 600 - 256);
}

TEST(NearStrangers, WhoCannotBeLetInLetsTheRankSleepAndIsLetInLater) {
  Side low(0, 1), high(1, 0);
  high.connection.meet(low.endpoint->address());
  pollfd events{low.poller.fd(), POLLIN, 0};
  {
    const test::NoDescriptors none;
    low.step();
    EXPECT_EQ(::poll(&events, 1, 0), 0);
    EXPECT_NE(low.endpoint->shut_since_ns(), UINT64_MAX);
  }
  EXPECT_TRUE(until({&low, &high}, [&] { return low.connection.state() == State::kConnected; }));
  EXPECT_EQ(low.endpoint->shut_since_ns(), UINT64_MAX);
}

}  // namespace
}  // namespace tutti::near
