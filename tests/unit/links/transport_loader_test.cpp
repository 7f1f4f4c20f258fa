#include "src/links/transport_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/links/transport_set.h"

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

TEST_F(Folders, OfTheLibrarysModulesAreSearchedFirstAndNeedNotBeThere) {
  const std::string modules = folder("tutti");
  add_plugin(modules, "libtutti_kernels.so");  // another kind of module
  EXPECT_THAT(known_transports("", modules).plugins, testing::IsEmpty());
  add_plugin(modules, "tutti_verbs.so");
  add_junk(modules, "tutti_junk.so");
  const std::string plugins = folder("plugins");
  add_plugin(plugins, "a.so");
  const KnownTransports known = known_transports(plugins, modules);
  EXPECT_THAT(names(known.all), ElementsAre("shm", "tcp", "faulty"));
  ASSERT_EQ(known.plugins.size(), 3u);
  EXPECT_EQ(known.plugins[0].file, modules + "/tutti_junk.so");
  EXPECT_EQ(known.plugins[0].transport, nullptr);
  EXPECT_EQ(known.plugins[1].file, modules + "/tutti_verbs.so");
  EXPECT_NE(known.plugins[1].transport, nullptr);
  EXPECT_THAT(known.plugins[2].why, HasSubstr("already"));
  const KnownTransports none = known_transports("", modules + "/nosuch");
  EXPECT_TRUE(none.refusal.ok());
  EXPECT_THAT(names(none.all), ElementsAre("shm", "tcp"));
}

TEST_F(Folders, AreSearchedInOrderAndWhatCannotBeUsedIsPassedOverWithItsReason) {
  const std::string first = folder("first");
  const std::string second = folder("second");
  add_junk(first, "z.so");
  add_plugin(first, "b.so");
  add_junk(first, "a.so");
  add_junk(first, "a.txt");
  add_plugin(second, "a.so");
  const KnownTransports known = known_transports(":" + first + "::" + second + ":", "");
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
  const KnownTransports known = known_transports("/nosuch:" + good, "");
  EXPECT_EQ(known.refusal.code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(known.refusal.text(), HasSubstr("TUTTI_PLUGIN_PATH names the folder \"/nosuch\", which cannot be read: "));
  EXPECT_THAT(names(known.all), ElementsAre("shm", "tcp"));
  EXPECT_THAT(names(known_transports(good + ":/nosuch", "").all), ElementsAre("shm", "tcp", "faulty"));
}

TEST_F(Folders, MayHoldSharedObjectsWithoutATransportWhichArePassedOver) {
  const std::string one = folder("one");
  std::filesystem::create_symlink(TUTTI_NO_PLUGIN, one + "/library.so");
  const KnownTransports known = known_transports(one, "");
  ASSERT_EQ(known.plugins.size(), 1U);
  EXPECT_EQ(known.plugins[0].transport, nullptr);
  EXPECT_EQ(known.plugins[0].why, "it exports no tutti_transport_plugin_v4, so it is no transport");
}

TEST_F(Folders, MayHoldTransportsOfAnEarlierInterfaceWhichAreRefusedWithASentence) {
  const std::string one = folder("one");
  std::filesystem::create_symlink(TUTTI_OLD_PLUGIN, one + "/old.so");
  const KnownTransports known = known_transports(one, "");
  ASSERT_EQ(known.plugins.size(), 1U);
  EXPECT_EQ(known.plugins[0].transport, nullptr);
  EXPECT_EQ(known.plugins[0].why,
            "it is built for ABI 2 of tutti/transport.h, and this library has ABI 4; build it with this library's header");
  Settings settings;
  settings.plugin_path = one;
  settings.transports = {"old"};
  settings.transports_place = "TUTTI_TRANSPORTS";
  const std::array<unsigned char, 32> key{};
  const auto opened = Transports::open(settings, key, 0, 2);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.status().text(), HasSubstr("names a transport \"old\", which there is not; plugin " + one +
                                                "/old.so was passed over: it is built for ABI 2"));
}

TEST(ChooseTransports, KeepsTheOrderOfTheNamesAndTakesEachOnce) {
  const TransportList all = known_transports("", "").all;
  const auto chosen = choose_transports(all, {"tcp", "shm", "tcp"}, "TUTTI_TRANSPORTS");
  ASSERT_TRUE(chosen.ok()) << chosen.status().text();
  EXPECT_THAT(names(*chosen), ElementsAre("tcp", "shm"));
  EXPECT_THAT(names(*choose_transports(all, {}, "TUTTI_TRANSPORTS")), ElementsAre("shm", "tcp"));
}

TEST(ChooseTransports, NamesWhatThereIsNotAndWhereItWasAskedFor) {
  const auto chosen = choose_transports(known_transports("", "").all, {"tcp", "pigeon"}, "config.transports");
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(chosen.status().text(),
            "config.transports names a transport \"pigeon\", which there is not. Choose from shm, tcp.");
}

TEST(TableObjection, IsNoneToTheTransportsThatThereAre) {
  for (const tutti_transport* transport : known_transports("", "").all) EXPECT_EQ(table_objection(*transport), "");
}

TEST(TableObjection, NamesTheAbiAndWhatIsMissing) {
  const tutti_transport& whole = *known_transports("", "").all.front();
  tutti_transport table = whole;
  table.abi = TUTTI_TRANSPORT_ABI + 1;
  EXPECT_THAT(table_objection(table), HasSubstr("is of ABI 5 of tutti/transport.h"));
  table = whole;
  table.size -= sizeof(void*);
  EXPECT_THAT(table_objection(table), HasSubstr("build it with this library's header"));
  table = whole;
  table.quiesce = nullptr;
  EXPECT_THAT(table_objection(table), HasSubstr("lacks quiesce"));
  table = whole;
  table.unregister_memory = nullptr;
  EXPECT_THAT(table_objection(table), HasSubstr("lacks one of register_memory and unregister_memory"));
  table = whole;
  table.probe = nullptr;
  table.link_stats = nullptr;
  table.grant = nullptr;
  EXPECT_EQ(table_objection(table), "") << "these are optional";
}

}  // namespace
}  // namespace tutti
