// What is shared memory's own: who can share it, what lies in it, and that a peer that writes nonsense breaks a link, no
// more.
#include "transports/shm/shm.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <list>
#include <random>
#include <set>

#include "src/base/socket.h"
#include "tests/conformance/world.h"
#include "tests/support/child.h"
#include "tests/support/sanitizers.h"
#include "tests/unit/transports/shm_world.h"
#include "transports/near/local_address.h"
#include "transports/registry.h"
#include "transports/shm/layout.h"

namespace tutti::shm {
namespace {

using conformance::Bytes;
using conformance::failure_of;
using conformance::fingerprint_of;
using conformance::open_pipe;
using conformance::Pipe;
using conformance::quiesce_and_close;
using conformance::register_file;
using conformance::room_of;
using conformance::try_receive;
using conformance::try_send;
using conformance::World;

const tutti_transport& t() { return *transport(); }

std::string refusal(World& world, const near::LocalAddress& address) {
  tutti_reach reach{};
  char why[256] = "";
  const int reached = t().reach(world[0].get(), 1, &address, sizeof address, &reach, why, sizeof why);
  return reached == 1 ? std::string() : why;
}

/// What the transport says of itself in a process with that limit; empty: it is viable.
std::string obstacle_under(const tutti_transport& transport, int resource, rlim_t to) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  {
    const test::Child child([&] {
      test::limit(resource, to);
      char why[512] = "";
      const std::string said = transport.viable(why, sizeof why) != 0 ? "" : why;
      EXPECT_EQ(::write(ends[1], said.data(), said.size()), static_cast<ssize_t>(said.size()));
    });
  }
  ::close(ends[1]);
  char said[512] = "";
  static_cast<void>(!::read(ends[0], said, sizeof said - 1));
  ::close(ends[0]);
  return said;
}

rlim_t lowest_descriptor() {
  const int lowest = ::dup(0);
  ::close(lowest);
  return static_cast<rlim_t>(lowest);
}

TEST(Viable, NamesTheLimitThatWouldKeepALinkFromOpeningWithItsRemedy) {
  EXPECT_EQ(obstacle_under(t(), RLIMIT_FSIZE, 64 << 20), "");
  const std::string file = obstacle_under(t(), RLIMIT_FSIZE, 1 << 20);
  EXPECT_EQ(file.find("this process cannot share memory: "), 0u) << file;
  EXPECT_NE(file.find("(1048576 bytes): File too large. Raise the limit of file sizes (`ulimit -f`)"), std::string::npos)
      << file;
  EXPECT_EQ(obstacle_under(t(), RLIMIT_NOFILE, lowest_descriptor() + 40), "");
  const std::string files = obstacle_under(t(), RLIMIT_NOFILE, lowest_descriptor() + 8);
  EXPECT_EQ(files.find("this process cannot share memory: it may have "), 0u) << files;
  EXPECT_NE(files.find("(`ulimit -n`)"), std::string::npos) << files;
  const std::string none = obstacle_under(t(), RLIMIT_NOFILE, 0);
  EXPECT_NE(none.find("Too many open files. Raise the limit of open files (`ulimit -n`)"), std::string::npos) << none;
}

TEST(Viable, NamesTheLimitOfAddressSpaceToo) {
  if (test::under_asan || test::under_tsan) GTEST_SKIP() << "sanitizers take all addresses there are";
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const std::string space = obstacle_under(t(), RLIMIT_AS, pages * 4096 + (4 << 20));
  EXPECT_NE(space.find("cannot map"), std::string::npos) << space;
  EXPECT_NE(space.find("`ulimit -v`"), std::string::npos) << space;
}

TEST(Viable, OfTcpNamesDescriptors) {
  const tutti_transport& tcp = *builtin_transports()[1];
  ASSERT_STREQ(tcp.name, "tcp");
  EXPECT_EQ(obstacle_under(tcp, RLIMIT_NOFILE, lowest_descriptor() + 40), "");
  for (const rlim_t more : {rlim_t{0}, rlim_t{3}}) {
    const std::string files = obstacle_under(tcp, RLIMIT_NOFILE, lowest_descriptor() + more);
    EXPECT_EQ(files.find("this process cannot open sockets: "), 0u) << files;
    EXPECT_NE(files.find("(`ulimit -n`)"), std::string::npos) << files;
  }
}

TEST(ShmReach, IsThisMachineAndNetworkNamespace) {
  World world(&t(), 2);
  near::LocalAddress address;
  ASSERT_EQ(world[1].descriptor().size(), sizeof address);
  std::memcpy(&address, world[1].descriptor().data(), sizeof address);
  EXPECT_EQ(refusal(world, address), "");
  near::LocalAddress elsewhere = address;
  elsewhere.boot[3] = elsewhere.boot[3] == '0' ? '1' : '0';
  EXPECT_NE(refusal(world, elsewhere).find("another machine"), std::string::npos);
  near::LocalAddress contained = address;
  contained.network_inode += 1;
  EXPECT_NE(refusal(world, contained).find("network namespace"), std::string::npos);
  tutti_link* link = nullptr;
  Bytes descriptor(sizeof elsewhere);
  std::memcpy(descriptor.data(), &elsewhere, sizeof elsewhere);
  std::string why;
  EXPECT_EQ(world[0].try_open(TUTTI_LINK_SENDS, 1, descriptor, 0, 2, 64, &link, why), TUTTI_UNSUPPORTED);
  EXPECT_NE(why.find("another machine"), std::string::npos) << why;
}

TEST(ShmLayout, KeepsWritersApartAndPayloadsAligned) {
  for (const std::uint64_t bytes : {1u, 40u, 41u, 64u, 100u, 4095u, 4096u, 65536u, 1000003u}) {
    const LinkLayout l = LinkLayout::of(3, bytes);
    EXPECT_EQ(l.stride % kPair, 0u) << bytes;
    EXPECT_GE(l.stride, bytes > kInlineBytes ? bytes : 0) << bytes;
    EXPECT_EQ(l.payload_offset % kPair, 0u) << bytes;
    EXPECT_GE(l.payload_offset, kPage + l.headers * kHeaderStride) << bytes;
    EXPECT_GE(l.rotation_offset, l.places * l.stride) << bytes;
    EXPECT_EQ(l.rotation_offset % kPair, 0u) << bytes;
    EXPECT_GE(l.total, l.payload_offset + l.payload_bytes) << bytes;
  }
  for (const std::uint32_t slots : {1u, 3u, 40u, 1000u}) {
    EXPECT_EQ(LinkLayout::of(slots, 65536).payload_offset % kPage, kPage / 2) << "where buffers do not begin as a rule";
  }
  EXPECT_EQ(LinkLayout::of(1000, 64).headers, 1000u) << "never fewer than payloads";
  EXPECT_FALSE(LinkLayout::sane(0, 64));
  EXPECT_FALSE(LinkLayout::sane(2, UINT64_MAX));
}

TEST(ShmLink, HasMoreCreditForShortMessagesAndNoneBeyondIt) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, 4096);
  const auto length_of = [](std::uint64_t n) { return std::array{kInlineBytes, kInlineBytes + 1, kShortBytes}[n % 3]; };
  std::uint64_t sent = 0;
  for (; sent < LinkLayout::kLeastHeaders; ++sent) ASSERT_TRUE(try_send(t(), pipe.sender, sent, length_of(sent))) << sent;
  EXPECT_FALSE(try_send(t(), pipe.sender, sent, length_of(sent)));
  EXPECT_FALSE(try_send(t(), pipe.sender, sent, kShortBytes + 1));
  // A longer one's payload is free when all but three of those before it are released: nobody counts who has one.
  for (std::uint64_t n = 0; n < LinkLayout::kLeastHeaders; ++n) {
    EXPECT_EQ(room_of(t(), pipe.sender, kShortBytes + 1, 0) != nullptr, sent - n < 4) << n;
    ASSERT_TRUE(try_receive(t(), pipe.receiver, n, length_of(n)));
  }
  ASSERT_TRUE(try_send(t(), pipe.sender, sent, kShortBytes + 1));
  EXPECT_TRUE(try_receive(t(), pipe.receiver, sent, kShortBytes + 1));
}

TEST(ShmLink, RefusesOtherSizesOnBothSides) {
  World world(&t(), 2);
  tutti_link* const sender = world[0].open_sender(1, world[1].descriptor(), 0, 2, 64);
  tutti_link* const receiver = world[1].open_receiver(0, world[0].descriptor(), 0, 4, 64);
  EXPECT_TRUE(world.until([&] { return !failure_of(t(), sender).empty() && !failure_of(t(), receiver).empty(); }));
  EXPECT_NE(failure_of(t(), sender).find("4 slots of 64 bytes"), std::string::npos) << failure_of(t(), sender);
  EXPECT_NE(failure_of(t(), receiver).find("2 slots of 64 bytes"), std::string::npos) << failure_of(t(), receiver);
}

TEST(ShmLink, ThinksThatWhoSaysNothingRuns) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
  EXPECT_EQ(*pipe.sending.peer_yielding, 0u);
  EXPECT_EQ(*pipe.receiving.peer_yielding, 0u);
}

TEST(ShmLink, ARankMaySendToItself) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 1, 1, 3, 2, 5000);
  for (std::uint64_t n = 0; n < 5; ++n) {
    ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, n, 5000); }));
    ASSERT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, n, 5000); }));
  }
}

// The receiver's mapping is writable; a peer that has lost its mind could do the same from its side.
SlotHeader& header_of(const Pipe& pipe) {
  return *reinterpret_cast<SlotHeader*>(const_cast<unsigned char*>(pipe.receiving.arrived));
}

TEST(ShmLink, BreaksWhereALengthExceedsItsSlot) {
  for (const Kind kind : {Kind::kInline, Kind::kShort, Kind::kSlot, Kind::kPull, Kind::kPut, Kind{0}, Kind{99}}) {
    World world(&t(), 2);
    const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
    SlotHeader& header = header_of(pipe);
    header.size_and_kind = pack(5000, kind);
    header.where.reference = {77, 5};
    header.sequence = 1;
    tutti_message message{};
    if (kind == Kind::kPull) {
      // An unknown region may still be announced.
      EXPECT_EQ(t().view(pipe.receiver, &message), TUTTI_LINK_NOT_YET);
      continue;
    }
    EXPECT_EQ(t().view(pipe.receiver, &message), TUTTI_LINK_BROKEN);
    EXPECT_NE(failure_of(t(), pipe.receiver).find("damaged"), std::string::npos) << failure_of(t(), pipe.receiver);
  }
}

TEST(ShmLink, BreaksWhereAMessageLiesOutsideThePayloadsOrIsTimedAsNoneIs) {
  const LinkLayout layout = LinkLayout::of(2, 8192);
  struct Nonsense {
    std::uint64_t bytes;
    Kind kind;
    Placement placement;
    bool sound;
  };
  for (const Nonsense& n : std::initializer_list<Nonsense>{
           {8192, Kind::kSlot, Placement::rotated(layout.payload_bytes - 8192), true},
           {8192, Kind::kSlot, Placement::rotated(layout.rotation_offset), true},
           {8192, Kind::kSlot, Placement::slot(layout.places - 1), true},
           {8192, Kind::kSlot, {99ULL << Placement::kPolicyShift}, true},  // nobody looks
           {8192, Kind::kTimed, Placement::slot(0).with(WritePolicy::non_temporal, true), true},
           {8192, Kind::kSlot, Placement::rotated(layout.payload_bytes - 8191), false},
           {8192, Kind::kSlot, Placement::rotated(layout.rotation_offset - 1), false},
           {8192, Kind::kSlot, Placement::slot(layout.places), false},
           {8192, Kind::kSlot, Placement::borrowed(0), false},  // there is no link that lends
           {1, Kind::kSlot, {UINT64_MAX}, false},
           {8193, Kind::kSlot, Placement::slot(0), false},
           {8192, Kind::kTimed, {2 * kWritePolicies << Placement::kPolicyShift}, false},
           {kLeastTuned - 1, Kind::kTimed, Placement::slot(0), false},
       }) {
    World world(&t(), 2);
    const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 8192);
    SlotHeader& header = header_of(pipe);
    header.size_and_kind = pack(n.bytes, n.kind);
    header.where.placement = n.placement;
    header.sequence = 1;
    tutti_message message{};
    EXPECT_EQ(t().view(pipe.receiver, &message), n.sound ? TUTTI_LINK_OK : TUTTI_LINK_BROKEN) << n.placement.word;
    EXPECT_EQ(failure_of(t(), pipe.receiver).empty(), n.sound) << failure_of(t(), pipe.receiver);
    if (n.sound) t().release(pipe.receiver);
  }
}

/// Sends and takes messages of random lengths in random order, each checked, and no room given out that is still read.
struct Rooms {
  std::uint64_t span = 0;  ///< one past the farthest byte that a room had, from the lowest room
  int rounds = 0;          ///< times that rooms behind the slots have begun anew
};
Rooms send_at_random(const Pipe& pipe, std::uint64_t slot_bytes, int rounds) {
  struct Room {
    const unsigned char* begin;
    std::uint64_t bytes;
  };
  std::mt19937_64 random(slot_bytes);
  std::list<Room> under_way;
  std::uint64_t sent = 0, taken = 0;
  const unsigned char *lowest = nullptr, *farthest = nullptr, *last_cold = nullptr;
  const std::uint64_t rotation_offset = LinkLayout::of(pipe.sending.slots, slot_bytes).rotation_offset;
  Rooms rooms;
  const auto length = [&](std::uint64_t n) {
    std::mt19937_64 of_message(n);
    const std::uint64_t longest = n / 64 % 2 == 0 ? std::min(slot_bytes, 3 * kLeastTuned) : slot_bytes;
    return kShortBytes + 1 + of_message() % (longest - kShortBytes);
  };
  for (int i = 0; i < rounds; ++i) {
    if (random() % 2 == 0) {
      const std::uint64_t bytes = length(sent);
      if (random() % 4 == 0) static_cast<void>(room_of(t(), pipe.sender, kShortBytes + 1, fingerprint_of(sent)));
      if (random() % 4 == 0) static_cast<void>(room_of(t(), pipe.sender, kLeastTuned, fingerprint_of(sent)));
      auto* const room = static_cast<unsigned char*>(room_of(t(), pipe.sender, bytes, fingerprint_of(sent)));
      if (room == nullptr) continue;
      EXPECT_EQ(room_of(t(), pipe.sender, bytes, fingerprint_of(sent)), room) << "asked again";
      for (const Room& other : under_way) EXPECT_TRUE(room + bytes <= other.begin || other.begin + other.bytes <= room);
      under_way.push_back({room, bytes});
      lowest = lowest == nullptr ? room : std::min<const unsigned char*>(lowest, room);
      farthest = std::max<const unsigned char*>(farthest, room + bytes);
      if (room >= lowest + rotation_offset) {
        rooms.rounds += room < last_cold ? 1 : 0;
        last_cold = room;
      }
      conformance::fill(room, sent, bytes);
      EXPECT_EQ(t().commit(pipe.sender, bytes, fingerprint_of(sent)), TUTTI_LINK_OK);
      ++sent;
    } else if (taken < sent) {
      EXPECT_TRUE(try_receive(t(), pipe.receiver, taken, length(taken))) << taken;
      ++taken;
      under_way.pop_front();
    }
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(sent, static_cast<std::uint64_t>(rounds) / 5);
  rooms.span = static_cast<std::uint64_t>(farthest - lowest);
  return rooms;
}

TEST(ShmLink, GivesOutNoRoomThatIsStillRead) {
  for (const std::uint32_t slots : {1u, 2u, 4u, 9u}) {
    for (const std::uint64_t factor : {1u, 2u, 6u})
      for (const std::uint64_t slot_bytes : {8192u, 65'536u}) {
        SCOPED_TRACE(std::to_string(slots) + " slots of " + std::to_string(slot_bytes));
        World world(&t(), 2, {.core_cache_bytes = slot_bytes * factor});
        const Rooms rooms = send_at_random(open_pipe(world, 0, 1, 0, slots, slot_bytes), slot_bytes, 6000);
        // The longest messages have a room there only where it is as many and one more of them, with what keeps them apart.
        if (2 * factor > slots + 1) {
          EXPECT_GE(rooms.rounds, 1);
        }
      }
  }
}

TEST(ShmLink, GoesThroughMoreMemoryThanACoresCacheHoldsButNotForEveryPeer) {
  constexpr std::uint64_t cache = 200'000;
  constexpr std::uint64_t slot = 8192;
  World world(&t(), 2, {.core_cache_bytes = cache});
  std::vector<Pipe> pipes{open_pipe(world, 0, 1, 0, 4, slot)};
  const std::uint64_t alone = send_at_random(pipes[0], slot, 20'000).span;
  EXPECT_GE(alone, 2 * cache - 2 * slot);
  const std::uint64_t slots = LinkLayout::of(4, slot).rotation_offset;
  EXPECT_LE(alone, 2 * cache + slots + 2 * slot) << "and the slots";
  for (std::uint64_t channel = 1; channel < 32; ++channel) pipes.push_back(open_pipe(world, 0, 1, channel, 4, slot));
  // Both ends' links are of one rank here only where a rank sends to itself: rank 0 has 32 links.
  EXPECT_LE(send_at_random(pipes[31], slot, 20'000).span, 8 * cache / 16 + slots + 2 * slot);
}

/// The words that become one more than the number of each of the next messages, there and back in turn.
std::set<const unsigned char*> headers_in_turn(World& world, int messages, std::uint64_t bytes) {
  const std::array pipes{open_pipe(world, 0, 1, 5, 4, 8192), open_pipe(world, 1, 0, 5, 4, 8192)};
  std::set<const unsigned char*> words;
  for (int n = 0; n < messages; ++n) {
    for (const Pipe& pipe : pipes) EXPECT_TRUE(try_send(t(), pipe.sender, static_cast<std::uint64_t>(n), bytes));
    for (const Pipe& pipe : pipes) {
      tutti_link_state state{};
      EXPECT_EQ(t().link_state(pipe.receiver, &state), TUTTI_LINK_OK);
      if (n >= 8) words.insert(state.arrived);
      EXPECT_TRUE(try_receive(t(), pipe.receiver, static_cast<std::uint64_t>(n), bytes)) << n;
    }
  }
  // Who runs ahead then has its credit at once, and as many as there are headers once nothing lies in the way.
  auto next = static_cast<std::uint64_t>(messages);
  for (const std::uint64_t least : {std::uint64_t{4}, std::uint64_t{LinkLayout::of(4, 8192).headers}}) {
    std::uint64_t ahead = 0;
    while (try_send(t(), pipes[0].sender, next + ahead, 8)) ++ahead;
    EXPECT_GE(ahead, least);
    for (; ahead != 0; --ahead) EXPECT_TRUE(try_receive(t(), pipes[0].receiver, next++, 8));
  }
  return words;
}

TEST(ShmLink, GoesThroughFewHeadersWhereMessagesComeInTurn) {
  // Of both directions, 32 lines each where that is more than 4 headers.
  const std::vector<std::pair<std::uint64_t, std::size_t>> most = {{0, 64},  {8, 64},  {24, 64},  {41, 32},  {64, 32},
                                                                   {65, 22}, {512, 8}, {1024, 8}, {1025, 8}, {8192, 8}};
  for (const auto& [bytes, headers] : most) {
    for (const int messages : {9, 50, 51, 52, 200}) {
      SCOPED_TRACE(std::to_string(messages) + " of " + std::to_string(bytes) + " bytes");
      World world(&t(), 2);
      const std::size_t seen = headers_in_turn(world, messages, bytes).size();
      EXPECT_LE(seen, headers);
      if (messages >= 50) {
        EXPECT_EQ(seen, headers) << "and no fewer";
      }
    }
  }
  World world(&t(), 2);
  EXPECT_GT(headers_in_turn(world, 200, 40).size(), 100u) << "these leave no room to tell what was released";
}

/// One direction of a channel that is closed and opened anew time and again.
struct Direction {
  Pipe pipe{};
  std::uint64_t first = 0;  ///< message of this opening
  std::uint64_t sent = 0, taken = 0;
};

std::uint64_t any_length(std::uint64_t n) {
  std::mt19937_64 of_message(n);
  constexpr std::array<std::uint64_t, 4> kLongest{kTellingBytes, kInlineBytes, kShortBytes, 3 * kLeastTuned};
  return of_message() % (kLongest[of_message() % kLongest.size()] + 1);
}

TEST(ShmLink, BelievesWhatIsToldOfItsOwnOpeningOnly) {
  for (const std::uint32_t slots : {1u, 2u, 3u, 4u, 9u, 70u}) {
    SCOPED_TRACE(std::to_string(slots) + " slots");
    World world(&t(), 2, {.core_cache_bytes = 100'000});
    std::mt19937_64 random(slots);
    std::array<Direction, 2> directions;
    for (int d = 0; d < 2; ++d) {
      directions[static_cast<std::size_t>(d)].pipe = open_pipe(world, d, 1 - d, 2, slots, 3 * kLeastTuned);
    }
    for (int i = 0; i < 20'000 && !testing::Test::HasFailure(); ++i) {
      const auto which = static_cast<std::size_t>(random() % 2);
      Direction& d = directions[which];
      if (random() % 500 == 0) {
        t().close_link(d.pipe.sender);
        t().close_link(d.pipe.receiver);
        d.first = d.sent = d.taken = d.first + 1'000'000;
        d.pipe = open_pipe(world, static_cast<int>(which), 1 - static_cast<int>(which), 2, slots, 3 * kLeastTuned);
      } else if (random() % 2 == 0) {
        const bool sent = try_send(t(), d.pipe.sender, d.sent, any_length(d.sent));
        EXPECT_TRUE(sent || d.sent - d.taken >= slots)
            << d.sent - d.taken << " are under way; " << failure_of(t(), d.pipe.sender);
        d.sent += sent ? 1 : 0;
      } else if (d.taken < d.sent) {
        EXPECT_TRUE(try_receive(t(), d.pipe.receiver, d.taken, any_length(d.taken))) << d.taken;
        ++d.taken;
      }
    }
  }
}

TEST(ShmLink, WritesNextWhereItHasReadLast) {
  World world(&t(), 2);
  constexpr std::uint64_t bytes = kShortBytes + 1;
  const std::array pipes{open_pipe(world, 0, 1, 5, 4, 8192), open_pipe(world, 1, 0, 5, 4, 8192)};
  std::array<std::set<const void*>, 2> rooms;
  std::array<const void*, 2> read{};
  for (std::uint64_t n = 0; n < 100; ++n) {
    for (const int d : {0, 1}) {
      const Pipe& pipe = pipes[static_cast<std::size_t>(d)];
      const void* const room = room_of(t(), pipe.sender, bytes, fingerprint_of(n));
      rooms[static_cast<std::size_t>(d)].insert(room);
      // The message from there, in the same memory as this rank has it, came before: every second one of ours lies there.
      if (n % 2 == 1) {
        EXPECT_EQ(room, read[static_cast<std::size_t>(d)]) << n;
      }
      ASSERT_TRUE(try_send(t(), pipe.sender, n, bytes));
    }
    for (const int d : {0, 1}) {
      tutti_message message{};
      ASSERT_EQ(t().view(pipes[static_cast<std::size_t>(d)].receiver, &message), TUTTI_LINK_OK);
      read[static_cast<std::size_t>(1 - d)] = message.data;
      ASSERT_TRUE(try_receive(t(), pipes[static_cast<std::size_t>(d)].receiver, n, bytes));
    }
  }
  for (const std::set<const void*>& of_rank : rooms) EXPECT_EQ(of_rank.size(), 2u);
}

TEST(ShmLink, KeepsOneSlotOfASenderToWhomNothingComesBack) {
  World world(&t(), 2);
  constexpr std::uint64_t bytes = 5000;
  const std::array pipes{open_pipe(world, 0, 1, 5, 4, 8192), open_pipe(world, 1, 0, 5, 4, 8192)};
  std::set<const void*> rooms;
  for (std::uint64_t n = 0; n < 100; ++n) {
    rooms.insert(room_of(t(), pipes[0].sender, bytes, fingerprint_of(n)));
    ASSERT_TRUE(try_send(t(), pipes[0].sender, n, bytes));
    ASSERT_TRUE(try_receive(t(), pipes[0].receiver, n, bytes));
  }
  EXPECT_LE(rooms.size(), 5u) << "as many as may be under way, and that one";
}

TEST(ShmLink, BreaksWhereEverySlotIsSaidToBeKept) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, 8192);
  auto& control = *reinterpret_cast<LinkControl*>(const_cast<unsigned char*>(pipe.receiving.arrived) - kPage);
  const std::uint32_t places = LinkLayout::of(4, 8192).places;
  for (std::uint64_t n = 0; n < 4; ++n) {
    ASSERT_TRUE(try_send(t(), pipe.sender, n, 5000));
    ASSERT_TRUE(try_receive(t(), pipe.receiver, n, 5000));
  }
  for (std::uint32_t slot = 0; slot < places; ++slot) control.kept_slots[slot] = slot;
  control.retained = std::uint64_t{places} + 1;
  for (std::uint64_t n = 4; n < 8; ++n) {  // more than there are: not believed
    ASSERT_TRUE(try_send(t(), pipe.sender, n, 5000));
    ASSERT_TRUE(try_receive(t(), pipe.receiver, n, 5000));
  }
  control.retained = places;
  EXPECT_FALSE(try_send(t(), pipe.sender, 8, 5000));
  EXPECT_NE(failure_of(t(), pipe.sender).find("kept all slots"), std::string::npos) << failure_of(t(), pipe.sender);
}

TEST(ShmLink, LetsNobodyHarmOthersByWhatHeTells) {
  for (const std::uint64_t nonsense :
       {std::uint64_t{0}, std::uint64_t{11}, std::uint64_t{5000}, UINT64_MAX, UINT64_MAX / 2}) {
    World world(&t(), 2);
    const std::array pipes{open_pipe(world, 0, 1, 5, 4, 8192), open_pipe(world, 1, 0, 5, 4, 8192)};
    for (std::uint64_t n = 0; n < 1000; ++n) {
      static_cast<void>(try_send(t(), pipes[0].sender, n, 8));
      tutti_link_state state{};
      ASSERT_EQ(t().link_state(pipes[0].receiver, &state), TUTTI_LINK_OK);
      ASSERT_TRUE(try_send(t(), pipes[1].sender, n, 8));
      ASSERT_EQ(t().link_state(pipes[1].receiver, &state), TUTTI_LINK_OK);
      auto& header = *reinterpret_cast<SlotHeader*>(const_cast<unsigned char*>(state.arrived));
      header.where.credit.released = nonsense;
      ASSERT_TRUE(try_receive(t(), pipes[1].receiver, n, 8)) << "the other direction";
    }
  }
}

TEST(ShmLink, SaysWhichRoomsAreToBeFilledPastTheCachesAndTimesEachWay) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, 65'536);
  auto& control = *reinterpret_cast<LinkControl*>(const_cast<unsigned char*>(pipe.receiving.arrived) - kPage);
  int streamed = 0;
  std::array<int, kWritePolicies> told{}, taken{};
  for (std::uint64_t n = 0; n < 2000; ++n) {
    const tutti_room room = conformance::reserved(t(), pipe.sender, 65'536, fingerprint_of(n));
    ASSERT_NE(room.data, nullptr);
    EXPECT_EQ(room.flags & ~std::uint32_t{TUTTI_ROOM_NON_TEMPORAL}, 0u);
    streamed += room.flags != 0 ? 1 : 0;
    if (n < 31) {
      EXPECT_EQ(streamed, 0) << "nothing is tried before as much as the rotation area holds, 2 MiB, has been sent";
    }
    const WriteTimes before = std::to_array(control.read_ns[size_class(65'536)]);
    ASSERT_TRUE(try_send(t(), pipe.sender, n, 65'536));
    const WriteTimes between = std::to_array(control.read_ns[size_class(65'536)]);
    ASSERT_TRUE(try_receive(t(), pipe.receiver, n, 65'536));
    const WriteTimes after = std::to_array(control.read_ns[size_class(65'536)]);
    for (std::size_t f = 0; f < kWritePolicies; ++f) {
      taken[f] += before[f] != 0 && between[f] == 0 ? 1 : 0;
      told[f] += between[f] == 0 && after[f] != 0 ? 1 : 0;
    }
    if (n < 255) {
      EXPECT_EQ(told[1], 0) << "the room itself is not before eight times that";
    } else if (n == 255) {
      EXPECT_GE(streamed, 2) << "what needs none is";
    }
  }
  EXPECT_GE(streamed, 2) << "tried at least";
  for (std::size_t f = 0; f < kWritePolicies; ++f) {
    EXPECT_GE(told[f], 1) << f << ": the receiver tells what its part took";
    EXPECT_GE(taken[f], 1) << f << ": and the sender takes it away";
  }
}

TEST(ShmLink, BreaksWhereAPulledMessageLiesOutsideItsRegion) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
  conformance::FileMemory memory(8192);
  tutti_region region{};
  ASSERT_EQ(register_file(t(), world[0].get(), memory.data(), memory.bytes(), memory.fd(), &region), TUTTI_SUCCESS);
  EXPECT_EQ(register_file(t(), world[0].get(), memory.data(), 1 << 20, memory.fd(), &region), TUTTI_INVALID_ARGUMENT)
      << "the file is shorter";
  ASSERT_EQ(t().offer(pipe.sender, &region, memory.data(), 8192, 0), TUTTI_LINK_OK);
  header_of(pipe).where.reference.offset = 1;
  tutti_message message{};
  EXPECT_EQ(t().view(pipe.receiver, &message), TUTTI_LINK_BROKEN);
  EXPECT_NE(failure_of(t(), pipe.receiver).find("region of 8192"), std::string::npos) << failure_of(t(), pipe.receiver);
}

// A sender may write into its header at any time, between two looks, too.
TEST(ShmLink, BreaksWhereAPulledMessageGrowsWhileItIsRead) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
  const RegisteredFile source(world, 0, 8192);
  ASSERT_EQ(t().offer(pipe.sender, &source.region, source.memory.data(), 100, 0), TUTTI_LINK_OK);
  tutti_message message{};
  ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }));
  header_of(pipe).size_and_kind += 1 << 30;
  EXPECT_EQ(t().view(pipe.receiver, &message), TUTTI_LINK_BROKEN);
  EXPECT_NE(failure_of(t(), pipe.receiver).find("length has changed"), std::string::npos) << failure_of(t(), pipe.receiver);
}

TEST(ShmLink, RefusesToOfferWhatIsNotRegistered) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
  const Bytes loose(100);
  EXPECT_EQ(t().offer(pipe.sender, nullptr, loose.data(), loose.size(), 0), TUTTI_LINK_BROKEN);
  EXPECT_NE(failure_of(t(), pipe.sender).find("registered"), std::string::npos);
}

TEST(ShmLink, BreaksWhereTheReceiverCountsNonsense) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 2048);
  ASSERT_TRUE(try_send(t(), pipe.sender, 0, 2048));
  ASSERT_TRUE(try_send(t(), pipe.sender, 1, 2048));
  *const_cast<std::uint64_t*>(pipe.sending.reusable) = 1000;
  EXPECT_EQ(room_of(t(), pipe.sender, 2048, 0), nullptr);
  EXPECT_NE(failure_of(t(), pipe.sender).find("counts 1000"), std::string::npos) << failure_of(t(), pipe.sender);
}

TEST(ShmLink, KeepsAPulledMessageWhoseOwnerTakesItsRegionBack) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
  tutti_message message{};
  {
    conformance::FileMemory memory(8192);
    conformance::fill(memory.data(), 3, 8192);
    tutti_region region{};
    ASSERT_EQ(register_file(t(), world[0].get(), memory.data(), memory.bytes(), memory.fd(), &region), TUTTI_SUCCESS);
    ASSERT_EQ(t().offer(pipe.sender, &region, memory.data(), 8192, 0), TUTTI_LINK_OK);
    ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }));
    t().unregister_memory(world[0].get(), &region);
    for (int i = 0; i < 1000; ++i) world.progress();
  }
  EXPECT_EQ(conformance::mismatch(message.data, 3, 8192), 8192u);
  t().release(pipe.receiver);
}

constexpr std::uint64_t granted_bytes = 20'000;

/// Room of the sender's that is memory which the receiver granted.
unsigned char* reserve_granted(World& world, const Pipe& pipe, const RegisteredFile& file) {
  EXPECT_EQ(t().grant(pipe.receiver, &file.region, file.memory.data(), granted_bytes, 1), TUTTI_LINK_OK);
  for (int i = 0; i < 1000; ++i) world.progress();
  const tutti_room room = conformance::reserved(t(), pipe.sender, granted_bytes, 1);
  EXPECT_EQ(room.flags, std::uint32_t{TUTTI_ROOM_GRANTED});
  return static_cast<unsigned char*>(room.data);
}

TEST(ShmGrant, ThatIsWrittenWhenItIsTakenBackIsNotQuietUntilTheWriterIsThrough) {
  for (const bool commits : {true, false}) {
    World world(&t(), 2);
    const Pipe pipe = open_pipe(world, 0, 1, 0, 2, granted_bytes);
    const RegisteredFile file(world, 1, granted_bytes);
    EXPECT_EQ(t().quiesce(pipe.receiver), TUTTI_QUIESCED) << "nothing is granted yet";
    unsigned char* const room = reserve_granted(world, pipe, file);
    ASSERT_NE(room, nullptr);
    for (int i = 0; i < 3; ++i) {
      world.progress();
      EXPECT_EQ(t().quiesce(pipe.receiver), TUTTI_QUIESCE_NOT_YET);
    }
    room[granted_bytes - 1] = 0x11;
    if (commits) {
      EXPECT_EQ(t().commit(pipe.sender, granted_bytes, 1), TUTTI_LINK_OK);
    } else {
      EXPECT_EQ(t().quiesce(pipe.sender), TUTTI_QUIESCED);
    }
    EXPECT_EQ(t().quiesce(pipe.receiver), TUTTI_QUIESCED);
    EXPECT_EQ(quiesce_and_close(t(), pipe.receiver), TUTTI_QUIESCED);
    EXPECT_EQ(file.memory.data()[granted_bytes - 1], 0x11);
  }
}

TEST(ShmGrant, ThatIsTakenBackIsUsedByNobody) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, granted_bytes);
  const RegisteredFile file(world, 1, granted_bytes);
  ASSERT_EQ(t().grant(pipe.receiver, &file.region, file.memory.data(), granted_bytes, 1), TUTTI_LINK_OK);
  EXPECT_EQ(t().quiesce(pipe.receiver), TUTTI_QUIESCED);
  for (int i = 0; i < 1000; ++i) world.progress();
  const tutti_room room = conformance::reserved(t(), pipe.sender, granted_bytes, 1);
  ASSERT_NE(room.data, nullptr) << "there is a slot";
  EXPECT_EQ(room.flags & TUTTI_ROOM_GRANTED, 0u);
}

TEST(ShmGrant, IsQuietWhereItsWriterHasLeft) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, granted_bytes);
  const RegisteredFile file(world, 1, granted_bytes);
  ASSERT_NE(reserve_granted(world, pipe, file), nullptr);
  EXPECT_EQ(t().quiesce(pipe.receiver), TUTTI_QUIESCE_NOT_YET);
  world.drop(0);
  // Quiesced where it said so when it left, fenced where its process has ended.
  EXPECT_LE(t().quiesce(pipe.receiver), TUTTI_FENCED);
  EXPECT_LE(quiesce_and_close(t(), pipe.receiver), TUTTI_FENCED);
}

/// before: messages that come in turn first.
void replace_by_slots(std::uint64_t before) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, granted_bytes);
  const Pipe back = open_pipe(world, 1, 0, 0, 4, granted_bytes);
  for (std::uint64_t n = 0; n < before; ++n) {
    for (const Pipe* p : {&pipe, &back}) ASSERT_TRUE(try_send(t(), p->sender, n, 8));
    for (const Pipe* p : {&pipe, &back}) ASSERT_TRUE(try_receive(t(), p->receiver, n, 8));
  }
  constexpr std::uint64_t messages = 25;  // more than there are slots
  const RegisteredFile source(world, 0, messages * granted_bytes);
  const RegisteredFile target(world, 1, granted_bytes);
  for (std::uint64_t n = 0; n < messages; ++n)
    conformance::fill(source.memory.data() + n * granted_bytes, n, granted_bytes);
  const NoDescriptors none;
  std::uint64_t sent = 0, received = 0;
  const auto step = [&] {
    const auto* const from = source.memory.data() + sent * granted_bytes;
    if (sent < messages && t().offer(pipe.sender, &source.region, from, granted_bytes, sent) == TUTTI_LINK_OK) ++sent;
    if (received == 0 && sent < 3) return false;
    tutti_message message{};
    if (t().view(pipe.receiver, &message) != TUTTI_LINK_OK) return false;
    EXPECT_EQ(message.bytes, granted_bytes);
    EXPECT_EQ(message.fingerprint, received);
    EXPECT_EQ(conformance::mismatch(message.data, received, granted_bytes), granted_bytes);
    t().release(pipe.receiver);
    return ++received == messages;
  };
  ASSERT_TRUE(world.until(step)) << received << failure_of(t(), pipe.sender) << failure_of(t(), pipe.receiver);
  // The same for memory that is granted.
  ASSERT_EQ(t().grant(pipe.receiver, &target.region, target.memory.data(), granted_bytes, messages), TUTTI_LINK_OK);
  for (int i = 0; i < 1000; ++i) world.progress();
  ASSERT_TRUE(try_send(t(), pipe.sender, 0, granted_bytes));
  ASSERT_TRUE(try_receive(t(), pipe.receiver, 0, granted_bytes)) << failure_of(t(), pipe.receiver);
  EXPECT_EQ(failure_of(t(), pipe.sender), "");
}

// Another link to that peer is not open yet, and has sent nothing that could be replaced.
TEST(ShmRegion, WhoseFileDoesNotArriveIsNothingToALinkThatIsOpening) {
  World world(&t(), 2);
  // Before the peers have met, so that neither knows whom it would wake.
  tutti_link* const opening = world[0].open_sender(1, world[1].descriptor(), 7, 4, granted_bytes);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, granted_bytes);
  const RegisteredFile source(world, 0, granted_bytes);
  conformance::fill(source.memory.data(), 0, granted_bytes);
  const NoDescriptors none;
  ASSERT_EQ(t().offer(pipe.sender, &source.region, source.memory.data(), granted_bytes, fingerprint_of(0)), TUTTI_LINK_OK);
  EXPECT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, 0, granted_bytes); }));
  EXPECT_EQ(failure_of(t(), opening), "");
}

// Whoever could shorten a file could end all that have mapped it.
TEST(ShmRegion, ThatCouldShrinkIsRefused) {
  World world(&t(), 2);
  const UniqueFd file(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), 8192), 0);
  std::array<unsigned char, 1> anywhere{};
  tutti_region region{};
  EXPECT_EQ(register_file(t(), world[0].get(), anywhere.data(), 8192, file.get(), &region), TUTTI_INVALID_ARGUMENT);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_EQ(register_file(t(), world[0].get(), anywhere.data(), 8192, file.get(), &region), TUTTI_SUCCESS);
  t().unregister_memory(world[0].get(), &region);
}

// What cannot be sent is no sign that the peer has gone: without an end to it links would wait for their deadline.
TEST(ShmRegion, WhoseDescriptorIsClosedTooSoonEndsThePeerWithTheReason) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
  RegisteredFile source(world, 0, 8192);
  {
    const UniqueFd parked(::dup(source.memory.fd()));
    ::close(source.memory.fd());
    t().offer(pipe.sender, &source.region, source.memory.data(), 8192, 0);
    EXPECT_EQ(::dup2(parked.get(), source.memory.fd()), source.memory.fd());
  }
  EXPECT_TRUE(world.until([&] { return !failure_of(t(), pipe.sender).empty(); }));
  EXPECT_NE(failure_of(t(), pipe.sender).find("Bad file descriptor"), std::string::npos) << failure_of(t(), pipe.sender);
}

// The first of them are on their way when the sender learns it.
TEST(ShmRegion, WhoseFileDoesNotArriveIsReplacedBySlots) {
  for (std::uint64_t before = 0; before < 9; ++before) {
    SCOPED_TRACE(before);
    replace_by_slots(before);
  }
}

TEST(ShmRegion, WhoseFileDoesNotArriveIsNotCopiedToWhereTheNextMessageIsBeingWritten) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, granted_bytes);
  const RegisteredFile source(world, 0, granted_bytes);
  conformance::fill(source.memory.data(), 4, granted_bytes);
  ASSERT_NE(room_of(t(), pipe.sender, granted_bytes, 0), nullptr);  // and not used for a while
  for (std::uint64_t n = 0; n < 4; ++n) {
    ASSERT_TRUE(try_send(t(), pipe.sender, n, 8));
    ASSERT_TRUE(try_receive(t(), pipe.receiver, n, 8));
  }
  const NoDescriptors none;
  ASSERT_EQ(t().offer(pipe.sender, &source.region, source.memory.data(), granted_bytes, fingerprint_of(4)), TUTTI_LINK_OK);
  auto* const room = static_cast<unsigned char*>(room_of(t(), pipe.sender, granted_bytes, fingerprint_of(5)));
  ASSERT_NE(room, nullptr);
  conformance::fill(room, 5, granted_bytes);
  ASSERT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, 4, granted_bytes); }));
  EXPECT_EQ(conformance::mismatch(room, 5, granted_bytes), granted_bytes);
  ASSERT_EQ(t().commit(pipe.sender, granted_bytes, fingerprint_of(5)), TUTTI_LINK_OK);
  EXPECT_TRUE(try_receive(t(), pipe.receiver, 5, granted_bytes));
}

// It is there, though it cannot be shown yet: the memory that shall take it must not get the one behind it.
TEST(ShmRegion, WhoseFileDoesNotArriveLeavesNoGrantForTheNextMessage) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, granted_bytes);
  const RegisteredFile source(world, 0, granted_bytes);
  const RegisteredFile target(world, 1, granted_bytes);
  const NoDescriptors none;
  ASSERT_EQ(t().offer(pipe.sender, &source.region, source.memory.data(), granted_bytes, 7), TUTTI_LINK_OK);
  tutti_message message{};
  ASSERT_EQ(t().view(pipe.receiver, &message), TUTTI_LINK_NOT_YET);
  EXPECT_EQ(t().grant(pipe.receiver, &target.region, target.memory.data(), granted_bytes, 7), TUTTI_LINK_NOT_YET);
  EXPECT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }));
}

TEST(ShmRegion, ThatFitsNoSlotBreaksTheLinkWithTheReason) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
  const RegisteredFile source(world, 0, 8192);
  const NoDescriptors none;
  ASSERT_EQ(t().offer(pipe.sender, &source.region, source.memory.data(), 8192, 0), TUTTI_LINK_OK);
  ASSERT_TRUE(world.until([&] { return !failure_of(t(), pipe.sender).empty(); }));
  EXPECT_NE(failure_of(t(), pipe.sender).find("rank 1 has no free file descriptor"), std::string::npos)
      << failure_of(t(), pipe.sender);
}

// The descriptor is the caller's, and may be no file or another one as soon as the region is given up.
TEST(ShmRegion, ThatIsGivenUpBeforeItWasAnnouncedLeavesNothingBehind) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4096, 64);
  const conformance::FileMemory memory(8192);
  conformance::fill(memory.data(), 1, 8192);
  std::uint64_t offered = 0;
  const auto offer = [&](const conformance::FileMemory& file, tutti_region& region) {
    region = {};
    EXPECT_EQ(register_file(t(), world[0].get(), file.data(), file.bytes(), file.fd(), &region), TUTTI_SUCCESS);
    return t().offer(pipe.sender, &region, file.data(), 8192, 0) == TUTTI_LINK_OK;
  };
  std::list<tutti_region> regions(1);
  // The receiver makes no progress: at some time the socket holds no more.
  for (; offer(memory, regions.back()); ++offered) {
    ASSERT_LT(offered, 4000u);
    regions.emplace_back();
  }
  {
    const conformance::FileMemory brief(8192);
    tutti_region given_up{};
    EXPECT_FALSE(offer(brief, given_up));
    t().unregister_memory(world[0].get(), &given_up);
  }
  for (std::uint64_t n = 0; n <= offered; ++n) {
    if (n == offered) {
      ASSERT_TRUE(
          world.until([&] { return t().offer(pipe.sender, &regions.back(), memory.data(), 8192, 0) == TUTTI_LINK_OK; }));
    }
    tutti_message message{};
    ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }, 5 * conformance::kSecond))
        << n << " of " << offered << failure_of(t(), pipe.receiver);
    EXPECT_EQ(conformance::mismatch(message.data, 1, 8192), 8192u);
    t().release(pipe.receiver);
  }
  for (tutti_region& region : regions) t().unregister_memory(world[0].get(), &region);
}

/// A connection to an endpoint's listening socket.
UniqueFd knock(const Bytes& descriptor) {
  near::LocalAddress address;
  std::memcpy(&address, descriptor.data(), sizeof address);
  auto socket = connect_to(address.socket());
  EXPECT_TRUE(socket.ok());
  return socket.ok() ? std::move(*socket) : UniqueFd();
}

// Who knocks and cannot be let in must not keep a rank from sleeping.
TEST(ShmEndpoint, SleepsThoughNobodyCanBeLetIn) {
  World world(&t(), 2);
  const UniqueFd stranger = knock(world[1].descriptor());
  pollfd events{t().event_fd(world[1].get()), POLLIN, 0};
  {
    const NoDescriptors none;
    t().arm(world[1].get(), 1);
    t().progress(world[1].get());
    EXPECT_EQ(::poll(&events, 1, 0), 0);
  }
  const std::array<char, 4096> nonsense{'n', 'o'};
  ASSERT_EQ(::send(stranger.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL), std::ssize(nonsense));
  char answer[256];
  const auto is_shown_out = [&] {
    const ssize_t n = ::recv(stranger.get(), answer, sizeof answer, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  };
  EXPECT_TRUE(world.until(is_shown_out)) << "it is let in later, and found to be a stranger";
}

// Whose peers could never come in learns why, and not at last that they are late.
TEST(ShmEndpoint, ThatCanLetNobodyInBreaksLinksThatWaitForTheirPeer) {
  World world(&t(), 2);
  const UniqueFd knocking = knock(world[0].descriptor());
  tutti_link* const link = world[0].open_receiver(1, world[1].descriptor(), 0, 2, 64);
  const NoDescriptors none;
  EXPECT_TRUE(world.until([&] { return !failure_of(t(), link).empty(); }));
  EXPECT_NE(failure_of(t(), link).find("no free file descriptor for a peer's connection"), std::string::npos)
      << failure_of(t(), link);
}

int entries(const char* folder) {
  DIR* const dir = ::opendir(folder);
  if (dir == nullptr) return 0;
  int count = 0;
  while (::readdir(dir) != nullptr) ++count;
  ::closedir(dir);
  return count;
}

TEST(ShmEndpoint, LeavesNoFileAndNoDescriptor) {
  {
    World warm_up(&t(), 1);
  }
  const int files = entries("/proc/self/fd");
  for (int lap = 0; lap < 3; ++lap) {
    World world(&t(), 3);
    open_pipe(world, 0, 1, 0, 2, 64);
    open_pipe(world, 2, 1, 0, 2, 1 << 20);
    tutti_link* const waiting = world[0].open_sender(2, world[2].descriptor(), 9, 2, 64);
    EXPECT_NE(waiting, nullptr);
  }
  EXPECT_EQ(entries("/proc/self/fd"), files);
}

}  // namespace
}  // namespace tutti::shm
