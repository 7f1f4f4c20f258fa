// Messages that travel without a slot: offered by the sender, or put where the receiver granted.
#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/conformance/world.h"

namespace tutti::conformance {
namespace {

/// Memory for as long as this lives, registered with an endpoint where the transport registers any.
class Registered {
 public:
  Registered(const tutti_transport& t, TestEndpoint& endpoint, std::uint64_t bytes)
      : t_(t), endpoint_(endpoint), memory_(bytes) {
    if (t.register_memory == nullptr) return;
    EXPECT_EQ(register_file(t, endpoint.get(), memory_.data(), bytes, memory_.fd(), &region_), TUTTI_SUCCESS);
  }
  ~Registered() { unregister(); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  void unregister() {
    if (region_.handle != nullptr) t_.unregister_memory(endpoint_.get(), &region_);
    region_.handle = nullptr;
  }
  unsigned char* data() const { return memory_.data(); }
  /// NULL where nothing is registered: links that take any memory want that.
  const tutti_region* region() const { return region_.handle != nullptr ? &region_ : nullptr; }

 private:
  const tutti_transport& t_;
  TestEndpoint& endpoint_;
  FileMemory memory_;
  tutti_region region_{};
};

bool offers(const tutti_transport& t, const Pipe& pipe) {
  return t.offer != nullptr && (pipe.sending.capabilities & (TUTTI_CAN_OFFER_REGISTERED | TUTTI_CAN_OFFER_ANY)) != 0;
}

bool grants(const tutti_transport& t, const Pipe& pipe) {
  return t.grant != nullptr && (pipe.receiving.capabilities & (TUTTI_CAN_GRANT_REGISTERED | TUTTI_CAN_GRANT_ANY)) != 0;
}

std::uint64_t load(const std::uint64_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

TEST_P(Conformance, ARegistrationThatFailsLeavesItsReason) {
  if (t().register_memory == nullptr) GTEST_SKIP() << t().name << " registers nothing";
  World world(GetParam(), 2);
  FileMemory memory(4096);
  tutti_region region{};
  std::string why;
  if (register_file(t(), world[0].get(), memory.data(), 8192, memory.fd(), &region, &why) == TUTTI_SUCCESS) {
    t().unregister_memory(world[0].get(), &region);
    GTEST_SKIP() << t().name << " registers more than there is of a file";
  }
  EXPECT_GT(why.size(), 10u);
}

TEST_P(Conformance, OffersMemoryOfAnyLength) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 3, 128);
  if (!offers(t(), pipe)) GTEST_SKIP() << t().name << " cannot offer memory";
  Registered memory(t(), world[0], 1 << 20);
  std::uint64_t number = 0;
  for (std::uint64_t bytes : {1u, 64u, 100u, 129u, 4096u, 300'001u, (1u << 20) - 77}) {
    unsigned char* const source = memory.data() + number * 11;
    fill(source, number, bytes);
    ASSERT_TRUE(world.until([&] {
      return t().offer(pipe.sender, memory.region(), source, bytes, fingerprint_of(number)) == TUTTI_LINK_OK;
    })) << failure_of(t(), pipe.sender);
    if ((pipe.sending.capabilities & TUTTI_READS_PEER) != 0) {
      EXPECT_LE(load(pipe.sending.reusable), number) << "nobody can have read message " << number << " yet";
    }
    ASSERT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, number, bytes); }))
        << failure_of(t(), pipe.receiver);
    ++number;
    ASSERT_TRUE(world.until([&] { return load(pipe.sending.reusable) >= number; })) << "message " << number - 1;
  }
}

TEST_P(Conformance, OffersAndSlotsKeepTheirOrderAndShareCredit) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 3, 4, 2048);
  if (!offers(t(), pipe)) GTEST_SKIP() << t().name << " cannot offer memory";
  constexpr std::uint64_t kMessages = 200;
  constexpr std::uint64_t kBytes = 3000;
  Registered memory(t(), world[0], kMessages * kBytes);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  const auto offered = [](std::uint64_t n) { return n % 3 != 1; };
  // Short ones among them, but not among the first: a link may have more credit for those.
  const auto bytes = [&](std::uint64_t n) { return offered(n) ? kBytes - n : n % 9 == 7 ? 5 * n + 1 : n + 1800; };
  const auto send = [&](std::uint64_t n) {
    if (!offered(n)) return try_send(t(), pipe.sender, n, bytes(n));
    unsigned char* const source = memory.data() + n * kBytes;
    fill(source, n, bytes(n));
    return t().offer(pipe.sender, memory.region(), source, bytes(n), fingerprint_of(n)) == TUTTI_LINK_OK;
  };
  for (int i = 0; i < 500; ++i) {
    if (send(sent)) ++sent;
    world.progress();
  }
  EXPECT_EQ(sent, pipe.sending.slots) << "offers need credit as slots do";
  EXPECT_TRUE(world.until([&] {
    if (sent < kMessages && send(sent)) ++sent;
    if (try_receive(t(), pipe.receiver, received, bytes(received))) ++received;
    return received == kMessages;
  })) << failure_of(t(), pipe.receiver);
}

/// Whose call failed may change what it offered, and whoever was reading it must learn so before it believes what it read.
TEST_P(Conformance, WhatASenderTookBackWhileItWasReadIsNoMessage) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 3, 4, 256);
  if (!offers(t(), pipe) || (pipe.sending.capabilities & TUTTI_READS_PEER) == 0)
    GTEST_SKIP() << t().name << " shows no memory of the sender";
  constexpr std::uint64_t kBytes = 3000;
  Registered memory(t(), world[0], 2 * kBytes);
  for (std::uint64_t n = 0; n < 2; ++n) {
    ASSERT_EQ(t().offer(pipe.sender, memory.region(), memory.data() + n * kBytes, kBytes, fingerprint_of(n)),
              TUTTI_LINK_OK);
  }
  tutti_message message;
  ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }));
  EXPECT_EQ(t().revalidate(pipe.receiver), TUTTI_LINK_OK) << "nothing has happened yet";
  EXPECT_EQ(t().view(pipe.receiver, &message), TUTTI_LINK_OK) << "likewise";
  t().release(pipe.receiver);
  ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }));
  EXPECT_EQ(t().quiesce(pipe.sender), TUTTI_QUIESCED);
  EXPECT_EQ(t().revalidate(pipe.receiver), TUTTI_LINK_BROKEN);
  EXPECT_EQ(t().view(pipe.receiver, &message), TUTTI_LINK_BROKEN);
  EXPECT_NE(failure_of(t(), pipe.receiver), "");
}

TEST_P(Conformance, OffersAnyMemoryWhereItSaysSo) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 128);
  if ((pipe.sending.capabilities & TUTTI_CAN_OFFER_ANY) == 0 || t().offer == nullptr) {
    GTEST_SKIP() << t().name << " offers registered memory only, if any";
  }
  for (std::uint64_t number = 0; number < 10; ++number) {
    const Bytes source = pattern(number, 100'000 + number);
    ASSERT_TRUE(world.until([&] {
      return t().offer(pipe.sender, nullptr, source.data(), source.size(), fingerprint_of(number)) == TUTTI_LINK_OK;
    }));
    ASSERT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, number, source.size()); }));
    ASSERT_TRUE(world.until([&] { return load(pipe.sending.reusable) > number; }));
  }
}

TEST_P(Conformance, ARegionMayGoOnceItsMessagesAreReusable) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 128);
  if (!offers(t(), pipe)) GTEST_SKIP() << t().name << " cannot offer memory";
  for (std::uint64_t number = 0; number < 30; ++number) {
    Registered memory(t(), world[0], 10'000);
    fill(memory.data(), number, 10'000);
    ASSERT_TRUE(world.until([&] {
      return t().offer(pipe.sender, memory.region(), memory.data(), 10'000, fingerprint_of(number)) == TUTTI_LINK_OK;
    }));
    ASSERT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, number, 10'000); }))
        << failure_of(t(), pipe.receiver);
    ASSERT_TRUE(world.until([&] { return load(pipe.sending.reusable) > number; }));
  }
}

TEST_P(Conformance, GrantedMemoryReceivesTheMessage) {
  constexpr std::uint64_t kBytes = 50'000;
  constexpr std::uint64_t kMessages = 40;
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, kBytes);
  if (!grants(t(), pipe)) GTEST_SKIP() << t().name << " cannot grant memory";
  Registered memory(t(), world[1], kBytes * kMessages);
  std::uint64_t direct = 0;
  for (std::uint64_t n = 0; n < kMessages; ++n) {
    unsigned char* const target = memory.data() + n * kBytes;
    const tutti_link_result granted = t().grant(pipe.receiver, memory.region(), target, kBytes, fingerprint_of(n));
    ASSERT_NE(granted, TUTTI_LINK_BROKEN) << failure_of(t(), pipe.receiver);
    world.settle();
    ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, n, kBytes); }));
    tutti_message message{};
    ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }))
        << failure_of(t(), pipe.receiver);
    EXPECT_EQ(message.bytes, kBytes);
    EXPECT_EQ(message.fingerprint, fingerprint_of(n));
    EXPECT_EQ(mismatch(message.data, n, kBytes), kBytes);
    direct += message.data == target ? 1 : 0;
    t().release(pipe.receiver);
  }
  EXPECT_GE(direct, kMessages / 2) << "it says that it can put, and hardly does";
}

TEST_P(Conformance, AGrantThatComesTooLateOrDoesNotFitIsLeftAlone) {
  constexpr std::uint64_t kBytes = 20'000;
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, kBytes);
  if (!grants(t(), pipe)) GTEST_SKIP() << t().name << " cannot grant memory";
  Registered memory(t(), world[1], kBytes);
  ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, 0, kBytes); }));
  const auto* const word = reinterpret_cast<const std::uint64_t*>(pipe.receiving.arrived);
  ASSERT_TRUE(world.until([&] { return load(word) >= 1; }));
  std::memset(memory.data(), 0xEE, kBytes);
  EXPECT_EQ(t().grant(pipe.receiver, memory.region(), memory.data(), kBytes, fingerprint_of(0)), TUTTI_LINK_NOT_YET);
  tutti_message message{};
  ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }));
  EXPECT_EQ(mismatch(message.data, 0, kBytes), kBytes);
  EXPECT_EQ(memory.data()[0], 0xEE);
  t().release(pipe.receiver);
  // A grant of another length than the message has is of no use, and no harm.
  EXPECT_NE(t().grant(pipe.receiver, memory.region(), memory.data(), kBytes / 2, fingerprint_of(1)), TUTTI_LINK_BROKEN);
  world.settle();
  ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, 1, kBytes - 1); }));
  ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }))
      << failure_of(t(), pipe.receiver);
  EXPECT_EQ(mismatch(message.data, 1, kBytes - 1), kBytes - 1);
  EXPECT_EQ(memory.data()[kBytes / 2], 0xEE) << "memory beyond the grant was written";
}

// A rank that is in another operation than its peer must not write into that one's memory, be the length the same.
TEST_P(Conformance, AMessageOfAnotherOperationDoesNotLandInGrantedMemory) {
  constexpr std::uint64_t kBytes = 20'000;
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, kBytes);
  if (!grants(t(), pipe)) GTEST_SKIP() << t().name << " cannot grant memory";
  Registered memory(t(), world[1], kBytes);
  std::memset(memory.data(), 0xEE, kBytes);
  ASSERT_NE(t().grant(pipe.receiver, memory.region(), memory.data(), kBytes, fingerprint_of(7)), TUTTI_LINK_BROKEN);
  world.settle();
  ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, 0, kBytes); }));
  tutti_message message{};
  ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }))
      << failure_of(t(), pipe.receiver);
  EXPECT_EQ(message.fingerprint, fingerprint_of(0));
  EXPECT_EQ(mismatch(message.data, 0, kBytes), kBytes);
  EXPECT_NE(message.data, memory.data());
  EXPECT_EQ(std::count(memory.data(), memory.data() + kBytes, 0xEE), static_cast<std::ptrdiff_t>(kBytes))
      << "bytes of another operation were written into the caller's memory";
}

TEST_P(Conformance, AGrantBesideAViewedMessageIsForTheNextOne) {
  constexpr std::uint64_t kBytes = 20'000;
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, kBytes);
  if (!grants(t(), pipe)) GTEST_SKIP() << t().name << " cannot grant memory";
  Registered memory(t(), world[1], kBytes);
  std::memset(memory.data(), 0xEE, kBytes);
  ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, 0, kBytes); }));
  tutti_message message{};
  ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }));
  EXPECT_EQ(t().grant(pipe.receiver, memory.region(), memory.data(), kBytes, fingerprint_of(1)), TUTTI_LINK_OK);
  world.settle();
  ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, 1, kBytes); }));
  world.settle();
  EXPECT_EQ(mismatch(message.data, 0, kBytes), kBytes) << "the viewed message changed";
  t().release(pipe.receiver);
  ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }))
      << failure_of(t(), pipe.receiver);
  EXPECT_EQ(message.data, memory.data());
  EXPECT_EQ(mismatch(message.data, 1, kBytes), kBytes);
}

TEST_P(Conformance, AGrantThatIsGivenUpIsNotWrittenAnyMore) {
  constexpr std::uint64_t kBytes = 20'000;
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, kBytes);
  if (!grants(t(), pipe)) GTEST_SKIP() << t().name << " cannot grant memory";
  Registered memory(t(), world[1], kBytes);
  std::memset(memory.data(), 0xEE, kBytes);
  ASSERT_NE(t().grant(pipe.receiver, memory.region(), memory.data(), kBytes, 1), TUTTI_LINK_BROKEN);
  world.settle();
  EXPECT_LE(t().quiesce(pipe.receiver), TUTTI_FENCED);
  const auto send = [&] {
    if (void* const room = room_of(t(), pipe.sender, kBytes, 1)) {
      std::memset(room, 0x11, kBytes);
      (void)t().commit(pipe.sender, kBytes, 1);
    }
    world.settle();
    EXPECT_EQ(memory.data()[0], 0xEE);
    EXPECT_EQ(memory.data()[kBytes - 1], 0xEE);
  };
  send();
  t().close_link(pipe.receiver);
  (void)world.until([&] { return t().failure(pipe.sender, nullptr, 0) == TUTTI_LINK_BROKEN; });
  send();
}

// A link may be quieted before its peer has answered.
TEST_P(Conformance, ALinkThatIsQuietBeforeItOpensNeverOpensAndHarmsNoOther) {
  World world(GetParam(), 2);
  tutti_link* const receiver = world[1].open_receiver(0, world[0].descriptor(), 4, 2, 64);
  EXPECT_LE(t().quiesce(receiver), TUTTI_FENCED);
  tutti_link* const sender = world[0].open_sender(1, world[1].descriptor(), 4, 2, 64);
  world.settle();
  t().close_link(receiver);
  const Pipe other = open_pipe(world, 0, 1, 5, 2, 64);
  EXPECT_TRUE(world.until([&] { return try_send(t(), other.sender, 0, 64); }));
  EXPECT_TRUE(world.until([&] { return try_receive(t(), other.receiver, 0, 64); }));
  tutti_link_state state{};
  EXPECT_NE(t().link_state(sender, &state), TUTTI_LINK_OK);
  t().close_link(sender);
}

}  // namespace
}  // namespace tutti::conformance
