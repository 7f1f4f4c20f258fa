// Links over real sockets on loopback: credit, grants, closing, and what is left of a link when its peer is gone.
#include <poll.h>

#include <algorithm>

#include "tests/unit/transports/tcp_world.h"

namespace tutti::tcp_test {
namespace {

std::vector<unsigned char> pattern(std::size_t n, unsigned seed) {
  std::vector<unsigned char> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<unsigned char>((i * 131 + i / 257 + seed * 29) & 0xff);
  return bytes;
}

TEST(TcpLink, DeliversInOrderWithFingerprints) {
  Pair pair;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(pair.send_text("message " + std::to_string(i), i * 3));
    tutti_message message{};
    ASSERT_TRUE(pair.turn_until([&] { return pair.t.view(pair.from, &message) == TUTTI_LINK_OK; }));
    EXPECT_EQ(std::string(static_cast<const char*>(message.data), message.bytes), "message " + std::to_string(i));
    EXPECT_EQ(message.fingerprint, i * 3);
    pair.t.release(pair.from);
  }
}

TEST(TcpLink, CarriesSmallMessagesBothWaysBetweenTheSameRanks) {
  Pair pair;
  tutti_link* back = pair.b.sender(0, pair.a.descriptor);
  tutti_link* home = pair.a.receiver(1, pair.b.descriptor);
  ASSERT_TRUE(pair.turn_until([&] { return open_now(back) && open_now(home); }));
  for (std::uint64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(pair.send_text(std::to_string(i)));
    const std::string text = pair.receive_text();
    void* room = nullptr;
    ASSERT_TRUE(pair.turn_until([&] { return (room = pair.room_at(back, text.size(), 0)) != nullptr; }));
    std::memcpy(room, text.data(), text.size());
    ASSERT_EQ(pair.t.commit(back, text.size(), 0), TUTTI_LINK_OK);
    tutti_message message{};
    ASSERT_TRUE(pair.turn_until([&] { return pair.t.view(home, &message) == TUTTI_LINK_OK; }));
    EXPECT_EQ(std::string(static_cast<const char*>(message.data), message.bytes), std::to_string(i));
    pair.t.release(home);
  }
}

TEST(TcpLink, StopsTheSenderAtItsCreditAndGoesOnAfterEachRelease) {
  Pair pair(3, 64);
  tutti_link_state state{};
  ASSERT_EQ(pair.t.link_state(pair.to, &state), TUTTI_LINK_OK);
  ASSERT_GE(state.slots, 3u);
  std::uint32_t sent = 0;
  while (pair.room_at(pair.to, 8, sent) != nullptr) {
    ASSERT_EQ(pair.t.commit(pair.to, 8, sent), TUTTI_LINK_OK);
    ASSERT_LE(++sent, state.slots);
  }
  EXPECT_EQ(sent, state.slots);
  for (int i = 0; i < 2000; ++i) {
    pair.a.progress();
    pair.b.progress();
  }
  EXPECT_EQ(pair.room_at(pair.to, 8, sent), nullptr);
  EXPECT_EQ(pair.t.offer(pair.to, nullptr, &sent, 4, 0), TUTTI_LINK_NOT_YET);
  for (std::uint64_t i = 0; i < 20; ++i) {
    tutti_message message{};
    ASSERT_TRUE(pair.turn_until([&] { return pair.t.view(pair.from, &message) == TUTTI_LINK_OK; }));
    EXPECT_EQ(message.fingerprint, i);
    pair.t.release(pair.from);
    ASSERT_TRUE(pair.turn_until([&] { return pair.room_at(pair.to, 8, sent) != nullptr; })) << "after release " << i;
    ASSERT_EQ(pair.t.commit(pair.to, 8, sent++), TUTTI_LINK_OK);
    EXPECT_EQ(pair.room_at(pair.to, 8, sent), nullptr);
  }
}

TEST(TcpLink, OneLinkWithoutCreditDoesNotHoldUpAnother) {
  const auto big = pattern(1 << 20, 1);
  Pair pair(2, 1 << 20, 1);
  tutti_link* other = pair.a.sender(1, pair.b.descriptor, 1);
  tutti_link* other_end = pair.b.receiver(0, pair.a.descriptor, 1);
  ASSERT_TRUE(pair.turn_until([&] { return open_now(other) && open_now(other_end); }));
  while (pair.t.offer(pair.to, nullptr, big.data(), big.size(), 0) == TUTTI_LINK_OK) {
  }
  for (int i = 0; i < 100; ++i) {
    void* room = nullptr;
    ASSERT_TRUE(pair.turn_until([&] { return (room = pair.room_at(other, 4, 0)) != nullptr; }));
    std::memcpy(room, &i, 4);
    ASSERT_EQ(pair.t.commit(other, 4, 0), TUTTI_LINK_OK);
    tutti_message message{};
    ASSERT_TRUE(pair.turn_until([&] { return pair.t.view(other_end, &message) == TUTTI_LINK_OK; }));
    EXPECT_EQ(std::memcmp(message.data, &i, 4), 0);
    pair.t.release(other_end);
  }
}

// Credit waits behind a socket that is full again and again, and newer credit for the same link comes while it waits.
TEST(TcpLink, CreditKeepsItsOrderWhileBothDirectionsAreFull) {
  const auto large = pattern(6'000'000, 1);
  const auto small = pattern(100, 2);
  Pair pair(2, 4096, 1);
  tutti_link* back = pair.b.sender(0, pair.a.descriptor, 0, 2, 4096);
  tutti_link* home = pair.a.receiver(1, pair.b.descriptor, 0, 2, 4096);
  ASSERT_TRUE(pair.turn_until([&] { return open_now(back) && open_now(home); }));
  std::uint64_t sent[2] = {0, 0}, received[2] = {0, 0};
  tutti_link* const out[2] = {pair.to, back};
  tutti_link* const in[2] = {pair.from, home};
  const auto done = [&] { return received[0] >= 200 && received[1] >= 200; };
  ASSERT_TRUE(pair.turn_until([&] {
    for (int i = 0; i < 2; ++i) {
      const auto& source = sent[i] % 8 == 0 ? large : small;
      if (pair.t.offer(out[i], nullptr, source.data(), source.size(), sent[i]) == TUTTI_LINK_OK) ++sent[i];
      tutti_message message{};
      if (pair.t.view(in[i], &message) != TUTTI_LINK_OK) continue;
      const auto& expected = received[i] % 8 == 0 ? large : small;
      EXPECT_TRUE(message.bytes == expected.size() && std::memcmp(message.data, expected.data(), expected.size()) == 0);
      ++received[i];
      pair.t.release(in[i]);
    }
    return done() || broken_now(pair.from) || broken_now(home);
  }));
  EXPECT_TRUE(done()) << received[0] << " and " << received[1] << " of 200 came: " << fault(pair.from) << fault(home);
}

TEST(TcpLink, SpreadsChannelsOverSeveralSockets) {
  Pair pair(2, 4096, 3);
  std::vector<tutti_link*> to, from;
  for (std::uint64_t channel = 1; channel <= 9; ++channel) {
    to.push_back(pair.a.sender(1, pair.b.descriptor, channel * 1000));
    from.push_back(pair.b.receiver(0, pair.a.descriptor, channel * 1000));
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    ASSERT_TRUE(pair.turn_until([&] { return open_now(to[i]) && open_now(from[i]); })) << fault(to[i]);
  }
  for (std::uint64_t round = 0; round < 50; ++round) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      void* room = nullptr;
      ASSERT_TRUE(pair.turn_until([&] { return (room = pair.room_at(to[i], 8, i)) != nullptr; }));
      std::memcpy(room, &round, 8);
      ASSERT_EQ(pair.t.commit(to[i], 8, i), TUTTI_LINK_OK);
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
      tutti_message message{};
      ASSERT_TRUE(pair.turn_until([&] { return pair.t.view(from[i], &message) == TUTTI_LINK_OK; }));
      EXPECT_EQ(message.fingerprint, i);
      EXPECT_EQ(std::memcmp(message.data, &round, 8), 0);
      pair.t.release(from[i]);
    }
  }
}

TEST(TcpLink, PutsALargeMessageIntoGrantedMemory) {
  const auto source = pattern(40'000'000, 3);
  Pair pair(2, 4096);
  std::vector<unsigned char> target(source.size());
  ASSERT_EQ(pair.t.grant(pair.from, nullptr, target.data(), target.size(), 9), TUTTI_LINK_OK);
  ASSERT_EQ(pair.t.offer(pair.to, nullptr, source.data(), source.size(), 9), TUTTI_LINK_OK);
  tutti_link_state state{};
  ASSERT_EQ(pair.t.link_state(pair.to, &state), TUTTI_LINK_OK);
  EXPECT_EQ(__atomic_load_n(state.reusable, __ATOMIC_ACQUIRE), 0u) << "40 MB cannot be with the kernel at once";
  tutti_message message{};
  ASSERT_TRUE(pair.turn_until([&] { return pair.t.view(pair.from, &message) == TUTTI_LINK_OK; }));
  EXPECT_EQ(message.data, target.data());
  EXPECT_EQ(message.bytes, source.size());
  EXPECT_EQ(target, source);
  EXPECT_EQ(__atomic_load_n(state.reusable, __ATOMIC_ACQUIRE), 1u);
}

TEST(TcpLink, IgnoresAGrantOfAnotherLengthAndTakesTheNext) {
  Pair pair;
  std::vector<char> first(10), second(10);
  ASSERT_EQ(pair.t.grant(pair.from, nullptr, first.data(), 7, 0), TUTTI_LINK_OK);
  ASSERT_EQ(pair.t.grant(pair.from, nullptr, second.data(), 5, 0), TUTTI_LINK_OK);
  std::vector<char> third(10);
  EXPECT_EQ(pair.t.grant(pair.from, nullptr, third.data(), 5, 0), TUTTI_LINK_NOT_YET) << "more than one ahead";
  ASSERT_TRUE(pair.send_text("12345"));
  ASSERT_TRUE(pair.send_text("67890"));
  tutti_message message{};
  ASSERT_TRUE(pair.turn_until([&] { return pair.t.view(pair.from, &message) == TUTTI_LINK_OK; }));
  EXPECT_NE(message.data, first.data());
  EXPECT_EQ(std::string(static_cast<const char*>(message.data), message.bytes), "12345");
  pair.t.release(pair.from);
  ASSERT_TRUE(pair.turn_until([&] { return pair.t.view(pair.from, &message) == TUTTI_LINK_OK; }));
  EXPECT_EQ(message.data, second.data());
  EXPECT_EQ(std::string(second.data(), 5), "67890");
}

TEST(TcpLink, AGrantForAMessageThatCameAlreadyIsNotYet) {
  Pair pair;
  ASSERT_TRUE(pair.send_text("12345"));
  tutti_message message{};
  ASSERT_TRUE(pair.turn_until([&] {
    tutti_link_state state{};
    return pair.t.link_state(pair.from, &state) == TUTTI_LINK_OK &&
           __atomic_load_n(reinterpret_cast<const std::uint64_t*>(state.arrived), __ATOMIC_ACQUIRE) == 1;
  }));
  char late[5] = {0, 0, 0, 0, 0};
  EXPECT_EQ(pair.t.grant(pair.from, nullptr, late, 5, 0), TUTTI_LINK_NOT_YET);
  ASSERT_EQ(pair.t.view(pair.from, &message), TUTTI_LINK_OK);
  EXPECT_EQ(pair.t.grant(pair.from, nullptr, late, 3, 0), TUTTI_LINK_OK) << "once viewed, a grant is for the one after it";
  ASSERT_TRUE(pair.send_text("abc"));
  pair.t.release(pair.from);
  ASSERT_TRUE(pair.turn_until([&] { return pair.t.view(pair.from, &message) == TUTTI_LINK_OK; }));
  EXPECT_EQ(message.data, late);
}

TEST(TcpLink, ClosingInTheMiddleOfAPutLeavesTheMemoryAlone) {
  // Before the pair, and so longer than its endpoints: the sending link is not closed, and reads it until they are.
  const std::vector<unsigned char> source(60'000'000, 0x5a);
  Pair pair(2, 4096);
  std::vector<unsigned char> target(source.size(), 0);
  ASSERT_EQ(pair.t.grant(pair.from, nullptr, target.data(), target.size(), 0), TUTTI_LINK_OK);
  ASSERT_EQ(pair.t.offer(pair.to, nullptr, source.data(), source.size(), 0), TUTTI_LINK_OK);
  ASSERT_TRUE(pair.turn_until([&] { return target[0] == 0x5a; }));
  ASSERT_EQ(target.back(), 0) << "the message came whole, too fast for this test";
  EXPECT_NE(pair.quiesce_and_close(pair.from), TUTTI_QUARANTINED);
  std::fill(target.begin(), target.end(), static_cast<unsigned char>(1));
  ASSERT_TRUE(pair.turn_until([&] { return broken_now(pair.to); }));
  EXPECT_EQ(fault(pair.to), "rank 1 closed its receiving end of channel 0");
  ASSERT_TRUE(pair.turn_until([&] { return pair.t.flushed(pair.to) != TUTTI_LINK_NOT_YET; }));
  for (int i = 0; i < 200; ++i) pair.a.progress(), pair.b.progress();
  EXPECT_EQ(std::count(target.begin(), target.end(), 1), static_cast<std::ptrdiff_t>(target.size()));
}

// The peer counts the lives of a channel by what it was told: it never learns of a link that is given up before there is a
// connection, so giving it up is not the end of a life.
TEST(TcpLink, OpensAgainWhereItWasGivenUpBeforeAnyConnection) {
  const tutti_transport& t = tcp_transport();
  Rank a(Pair::with_sockets(0, 1)), b(Pair::with_sockets(1, 1));
  const auto turn_until = [&](const std::function<bool()>& done) { return until({&a, &b}, done); };
  tutti_link* to = a.sender(1, b.descriptor);
  t.quiesce(to);
  tutti_link* from = b.receiver(0, a.descriptor);
  tutti_link* const other_end = a.receiver(1, b.descriptor, 1);
  tutti_link* const other = b.sender(0, a.descriptor, 1);
  ASSERT_TRUE(turn_until([&] { return open_now(other) && open_now(other_end); })) << fault(other) << fault(other_end);
  t.close_link(from);
  // It travels behind the close on the only socket, so that rank 0 reads that while its own link is quiesced, not closed.
  tutti_room room{};
  ASSERT_EQ(t.reserve(other, 1, 0, &room), TUTTI_LINK_OK);
  ASSERT_EQ(t.commit(other, 1, 0), TUTTI_LINK_OK);
  tutti_message message{};
  ASSERT_TRUE(turn_until([&] { return t.view(other_end, &message) == TUTTI_LINK_OK; })) << fault(other_end);
  t.close_link(to);

  to = a.sender(1, b.descriptor);
  from = b.receiver(0, a.descriptor);
  ASSERT_TRUE(turn_until([&] { return open_now(to) && open_now(from); })) << fault(to) << fault(from);
  ASSERT_EQ(t.reserve(to, 1, 7, &room), TUTTI_LINK_OK);
  ASSERT_EQ(t.commit(to, 1, 7), TUTTI_LINK_OK);
  ASSERT_TRUE(turn_until([&] { return t.view(from, &message) == TUTTI_LINK_OK; })) << fault(from);
  EXPECT_EQ(message.fingerprint, 7u);
}

TEST(TcpLink, ClosingTheSenderInTheMiddleOfAnOfferKeepsOtherLinksWhole) {
  Pair pair(4, 4096, 1);
  tutti_link* other = pair.a.sender(1, pair.b.descriptor, 1);
  tutti_link* other_end = pair.b.receiver(0, pair.a.descriptor, 1);
  ASSERT_TRUE(pair.turn_until([&] { return open_now(other) && open_now(other_end); }));
  auto source = pattern(20'000'000, 1);
  ASSERT_EQ(pair.t.offer(pair.to, nullptr, source.data(), source.size(), 0), TUTTI_LINK_OK);
  ASSERT_EQ(pair.t.offer(pair.to, nullptr, source.data(), 1000, 0), TUTTI_LINK_OK);
  EXPECT_EQ(pair.quiesce_and_close(pair.to), TUTTI_QUIESCED);
  const auto whole = source;
  std::fill(source.begin(), source.end(), static_cast<unsigned char>(0));
  void* room = pair.room_at(other, 5, 0);
  ASSERT_NE(room, nullptr);
  std::memcpy(room, "still", 5);
  ASSERT_EQ(pair.t.commit(other, 5, 0), TUTTI_LINK_OK);
  tutti_message message{};
  ASSERT_TRUE(pair.turn_until([&] { return pair.t.view(other_end, &message) == TUTTI_LINK_OK; })) << fault(other_end);
  EXPECT_EQ(std::string(static_cast<const char*>(message.data), message.bytes), "still");
  ASSERT_TRUE(pair.turn_until([&] { return pair.t.view(pair.from, &message) == TUTTI_LINK_OK; }));
  EXPECT_EQ(message.bytes, whole.size());
  EXPECT_EQ(std::memcmp(message.data, whole.data(), whole.size()), 0)
      << "the message that had begun was finished from a copy";
  pair.t.release(pair.from);
  EXPECT_EQ(pair.t.view(pair.from, &message), TUTTI_LINK_BROKEN) << "the one that had not begun was dropped";
  EXPECT_EQ(fault(pair.from), "rank 0 closed its sending end of channel 0");
}

TEST(TcpLink, WhatCameBeforeAGoodbyeIsStillDelivered) {
  Pair pair(8, 4096);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pair.send_text("last words " + std::to_string(i)));
  pair.a.close();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(pair.receive_text(), "last words " + std::to_string(i));
  }
  ASSERT_TRUE(pair.turn_until([&] { return broken_now(pair.from); }));
  EXPECT_NE(fault(pair.from).find("rank 0"), std::string::npos);
  EXPECT_NE(fault(pair.from).find("left"), std::string::npos) << fault(pair.from);
  tutti_message message{};
  EXPECT_EQ(pair.t.view(pair.from, &message), TUTTI_LINK_BROKEN);
}

TEST(TcpLink, WhatAPeerTookBeforeItLeftIsFlushed) {
  Pair pair;
  ASSERT_TRUE(pair.send_text("taken"));
  EXPECT_EQ(pair.receive_text(), "taken");
  pair.b.close();
  ASSERT_TRUE(pair.turn_until([&] { return broken_now(pair.to); }));
  EXPECT_EQ(pair.t.flushed(pair.to), TUTTI_LINK_OK);
}

TEST(TcpLink, DifferentShapesAreOneSentenceNotAHang) {
  Rank a(config(0, 2)), b(config(1, 2));
  tutti_link* to = a.sender(1, b.descriptor, 0, 4, 4096);
  b.receiver(0, a.descriptor, 0, 4, 8192);
  ASSERT_TRUE(until({&a, &b}, [&] { return broken_now(to); }));
  EXPECT_EQ(fault(to), "rank 1 opened channel 0 with 4 slots of 8192 bytes, this rank with 4 of 4096");
}

TEST(TcpLink, AMessageWakesWhoSleepsOnTheEventDescriptor) {
  Pair pair;
  const auto readable = [&](int limit_ms) {
    pollfd one{pair.t.event_fd(pair.b.endpoint), POLLIN, 0};
    return ::poll(&one, 1, limit_ms) == 1;
  };
  for (int i = 0; i < 300; ++i) pair.a.progress(), pair.b.progress();
  pair.t.arm(pair.b.endpoint, 1);
  EXPECT_FALSE(readable(0));
  void* room = pair.room_at(pair.to, 4, 0);
  ASSERT_NE(room, nullptr);
  std::memcpy(room, "wake", 4);
  ASSERT_EQ(pair.t.commit(pair.to, 4, 0), TUTTI_LINK_OK);
  EXPECT_TRUE(readable(5000));
  pair.t.arm(pair.b.endpoint, 0);
  EXPECT_EQ(pair.receive_text(), "wake");
  for (int i = 0; i < 10; ++i) pair.b.progress();
  EXPECT_FALSE(readable(0)) << "nothing is left, and still it polls readable";
}

TEST(TcpLink, RoomInAFullSocketWakesWhoSleepsWithOutput) {
  const auto source = pattern(50'000'000, 5);
  Pair pair(2, 4096);
  ASSERT_EQ(pair.t.offer(pair.to, nullptr, source.data(), source.size(), 0), TUTTI_LINK_OK);
  tutti_message message{};
  // The sender moves only when its descriptor says so.
  const Deadline deadline = Deadline::in(20 * kSecond);
  while (pair.t.view(pair.from, &message) != TUTTI_LINK_OK) {
    ASSERT_FALSE(deadline.passed());
    pair.b.progress();
    pair.t.arm(pair.a.endpoint, 1);
    pollfd one{pair.t.event_fd(pair.a.endpoint), POLLIN, 0};
    if (::poll(&one, 1, 0) == 1) pair.a.progress();
  }
  EXPECT_EQ(std::memcmp(message.data, source.data(), source.size()), 0);
}

}  // namespace
}  // namespace tutti::tcp_test
