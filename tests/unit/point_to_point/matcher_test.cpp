// Receives and messages meet in order, whichever comes first.
#include "src/point_to_point/matcher.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace tutti {
namespace {

ActiveTransfer receive_from(int peer, std::uint64_t tag, std::uint64_t id) {
  ActiveTransfer active;
  active.transfer.peer = peer;
  active.transfer.tag = tag;
  active.id = id;
  return active;
}

UnexpectedMessage::Owner message_from(int source, std::uint64_t tag, std::uint64_t id) {
  return UnexpectedMessage::make({id, 0, tag, MessageKind::eager, TUTTI_UINT8}, source, nullptr, {});
}

TEST(Matcher, TheReceiveThatWasPostedFirstTakesAMessage) {
  std::array<ActiveTransfer, 3> receives = {receive_from(TUTTI_ANY_SOURCE, 5, 1), receive_from(2, 5, 2),
                                            receive_from(TUTTI_ANY_SOURCE, 5, 3)};
  Matcher matcher;
  for (ActiveTransfer& receive : receives) matcher.post(receive);
  EXPECT_EQ(matcher.take_receive(2, 4), nullptr);
  EXPECT_EQ(matcher.take_receive(2, 5), &receives[0]);
  EXPECT_EQ(matcher.take_receive(2, 5), &receives[1]);
  EXPECT_EQ(matcher.take_receive(1, 5), &receives[2]);
  EXPECT_EQ(matcher.take_receive(1, 5), nullptr);
}

TEST(Matcher, AReceiveTakesTheMessageThatCameFirst) {
  Matcher matcher;
  matcher.keep(message_from(1, 5, 10));
  matcher.keep(message_from(2, 5, 11));
  matcher.keep(message_from(1, 5, 12));
  const Transfer from_two = receive_from(2, 5, 1).transfer;
  const Transfer from_any = receive_from(TUTTI_ANY_SOURCE, 5, 1).transfer;
  EXPECT_EQ(matcher.take_message(from_two)->trailer.id, 11U);
  EXPECT_EQ(matcher.take_message(from_two), nullptr);
  EXPECT_EQ(matcher.take_message(from_any)->trailer.id, 10U);
  EXPECT_EQ(matcher.take_message(from_any)->trailer.id, 12U);
  EXPECT_FALSE(matcher.has_messages());
}

TEST(Matcher, AReceiveThatIsPostedAgainHasItsPlaceByItsNumber) {
  std::array<ActiveTransfer, 4> receives = {receive_from(1, 5, 1), receive_from(1, 5, 2),
                                            receive_from(TUTTI_ANY_SOURCE, 5, 3), receive_from(1, 5, 4)};
  Matcher matcher;
  for (ActiveTransfer& receive : receives) matcher.post(receive);
  EXPECT_EQ(matcher.take_receive(1, 5), &receives[0]);
  EXPECT_EQ(matcher.take_receive(1, 5), &receives[1]);
  EXPECT_EQ(matcher.take_receive(1, 5), &receives[2]);
  for (const std::size_t r : {1, 2, 0}) matcher.post_again(receives[r]);
  matcher.remove(receives[1]);
  for (const std::size_t r : {0, 2, 3}) EXPECT_EQ(matcher.take_receive(1, 5), &receives[r]);
  EXPECT_EQ(matcher.take_receive(1, 5), nullptr);
}

TEST(Matcher, AMessageInTheMiddleOfItsLineIsTakenOut) {
  Matcher matcher;
  for (const std::uint64_t id : {10, 11, 12}) matcher.keep(message_from(1, 5, id));
  const auto is = [](std::uint64_t id) { return [id](const UnexpectedMessage& each) { return each.trailer.id == id; }; };
  EXPECT_EQ(matcher.take_message({5, 1}, is(13)), nullptr);
  EXPECT_EQ(matcher.take_message({5, 2}, is(11)), nullptr);
  EXPECT_EQ(matcher.take_message({5, 1}, is(11))->trailer.id, 11U);
  const Transfer from_any = receive_from(TUTTI_ANY_SOURCE, 5, 1).transfer;
  EXPECT_EQ(matcher.take_message(from_any)->trailer.id, 10U);
  EXPECT_EQ(matcher.take_message(from_any)->trailer.id, 12U);
  EXPECT_FALSE(matcher.has_messages());
}

TEST(Matcher, ForgetsReceivesAndMessages) {
  ActiveTransfer receive = receive_from(1, 5, 1);
  Matcher matcher;
  matcher.post(receive);
  matcher.keep(message_from(1, 6, 10));
  matcher.forget_receives();
  matcher.forget_messages();
  EXPECT_EQ(matcher.take_receive(1, 5), nullptr);
  EXPECT_FALSE(matcher.has_messages());
}

}  // namespace
}  // namespace tutti
