// How connections come about, whom they keep out, and what a peer's death looks like.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "src/base/addresses.h"
#include "src/base/handshake.h"
#include "src/base/socket.h"
#include "src/base/unique_fd.h"
#include "tests/support/no_descriptors.h"
#include "tests/unit/transports/tcp_world.h"
#include "transports/tcp/card.h"
#include "transports/tcp/dialer.h"
#include "transports/tcp/frame.h"

namespace tutti::tcp_test {
namespace {

tcp::Card card_of(const Rank& rank) {
  return tcp::Card::unpack(std::as_bytes(std::span(rank.descriptor))).value_or(tcp::Card{});
}

/// A plain blocking connection to a rank's listening socket, over loopback.
UniqueFd stranger(const Rank& rank) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(card_of(rank).addresses.front().port());
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  set_no_delay(socket.get());
  return socket;
}

/// Whether the other side has closed this connection.
bool closed(const UniqueFd& socket) {
  char byte = 0;
  return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/// A peer made by hand: has shaken hands with `with` as rank `rank`, and sends what the test wants.
UniqueFd forged_peer(Rank& with, int rank, const tcp::EndpointId& other, UniqueFd socket) {
  tcp::DialIntroduction self;
  self.self = {9, 9, 9};
  self.other = other;
  self.rank = rank;
  Handshake handshake(Handshake::Role::kInitiator, kKey, tcp::kPurpose, self.pack());
  EXPECT_TRUE(until({&with}, [&] {
    advance(handshake, socket.get());
    return handshake.complete() || handshake.state() == Handshake::State::kFailed || closed(socket);
  }));
  return socket;
}
UniqueFd forged_peer(Rank& with, int rank, const tcp::EndpointId& other) {
  return forged_peer(with, rank, other, stranger(with));
}

void send_frame(const UniqueFd& socket, const tcp::FrameHeader& header) {
  ASSERT_EQ(::send(socket.get(), &header, sizeof header, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof header));
}

TEST(TcpCard, SurvivesItsDescriptorAndNothingElseDoes) {
  Rank rank(config(0, 2));
  const auto bytes = std::as_bytes(std::span(rank.descriptor));
  const auto card = tcp::Card::unpack(bytes);
  ASSERT_TRUE(card.has_value());
  EXPECT_EQ(card->rank, 0);
  EXPECT_FALSE(card->addresses.empty());
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(tcp::Card::unpack(bytes.first(n)).has_value()) << n;
  auto longer = rank.descriptor;
  longer.push_back(0);
  EXPECT_FALSE(tcp::Card::unpack(std::as_bytes(std::span(longer))).has_value());
}

TEST(TcpCard, AnotherMachinesLoopbackIsNoWayToIt) {
  tcp::Card self, other;
  self.machine = 1;
  other.machine = 2;
  constexpr std::array<unsigned char, 4> kLoopback = {127, 0, 0, 1};
  constexpr std::array<unsigned char, 4> kOther = {10, 1, 2, 3};
  other.addresses = {SocketAddress::v4(kLoopback, 5), SocketAddress::v4(kOther, 5)};
  ASSERT_EQ(tcp::ways_to(other, self).size(), 1u);
  EXPECT_EQ(tcp::ways_to(other, self)[0].text(), "10.1.2.3:5");
  other.machine = 1;
  other.everywhere = true;
  EXPECT_TRUE(tcp::ways_to(other, self)[0].loopback()) << "loopback first between neighbours";
}

TEST(TcpConnect, CrossingConnectionsBecomeOneSet) {
  for (int round = 0; round < 30; ++round) {
    auto low = config(0, 2), high = config(1, 2);
    low.set("sockets_per_peer", std::to_string(1 + round % 4));
    high.set("sockets_per_peer", std::to_string(1 + (round / 4) % 4));
    Rank a(low), b(high);
    std::vector<tutti_link*> links;
    for (std::uint64_t channel = 0; channel < 5; ++channel) {
      links.push_back(a.sender(1, b.descriptor, channel));
      links.push_back(b.sender(0, a.descriptor, channel));
      links.push_back(b.receiver(0, a.descriptor, channel));
      links.push_back(a.receiver(1, b.descriptor, channel));
    }
    // Who turns first, and how often before the other does, varies.
    for (int i = 0; i < round % 7; ++i) (round % 2 == 0 ? a : b).progress();
    for (tutti_link* link : links) {
      ASSERT_TRUE(until({&a, &b}, [&] { return open_now(link); })) << "round " << round << ": " << fault(link);
    }
  }
}

TEST(TcpConnect, TheHigherRankConnectsToOneThatHasOpenedNothing) {
  auto c = config(1, 2);
  c.connect_timeout_ns = kSecond / 4;
  Rank a(config(0, 2)), b(c);
  tutti_link* to = b.sender(0, a.descriptor);
  EXPECT_FALSE(until({&a, &b}, [&] { return broken_now(to); }, kSecond)) << fault(to);
  a.receiver(1, b.descriptor);
  EXPECT_TRUE(until({&a, &b}, [&] { return open_now(to); })) << fault(to);
}

TEST(TcpConnect, TimeInWhichNobodyLooksIsNotCounted) {
  auto c = config(1, 2);
  c.connect_timeout_ns = kSecond / 20;
  Rank a(config(0, 2)), b(c);
  tutti_link* to = b.sender(0, a.descriptor);
  for (int i = 0; i < 3; ++i) {
    ::usleep(150'000);
    b.progress();
    ASSERT_FALSE(broken_now(to)) << fault(to);
  }
  a.receiver(1, b.descriptor);
  EXPECT_TRUE(until({&a, &b}, [&] { return open_now(to); })) << fault(to);
}

TEST(TcpConnect, APeerThatIsGoneIsRefusedLongBeforeTheDeadline) {
  Rank a(config(0, 2));
  std::vector<char> gone;
  {
    Rank b(config(1, 2));
    gone = b.descriptor;
  }
  tutti_link* to = a.sender(1, gone);
  EXPECT_TRUE(until({&a}, [&] { return broken_now(to); }, 5 * kSecond));
  EXPECT_NE(fault(to).find("rank 1 cannot be reached"), std::string::npos) << fault(to);
  EXPECT_NE(fault(to).find("refused"), std::string::npos) << fault(to);
}

std::vector<char> descriptor_of(const tcp::Card& card) {
  const auto bytes = card.pack();
  std::vector<char> descriptor(bytes.size());
  std::memcpy(descriptor.data(), bytes.data(), bytes.size());
  return descriptor;
}

/// A rank made by hand that listens, and is gone with all its sockets once whoever dials it has shaken hands.
struct Vanishing {
  explicit Vanishing(const Rank& neighbour) : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener.get(), any, length), 0);
    EXPECT_EQ(::listen(listener.get(), 8), 0);
    EXPECT_EQ(::getsockname(listener.get(), any, &length), 0);
    card = card_of(neighbour);
    card.id = {9, 9, 9};
    card.rank = 1;
    constexpr std::array<unsigned char, 4> kLoopback = {127, 0, 0, 1};
    card.addresses = {SocketAddress::v4(kLoopback, ntohs(address.sin_port))};
  }
  /// Shakes hands with `a`, which dials; waits for what it says next, if asked to; and goes.
  void shake_and_vanish(Rank& a, bool reads_attach) {
    UniqueFd socket;
    ASSERT_TRUE(until({&a}, [&] {
      pollfd waiting{listener.get(), POLLIN, 0};
      return ::poll(&waiting, 1, 0) == 1;
    }));
    socket.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    tcp::DialIntroduction self;
    self.self = card.id;
    self.rank = 1;
    Handshake handshake(Handshake::Role::kAcceptor, kKey, tcp::kPurpose, self.pack());
    ASSERT_TRUE(until({&a}, [&] {
      advance(handshake, socket.get());
      return handshake.complete();
    }));
    char sink[256];
    if (reads_attach) {
      ASSERT_TRUE(until({&a}, [&] { return ::recv(socket.get(), sink, sizeof sink, MSG_DONTWAIT) > 0; }));
    }
    listener.reset();
  }
  UniqueFd listener;
  tcp::Card card;
};

TEST(TcpConnect, APeerThatVanishesBetweenItsHandshakeAndItsAnswerIsRefusedLongBeforeTheDeadline) {
  for (const bool reads_attach : {false, true}) {
    Rank a(config(0, 2));
    Vanishing peer(a);
    tutti_link* to = a.sender(1, descriptor_of(peer.card));
    tutti_link* from = a.receiver(1, descriptor_of(peer.card));
    ASSERT_NO_FATAL_FAILURE(peer.shake_and_vanish(a, reads_attach));
    ASSERT_TRUE(until({&a}, [&] { return broken_now(to) && broken_now(from); }, 5 * kSecond)) << reads_attach;
    EXPECT_NE(fault(to).find("rank 1 cannot be reached"), std::string::npos) << fault(to);
    EXPECT_NE(fault(from).find("refused"), std::string::npos) << fault(from);
  }
}

TEST(TcpConnect, AVisitorThatVanishesBetweenItsHandshakeAndItsAttachLeavesRoomForTheNext) {
  Rank a(config(0, 2)), b(config(1, 2));
  for (int i = 0; i < 3; ++i) {
    UniqueFd visitor = forged_peer(a, 1, card_of(a).id);
    EXPECT_FALSE(closed(visitor)) << "it may still attach";
  }
  tutti_link* to = a.sender(1, b.descriptor);
  tutti_link* from = b.receiver(0, a.descriptor);
  EXPECT_TRUE(until({&a, &b}, [&] { return open_now(to) && open_now(from); }, 5 * kSecond)) << fault(to);
}

TEST(TcpConnect, FiveHundredStrangersKeepNobodyOut) {
  Rank a(config(0, 2)), b(config(1, 2));
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 250; ++i) {
    for (Rank* rank : {&a, &b}) {
      strangers.push_back(stranger(*rank));
      if (i % 2 == 1) continue;
      EXPECT_EQ(::send(strangers.back().get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    }
    a.progress();
    b.progress();
  }
  tutti_link* to = a.sender(1, b.descriptor);
  tutti_link* from = b.receiver(0, a.descriptor);
  EXPECT_TRUE(until({&a, &b}, [&] { return open_now(to) && open_now(from); }, 5 * kSecond)) << fault(to);
  std::size_t dropped = 0;
  ASSERT_TRUE(until({&a, &b}, [&] {
    dropped = 0;
    for (const auto& one : strangers) dropped += closed(one) ? 1 : 0;
    return dropped >= strangers.size() - 2 * 64;
  }));
}

// Who knocks and cannot be let in must not keep a rank from sleeping.
TEST(TcpConnect, ARankSleepsThoughNobodyCanBeLetIn) {
  Rank rank(config(0, 2));
  const UniqueFd visitor = stranger(rank);
  pollfd events{rank.t.event_fd(rank.endpoint), POLLIN, 0};
  {
    const test::NoDescriptors none;
    rank.t.arm(rank.endpoint, 1);
    EXPECT_TRUE(until({&rank}, [&] { return ::poll(&events, 1, 0) == 0; }));
  }
  EXPECT_EQ(::send(visitor.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
  EXPECT_TRUE(until({&rank}, [&] { return closed(visitor); })) << "it is let in later, and found to be a stranger";
}

// To accept asks for a descriptor first: where there is none, that says nothing of anybody waiting.
TEST(TcpConnect, ThePeerThatTakesTheLastDescriptorStays) {
  Rank rank(config(0, 2));
  UniqueFd last(::dup(0));
  UniqueFd peer = stranger(rank);
  const test::NoDescriptors none;
  last.reset();
  peer = forged_peer(rank, 1, card_of(rank).id, std::move(peer));
  for (int i = 0; i < 1000; ++i) rank.progress();
  EXPECT_FALSE(closed(peer)) << "it may still attach";
}

TEST(TcpConnect, AWrongKeyIsNotLetIn) {
  std::array<unsigned char, 32> other = kKey;
  other[31] ^= 1;
  auto c = config(1, 2, other.data());
  c.connect_timeout_ns = kSecond / 2;
  Rank a(config(0, 2)), b(c);
  tutti_link* to = b.sender(0, a.descriptor);
  tutti_link* from = a.receiver(1, b.descriptor);
  ASSERT_TRUE(until({&a, &b}, [&] { return broken_now(to); }));
  EXPECT_NE(fault(to).find("rank 0"), std::string::npos) << fault(to);
  EXPECT_FALSE(open_now(from));
}

TEST(TcpConnect, WhoMeansAnotherRankIsNotTakenForAPeer) {
  Rank a(config(0, 3));
  UniqueFd lost = forged_peer(a, 1, {7, 7, 7});
  EXPECT_TRUE(until({&a}, [&] { return closed(lost); }));
  UniqueFd itself = forged_peer(a, 0, card_of(a).id);
  send_frame(itself, tcp::control_frame(tcp::FrameKind::kAttach, 0, 1));
  EXPECT_TRUE(until({&a}, [&] {
    char sink[256];
    const ssize_t n = ::recv(itself.get(), sink, sizeof sink, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }));
}

/// A peer made by hand, attached, with the receiving end of channel 0 open on this side.
struct Forged {
  Forged() : a(config(0, 2)), peer(forged_peer(a, 1, card_of(a).id)) {
    send_frame(peer, tcp::control_frame(tcp::FrameKind::kAttach, 0, 1));
    tcp::Card other = card_of(a);
    other.id = {9, 9, 9};
    other.rank = 1;
    for (int i = 0; i < 200; ++i) a.progress();  // attached before any end opens: nobody dials the forged address
    from = a.receiver(1, descriptor_of(other));
    auto open = tcp::control_frame(tcp::FrameKind::kOpen, 0, 8, 4096);
    open.flags = tcp::kBySender;
    send_frame(peer, open);
    EXPECT_TRUE(until({&a}, [&] { return open_now(from); })) << fault(from);
  }
  std::string fault_after(const tcp::FrameHeader& header) {
    send_frame(peer, header);
    EXPECT_TRUE(until({&a}, [&] { return broken_now(from); }, 5 * kSecond));
    return fault(from);
  }
  Rank a;
  UniqueFd peer;
  tutti_link* from = nullptr;
};

TEST(TcpConnect, APeerThatBreaksTheProtocolIsASentence) {
  using tcp::control_frame;
  using tcp::FrameKind;
  const auto data = [](std::uint64_t channel, std::uint64_t sequence) {
    return control_frame(FrameKind::kData, channel, sequence, 0);
  };
  EXPECT_NE(Forged().fault_after(data(0, 5)).find("message 5 came where 0 was due"), std::string::npos);
  EXPECT_NE(Forged().fault_after(data(3, 0)).find("it sent to a link that is not open"), std::string::npos);
  EXPECT_NE(Forged().fault_after(control_frame(FrameKind::kCredit, 0, 9)).find("it gave credit for a link"),
            std::string::npos);
  EXPECT_NE(Forged().fault_after(control_frame(FrameKind::kAttach, 0, 1)).find("no place here"), std::string::npos);
  auto unmarked = data(0, 0);
  unmarked.mark = 0;
  EXPECT_NE(Forged().fault_after(unmarked).find("a header without its mark"), std::string::npos);
  Forged flood;
  for (std::uint64_t i = 0; i < 8; ++i) send_frame(flood.peer, data(0, i));
  EXPECT_NE(flood.fault_after(data(0, 8)).find("message 8 came without credit"), std::string::npos);
}

TEST(TcpConnect, DeathInTheMiddleOfAMessageKeepsTheOnesBeforeIt) {
  Forged forged;
  auto header = tcp::control_frame(tcp::FrameKind::kData, 0, 0, 5);
  send_frame(forged.peer, header);
  ASSERT_EQ(::send(forged.peer.get(), "whole", 5, MSG_NOSIGNAL), 5);
  header.sequence = 1;
  header.bytes = 1000;
  send_frame(forged.peer, header);
  ASSERT_EQ(::send(forged.peer.get(), "part", 4, MSG_NOSIGNAL), 4);
  char sink[4096];
  while (::recv(forged.peer.get(), sink, sizeof sink, MSG_DONTWAIT) > 0) {
  }
  forged.peer.reset();  // all was read, so this is an end, not a reset
  ASSERT_TRUE(until({&forged.a}, [&] { return broken_now(forged.from); }));
  EXPECT_NE(fault(forged.from).find("in the middle of a message"), std::string::npos) << fault(forged.from);
  tutti_message message{};
  ASSERT_EQ(forged.a.t.view(forged.from, &message), TUTTI_LINK_OK);
  EXPECT_EQ(std::string(static_cast<const char*>(message.data), message.bytes), "whole");
  forged.a.t.release(forged.from);
  EXPECT_EQ(forged.a.t.view(forged.from, &message), TUTTI_LINK_BROKEN);
}

TEST(TcpConnect, ThePortRangeIsKeptAndATakenOneIsASentence) {
  auto c = config(0, 2);
  Rank free(c);
  const std::uint16_t port = card_of(free).addresses.front().port();
  c.rank = 1;
  c.set("ports", std::to_string(port) + "-" + std::to_string(port));
  tutti_endpoint* endpoint = nullptr;
  char why[512] = "";
  EXPECT_EQ(tcp_transport().open(c.ready(), &endpoint, why, sizeof why), TUTTI_SYSTEM_ERROR);
  EXPECT_NE(std::string(why).find(std::to_string(port)), std::string::npos) << why;
}

TEST(TcpConnect, AnInterfaceThatIsNotThereIsASentence) {
  auto c = config(0, 2);
  c.set("interfaces", "nosuch0");
  tutti_endpoint* endpoint = nullptr;
  char why[512] = "";
  EXPECT_EQ(tcp_transport().open(c.ready(), &endpoint, why, sizeof why), TUTTI_INVALID_ARGUMENT);
  EXPECT_NE(std::string(why).find("nosuch0"), std::string::npos) << why;
}

TEST(TcpConnect, ANamedInterfaceCarriesLinksToo) {
  auto low = config(0, 2), high = config(1, 2);
  low.set("interfaces", "lo");
  high.set("interfaces", "lo");
  Rank a(low), b(high);
  tutti_link* to = a.sender(1, b.descriptor);
  b.receiver(0, a.descriptor);
  EXPECT_TRUE(until({&a, &b}, [&] { return open_now(to); })) << fault(to);
}

}  // namespace
}  // namespace tutti::tcp_test
