// Where messages of a link are written, without any peer: the rotation area, and the choice between it and the slots.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "src/base/memory_file.h"
#include "transports/shm/write_placement.h"

namespace tutti::shm {
namespace {

constexpr std::uint64_t slot_bytes = 8192;
constexpr LinkLayout layout = LinkLayout::of(4, slot_bytes);
constexpr std::uint64_t span = 64 << 10;

TEST(RotationArea, GivesNoRoomAgainBeforeAsManyOthersAsMayBeUnderWay) {
  RotationArea area(layout);
  area.open(span);
  ASSERT_TRUE(area.fits(size_class(slot_bytes)));
  std::mt19937 random(1);
  std::deque<std::pair<std::uint64_t, std::uint64_t>> under_way;  ///< where each begins and ends
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t bytes = kLeastTuned + random() % (slot_bytes - kLeastTuned + 1);
    const Placement at = area.take(bytes);
    ASSERT_TRUE(at.is_rotated());
    ASSERT_TRUE(layout.holds(at, bytes));
    ASSERT_LE(at.value() + bytes, layout.rotation_offset + span);
    for (const auto& [begin, end] : under_way) ASSERT_TRUE(at.value() >= end || at.value() + bytes <= begin) << i;
    under_way.emplace_back(at.value(), at.value() + bytes);
    if (under_way.size() > layout.slots) under_way.pop_front();
  }
}

TEST(RotationArea, GoesThroughAllOfItOnceBeforeItIsTouched) {
  RotationArea area(layout);
  area.open(span);
  area.open(2 * span);
  EXPECT_EQ(area.end(), span) << "decided once";
  const std::uint32_t first = area.lap(5000).messages;
  for (std::uint32_t i = 0; i <= first / 2; ++i) {
    EXPECT_FALSE(area.is_touched()) << i;
    area.take(5000);
  }
  EXPECT_TRUE(area.is_touched());
  EXPECT_EQ(area.lap(5000).messages, first / 2);
}

TEST(RotationArea, FitsNoLengthOfWhichTooFewWouldLieThere) {
  RotationArea area(layout);
  EXPECT_FALSE(area.fits(0)) << "it is not open";
  area.open(5 * slot_bytes);
  EXPECT_FALSE(area.fits(size_class(slot_bytes))) << "with what lies between rooms four and one more are longer";
  EXPECT_FALSE(area.fits(size_class(kLeastTuned))) << "as 8191 bytes are of that class";
}

/// A link's sender, whose messages are released as soon as they are sent.
struct Sender {
  Result<UniqueFd> file = create_memory("placement", layout.total);
  Result<Mapping> memory = map_memory(file->get(), 0, layout.total, true);
  ChannelPair pair;
  SenderCredit credit{layout};
  SenderSlots slots{pair, credit, layout};
  WritePlacement writing{layout, slots};
  std::uint64_t sent = 0;

  Sender() { slots.open(1, static_cast<unsigned char*>(memory->data())); }
  LinkControl& control() { return *static_cast<LinkControl*>(memory->data()); }
  /// Sends, where reading takes that long by each way; the place, without its policy.
  Placement send(std::uint64_t bytes, const WriteTimes& reading) {
    const Placement at = writing.choose(sent, bytes);
    const WrittenMessage written = writing.observe(bytes);
    if (written.timed) {
      const std::uint64_t policy = written.place.policy();
      control().read_ns[choice_of(bytes, policy >= kWritePolicies)][policy % kWritePolicies] =
          reading[policy % kWritePolicies];
    }
    if (written.compares) writing.compare(bytes, control(), span);
    ++sent;
    EXPECT_TRUE(credit.look_up(sent, sent));
    return at;
  }
};

constexpr std::uint32_t quick = 1'000'000, slow = 100'000'000;  // so that what writing takes here is nothing beside it

TEST(WritePlacement, IsTheWayThatTakesTheReceiverLeast) {
  for (const WritePolicy best : {WritePolicy::reuse_slot, WritePolicy::rotate, WritePolicy::non_temporal}) {
    Sender sender;
    WriteTimes reading{slow, slow, slow};
    reading[static_cast<std::size_t>(best)] = quick;
    for (int i = 0; i < 500; ++i) sender.send(5000, reading);
    int rotated = 0, streamed = 0;
    for (int i = 0; i < 500; ++i) {  // of which some may be another trial's
      rotated += sender.writing.choose(sender.sent, 5000).is_rotated();
      streamed += sender.writing.streams(5000);
      sender.send(5000, reading);
    }
    EXPECT_EQ(rotated > 250, best == WritePolicy::rotate);
    EXPECT_EQ(streamed > 250, best == WritePolicy::non_temporal);
  }
}

TEST(WritePlacement, StaysUntilTheMessageIsSentButForOneThatGrowsOutOfItsRoom) {
  Sender sender;
  while (!sender.writing.choose(sender.sent, 5000).is_rotated()) sender.send(5000, {slow, quick, slow});
  const Placement at = sender.writing.choose(sender.sent, 5000);
  EXPECT_EQ(sender.writing.choose(sender.sent, 4500).word, at.word);
  const Placement longer = sender.writing.choose(sender.sent, 6000);
  EXPECT_FALSE(longer.is_rotated());
  EXPECT_EQ(sender.writing.choose(sender.sent, 8000).word, longer.word);
  EXPECT_EQ(sender.send(6000, {}).word, longer.word);
  EXPECT_NE(sender.writing.choose(sender.sent, 5000).word, at.word);
}

TEST(WritePlacement, OfShortMessagesIsASlotAndIsNeverTimed) {
  Sender sender;
  for (int i = 0; i < 1000; ++i) {
    const Placement at = sender.writing.choose(sender.sent, kLeastTuned - 1);
    EXPECT_FALSE(at.is_rotated());
    EXPECT_FALSE(sender.writing.streams(kLeastTuned - 1));
    const WrittenMessage written = sender.writing.observe(kLeastTuned - 1);
    EXPECT_EQ(written.place.word, at.word);
    EXPECT_FALSE(written.timed || written.compares);
    ASSERT_TRUE(sender.credit.look_up(sender.sent + 1, sender.sent + 1));
    ++sender.sent;
  }
}

TEST(ReadTimer, LeavesTheLeastTimeUntilItIsTakenAway) {
  std::uint32_t least = 1;
  ReadTimer timer;
  EXPECT_FALSE(timer.is_running());
  for (const std::uint32_t known : {1u, 0u}) {
    least = known;
    timer.start(least, kLeastTuned);
    EXPECT_TRUE(timer.is_running());
    timer.stop();
    EXPECT_FALSE(timer.is_running());
    EXPECT_GE(least, 1u);
    EXPECT_TRUE(known == 0 || least == known);
  }
}

}  // namespace
}  // namespace tutti::shm
