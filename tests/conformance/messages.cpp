// What a link carries: order, content, credit, lengths.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "src/base/clock.h"
#include "tests/conformance/world.h"

namespace tutti::conformance {
namespace {

TEST_P(Conformance, SaysWhetherItIsViableInASentence) {
  char why[256] = "";
  EXPECT_EQ(t().viable(why, sizeof why), 1) << why;
  EXPECT_GT(std::string(why).size(), 10u);
}

TEST_P(Conformance, ReachesItsNeighbourAndRefusesForeignDescriptors) {
  World world(GetParam(), 2);
  tutti_reach reach{};
  reach.size = sizeof reach;
  char why[256] = "";
  const Bytes& there = world[1].descriptor();
  EXPECT_EQ(t().reach(world[0].get(), 1, there.data(), there.size(), &reach, why, sizeof why), 1) << why;
  EXPECT_GT(reach.bandwidth, 0);
  EXPECT_GT(reach.latency, 0);
  const Bytes rubbish(there.size(), 0x5A);
  EXPECT_EQ(t().reach(world[0].get(), 1, rubbish.data(), rubbish.size(), &reach, why, sizeof why), 0);
  EXPECT_GT(std::string(why).size(), 5u);
  EXPECT_EQ(t().reach(world[0].get(), 1, there.data(), there.size() / 2, &reach, why, sizeof why), 0);
}

TEST_P(Conformance, DeliversInOrderWithItsFingerprints) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 5, 4, 256);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  const auto bytes = [](std::uint64_t n) { return 1 + n * 37 % 256; };
  EXPECT_TRUE(world.until([&] {
    if (sent < 1000 && try_send(t(), pipe.sender, sent, bytes(sent))) ++sent;
    if (received % 3 != 0 || sent > received)
      received += try_receive(t(), pipe.receiver, received, bytes(received)) ? 1 : 0;
    return received == 1000;
  })) << "sent "
      << sent << ", received " << received << failure_of(t(), pipe.receiver);
}

TEST_P(Conformance, CarriesEveryLengthAroundTheEdges) {
  constexpr std::uint64_t kLargest = 9000;
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 1, 0, 0, 2, kLargest);
  std::uint64_t number = 0;
  for (std::uint64_t bytes :
       {1, 2, 3, 7, 8, 39, 40, 41, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 4095, 4097, 8999, 9000}) {
    bool sent = false;
    EXPECT_TRUE(world.until([&] {
      sent = sent || try_send(t(), pipe.sender, number, bytes);
      return sent && try_receive(t(), pipe.receiver, number, bytes);
    })) << bytes
        << " bytes";
    ++number;
  }
}

// The source is any memory, and is the caller's again at once; where there is no credit nothing has happened.
TEST_P(Conformance, SendsInOneAsByReserveAndCommit) {
  constexpr std::uint64_t kLargest = 3000;
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 3, kLargest);
  constexpr std::array<std::uint64_t, 24> kLengths{1,  2,  3,  4,  5,  7,  8,   9,   15,  16,   17,   23,
                                                   24, 25, 31, 39, 40, 41, 127, 128, 129, 1024, 1025, 3000};
  std::array<unsigned char, kLargest + 1> memory;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  const auto send = [&] {
    const std::uint64_t bytes = kLengths[sent % kLengths.size()];
    if (sent % 7 == 6) return try_send(t(), pipe.sender, sent, bytes);
    unsigned char* const source = memory.data() + sent % 2;
    fill(source, sent, bytes);
    const tutti_link_result result = t().send(pipe.sender, source, bytes, fingerprint_of(sent));
    memory.fill(0x5a);
    EXPECT_NE(result, TUTTI_LINK_BROKEN) << failure_of(t(), pipe.sender);
    return result == TUTTI_LINK_OK;
  };
  for (const std::uint64_t ahead : {1, 2, 1000}) {  // in turn, and as far ahead as there is credit
    for (std::uint64_t end = sent + 1000; received < end;) {
      ASSERT_TRUE(world.until([&] {
        while (sent < end && sent - received < ahead && send()) ++sent;
        return try_receive(t(), pipe.receiver, received, kLengths[received % kLengths.size()]);
      })) << "message "
          << received << failure_of(t(), pipe.receiver);
      ++received;
    }
  }
}

TEST_P(Conformance, CarriesEmptyMessages) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 3, 64);
  for (std::uint64_t n = 0; n < 20; ++n) {
    const std::uint64_t bytes = n % 3 == 0 ? 8 : 0;
    ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, n, bytes); })) << n;
    ASSERT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, n, bytes); })) << n;
  }
}

TEST_P(Conformance, SendsNothingOnALinkThatIsGivenUp) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 3, 3000);
  t().close_link(pipe.receiver);
  for (const std::uint64_t bytes : {8, 40, 1024, 3000}) {
    const std::array<unsigned char, 3000> memory{};
    EXPECT_TRUE(world.until([&] { return t().send(pipe.sender, memory.data(), bytes, 1) == TUTTI_LINK_BROKEN; })) << bytes;
  }
}

TEST_P(Conformance, ReservesAlignedRoomAndTheSameRoomTwice) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 1, 2, 4096);
  for (std::uint64_t number = 0; number < 4; ++number) {
    void* room = nullptr;
    EXPECT_TRUE(world.until([&] { return (room = room_of(t(), pipe.sender, 4000, fingerprint_of(number))) != nullptr; }));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(room) % 64, 0u);
    EXPECT_EQ(room_of(t(), pipe.sender, 4000, fingerprint_of(number)), room);
    fill(static_cast<unsigned char*>(room), number, 4000);
    EXPECT_EQ(t().commit(pipe.sender, 4000, fingerprint_of(number)), TUTTI_LINK_OK);
    EXPECT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, number, 4000); }));
  }
}

// The credit of long messages is exactly what the link says; of short ones there may be more, but not for ever.
TEST_P(Conformance, StopsExactlyAtItsCreditAndGoesOnAfterARelease) {
  for (const std::uint64_t bytes : {100, 3000}) {
    World world(GetParam(), 2);
    const Pipe pipe = open_pipe(world, 0, 1, 2, 3, bytes);
    ASSERT_GE(pipe.sending.slots, 3u);
    std::uint64_t sent = 0;
    for (int idle = 0; idle < 2000 && sent < 1000; ++idle) {
      for (; sent < 1000 && try_send(t(), pipe.sender, sent, bytes); ++sent) idle = 0;
      world.progress();
    }
    const std::uint64_t most = sent;
    ASSERT_GE(most, pipe.sending.slots) << bytes;
    ASSERT_LT(most, bytes < 1000 ? 1000 : pipe.sending.slots + 1) << "credit beyond " << pipe.sending.slots << " slots";
    for (std::uint64_t received = 0; received < 3 * most; ++received) {
      ASSERT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, received, bytes); }));
      ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, sent, bytes); })) << "after release " << received;
      ++sent;
      world.progress();
      ASSERT_EQ(room_of(t(), pipe.sender, bytes, 0), nullptr);
    }
  }
}

TEST_P(Conformance, AViewIsTheSameUntilItIsReleased) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 2, 4, 200);
  ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, 0, 200); }));
  ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, 1, 150); }));
  tutti_message first{};
  ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &first) == TUTTI_LINK_OK; }));
  world.settle();
  tutti_message again{};
  ASSERT_EQ(t().view(pipe.receiver, &again), TUTTI_LINK_OK);
  EXPECT_EQ(again.data, first.data);
  EXPECT_EQ(again.bytes, 200u);
  EXPECT_EQ(mismatch(again.data, 0, 200), 200u);
  t().release(pipe.receiver);
  EXPECT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, 1, 150); }));
}

TEST_P(Conformance, TheWordsCountWhatArrivedAndWhatMayBeReused) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 9, 4, 512);
  ASSERT_NE(pipe.receiving.arrived, nullptr);
  const auto arrived = [&](std::uint64_t n) {
    tutti_link_state state{};
    EXPECT_EQ(t().link_state(pipe.receiver, &state), TUTTI_LINK_OK);
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(state.arrived), __ATOMIC_ACQUIRE) >= n + 1;
  };
  for (std::uint64_t n = 0; n < 20; ++n) {
    EXPECT_FALSE(arrived(n)) << n;
    ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, n, n % 2 == 0 ? 8 : 512); }));
    EXPECT_TRUE(world.until([&] { return arrived(n); })) << "message " << n;
    ASSERT_TRUE(try_receive(t(), pipe.receiver, n, n % 2 == 0 ? 8 : 512)) << "it has arrived, but cannot be seen: " << n;
  }
  if (pipe.sending.reusable != nullptr) {
    EXPECT_TRUE(world.until([&] { return __atomic_load_n(pipe.sending.reusable, __ATOMIC_ACQUIRE) >= 20; }));
  }
}

// Who stops making progress then has kept nothing back. More bytes than the system holds while nobody receives.
TEST_P(Conformance, WhatNeedsProgressIsCountedOnlyOnceItNeedsNoMore) {
  constexpr std::uint64_t bytes = 1024 * 1024;
  constexpr std::uint64_t messages = 40;
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 3, messages, bytes);
  if ((pipe.sending.capabilities & TUTTI_NEEDS_PROGRESS) == 0 || pipe.sending.reusable == nullptr) {
    GTEST_SKIP() << "its messages are with the peer at once";
  }
  std::uint64_t sent = 0;
  for (int turn = 0; turn < 10'000 && sent < messages; ++turn) {
    sent += try_send(t(), pipe.sender, sent, bytes) ? 1 : 0;
    if (turn % 3 == 0) static_cast<void>(world[0].progress());
  }
  ASSERT_EQ(sent, messages);
  const std::uint64_t counted = __atomic_load_n(pipe.sending.reusable, __ATOMIC_ACQUIRE);
  EXPECT_LE(counted, sent);
  std::uint64_t received = 0;
  for (int turn = 0; turn < 20'000 && received < counted; ++turn) {
    static_cast<void>(world[1].progress());
    while (received < counted && try_receive(t(), pipe.receiver, received, bytes)) ++received;
    ::usleep(100);
  }
  EXPECT_EQ(received, counted) << "of " << sent;
}

TEST_P(Conformance, OneSlotIsEnough) {
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 2, 1, 64);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  EXPECT_TRUE(world.until([&] {
    sent += sent < 50 && try_send(t(), pipe.sender, sent, 64) ? 1 : 0;
    received += try_receive(t(), pipe.receiver, received, 64) ? 1 : 0;
    return received == 50;
  }));
}

TEST_P(Conformance, BothDirectionsAndManyChannelsAtOnce) {
  constexpr std::uint32_t kChannels = 12;
  constexpr std::uint64_t kMessages = 100;
  World world(GetParam(), 2);
  std::vector<Pipe> pipes;
  for (std::uint32_t c = 0; c < kChannels; ++c) {
    pipes.push_back(open_pipe(world, 0, 1, c, 1 + c % 4, 64 << c % 5));
    pipes.push_back(open_pipe(world, 1, 0, c, 1 + c % 3, 64 << c % 5));
  }
  std::vector<std::uint64_t> sent(pipes.size());
  std::vector<std::uint64_t> received(pipes.size());
  EXPECT_TRUE(world.until([&] {
    bool done = true;
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      const auto number = [&](std::uint64_t n) { return i * 1000 + n; };
      const auto bytes = [&](std::uint64_t n) { return 1 + (n * 17 + i) % 64; };
      if (sent[i] < kMessages && try_send(t(), pipes[i].sender, number(sent[i]), bytes(sent[i]))) ++sent[i];
      if (try_receive(t(), pipes[i].receiver, number(received[i]), bytes(received[i]))) ++received[i];
      done = done && received[i] == kMessages;
    }
    return done;
  }));
}

TEST_P(Conformance, ABlockedChannelBlocksNoOther) {
  World world(GetParam(), 2);
  const Pipe blocked = open_pipe(world, 0, 1, 1, 2, 4096);
  const Pipe open = open_pipe(world, 0, 1, 2, 2, 4096);
  std::uint64_t stuck = 0;
  for (int i = 0; i < 1000; ++i) {
    if (try_send(t(), blocked.sender, stuck, 4096)) ++stuck;
    world.progress();
  }
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  EXPECT_TRUE(world.until([&] {
    sent += sent < 100 && try_send(t(), open.sender, sent, 4096) ? 1 : 0;
    received += try_receive(t(), open.receiver, received, 4096) ? 1 : 0;
    return received == 100;
  })) << "nobody reads channel 1, and channel 2 stands still";
}

TEST_P(Conformance, NineRanksInAMesh) {
  constexpr int kRanks = 9;
  World world(GetParam(), kRanks);
  struct Flow {
    Pipe pipe;
    std::uint64_t number, sent = 0, received = 0;
  };
  std::vector<Flow> flows;
  for (int from = 0; from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) {
      if (from == to) continue;
      Flow flow{{}, static_cast<std::uint64_t>(from * 100 + to)};
      flow.pipe.sender = world[from].open_sender(to, world[to].descriptor(), 0, 2, 128);
      flow.pipe.receiver = world[to].open_receiver(from, world[from].descriptor(), 0, 2, 128);
      flows.push_back(flow);
    }
  }
  EXPECT_TRUE(world.until([&] {
    bool done = true;
    for (Flow& f : flows) {
      f.sent += f.sent < 20 && try_send(t(), f.pipe.sender, f.number + f.sent, 100) ? 1 : 0;
      f.received += try_receive(t(), f.pipe.receiver, f.number + f.received, 100) ? 1 : 0;
      done = done && f.received == 20;
    }
    return done;
  }));
}

TEST_P(Conformance, ThousandsOfSmallMessagesBetweenThreads) {
  constexpr std::uint64_t kMessages = 5000;
  World world(GetParam(), 2);
  const Pipe there = open_pipe(world, 0, 1, 0, 8, 64);
  const Pipe back = open_pipe(world, 1, 0, 0, 8, 64);
  const auto run = [&](int rank, tutti_link* out, tutti_link* in) {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    const Deadline deadline = Deadline::in(60 * kSecond);
    while ((sent < kMessages || received < kMessages || t().flushed(out) == TUTTI_LINK_NOT_YET) && !deadline.passed()) {
      const std::uint64_t before = sent + received;
      if (sent < kMessages && try_send(t(), out, sent, 1 + sent % 64)) ++sent;
      if (received < kMessages && try_receive(t(), in, received, 1 + received % 64)) ++received;
      world[rank].progress();
      if (sent + received == before) std::this_thread::yield();
    }
    EXPECT_EQ(sent, kMessages);
    EXPECT_EQ(received, kMessages);
    return t().flushed(in);
  };
  std::thread other([&] { run(1, back.sender, there.receiver); });
  run(0, there.sender, back.receiver);
  // The last credit of the other side may still need this side's progress.
  other.join();
}

// TUTTI_CONFORMANCE_LARGEST asks for more than the suite takes by itself, such as 2200000000 bytes.
TEST_P(Conformance, LargeMessagesArriveWhole) {
  const char* const asked = std::getenv("TUTTI_CONFORMANCE_LARGEST");
  const std::uint64_t bytes = asked != nullptr ? std::strtoull(asked, nullptr, 10) : (24u << 20) + 13;
  World world(GetParam(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 1, bytes);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  EXPECT_TRUE(world.until(
      [&] {
        if (sent < 2 && try_send(t(), pipe.sender, sent, bytes)) ++sent;
        if (try_receive(t(), pipe.receiver, received, bytes)) ++received;
        return received == 2;
      },
      (120 + bytes / 10'000'000) * kSecond));
}

}  // namespace
}  // namespace tutti::conformance
