// What wakes a receiver, what it finds, and what it refuses.
#include "transports/verbs/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tutti::verbs {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t whole = std::uint64_t{1} << count_bits;

TEST(Immediates, KeepTheirParts) {
  std::mt19937_64 random(3);
  for (int n = 0; n < 2000; ++n) {
    const auto link = static_cast<std::uint32_t>(random() % most_links);
    const auto notice = static_cast<Notice>(random() % 4);
    const std::uint64_t count = random();
    const Immediate made = Immediate::of(link, notice, count);
    const Immediate read = Immediate::unpacked(made.packed());
    EXPECT_EQ(read.link, link);
    EXPECT_EQ(read.notice, notice);
    EXPECT_EQ(read.low_count, count % whole);
  }
}

TEST(Immediates, GiveTheCountThatIsNearest) {
  std::mt19937_64 random(5);
  for (int n = 0; n < 20000; ++n) {
    const std::uint64_t expected = random() >> (random() % 60);
    const auto off = static_cast<std::int64_t>(random() % (whole - 2)) - static_cast<std::int64_t>(whole / 2 - 1);
    if (off < 0 && static_cast<std::uint64_t>(-off) > expected) continue;
    const std::uint64_t count = expected + static_cast<std::uint64_t>(off);
    ASSERT_EQ(Immediate::of(0, Notice::message, count).count_near(expected), count) << expected << " " << off;
  }
}

TEST(Immediates, NeverGiveACountBelowZero) {
  EXPECT_EQ(Immediate::of(0, Notice::message, whole - 1).count_near(0), whole - 1);
  EXPECT_EQ(Immediate::of(0, Notice::message, 0).count_near(0), 0u);
}

/// A head that is right, and what is expected.
struct Sound {
  MessageHead head;
  ExpectedHead expected;
  Sound() {
    head.sequence = 41;
    head.link = 7;
    head.life = 2;
    head.bytes = 100;
    head.released = 5;
    expected.sequence = 41;
    expected.link = 7;
    expected.life = 2;
    expected.slot_bytes = 4096;
    expected.most_bytes = 1 << 20;
    expected.sent = 9;
  }
};

TEST(Heads, ThatAreSoundAreTaken) {
  Sound sound;
  EXPECT_EQ(check_head(sound.head, sound.expected), "");
  sound.head.kind = HeadKind::in_slot;
  sound.head.bytes = 4096;
  EXPECT_EQ(check_head(sound.head, sound.expected), "");
  sound.head.kind = HeadKind::announced;
  sound.head.bytes = 1 << 20;
  EXPECT_EQ(check_head(sound.head, sound.expected), "");
  sound.head.kind = HeadKind::granted;
  sound.expected.granted_bytes = 1 << 20;
  EXPECT_EQ(check_head(sound.head, sound.expected), "");
}

template <typename Change>
std::string fault(Change change) {
  Sound sound;
  change(sound);
  return check_head(sound.head, sound.expected);
}

TEST(Heads, ThatBreakTheProtocolAreRefused) {
  EXPECT_THAT(fault([](Sound& of) { of.head.link = 8; }), HasSubstr("link 8.2 where one of 7.2"));
  EXPECT_THAT(fault([](Sound& of) { of.head.life = 1; }), HasSubstr("link 7.1 where one of 7.2"));
  EXPECT_THAT(fault([](Sound& of) { of.head.sequence = 40; }), HasSubstr("message 40 where 41 is due"));
  EXPECT_THAT(fault([](Sound& of) { of.head.released = 10; }), HasSubstr("credit for 10 messages of 9"));
  EXPECT_THAT(fault([](Sound& of) { of.head.bytes = most_short_bytes + 1; }), HasSubstr("449 bytes in a head"));
  EXPECT_THAT(fault([](Sound& of) {
                of.head.kind = HeadKind::in_slot;
                of.head.bytes = 4097;
              }),
              HasSubstr("4097 bytes in a slot of 4096"));
  EXPECT_THAT(fault([](Sound& of) { of.head.kind = HeadKind::granted; }), HasSubstr("was not granted"));
  EXPECT_THAT(fault([](Sound& of) {
                of.head.kind = HeadKind::granted;
                of.expected.granted_bytes = 99;
              }),
              HasSubstr("100 bytes into a grant of 99"));
  EXPECT_THAT(fault([](Sound& of) {
                of.head.kind = HeadKind::announced;
                of.head.bytes = UINT64_MAX;
              }),
              HasSubstr("a message of 18446744073709551615 bytes"));
  EXPECT_THAT(fault([](Sound& of) { of.head.kind = static_cast<HeadKind>(9); }), HasSubstr("a head of kind 9"));
}

TEST(ReceiveBudgets, TakeLinksUntilTheyAreFull) {
  ReceiveBudget budget(256);
  constexpr std::uint32_t window = 8;
  int pairs = 0;
  while (budget.take(ReceiveBudget::of_receiver(window) + ReceiveBudget::of_sender(window))) ++pairs;
  EXPECT_EQ(pairs, 12);  // of 20 receives each
  EXPECT_EQ(budget.taken(), 240u);
  EXPECT_FALSE(budget.take(17));
  EXPECT_TRUE(budget.take(16));
  budget.give_back(20);
  EXPECT_FALSE(budget.take(21));
  EXPECT_TRUE(budget.take(20));
  EXPECT_EQ(budget.taken(), budget.most());
}

}  // namespace
}  // namespace tutti::verbs
