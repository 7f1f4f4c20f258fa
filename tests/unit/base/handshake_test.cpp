#include "src/base/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "src/base/random.h"
#include "src/base/unique_fd.h"

namespace tutti {
namespace {

using Role = Handshake::Role;
using State = Handshake::State;
using Failure = Handshake::Failure;

std::span<const unsigned char> bytes_of(std::string_view text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

std::string text_of(std::span<const unsigned char> bytes) { return {bytes.begin(), bytes.end()}; }

// Carries bytes between two ends, at most `chunk` at a time, until nothing moves.
void converse(Handshake& a, Handshake& b, std::size_t chunk) {
  const auto carry = [chunk](Handshake& from, Handshake& to) {
    const auto out = from.output();
    const std::vector<unsigned char> piece(out.begin(), out.begin() + static_cast<long>(std::min(chunk, out.size())));
    if (piece.empty()) return false;
    from.sent(piece.size());
    to.feed(piece);
    return true;
  };
  for (bool moved = true; moved;) {
    moved = carry(a, b);
    moved = carry(b, a) || moved;
  }
}

class HandshakeChunks : public testing::TestWithParam<std::size_t> {};

TEST_P(HandshakeChunks, BothSidesProveTheKeyAndLearnThePayloadWhateverTheStreamsPieces) {
  const Key key = random_key();
  Handshake initiator(Role::kInitiator, key, "test 1", bytes_of("rank 3"));
  Handshake acceptor(Role::kAcceptor, key, "test 1", bytes_of("rank 0 of 8"));
  converse(initiator, acceptor, GetParam());
  ASSERT_TRUE(initiator.complete()) << initiator.explain();
  ASSERT_TRUE(acceptor.complete()) << acceptor.explain();
  EXPECT_EQ(text_of(acceptor.peer_payload()), "rank 3");
  EXPECT_EQ(text_of(initiator.peer_payload()), "rank 0 of 8");
  EXPECT_TRUE(std::ranges::equal(initiator.session_key(), acceptor.session_key()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, HandshakeChunks, testing::Values(1, 2, 7, 49, 50, 98, 1000));

TEST(Handshake, EveryConnectionHasItsOwnSessionKey) {
  const Key key = random_key();
  std::vector<Key> sessions;
  for (int i = 0; i < 3; ++i) {
    Handshake a(Role::kInitiator, key, "p");
    Handshake b(Role::kAcceptor, key, "p");
    converse(a, b, 1000);
    Key session;
    std::ranges::copy(a.session_key(), session.begin());
    sessions.push_back(session);
  }
  EXPECT_NE(sessions[0], sessions[1]);
  EXPECT_NE(sessions[1], sessions[2]);
}

TEST(Handshake, AWrongKeyIsNamedOnBothSides) {
  Handshake initiator(Role::kInitiator, random_key(), "p");
  Handshake acceptor(Role::kAcceptor, random_key(), "p");
  converse(initiator, acceptor, 1000);
  EXPECT_EQ(acceptor.failure(), Failure::kWrongKey);
  EXPECT_EQ(initiator.failure(), Failure::kRefused);
  EXPECT_FALSE(acceptor.complete());
}

TEST(Handshake, AnotherPurposeFailsBeforeAnyProofIsShown) {
  const Key key = random_key();
  Handshake initiator(Role::kInitiator, key, "tutti shm 1");
  Handshake acceptor(Role::kAcceptor, key, "tutti tcp 2");
  converse(initiator, acceptor, 1000);
  EXPECT_EQ(acceptor.failure(), Failure::kOtherPurpose);
  EXPECT_EQ(initiator.failure(), Failure::kOtherPurpose);
}

TEST(Handshake, AMirrorFails) {
  const Key key = random_key();
  Handshake one(Role::kInitiator, key, "p");
  const std::vector<unsigned char> own(one.output().begin(), one.output().end());
  one.feed(own);
  EXPECT_EQ(one.failure(), Failure::kSameRole);
}

TEST(Handshake, ARecordingOfAnEarlierConnectionIsRefused) {
  const Key key = random_key();
  Handshake initiator(Role::kInitiator, key, "p");
  Handshake acceptor(Role::kAcceptor, key, "p");
  std::vector<unsigned char> recording(initiator.output().begin(), initiator.output().end());
  initiator.sent(recording.size());
  initiator.feed(acceptor.output());
  recording.insert(recording.end(), initiator.output().begin(), initiator.output().end());

  Handshake later(Role::kAcceptor, key, "p");
  later.feed(recording);
  EXPECT_EQ(later.failure(), Failure::kWrongKey);
}

TEST(Handshake, GarbageFailsAtItsFirstByte) {
  Handshake acceptor(Role::kAcceptor, random_key(), "p");
  EXPECT_EQ(acceptor.feed(bytes_of("GET / HTTP/1.1\r\n\r\n")), 18u);
  EXPECT_EQ(acceptor.failure(), Failure::kGarbage);
  Handshake slow(Role::kAcceptor, random_key(), "p");
  slow.feed(bytes_of("T"));
  EXPECT_EQ(slow.state(), State::kRunning);
  slow.feed(bytes_of("x"));
  EXPECT_EQ(slow.failure(), Failure::kGarbage);
  EXPECT_EQ(slow.wanted(), 0u);
}

TEST(Handshake, AnyChangedBitOfAnyMessageFails) {
  const Key key = random_key();
  for (std::size_t bit = 0; bit < (49 + 98) * 8; ++bit) {
    Handshake initiator(Role::kInitiator, key, "p", bytes_of("x"));
    Handshake acceptor(Role::kAcceptor, key, "p");
    std::vector<unsigned char> stream(initiator.output().begin(), initiator.output().end());
    initiator.sent(stream.size());
    initiator.feed(acceptor.output());
    stream.insert(stream.end(), initiator.output().begin(), initiator.output().end());
    stream[bit / 8] = static_cast<unsigned char>(stream[bit / 8] ^ (1u << (bit % 8)));
    acceptor.feed(stream);
    EXPECT_EQ(acceptor.state(), State::kFailed) << "bit " << bit;
  }
}

TEST(Handshake, AStreamThatEndsEarlyFails) {
  Handshake one(Role::kInitiator, random_key(), "p");
  one.closed();
  EXPECT_EQ(one.failure(), Failure::kClosed);
}

TEST(Handshake, OverASocketLeavesWhatFollowsInTheStream) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  const UniqueFd left(fds[0]);
  const UniqueFd right(fds[1]);
  const Key key = random_key();
  Handshake initiator(Role::kInitiator, key, "p");
  Handshake acceptor(Role::kAcceptor, key, "p");
  bool greeted = false;
  for (int i = 0; i < 10; ++i) {
    advance(initiator, left.get());
    if (initiator.complete() && !greeted) greeted = ::send(left.get(), "next", 4, 0) == 4;
    advance(acceptor, right.get());
  }
  ASSERT_TRUE(acceptor.complete());
  ASSERT_TRUE(initiator.complete());
  char next[8] = "";
  EXPECT_EQ(::recv(right.get(), next, sizeof next, 0), 4);
  EXPECT_STREQ(next, "next");
}

TEST(Handshake, OverASocketTheRefusedSideLearnsWhyThoughTheOtherCloses) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  const UniqueFd left(fds[0]);
  UniqueFd right(fds[1]);
  Handshake initiator(Role::kInitiator, random_key(), "p");
  Handshake acceptor(Role::kAcceptor, random_key(), "p");
  for (int i = 0; i < 4; ++i) {
    advance(initiator, left.get());
    if (right) advance(acceptor, right.get());
    if (acceptor.state() == State::kFailed) right.reset();
  }
  EXPECT_EQ(acceptor.failure(), Failure::kWrongKey);
  EXPECT_EQ(initiator.failure(), Failure::kRefused);
}

TEST(Keys, AreDerivedDifferentlyForEachPurposeAndSecret) {
  const Key key = random_key();
  EXPECT_NE(derive_key(key, "a"), derive_key(key, "b"));
  EXPECT_EQ(derive_key(key, "a"), derive_key(key, "a"));
  EXPECT_NE(key_from_secret("a"), key_from_secret("b"));
  EXPECT_NE(random_key(), random_key());
}

}  // namespace
}  // namespace tutti
