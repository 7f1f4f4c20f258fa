#include "src/communicator/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::HasSubstr;

Identity some_identity() {
  Identity identity;
  identity.key = random_key();
  identity.addresses.push_back(SocketAddress::v4(std::array<unsigned char, 4>{10, 0, 0, 1}, 4242));
  identity.addresses.push_back(SocketAddress::v6(std::array<unsigned char, 16>{0x20, 1, 0x0d, 0xb8}, 4242));
  return identity;
}

TEST(Identity, HoldsTheKeyAndTheAddresses) {
  const Identity identity = some_identity();
  const auto back = unpack_identity(pack_identity(identity));
  ASSERT_TRUE(back.ok()) << back.status().text();
  EXPECT_EQ(back->key, identity.key);
  EXPECT_EQ(back->addresses, identity.addresses);
}

TEST(Identity, KeepsTheFirstAddressesWhereNotAllFit) {
  Identity identity = some_identity();
  for (unsigned char i = 0; i < 40; ++i) {
    identity.addresses.push_back(SocketAddress::v4(std::array<unsigned char, 4>{10, 0, 1, i}, 4242));
  }
  const auto back = unpack_identity(pack_identity(identity));
  ASSERT_TRUE(back.ok()) << back.status().text();
  ASSERT_GE(back->addresses.size(), 4u);
  for (std::size_t i = 0; i < back->addresses.size(); ++i) EXPECT_EQ(back->addresses[i], identity.addresses[i]);
}

TEST(Identity, PrintsAndReadsBack) {
  const tutti_unique_id id = pack_identity(some_identity());
  const std::string text = id_to_text(id);
  EXPECT_EQ(text.size() + 1, static_cast<std::size_t>(TUTTI_UNIQUE_ID_TEXT));
  const auto back = id_from_text("  " + text + "\n");
  ASSERT_TRUE(back.ok()) << back.status().text();
  EXPECT_TRUE(std::equal(std::begin(id.bytes), std::end(id.bytes), std::begin(back->bytes)));
}

TEST(Identity, SaysWhatIsWrongWithAText) {
  const std::string text = id_to_text(pack_identity(some_identity()));
  const auto complaint = [](const std::string& given) { return id_from_text(given).status().text(); };
  EXPECT_THAT(complaint(""), HasSubstr("empty"));
  EXPECT_THAT(complaint("hello"), HasSubstr("does not begin with \"tutti1:\""));
  EXPECT_THAT(complaint(text.substr(0, 200)), HasSubstr("200 characters instead of 263"));
  std::string altered = text;
  altered[50] = altered[50] == '0' ? '1' : '0';
  EXPECT_THAT(complaint(altered), HasSubstr("altered"));
  altered[50] = 'x';
  EXPECT_THAT(complaint(altered), HasSubstr("character 51 is no hexadecimal digit"));
}

TEST(Identity, RefusesZeros) { EXPECT_THAT(unpack_identity(tutti_unique_id{}).status().text(), HasSubstr("no unique id")); }

}  // namespace
}  // namespace tutti
