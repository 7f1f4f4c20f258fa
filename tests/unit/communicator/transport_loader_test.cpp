#include "src/links/transport_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const TransportList& transports) {
  std::vector<std::string> out;
  for (const tutti_transport* transport : transports) out.emplace_back(transport->name);
  return out;
}

/// Folders of plugins, removed at the end.
class Folders : public testing::Test {
 protected:
  Folders() : root_(std::filesystem::path(testing::TempDir()) / ("tutti_known_transports_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(root_);
  }
  ~Folders() override { std::filesystem::remove_all(root_); }

  std::string folder(const std::string& name) {
    std::filesystem::create_directory(root_ / name);
    return root_ / name;
  }
  static void add_plugin(const std::string& folder, const std::string& file) {
    std::filesystem::create_symlink(TUTTI_PLUGIN, std::filesystem::path(folder) / file);
  }
  static void add_junk(const std::string& folder, const std::string& file) {
    std::ofstream(std::filesystem::path(folder) / file) << "no library";
  }

 private:
  std::filesystem::path root_;
};

TEST_F(Folders, AreSearchedInOrderAndWhatCannotBeUsedIsPassedOverWithItsReason) {
  const std::string first = folder("first");
  const std::string second = folder("second");
  add_junk(first, "z.so");
  add_plugin(first, "b.so");
  add_junk(first, "a.so");
  add_junk(first, "a.txt");
  add_plugin(second, "a.so");
  const KnownTransports known = known_transports(":" + first + "::" + second + ":");
  EXPECT_TRUE(known.refusal.ok()) << known.refusal.text();
  EXPECT_THAT(names(known.all), ElementsAre("shm", "tcp", "faulty"));
  ASSERT_EQ(known.plugins.size(), 4U);
  EXPECT_EQ(known.plugins[0].file, first + "/a.so");
  EXPECT_EQ(known.plugins[0].transport, nullptr);
  EXPECT_THAT(known.plugins[0].why, HasSubstr(first + "/a.so"));
  EXPECT_EQ(known.plugins[1].file, first + "/b.so");
  EXPECT_EQ(known.plugins[1].transport, known.all.back());
  EXPECT_EQ(known.plugins[1].why, "");
  EXPECT_EQ(known.plugins[2].file, first + "/z.so");
  EXPECT_EQ(known.plugins[3].file, second + "/a.so");
  EXPECT_EQ(known.plugins[3].transport, nullptr);
  EXPECT_EQ(known.plugins[3].why, "there is a transport \"faulty\" already");
}

TEST_F(Folders, ThatCannotBeReadEndTheSearchAndAreNamed) {
  const std::string good = folder("good");
  add_plugin(good, "a.so");
  const KnownTransports known = known_transports("/nosuch:" + good);
  EXPECT_EQ(known.refusal.code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(known.refusal.text(), HasSubstr("TUTTI_PLUGIN_PATH names the folder \"/nosuch\", which cannot be read: "));
  EXPECT_THAT(names(known.all), ElementsAre("shm", "tcp"));
  EXPECT_THAT(names(known_transports(good + ":/nosuch").all), ElementsAre("shm", "tcp", "faulty"));
}

TEST_F(Folders, MayHoldSharedObjectsWithoutATransportWhichArePassedOver) {
  const std::string one = folder("one");
  std::filesystem::create_symlink(TUTTI_NO_PLUGIN, one + "/library.so");
  const KnownTransports known = known_transports(one);
  ASSERT_EQ(known.plugins.size(), 1U);
  EXPECT_EQ(known.plugins[0].transport, nullptr);
  EXPECT_EQ(known.plugins[0].why, "it exports no transport of this ABI");
}

TEST(ChooseTransports, KeepsTheOrderOfTheNamesAndTakesEachOnce) {
  const TransportList all = known_transports("").all;
  const auto chosen = choose_transports(all, {"tcp", "shm", "tcp"}, "TUTTI_TRANSPORTS");
  ASSERT_TRUE(chosen.ok()) << chosen.status().text();
  EXPECT_THAT(names(*chosen), ElementsAre("tcp", "shm"));
  EXPECT_THAT(names(*choose_transports(all, {}, "TUTTI_TRANSPORTS")), ElementsAre("shm", "tcp"));
}

TEST(ChooseTransports, NamesWhatThereIsNotAndWhereItWasAskedFor) {
  const auto chosen = choose_transports(known_transports("").all, {"tcp", "pigeon"}, "config.transports");
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(chosen.status().text(),
            "config.transports names a transport \"pigeon\", which there is not. Choose from shm, tcp.");
}

/// A plugin's table as an older header has it: what came later is not there, and the bytes behind it are somebody else's.
TEST(WholeTable, HasNullForWhatAnOlderHeaderLacks) {
  struct Older {
    alignas(tutti_transport) unsigned char table[offsetof(tutti_transport, granted)];
    unsigned char others[sizeof(tutti_transport)];
  } older;
  std::memset(&older, 0x5a, sizeof older);
  tutti_transport complete{};
  complete.size = sizeof older.table;
  complete.abi = TUTTI_TRANSPORT_ABI;
  complete.name = "older";
  complete.unregister_region = [](tutti_endpoint*, tutti_region*) {};
  std::memcpy(older.table, &complete, sizeof older.table);
  const auto* const given = reinterpret_cast<const tutti_transport*>(older.table);
  const tutti_transport* const whole = whole_table(given);
  ASSERT_NE(whole, nullptr);
  EXPECT_STREQ(whole->name, "older");
  EXPECT_EQ(whole->unregister_region, complete.unregister_region);
  EXPECT_EQ(whole->granted, nullptr);
  EXPECT_EQ(whole->streams, nullptr);
  EXPECT_EQ(whole_table(given), whole);
  complete.size = sizeof complete;
  EXPECT_EQ(whole_table(&complete), &complete);
}

TEST(WholeTable, IsNoneOfAnotherAbiNorOfATableThatIsTooShort) {
  tutti_transport table{};
  table.size = sizeof table;
  EXPECT_EQ(whole_table(&table), nullptr);
  table.abi = TUTTI_TRANSPORT_ABI + 1;
  EXPECT_EQ(whole_table(&table), nullptr);
  table.abi = TUTTI_TRANSPORT_ABI;
  table.size = offsetof(tutti_transport, granted) - 1;
  EXPECT_EQ(whole_table(&table), nullptr);
  EXPECT_EQ(whole_table(nullptr), nullptr);
}

}  // namespace
}  // namespace tutti
