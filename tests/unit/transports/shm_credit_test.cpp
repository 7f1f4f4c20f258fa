// Credit of a sending link. No header is written while a message in it is unread, and none lies idle. Laps are short where
// messages come in turn.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "transports/shm/credit.h"

namespace tutti::shm {
namespace {

constexpr LinkLayout layout = LinkLayout::of(4, 8192);

/// A sender that goes through headers as a link does, and a receiver that has released some of its messages.
struct Sender {
  SenderCredit credit{layout};
  std::uint64_t next = 0;
  std::uint64_t header = 0;                       ///< of the next message
  std::uint64_t released = 0, told = 0;           ///< by the receiver, and as far as its messages say
  std::map<std::uint64_t, std::uint64_t> latest;  ///< message of each header

  bool may_send() const { return next < credit.inline_limit(); }
  void send(std::uint64_t bytes) {
    const auto before = latest.find(header);
    ASSERT_TRUE(before == latest.end() || before->second < released) << "message " << next << " in header " << header;
    latest[header] = next;
    const bool again = credit.wraps_early(next, bytes, told);
    header = again || header + 1 == layout.headers ? 0 : header + 1;
    if (++next, header == 0) credit.begin_lap(next);
  }
  void tell() { credit.learn(told = released, next); }
};

TEST(SenderCredit, IsEveryHeaderForShortMessagesAndEverySlotForOthers) {
  Sender sender;
  EXPECT_EQ(sender.credit.limit(), layout.slots);
  while (sender.may_send()) sender.send(8);
  EXPECT_EQ(sender.next, layout.headers) << "nobody answers";
  sender.released = layout.headers;
  ASSERT_TRUE(sender.credit.look_up(sender.released, sender.next));
  EXPECT_EQ(sender.credit.inline_limit(), sender.next + layout.headers);
  EXPECT_EQ(sender.credit.limit(), sender.next + layout.slots);
}

TEST(SenderCredit, GivesNoHeaderTwiceWhateverIsAnsweredAndWhen) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Sender sender;
    for (int i = 0; i < 20'000 && !HasFatalFailure(); ++i) {
      const unsigned what = random() % 8;
      if (what < 4 && sender.may_send()) sender.send(random() % kShortBytes);
      if (what == 4) sender.released += random() % (sender.next - sender.released + 1);
      if (what == 5 && i % 2000 > 1000) sender.released = sender.next;
      if (what == 6) sender.tell();
      if (what == 7 && !sender.may_send()) {
        ASSERT_TRUE(sender.credit.look_up(sender.released, sender.next));
      }
      for (const auto& [header, message] : sender.latest) {
        ASSERT_TRUE(message < sender.released || sender.credit.header_of(message) == header) << message;
      }
    }
    EXPECT_GT(sender.next, 4000u);
  }
}

TEST(SenderCredit, EndsLapsEarlyWhereEachMessageIsAnsweredAndOnlyThere) {
  for (const bool answers : {true, false}) {
    for (const auto& [bytes, headers] : {std::pair{8u, 32u}, {64u, 16u}, {512u, 4u}, {8192u, 4u}}) {
      Sender sender;
      for (int i = 0; i < 1000; ++i) {
        sender.send(bytes);
        sender.released = sender.next;
        ASSERT_TRUE(sender.credit.look_up(sender.released, sender.next));
        if (answers) sender.tell();
      }
      EXPECT_EQ(sender.latest.size(), answers ? headers : layout.headers) << bytes;
    }
  }
}

TEST(SenderCredit, BelievesNothingThatCannotBe) {
  Sender sender;
  for (int i = 0; i < 10; ++i) sender.send(8);
  EXPECT_TRUE(sender.credit.learn(7, sender.next));
  for (const std::uint64_t nonsense : {std::uint64_t{6}, std::uint64_t{11}, UINT64_MAX, UINT64_MAX / 2}) {
    EXPECT_FALSE(sender.credit.learn(nonsense, sender.next)) << nonsense;
    EXPECT_FALSE(sender.credit.look_up(nonsense, sender.next)) << nonsense;
    EXPECT_FALSE(sender.credit.in_turn(sender.next, nonsense)) << nonsense;
    EXPECT_EQ(sender.credit.consumed(), 7u);
  }
}

}  // namespace
}  // namespace tutti::shm
