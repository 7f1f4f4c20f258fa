// Out of descriptors: said as such, and nobody else is blamed.
#include "src/base/authenticated_connector.h"
#include "src/base/random.h"
#include "src/bootstrap/rendezvous_server.h"
#include "src/links/transport_set.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/world.h"

namespace tutti::test {
namespace {

TEST(Shortage, ACallerKnowsThatItIsStarvedUntilItIsNot) {
  const auto listener = listen_on("lo", 0, 0);
  Connector connector(listener->addresses, random_key(), kRendezvousPurpose, {});
  {
    const NoDescriptors none;
    EXPECT_TRUE(eventually([&] { return connector.step() || connector.starved() != 0; }));
    EXPECT_EQ(connector.starved(), EMFILE);
    EXPECT_EQ(connector.shortage(), EMFILE);
  }
  EXPECT_TRUE(eventually([&] {
    connector.step();
    return connector.shortage() == 0;
  }));
}

TEST(Shortage, ADoorKnowsWhomItTurnedAway) {
  auto listener = listen_on("lo", 0, 0);
  const SocketAddress address = listener->addresses.front();
  const Key key = random_key();
  Acceptor acceptor(std::move(listener).value(), key, kRendezvousPurpose, {});
  Connector connector({address}, key, kRendezvousPurpose, {});
  connector.step();
  {
    const NoDescriptors none;
    EXPECT_TRUE(eventually([&] {
      acceptor.step();
      return acceptor.shortage() != 0;
    }));
    EXPECT_EQ(acceptor.shortage(), EMFILE);
  }
  EXPECT_TRUE(eventually([&] {
    acceptor.step();
    return connector.step();
  }));
  EXPECT_TRUE(eventually([&] {
    acceptor.step();
    return acceptor.shortage() == 0;
  }));
}

TEST(Shortage, KeepsARankFromTheRendezvousWithThatReasonAndAtOnce) {
  const tutti_unique_id id = id_of_test();
  JoinRequest request = request_of(1, 2, 600);
  request.id = &id;
  const auto result = [&] {
    const NoDescriptors none;
    return join(request);
  }();
  EXPECT_EQ(result.status().code(), TUTTI_SYSTEM_ERROR);
  EXPECT_EQ(result.status().error().system_error, EMFILE);
}

TEST(Shortage, OfTransportsIsTheSystemsRefusal) {
  const auto opened = [] {
    const NoDescriptors none;
    return Transports::open(settings_of_test(), random_key(), 0, 2);
  }();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), TUTTI_SYSTEM_ERROR) << opened.status().text();
  EXPECT_THAT(opened.status().text(), HasSubstr("Too many open files"));
}

TEST(Shortage, OfAPeersTransportsIsToldToAll) {
  Settings settings = settings_of_test();
  settings.transports = {"tcp"};
  for (const bool refused : {true, false}) {
    auto opened = Transports::open(settings, random_key(), 0, 2);
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    ByteWriter other;  // rank 1 has another transport
    other.u32(1);
    other.text("pigeon");
    for (std::size_t traffic = 0; traffic < traffic_classes; ++traffic) other.blob({});
    other.text(refused ? "tcp: Opening an epoll descriptor failed: Too many open files" : "");
    const std::array<std::vector<std::byte>, 2> descriptions = {(*opened)->describe(), other.take()};
    View view;
    auto reach = (*opened)->reach(descriptions, view, {}, {Deadline::in(1'000'000'000)});
    ASSERT_TRUE(reach.ok()) << reach.status().text();
    const std::array<std::vector<std::byte>, 2> rows = {std::move(*reach), {}};
    const Status status = (*opened)->settle(rows, view);
    EXPECT_EQ(status.code(), refused ? TUTTI_SYSTEM_ERROR : TUTTI_UNSUPPORTED);
    EXPECT_THAT(status.text(), HasSubstr("no transport connects rank 0 and rank 1"));
    EXPECT_EQ(status.text().find("rank 1 lacks tcp: Opening an epoll descriptor failed") != std::string::npos, refused);
  }
}

}  // namespace
}  // namespace tutti::test
