// The acceptor and the connector, each against the other, over sockets of the loopback interface.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/authenticated_acceptor.h"
#include "src/base/authenticated_connector.h"
#include "src/base/clock.h"
#include "src/base/random.h"

namespace tutti {
namespace {

using testing::HasSubstr;

constexpr char kPurpose[] = "a test";

std::vector<unsigned char> bytes(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<unsigned char>& bytes) { return {bytes.begin(), bytes.end()}; }

/// A listener, and where it is. Nothing comes in from within this process: it tells no address.
struct Place {
  Listener listener;
  std::vector<SocketAddress> addresses;

  Place() {
    Listener here = std::move(listen_on("lo", 0, 0)).value();
    addresses = here.addresses;
    listener.sockets = std::move(here.sockets);
  }
};

/// One side that accepts and one that connects, by the keys that each has.
class Acquaintance : public testing::Test {
 protected:
  void listen(const Key& key, AcceptorOptions options = {}) {
    acceptor_.emplace(std::move(place_.listener), key, kPurpose, bytes("from the acceptor"), std::move(options));
  }
  void connect(const Key& key, ConnectorOptions options = {}) {
    connector_.emplace(place_.addresses, key, kPurpose, bytes("from the connector"), std::move(options));
  }
  UniqueFd stranger() const { return std::move(connect_to(place_.addresses.front())).value(); }

  /// Moves both sides along until `done` says so; false where that takes 10 s.
  bool until(const std::function<bool()>& done) {
    const Deadline deadline = Deadline::in(10 * kSecond);
    while (!done()) {
      if (deadline.passed()) return false;
      for (AuthenticatedConnection& one : acceptor_->step()) accepted_.push_back(std::move(one));
      if (connector_ && !connected_) connected_ = connector_->step();
    }
    return true;
  }
  bool meet() {
    return until([&] { return connected_ && !accepted_.empty(); });
  }

  Place place_;
  std::optional<Acceptor> acceptor_;
  std::optional<Connector> connector_;
  std::vector<AuthenticatedConnection> accepted_;
  bool connected_ = false;
  const Key key_ = random_key();
};

TEST_F(Acquaintance, OfTwoWithOneKeyTellsEachWhatTheOtherSaid) {
  listen(key_);
  connect(key_);
  ASSERT_TRUE(meet());
  EXPECT_EQ(text_of(accepted_.front().payload), "from the connector");
  const AuthenticatedConnection made = connector_->take();
  EXPECT_EQ(text_of(made.payload), "from the acceptor");
  EXPECT_EQ(made.remote, place_.addresses.front());
  EXPECT_EQ(acceptor_->strangers(), 0u);
  EXPECT_FALSE(connector_->key_was_refused());
}

TEST_F(Acquaintance, WithAnotherKeyIsRefusedAndBothSidesKnowWhy) {
  std::string told;
  AcceptorOptions options;
  options.on_failure = [&](const SocketAddress& remote, const char* why) {
    EXPECT_TRUE(remote.loopback());
    told = why;
  };
  listen(key_, std::move(options));
  connect(random_key());
  ASSERT_TRUE(until([&] { return acceptor_->wrong_keys() > 1 && connector_->key_refused_since_ns() != UINT64_MAX; }));
  EXPECT_TRUE(connector_->key_was_refused());
  EXPECT_TRUE(connector_->is_unproved());
  EXPECT_NE(told, "");
  EXPECT_TRUE(accepted_.empty());
}

TEST_F(Acquaintance, MayBeginBeforeTheAcceptorHasItsKey) {
  acceptor_.emplace(std::move(place_.listener));
  connect(key_);
  ASSERT_TRUE(until([&] { return connector_->is_taken(); }));
  acceptor_->set_key(key_, kPurpose, bytes("late"));
  ASSERT_TRUE(meet());
  EXPECT_EQ(text_of(connector_->take().payload), "late");
}

TEST_F(Acquaintance, WhoStaysTooLongWithoutAKeyIsAStranger) {
  acceptor_.emplace(std::move(place_.listener));
  const UniqueFd silent = stranger();
  ASSERT_TRUE(until([&] { return acceptor_->strangers() == 1; }));
  acceptor_->set_key(key_, kPurpose, bytes("late"));
  connect(key_);
  EXPECT_TRUE(meet());
}

TEST_F(Acquaintance, IsNotKeptOutByMoreStrangersThanThereIsRoomFor) {
  AcceptorOptions options;
  options.most_pending = 4;
  listen(key_, std::move(options));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(stranger());
  ASSERT_TRUE(until([&] { return acceptor_->strangers() == 16; })) << acceptor_->strangers();
  connect(key_);
  EXPECT_TRUE(meet());
}

TEST_F(Acquaintance, OfSomebodyElseThanIsMeantTurnsTheConnectorAway) {
  listen(key_);
  ConnectorOptions options;
  options.is_meant = [](std::span<const unsigned char>) { return false; };
  connect(key_, std::move(options));
  EXPECT_TRUE(until([&] { return connector_->is_turned_away(3); }));
  EXPECT_FALSE(connected_);
}

TEST_F(Acquaintance, ThatTurnsOutToBeOfNoUseIsMadeAgainAfterAPause) {
  listen(key_);
  connect(key_);
  ASSERT_TRUE(meet());
  static_cast<void>(connector_->take());
  connected_ = false;
  connector_->reject("it has no room");
  EXPECT_THAT(connector_->explain(), HasSubstr("it has no room"));
  EXPECT_EQ(connector_->starved(), 0);
  EXPECT_FALSE(connector_->is_turned_away(1));
  EXPECT_TRUE(until([&] { return connected_ && accepted_.size() == 2; }));
}

TEST_F(Acquaintance, ThatThisProcessHasNoMemoryForIsNotThePeersFault) {
  place_.addresses.resize(1);  // what one address lacks says little where another one answers
  listen(key_);
  connect(key_);
  ASSERT_TRUE(meet());
  connector_->reject("no memory to watch it", ENOMEM);
  EXPECT_EQ(connector_->starved(), ENOMEM);
}

TEST_F(Acquaintance, WithNobodyIsToldAsRefusedForAsLongAsItLasts) {
  place_.listener.sockets.clear();
  connector_.emplace(place_.addresses, key_, kPurpose, bytes(""));
  const Deadline deadline = Deadline::in(10 * kSecond);
  while (!connector_->is_turned_away(3) && !deadline.passed()) EXPECT_FALSE(connector_->step());
  EXPECT_TRUE(connector_->is_turned_away(3));
  EXPECT_LE(connector_->refused_since_ns(), now_ns());
  EXPECT_THAT(connector_->explain(), HasSubstr("Connection refused"));
}

}  // namespace
}  // namespace tutti
