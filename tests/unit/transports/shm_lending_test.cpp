// Slots that are written next by whoever has read them (layout.h): that none is written while it is read, none is lost, and
// none goes with the link that it came from.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include "tests/conformance/world.h"
#include "tests/unit/transports/shm_world.h"
#include "transports/shm/layout.h"

namespace tutti::shm {
namespace {

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

constexpr std::uint64_t bytes = 5000;
constexpr std::uint64_t slot_bytes = 8192;

const tutti_transport& t() { return *transport(); }

void close(const Pipe& pipe) {
  t().close_link(pipe.sender);
  t().close_link(pipe.receiver);
}

/// Message n of `pipe`, there and read; whether it was.
bool pass(const Pipe& pipe, std::uint64_t n, std::uint64_t length = bytes) {
  return try_send(t(), pipe.sender, n, length) && try_receive(t(), pipe.receiver, n, length);
}

bool open_both(World& world, tutti_link* one, tutti_link* other) {
  tutti_link_state state{};
  return world.until(
      [&] { return t().link_state(one, &state) == TUTTI_LINK_OK && t().link_state(other, &state) == TUTTI_LINK_OK; });
}

LinkControl& control_of(const Pipe& pipe) {
  return *reinterpret_cast<LinkControl*>(const_cast<unsigned char*>(pipe.receiving.arrived) - kPage);
}

int mappings_of_links() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("tutti-link") != std::string::npos;
  return count;
}

// As many slots are away as can be: those of the peer's messages, the one that it writes and the one that it has kept. Ours
// are the one that we write, and those of messages that were to be pulled and have to be copied.
TEST(ShmLending, LeavesASlotForEveryMessageThatCouldNotBePulled) {
  constexpr std::uint32_t slots = 4;
  constexpr std::uint64_t longest = 20'000;
  World world(&t(), 2);
  const Pipe there = open_pipe(world, 0, 1, 0, slots, longest);
  const Pipe back = open_pipe(world, 1, 0, 0, slots, longest);
  const RegisteredFile source(world, 0, longest);
  conformance::fill(source.memory.data(), 1, longest);
  std::uint64_t n = 0;
  for (; n < slots; ++n) {
    ASSERT_TRUE(pass(there, n, longest));
    ASSERT_TRUE(try_send(t(), back.sender, n, longest));
  }
  ASSERT_TRUE(pass(there, n++, longest));
  ASSERT_TRUE(try_receive(t(), back.receiver, 0, longest));
  ASSERT_NE(room_of(t(), back.sender, longest, fingerprint_of(slots)), nullptr);
  ASSERT_TRUE(pass(there, n++, longest));
  ASSERT_NE(room_of(t(), there.sender, longest, fingerprint_of(n)), nullptr);
  const NoDescriptors none;
  for (std::uint32_t i = 0; i < slots; ++i) {
    ASSERT_EQ(t().offer(there.sender, &source.region, source.memory.data(), longest, fingerprint_of(1)), TUTTI_LINK_OK);
  }
  for (std::uint32_t i = 0; i < slots; ++i) {
    ASSERT_TRUE(world.until([&] { return try_receive(t(), there.receiver, 1, longest); })) << failure_of(t(), there.sender);
  }
  EXPECT_EQ(failure_of(t(), there.sender), "");
}

TEST(ShmLending, ASlotOfWhatCouldNotBePulledIsFreeAgain) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, slot_bytes);
  for (std::uint64_t n = 0; n < 30; ++n) {
    const RegisteredFile source(world, 0, bytes);
    conformance::fill(source.memory.data(), n, bytes);
    const NoDescriptors none;
    ASSERT_EQ(t().offer(pipe.sender, &source.region, source.memory.data(), bytes, fingerprint_of(n)), TUTTI_LINK_OK) << n;
    ASSERT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, n, bytes); })) << failure_of(t(), pipe.sender);
  }
}

TEST(ShmLending, MemoryOutlivesItsLinkForAReceiverThatOpensLater) {
  World world(&t(), 2);
  const Pipe there = open_pipe(world, 0, 1, 0, 4, slot_bytes);
  tutti_link* const back = world[1].open_sender(0, world[0].descriptor(), 0, 4, slot_bytes);
  ASSERT_TRUE(pass(there, 0));
  t().close_link(there.sender);
  tutti_link* const from = world[0].open_receiver(1, world[1].descriptor(), 0, 4, slot_bytes);
  ASSERT_TRUE(open_both(world, back, from));
  ASSERT_TRUE(try_send(t(), back, 0, bytes));
  EXPECT_TRUE(try_receive(t(), from, 0, bytes)) << failure_of(t(), from);
}

TEST(ShmLending, MemoryOutlivesItsLinkAndAReceiverThatWasNeverOpen) {
  World world(&t(), 2);
  const Pipe there = open_pipe(world, 0, 1, 0, 4, slot_bytes);
  ASSERT_TRUE(try_send(t(), there.sender, 0, bytes));
  tutti_link* from = world[0].open_receiver(1, world[1].descriptor(), 0, 4, slot_bytes);
  t().close_link(there.sender);
  t().close_link(from);
  from = world[0].open_receiver(1, world[1].descriptor(), 0, 4, slot_bytes);
  tutti_link* const back = world[1].open_sender(0, world[0].descriptor(), 0, 4, slot_bytes);
  ASSERT_TRUE(open_both(world, back, from));
  ASSERT_TRUE(try_receive(t(), there.receiver, 0, bytes));
  ASSERT_TRUE(try_send(t(), back, 0, bytes));
  EXPECT_TRUE(try_receive(t(), from, 0, bytes)) << failure_of(t(), from);
}

TEST(ShmLending, WhatIsReadStaysThoughItWasNeverLent) {
  World world(&t(), 2);
  const Pipe there = open_pipe(world, 0, 1, 0, 4, slot_bytes);
  const Pipe back = open_pipe(world, 1, 0, 0, 4, slot_bytes);
  ASSERT_TRUE(try_send(t(), back.sender, 0, bytes));
  auto& header = *reinterpret_cast<SlotHeader*>(const_cast<unsigned char*>(back.receiving.arrived));
  header.where.placement = Placement::borrowed(0);  // nonsense of the peer's
  tutti_message message{};
  ASSERT_EQ(t().view(back.receiver, &message), TUTTI_LINK_OK);
  static_cast<unsigned char*>(const_cast<void*>(message.data))[0] = 77;
  close(there);
  for (int i = 0; i < 20; ++i) {  // and however often that link is opened anew, with other things in the same slot
    const Pipe again = open_pipe(world, 0, 1, 0, 4, slot_bytes);
    ASSERT_TRUE(pass(again, 3));
    close(again);
  }
  EXPECT_EQ(static_cast<const unsigned char*>(message.data)[0], 77);
  header.where.credit.serial = UINT64_MAX;
  tutti_message changed{};
  EXPECT_NE(t().view(back.receiver, &changed), TUTTI_LINK_OK);
  EXPECT_EQ(static_cast<const unsigned char*>(message.data)[0], 77);
  t().release(back.receiver);
}

TEST(ShmLending, MemoryOfFormerLinksIsGivenBack) {
  for (const bool answers : {true, false}) {
    World world(&t(), 2);
    const Pipe back = open_pipe(world, 1, 0, 0, 4, slot_bytes);
    for (std::uint64_t lap = 0; lap < 50; ++lap) {
      const Pipe there = open_pipe(world, 0, 1, 0, 4, slot_bytes);
      ASSERT_TRUE(pass(there, 0));
      ASSERT_TRUE(!answers || pass(back, lap, 8));
      close(there);
      for (int i = 0; i < 300; ++i) world.progress();
    }
    EXPECT_LE(mappings_of_links(), answers ? 4 : 12);
  }
}

TEST(ShmLending, GoesOnWhenTheBorrowingLinkIsOpenedAnew) {
  World world(&t(), 2);
  const Pipe there = open_pipe(world, 0, 1, 0, 4, slot_bytes);
  for (std::uint64_t n = 0; n < 10; ++n) {
    const Pipe back = open_pipe(world, 1, 0, 0, 4, slot_bytes);
    ASSERT_TRUE(try_send(t(), there.sender, n, bytes));
    tutti_message message{};
    ASSERT_EQ(t().view(there.receiver, &message), TUTTI_LINK_OK);
    ASSERT_TRUE(try_receive(t(), there.receiver, n, bytes));
    EXPECT_EQ(room_of(t(), back.sender, bytes, fingerprint_of(0)), message.data) << n;
    ASSERT_TRUE(pass(back, 0));
    close(back);
  }
}

// What was borrowed and is not sent is lost to its owner, who has one slot less; a second one must not be missing.
TEST(ShmLending, EndsWhereTheBorrowingLinkEndsInDebt) {
  for (const bool sent : {false, true}) {
    World world(&t(), 2);
    const Pipe there = open_pipe(world, 0, 1, 0, 4, slot_bytes);
    for (std::uint64_t n = 0; n < 40; ++n) {
      const Pipe back = open_pipe(world, 1, 0, 0, 4, slot_bytes);
      ASSERT_TRUE(pass(there, n)) << n << failure_of(t(), there.sender);
      ASSERT_NE(room_of(t(), back.sender, bytes, fingerprint_of(0)), nullptr);
      ASSERT_TRUE(!sent || try_send(t(), back.sender, 0, bytes));
      close(back);
    }
  }
}

TEST(ShmLending, TheLendersMemoryIsGivenBackWhenItsSlotIsSent) {
  World world(&t(), 2);
  const Pipe there = open_pipe(world, 0, 1, 0, 4, slot_bytes);
  const Pipe back = open_pipe(world, 1, 0, 0, 4, slot_bytes);
  ASSERT_TRUE(pass(there, 0));
  ASSERT_NE(room_of(t(), back.sender, bytes, fingerprint_of(0)), nullptr);
  close(there);
  EXPECT_EQ(mappings_of_links(), 4) << "those of the link that is left, and of the other one at both ends";
  for (std::uint64_t n = 0; n < 20; ++n) ASSERT_TRUE(pass(back, n));
  EXPECT_EQ(mappings_of_links(), 3) << "what was lent might still come, for all its owner knows";
}

// Else the peer would look for the message in the memory of the link that is the lender now.
TEST(ShmLending, SendsNothingInASlotOfALenderThatHasGoneWhereItHasNoneItself) {
  World world(&t(), 2);
  const Pipe there = open_pipe(world, 0, 1, 0, 4, slot_bytes);
  const Pipe back = open_pipe(world, 1, 0, 0, 4, slot_bytes);
  for (std::uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(pass(back, n));
  // The first one lies in a slot of rank 1's, which is sent again; the second one in a slot that rank 0 lends.
  for (std::uint64_t n = 0; n < 2; ++n) ASSERT_TRUE(try_send(t(), there.sender, n, bytes));
  ASSERT_TRUE(try_receive(t(), there.receiver, 0, bytes));
  for (std::uint64_t n = 4; n < 8; ++n) ASSERT_TRUE(pass(back, n));  // no credit is left: what was kept is looked up
  tutti_message message{};
  ASSERT_EQ(t().view(there.receiver, &message), TUTTI_LINK_OK);
  ASSERT_TRUE(try_receive(t(), there.receiver, 1, bytes));
  LinkControl& control = control_of(back);
  const std::uint32_t places = LinkLayout::of(4, slot_bytes).places;
  for (std::uint32_t slot = 0; slot < places; ++slot) control.kept_slots[slot] = slot;
  control.retained += places - 1;  // one of them rank 1 has not heard of yet
  ASSERT_EQ(room_of(t(), back.sender, bytes, fingerprint_of(8)), message.data);
  close(there);
  open_pipe(world, 0, 1, 0, 4, slot_bytes);
  EXPECT_EQ(t().commit(back.sender, bytes, fingerprint_of(8)), TUTTI_LINK_BROKEN);
  EXPECT_NE(failure_of(t(), back.sender).find("kept all slots"), std::string::npos) << failure_of(t(), back.sender);
  EXPECT_EQ(t().view(back.receiver, &message), TUTTI_LINK_NOT_YET);
}

// Two of a burst find slots that their sender has read last: the peer's that was kept, and its own that came home. What the
// others take is found out apart.
TEST(ShmLending, LeavesColdRoomsToThoseOfABurstThatFindNoSlotToPassOn) {
  World world(&t(), 2, {.core_cache_bytes = 30'000});
  const std::array pipes{open_pipe(world, 0, 1, 0, 4, slot_bytes), open_pipe(world, 1, 0, 0, 4, slot_bytes)};
  constexpr std::uint64_t burst = 4;
  std::array<int, burst> rotate{}, timed{}, timed_as_passed{};
  for (std::uint64_t n = 0; n < 3000; n += burst) {
    for (std::uint64_t i = 0; i < burst; ++i) {
      for (const Pipe& pipe : pipes) ASSERT_TRUE(try_send(t(), pipe.sender, n + i, bytes));
    }
    for (std::uint64_t i = 0; i < burst; ++i) {
      for (const Pipe& pipe : pipes) {
        tutti_link_state state{};
        ASSERT_EQ(t().link_state(pipe.receiver, &state), TUTTI_LINK_OK);
        const auto& header = *reinterpret_cast<const SlotHeader*>(state.arrived);
        rotate[i] += header.where.placement.is_rotated();
        if (kind_of(header.size_and_kind) == Kind::kTimed) {
          ++timed[i];
          timed_as_passed[i] += header.where.placement.policy() >= kWritePolicies;
        }
        ASSERT_TRUE(try_receive(t(), pipe.receiver, n + i, bytes));
      }
    }
  }
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(rotate[i], 0) << i;
    EXPECT_GT(timed_as_passed[i], 0) << i;
    EXPECT_GE(timed_as_passed[i], timed[i] - 2) << i << ": all but the first of each direction";
  }
  for (const std::size_t i : {2, 3}) {
    EXPECT_GT(rotate[i], 0) << i << ": tried at least";
    EXPECT_GT(timed[i], 0) << i;
    EXPECT_EQ(timed_as_passed[i], 0) << i;
  }
}

TEST(ShmLending, IsNotDoneBetweenLinksOfDifferentSlots) {
  World world(&t(), 2);
  const std::array pipes{open_pipe(world, 0, 1, 0, 4, slot_bytes), open_pipe(world, 1, 0, 0, 5, slot_bytes)};
  for (std::uint64_t n = 0; n < 100; ++n) {
    for (const Pipe& pipe : pipes) {
      tutti_message message{};
      ASSERT_TRUE(try_send(t(), pipe.sender, n, bytes));
      ASSERT_EQ(t().view(pipe.receiver, &message), TUTTI_LINK_OK);
      ASSERT_TRUE(try_receive(t(), pipe.receiver, n, bytes));
      const Pipe& other = &pipe == pipes.data() ? pipes[1] : pipes[0];
      EXPECT_NE(room_of(t(), other.sender, bytes, fingerprint_of(n)), message.data);
    }
  }
  for (const Pipe& pipe : pipes) EXPECT_EQ(control_of(pipe).retained, 0u);
}

TEST(ShmLending, WhatWasKeptForALinkIsNotForOneOfOtherSlots) {
  World world(&t(), 2);
  const Pipe there = open_pipe(world, 0, 1, 0, 4, slot_bytes);
  const Pipe back = open_pipe(world, 1, 0, 0, 4, slot_bytes);
  ASSERT_TRUE(try_send(t(), there.sender, 0, bytes));
  tutti_message message{};
  ASSERT_EQ(t().view(there.receiver, &message), TUTTI_LINK_OK);
  t().release(there.receiver);
  close(back);
  const Pipe other = open_pipe(world, 1, 0, 0, 4, 2 * slot_bytes);
  EXPECT_NE(room_of(t(), other.sender, bytes, fingerprint_of(0)), message.data);
  EXPECT_TRUE(pass(other, 0));
}

TEST(ShmLending, BelievesNoSlotThatThereIsNot) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, slot_bytes);
  LinkControl& control = control_of(pipe);
  const std::uint32_t places = LinkLayout::of(4, slot_bytes).places;
  for (std::uint64_t n = 0; n < 200; ++n) {
    control.kept_slots[n % places] = n % 2 == 0 ? places : UINT32_MAX - static_cast<std::uint32_t>(n);
    ++control.retained;
    ASSERT_TRUE(pass(pipe, n)) << failure_of(t(), pipe.sender);
  }
}

/// One direction of a channel, of which each end is closed and opened at any time, and what is under way in it.
struct Sending {
  tutti_link* link = nullptr;
  std::uint64_t next = 0;  ///< opening above, message of it below
  unsigned char* room = nullptr;
};
struct Receiving {
  tutti_link* link = nullptr;
  std::uint64_t next = 0;  ///< 0: nothing has come yet
  bool held = false;
  tutti_message message{};
};

std::uint64_t any_length(std::uint64_t n) {
  std::mt19937_64 of_message(n);
  constexpr std::array<std::uint64_t, 4> longest{kInlineBytes, kShortBytes, slot_bytes, slot_bytes};
  return of_message() % (longest[of_message() % longest.size()] + 1);
}

/// Sends, holds, receives and closes at random, and looks at every byte: of what is written until it is committed, of what
/// is read until it is released.
class Model {
 public:
  /// self: both ends are one rank's. slots: of the two directions.
  Model(std::uint64_t seed, bool self, std::array<std::uint32_t, 2> slots)
      : random_(seed), world_(&t(), 2, {.core_cache_bytes = 30'000}), peer_(self ? 0 : 1), slots_(slots) {}

  void step() {
    const std::size_t d = peer_ == 0 ? 0 : random_() % 2;
    const std::uint64_t what = random_() % 1000;
    if (what < 6) {
      what < 3 ? close(sending_[d]) : close(receiving_[d]);
    } else if (what < 120) {
      what < 60 ? open(sending_[d], d) : open(receiving_[d], d);
    } else if (what < 200) {
      for (std::uint64_t i = 0; i < (what < 140 ? 260u : 1u); ++i) world_.progress();
    } else if (what < 600) {
      if (is_sound(sending_[d])) send(sending_[d]);
    } else if (is_sound(receiving_[d])) {
      receive(receiving_[d]);
    }
  }
  std::uint64_t received() const { return received_; }

 private:
  int rank_of(std::size_t d, bool sends) const { return (d == 0) == sends ? 0 : peer_; }
  bool now_and_then() { return random_() % 3 == 0; }

  template <typename End>
  void close(End& end) {
    if (end.link != nullptr) t().close_link(end.link);
    end = {};
  }
  void open(Sending& end, std::size_t d) {
    if (end.link != nullptr) return;
    const int to = rank_of(d, false);
    end = {world_[rank_of(d, true)].open_sender(to, world_[to].descriptor(), 0, slots_[d], slot_bytes), ++openings_ << 32};
  }
  void open(Receiving& end, std::size_t d) {
    if (end.link != nullptr) return;
    const int from = rank_of(d, true);
    end = {world_[rank_of(d, false)].open_receiver(from, world_[from].descriptor(), 0, slots_[d], slot_bytes)};
  }
  /// Open, and not broken, as it is when the peer's end was closed. Nobody's memory is damaged.
  template <typename End>
  bool is_sound(End& end) {
    tutti_link_state state{};
    if (end.link == nullptr || t().link_state(end.link, &state) == TUTTI_LINK_NOT_YET) return false;
    const std::string why = failure_of(t(), end.link);
    EXPECT_EQ(why.find("damaged"), std::string::npos) << why;
    if (!why.empty() && random_() % 8 == 0) close(end);
    return why.empty();
  }
  void send(Sending& end) {
    const std::uint64_t n = end.next, length = any_length(n);
    if (end.room == nullptr) {
      if (random_() % 8 == 0) static_cast<void>(room_of(t(), end.link, kShortBytes + 1, fingerprint_of(n)));
      end.room = static_cast<unsigned char*>(room_of(t(), end.link, length, fingerprint_of(n)));
      if (end.room == nullptr) return;
      conformance::fill(end.room, n, length);
    }
    if (now_and_then()) return;
    EXPECT_EQ(room_of(t(), end.link, length, fingerprint_of(n)), end.room);
    EXPECT_EQ(conformance::mismatch(end.room, n, length), length) << "of what is written";
    end.room = nullptr;
    if (t().commit(end.link, length, n) == TUTTI_LINK_OK) ++end.next;
  }
  void receive(Receiving& end) {
    if (!end.held) {
      end.held = t().view(end.link, &end.message) == TUTTI_LINK_OK;
      if (!end.held) return;
      if (end.next == 0) end.next = end.message.fingerprint;
      EXPECT_EQ(end.message.fingerprint, end.next);
    }
    ASSERT_EQ(end.message.bytes, any_length(end.next));
    EXPECT_EQ(conformance::mismatch(end.message.data, end.next, end.message.bytes), end.message.bytes);
    if (now_and_then()) return;
    t().release(end.link);
    end.held = false;
    ++end.next;
    ++received_;
  }

  std::mt19937_64 random_;
  World world_;
  const int peer_;
  const std::array<std::uint32_t, 2> slots_;
  std::array<Sending, 2> sending_;
  std::array<Receiving, 2> receiving_;
  std::uint64_t openings_ = 0;
  std::uint64_t received_ = 0;
};

// TEST_SEEDS: how many, 12 unless given; 60 were done once (docs/verification.md).
TEST(ShmLending, EveryByteIsRightWhateverIsClosedAndOpened) {
  const char* const wanted = std::getenv("TEST_SEEDS");
  const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 12;
  std::uint64_t received = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    for (const std::uint32_t slots : {1u, 2u, 4u, 14u}) {
      for (const bool self : {false, true}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << slots << " slots" << (self ? ", one rank" : ""));
        Model model(seed * 1000 + slots, self, {slots, seed % 7 == 0 ? slots + 1 : slots});
        for (int i = 0; i < 6000 && !HasFailure(); ++i) model.step();
        received += model.received();
      }
    }
  }
  EXPECT_GT(received, 1000 * seeds);
}

}  // namespace
}  // namespace tutti::shm
