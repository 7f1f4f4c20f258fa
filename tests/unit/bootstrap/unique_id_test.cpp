#include "src/bootstrap/unique_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::HasSubstr;

UniqueIdContents some_identity() {
  UniqueIdContents contents;
  contents.key = random_key();
  contents.addresses.push_back(SocketAddress::v4(std::array<unsigned char, 4>{10, 0, 0, 1}, 4242));
  contents.addresses.push_back(SocketAddress::v6(std::array<unsigned char, 16>{0x20, 1, 0x0d, 0xb8}, 4242));
  return contents;
}

TEST(UniqueIdContents, HoldsTheKeyAndTheAddresses) {
  const UniqueIdContents contents = some_identity();
  const auto back = unpack_unique_id(pack_unique_id(contents));
  ASSERT_TRUE(back.ok()) << back.status().text();
  EXPECT_EQ(back->key, contents.key);
  EXPECT_EQ(back->addresses, contents.addresses);
}

TEST(UniqueIdContents, KeepsTheFirstAddressesWhereNotAllFit) {
  UniqueIdContents contents = some_identity();
  for (unsigned char i = 0; i < 40; ++i) {
    contents.addresses.push_back(SocketAddress::v4(std::array<unsigned char, 4>{10, 0, 1, i}, 4242));
  }
  const auto back = unpack_unique_id(pack_unique_id(contents));
  ASSERT_TRUE(back.ok()) << back.status().text();
  ASSERT_GE(back->addresses.size(), 4u);
  for (std::size_t i = 0; i < back->addresses.size(); ++i) EXPECT_EQ(back->addresses[i], contents.addresses[i]);
}

TEST(UniqueIdContents, PrintsAndReadsBack) {
  const tutti_unique_id id = pack_unique_id(some_identity());
  const std::string text = id_to_text(id);
  EXPECT_EQ(text.size() + 1, static_cast<std::size_t>(TUTTI_UNIQUE_ID_TEXT));
  const auto back = id_from_text("  " + text + "\n");
  ASSERT_TRUE(back.ok()) << back.status().text();
  EXPECT_TRUE(std::equal(std::begin(id.bytes), std::end(id.bytes), std::begin(back->bytes)));
}

TEST(UniqueIdContents, SaysWhatIsWrongWithAText) {
  const std::string text = id_to_text(pack_unique_id(some_identity()));
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

TEST(UniqueIdContents, RefusesZeros) {
  EXPECT_THAT(unpack_unique_id(tutti_unique_id{}).status().text(), HasSubstr("no unique id"));
}

}  // namespace
}  // namespace tutti
