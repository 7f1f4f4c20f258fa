// Slots of a link, and slots that pass to and fro between the two links of a channel, without any peer: both ends are here.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "src/base/memory_file.h"
#include "transports/shm/channel_pair.h"

namespace tutti::shm {
namespace {

constexpr std::uint64_t slot_bytes = 8192;
constexpr LinkLayout usual = LinkLayout::of(4, slot_bytes);

/// A link's memory, and as many mappings of it as are asked for.
struct Memory {
  explicit Memory(const LinkLayout& layout = usual) : bytes(layout.total), file(create_memory("slots", bytes)) {}
  Mapping map() const {
    Result<Mapping> mapping = map_memory(file->get(), 0, bytes, true);
    return std::move(*mapping);
  }
  std::uint64_t bytes;
  Result<UniqueFd> file;
};

unsigned char* data(const Mapping& mapping) { return static_cast<unsigned char*>(mapping.data()); }

struct SlotPoolTest : testing::Test {
  const Mapping mapping = Memory().map();
  const KeptSlots kept{data(mapping), usual};
  SlotPool pool{usual};
  SlotPoolTest() { pool.open(kept); }
  std::uint32_t take_and_send(std::uint64_t message, std::uint64_t consumed) {
    const std::uint32_t slot = pool.take(consumed);
    pool.send(slot, message);
    return slot;
  }
};

TEST_F(SlotPoolTest, GivesASlotAgainOnceItsMessageIsReleased) {
  std::set<std::uint32_t> slots;
  for (std::uint64_t message = 0; message < usual.slots; ++message) slots.insert(take_and_send(message, 0));
  EXPECT_EQ(slots.size(), usual.slots) << "as long as none is released, each has its own";
  EXPECT_EQ(take_and_send(usual.slots, 1), *slots.begin());
  EXPECT_TRUE(pool.is_whole());
}

TEST_F(SlotPoolTest, GivesNoSlotThatTheReceiverKeepsUntilItIsPutBack) {
  const std::uint32_t slot = take_and_send(0, 0);
  kept.add(0, slot);
  EXPECT_FALSE(pool.is_whole());
  for (std::uint64_t message = 1; message < 100; ++message) EXPECT_NE(take_and_send(message, message), slot);
  EXPECT_FALSE(pool.has_returned());
  pool.put_back(slot);
  EXPECT_TRUE(pool.has_returned());
  EXPECT_TRUE(pool.is_whole());
  EXPECT_EQ(pool.take(100), slot) << "its lines are in this core's cache";
}

TEST_F(SlotPoolTest, BelievesNoNumberOfASlotAndNoCountThatCannotBe) {
  kept.add(0, usual.places);
  kept.add(1, UINT32_MAX);
  for (std::uint64_t message = 0; message < 20; ++message) EXPECT_LT(take_and_send(message, message), usual.places);
  reinterpret_cast<LinkControl*>(data(mapping))->retained = UINT64_MAX / 2;
  for (std::uint64_t message = 20; message < 40; ++message) EXPECT_LT(take_and_send(message, message), usual.places);
}

TEST_F(SlotPoolTest, HasNoneWhereAllAreSaidToBeKept) {
  for (std::uint64_t message = 0; message < usual.places; ++message) take_and_send(message, 0);
  for (std::uint32_t slot = 0; slot < usual.places; ++slot) kept.add(slot, slot);
  EXPECT_EQ(pool.take(usual.places), SlotPool::kNone);
}

/// One end of a channel: a link there, and a link back that reads another end's memory.
struct End {
  explicit End(const LinkLayout& sends = usual, const LinkLayout& receives = usual) : layout(sends), other(receives) {}
  void open_sender(std::uint64_t serial) {
    sending = memory.map();
    sender.open(serial, data(sending));
  }
  void open_receiver(const End& from) {
    receiving = from.memory.map();
    pair.our_credit = {from.sender.serial(), 0};
    receiver.open(from.sender.serial(), data(receiving));
  }
  void close_receiver() {
    pair.our_credit = {};
    receiver.close(std::move(receiving));
  }
  Placement send(const std::string& text) {
    const Placement at = sender.next();
    std::memcpy(sender.address(at), text.data(), text.size());
    return sender.send(sent++, text.size());
  }
  std::string view(Placement at, std::uint64_t serial, std::size_t bytes) {
    const unsigned char* const from = receiver.view(at, serial, bytes);
    return from == nullptr ? "nowhere" : std::string(reinterpret_cast<const char*>(from), bytes);
  }

  LinkLayout layout, other;
  Memory memory{layout};
  Mapping sending, receiving;
  ChannelPair pair;
  SenderCredit credit{layout};
  SenderSlots sender{pair, credit, layout};
  ReceiverSlots receiver{pair, other};
  std::uint64_t sent = 0;
};

/// Both ends open, and a message from here in a slot that the other end keeps, and writes to.
struct Ends {
  explicit Ends(const LinkLayout& back = usual) : here(usual, back), there(back, usual) {
    here.open_sender(7);
    there.open_sender(9);
    there.open_receiver(here);
    here.open_receiver(there);
    first = here.send("first");
    EXPECT_EQ(there.view(first, 0, 5), "first");
    there.receiver.release();
    here.credit.look_up(1, 1);
  }
  End here, there;
  Placement first{};
};

TEST(ChannelPair, WritesNextWhereItHasReadLastAndGivesTheSlotBack) {
  Ends ends;
  EXPECT_TRUE(ends.there.sender.is_next_recently_read());
  const Placement answer = ends.there.send("answer");
  EXPECT_TRUE(answer.is_borrowed());
  EXPECT_EQ(answer.value(), ends.first.value());
  EXPECT_FALSE(ends.here.sender.is_next_recently_read());
  EXPECT_NE(ends.here.sender.next().value(), ends.first.value());
  ends.here.send("second");
  EXPECT_EQ(ends.here.view(answer, 7, 6), "answer");
  EXPECT_TRUE(ends.here.receiver.reads_from(7));
  ends.here.receiver.release();
  EXPECT_TRUE(ends.here.sender.is_next_recently_read());
  EXPECT_EQ(ends.here.sender.next().word, ends.first.word);
}

TEST(ChannelPair, LendsNothingToALinkOfOtherSlots) {
  Ends ends(LinkLayout::of(5, slot_bytes));
  EXPECT_FALSE(ends.there.sender.is_next_recently_read());
  EXPECT_FALSE(ends.there.sender.next().is_borrowed());
  EXPECT_EQ(ends.here.view(Placement::borrowed(0), 7, 5), "nowhere");
}

TEST(ChannelPair, MovesWhatIsWrittenToASlotWhoseLenderHasGone) {
  Ends ends;
  const Placement at = ends.there.sender.next();
  ASSERT_TRUE(at.is_borrowed());
  ends.there.close_receiver();
  std::memcpy(ends.there.sender.address(at), "moved", 5);
  const Placement moved = ends.there.sender.send(0, 5);
  EXPECT_FALSE(moved.is_borrowed());
  EXPECT_EQ(ends.here.view(moved, 0, 5), "moved");
}

TEST(ChannelPair, KeepsMemoryOfALinkThatIsGoneWhileItsSlotsAreOut) {
  Ends ends;
  const Placement answer = ends.there.send("answer");
  ends.here.sender.close(true, std::move(ends.here.sending));
  ASSERT_EQ(ends.here.pair.gone.size(), 1u);
  EXPECT_EQ(ends.here.view(answer, 7, 6), "answer");
  ends.here.receiver.forget_before(8);
  EXPECT_EQ(ends.here.pair.gone.size(), 1u) << "it is being read";
  ends.here.receiver.release();
  ends.here.receiver.forget_before(7);
  EXPECT_EQ(ends.here.pair.gone.size(), 1u);
  ends.here.receiver.forget_before(8);
  EXPECT_EQ(ends.here.pair.gone.size(), 0u);
  EXPECT_EQ(ends.here.view(answer, 7, 6), "nowhere");
}

TEST(ChannelPair, LeavesNoMemoryWhereAllSlotsAreThere) {
  End here;
  here.open_sender(7);
  here.sender.close(true, std::move(here.sending));
  EXPECT_TRUE(here.pair.gone.empty());
  EXPECT_EQ(here.pair.sender, nullptr);
}

TEST(ChannelPair, KeepsNothingMoreForALinkThatEndedInDebt) {
  for (const bool owes : {true, false}) {
    Ends ends;
    if (owes) ends.there.sender.next();  // borrowed, and never sent
    ends.there.sender.close(true, std::move(ends.there.sending));
    EXPECT_EQ(ends.there.receiver.has_kept(), !owes);
    ends.there.open_sender(10);
    ends.there.view(ends.here.send("second"), 0, 6);
    ends.there.receiver.release();
    EXPECT_EQ(ends.there.receiver.has_kept(), !owes);
  }
}

}  // namespace
}  // namespace tutti::shm
