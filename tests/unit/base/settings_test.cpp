#include "src/base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "src/base/log.h"

extern char** environ;

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Each test starts without TUTTI_* and leaves the environment as it found it.
class SettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (std::string_view(*entry).starts_with("TUTTI_")) before_.emplace_back(*entry);
    }
    clear();
  }
  void TearDown() override {
    clear();
    for (const std::string& entry : before_) {
      setenv(entry.substr(0, entry.find('=')).c_str(), entry.substr(entry.find('=') + 1).c_str(), 1);
    }
  }
  static void clear() {
    std::vector<std::string> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (text.starts_with("TUTTI_")) names.push_back(text.substr(0, text.find('=')));
    }
    for (const std::string& name : names) unsetenv(name.c_str());
  }
  static SettingRow row(const std::string& name, const tutti_config* config = nullptr) {
    for (SettingRow& r : describe_settings(config)) {
      if (r.name == name) return r;
    }
    ADD_FAILURE() << "no setting " << name;
    return {};
  }

 private:
  std::vector<std::string> before_;
};

TEST_F(SettingsTest, DefaultsAreThePromisedOnes) {
  const auto settings = effective_settings(nullptr);
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(settings->connect_timeout_ns, 60'000'000'000u);
  EXPECT_EQ(settings->operation_timeout_ns, 300'000'000'000u);
  EXPECT_EQ(settings->idle_timeout_ns, 10'000'000'000u);
  EXPECT_TRUE(settings->record);
  EXPECT_FALSE(settings->record_dir.empty());
  EXPECT_GT(settings->record_bytes, 0u);
  EXPECT_EQ(settings->spin, Spin::adapt);
  EXPECT_EQ(settings->log, Level::warn);
  EXPECT_EQ(settings->rank, -1);
  EXPECT_EQ(settings->ranks, -1);
  EXPECT_EQ(settings->lanes, 0);
  EXPECT_EQ(settings->port_range.low, 0);
  EXPECT_THAT(settings->transports, IsEmpty());
}

TEST_F(SettingsTest, EveryNameOfTheContractIsThereWithHelpTypeAndAWellFormedDefault) {
  for (const char* name :
       {"COMM_ID", "INTERFACE", "PORT_RANGE", "TRANSPORTS", "ALGORITHM", "LANES", "CONNECT_TIMEOUT", "OPERATION_TIMEOUT",
        "LOG", "LOG_FILE", "RECORD", "PLUGIN_PATH", "MODULE_DIR", "SECRET", "SECRET_FILE"}) {
    const SettingRow r = row(std::string("TUTTI_") + name);
    EXPECT_FALSE(r.help.empty()) << name;
    EXPECT_FALSE(r.type.empty()) << name;
    EXPECT_EQ(r.origin, "default") << name;
  }
  for (const SettingRow& r : describe_settings(nullptr)) EXPECT_EQ(r.problem, "") << r.name;
}

TEST_F(SettingsTest, TheEnvironmentWinsOverTheConfigAndTheConfigOverTheDefault) {
  tutti_config config = TUTTI_CONFIG_INIT;
  EXPECT_EQ(row("TUTTI_LANES", &config).origin, "default");
  config.lanes = 3;
  config.transports = "tcp, shm";
  config.connect_timeout_ns = 1500;
  config.spin = -1;
  auto settings = effective_settings(&config);
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(settings->lanes, 3);
  EXPECT_THAT(settings->transports, ElementsAre("tcp", "shm"));
  EXPECT_EQ(settings->connect_timeout_ns, 1500u);
  EXPECT_EQ(settings->spin, Spin::never);
  EXPECT_EQ(row("TUTTI_LANES", &config).origin, "config");

  setenv("TUTTI_LANES", "5", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  setenv("TUTTI_CONNECT_TIMEOUT", "2m", 1);
  setenv("TUTTI_SPIN", "always", 1);
  settings = effective_settings(&config);
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(settings->lanes, 5);
  EXPECT_THAT(settings->transports, ElementsAre("shm"));
  EXPECT_EQ(settings->connect_timeout_ns, 120'000'000'000u);
  EXPECT_EQ(settings->spin, Spin::always);
  EXPECT_EQ(row("TUTTI_LANES", &config).origin, "environment");
  EXPECT_EQ(row("TUTTI_LANES", &config).value, "5");
}

TEST_F(SettingsTest, AChildInheritsWhatNeitherTheEnvironmentNorItsConfigSays) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.lanes = 3;
  config.reproducible = 1;
  config.transports = "tcp";
  config.operation_timeout_ns = 400;
  const auto parent = effective_settings(&config);
  ASSERT_TRUE(parent.ok()) << parent.status().text();
  tutti_config own = TUTTI_CONFIG_INIT;
  own.name = "child";
  own.lanes = 2;
  setenv("TUTTI_OPERATION_TIMEOUT", "9s", 1);
  const auto child = effective_settings(&own, &*parent);
  ASSERT_TRUE(child.ok()) << child.status().text();
  EXPECT_EQ(child->lanes, 2) << "its own config";
  EXPECT_TRUE(child->reproducible) << "the parent's";
  EXPECT_THAT(child->transports, ElementsAre("tcp"));
  EXPECT_EQ(child->transports_place, "config.transports");
  EXPECT_EQ(child->operation_timeout_ns, 9'000'000'000u) << "the environment";
  EXPECT_EQ(child->connect_timeout_ns, 60'000'000'000u) << "the parent's, which is the default";
}

TEST_F(SettingsTest, AnEmptyVariableCountsAsUnset) {
  setenv("TUTTI_LANES", "", 1);
  EXPECT_EQ(row("TUTTI_LANES").origin, "default");
  setenv("TUTTI_LOG", "  ", 1);
  EXPECT_EQ(row("TUTTI_LOG").value, "warn");
}

TEST_F(SettingsTest, AConfigOfAnOlderCallerIsReadNoFurtherThanItsSize) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.lanes = 7;
  config.transports = "tcp";
  config.size = offsetof(tutti_config, lanes);
  const auto settings = effective_settings(&config);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->lanes, 0) << "beyond the caller's struct";
  EXPECT_THAT(settings->transports, ElementsAre("tcp")) << "within the caller's struct";
}

TEST_F(SettingsTest, DurationsTakeUnits) {
  struct Case {
    const char* text;
    std::uint64_t ns;
  };
  for (const Case c : {Case{"30", 30'000'000'000},
                       {"30s", 30'000'000'000},
                       {"500ms", 500'000'000},
                       {"2m", 120'000'000'000},
                       {"1h", 3'600'000'000'000},
                       {"7us", 7'000},
                       {"9ns", 9},
                       {"0.5", 500'000'000},
                       {"1.5 s", 1'500'000'000}}) {
    setenv("TUTTI_IDLE_TIMEOUT", c.text, 1);
    const auto settings = effective_settings(nullptr);
    ASSERT_TRUE(settings.ok()) << c.text << ": " << settings.status().text();
    EXPECT_EQ(settings->idle_timeout_ns, c.ns) << c.text;
  }
}

TEST_F(SettingsTest, WhatIsPrintedIsReadBackAsTheSameValue) {
  for (const char* text : {"1ns", "1001ns", "12us", "1500ms", "60s", "3600s"}) {
    setenv("TUTTI_IDLE_TIMEOUT", text, 1);
    EXPECT_EQ(row("TUTTI_IDLE_TIMEOUT").value, text);
  }
  setenv("TUTTI_RECORD_BYTES", "1.5K", 1);
  EXPECT_EQ(row("TUTTI_RECORD_BYTES").value, "1536");
  setenv("TUTTI_RECORD_BYTES", "64K", 1);
  EXPECT_EQ(row("TUTTI_RECORD_BYTES").value, "64K");
  setenv("TUTTI_PORT_RANGE", "5000", 1);
  EXPECT_EQ(row("TUTTI_PORT_RANGE").value, "5000-5000");
}

TEST_F(SettingsTest, MalformedValuesAreRefusedByNameValueAndForm) {
  struct Case {
    const char* name;
    const char* value;
    const char* form;
  };
  for (const Case c : {Case{"TUTTI_CONNECT_TIMEOUT", "3x", "500ms"},
                       {"TUTTI_CONNECT_TIMEOUT", "-3", "above 0"},
                       {"TUTTI_CONNECT_TIMEOUT", "0", "above 0"},
                       {"TUTTI_CONNECT_TIMEOUT", "1e3", "above 0"},
                       {"TUTTI_CONNECT_TIMEOUT", "inf", "above 0"},
                       {"TUTTI_CONNECT_TIMEOUT", "nan", "above 0"},
                       {"TUTTI_CONNECT_TIMEOUT", "99999999999999", "above 0"},
                       {"TUTTI_LANES", "many", "1 to 64"},
                       {"TUTTI_LANES", "65", "1 to 64"},
                       {"TUTTI_LANES", "4 5", "1 to 64"},
                       {"TUTTI_LANES", "99999999999999999999", "1 to 64"},
                       {"TUTTI_PORT_RANGE", "9-5", "LOW-HIGH"},
                       {"TUTTI_PORT_RANGE", "0-5", "LOW-HIGH"},
                       {"TUTTI_PORT_RANGE", "70000", "LOW-HIGH"},
                       {"TUTTI_PORT_RANGE", "5-", "LOW-HIGH"},
                       {"TUTTI_TRANSPORTS", "shm,,tcp", "commas"},
                       {"TUTTI_TRANSPORTS", "shm,", "commas"},
                       {"TUTTI_TORUS", "4x", "16x16"},
                       {"TUTTI_TORUS", "4x0", "16x16"},
                       {"TUTTI_TORUS", "4*4", "16x16"},
                       {"TUTTI_TORUS", "99999999999x2", "16x16"},
                       {"TUTTI_LOG", "loud", "trace"},
                       {"TUTTI_RECORD", "maybe", "yes"},
                       {"TUTTI_SPIN", "2", "never"},
                       {"TUTTI_RANK", "-1", "TUTTI_RANKS"},
                       {"TUTTI_RANKS", "0", "at least 1"},
                       {"TUTTI_RECORD_BYTES", "4X", "4M"}}) {
    clear();
    setenv(c.name, c.value, 1);
    const auto settings = effective_settings(nullptr);
    ASSERT_FALSE(settings.ok()) << c.name << "=" << c.value;
    EXPECT_EQ(settings.status().code(), TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(settings.status().text(), HasSubstr(c.name));
    EXPECT_THAT(settings.status().text(), HasSubstr(c.value));
    EXPECT_THAT(settings.status().text(), HasSubstr(c.form)) << c.name << "=" << c.value;
    EXPECT_THAT(row(c.name).problem, HasSubstr(c.value));
  }
}

TEST_F(SettingsTest, ValuesThatAreTooLargeAreCalledThat) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"TUTTI_LANES", "65"},
                                                        {"TUTTI_LANES", "99999999999999999999"},
                                                        {"TUTTI_CONNECT_TIMEOUT", "99999999999999"},
                                                        {"TUTTI_RECORD_BYTES", "9999999999G"},
                                                        {"TUTTI_PORT_RANGE", "1-70000"},
                                                        {"TUTTI_RANK", "2147483648"}}) {
    clear();
    setenv(name, value, 1);
    EXPECT_THAT(effective_settings(nullptr).status().text(), HasSubstr(std::string(value) + "\", which is too large"))
        << name;
  }
}

TEST_F(SettingsTest, ValuesThatAreTooSmallAreCalledThat) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"TUTTI_LANES", "-1"},
                                                        {"TUTTI_LANES", "-99999999999999999999"},
                                                        {"TUTTI_RANK", "-4"},
                                                        {"TUTTI_RANKS", "0"},
                                                        {"TUTTI_CONNECT_TIMEOUT", "-3"},
                                                        {"TUTTI_IDLE_TIMEOUT", "0"},
                                                        {"TUTTI_RECORD_BYTES", "-4M"},
                                                        {"TUTTI_PORT_RANGE", "0-5"}}) {
    clear();
    setenv(name, value, 1);
    EXPECT_THAT(effective_settings(nullptr).status().text(), HasSubstr(std::string(value) + "\", which is too small"))
        << name;
  }
  clear();
  tutti_config config = TUTTI_CONFIG_INIT;
  config.lanes = -1;
  EXPECT_THAT(effective_settings(&config).status().text(), HasSubstr("config.lanes is \"-1\", which is too small"));
}

TEST_F(SettingsTest, TheSourceOfTheTransportsIsKnown) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = "pigeon";
  EXPECT_EQ(effective_settings(&config)->transports_place, "config.transports");
  setenv("TUTTI_TRANSPORTS", "pigeon", 1);
  EXPECT_EQ(effective_settings(&config)->transports_place, "TUTTI_TRANSPORTS");
}

TEST_F(SettingsTest, AMalformedFieldOfTheConfigIsNamedAsSuch) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.lanes = -4;
  EXPECT_THAT(effective_settings(&config).status().text(), HasSubstr("config.lanes is \"-4\""));
  config = TUTTI_CONFIG_INIT;
  config.spin = 9;
  EXPECT_THAT(effective_settings(&config).status().text(), HasSubstr("config.spin is \"9\""));
}

TEST_F(SettingsTest, TheToleratedFormFallsBackToTheDefaultOfTheMalformedSettingAlone) {
  setenv("TUTTI_LANES", "many", 1);
  setenv("TUTTI_LOG", "info", 1);
  const Settings settings = tolerant_settings(nullptr);
  EXPECT_EQ(settings.lanes, 0);
  EXPECT_EQ(settings.log, Level::info);
}

TEST_F(SettingsTest, ASecretIsNeverPrinted) {
  setenv("TUTTI_SECRET", "swordfish", 1);
  EXPECT_EQ(row("TUTTI_SECRET").value, "(set)");
  EXPECT_EQ(effective_settings(nullptr)->secret, "swordfish");
  unsetenv("TUTTI_SECRET");
  EXPECT_EQ(row("TUTTI_SECRET").value, "");
}

TEST_F(SettingsTest, AnIdIsASecretAndAnAddressIsNone) {
  setenv("TUTTI_COMM_ID", "tutti1:0123456789abcdef", 1);
  EXPECT_EQ(row("TUTTI_COMM_ID").value, "(set)");
  setenv("TUTTI_COMM_ID", "id:tutti1:0123456789abcdef", 1);
  EXPECT_EQ(row("TUTTI_COMM_ID").value, "(set)");
  setenv("TUTTI_COMM_ID", "tcp://node7:29500", 1);
  EXPECT_EQ(row("TUTTI_COMM_ID").value, "tcp://node7:29500");
}

TEST_F(SettingsTest, AnUnknownVariableThatResemblesNoneIsNamedAlone) {
  setenv("TUTTI_NONSENSE", "1", 1);
  setenv("TUTTI_X", "1", 1);
  for (const std::string& sentence : unknown_settings()) EXPECT_THAT(sentence, testing::Not(HasSubstr("Did you mean")));
}

TEST_F(SettingsTest, AnUnknownVariableIsNamedWithTheNearestSetting) {
  EXPECT_THAT(unknown_settings(), IsEmpty());
  setenv("TUTTI_TRANSPORT", "tcp", 1);
  setenv("TUTTI_CONECT_TIMEOUT", "3", 1);
  setenv("TUTTI_LANES", "3", 1);
  EXPECT_THAT(unknown_settings(),
              ElementsAre(testing::AllOf(HasSubstr("TUTTI_CONECT_TIMEOUT "), HasSubstr("TUTTI_CONNECT_TIMEOUT?")),
                          testing::AllOf(HasSubstr("TUTTI_TRANSPORT "), HasSubstr("TUTTI_TRANSPORTS?"))));
}

TEST_F(SettingsTest, RecordingsGoToTheTemporaryFolderUnlessToldOtherwise) {
  const char* before = getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  setenv("TMPDIR", "/elsewhere", 1);
  EXPECT_EQ(effective_settings(nullptr)->record_dir, "/elsewhere/tutti-" + std::to_string(getuid()));
  unsetenv("TMPDIR");
  EXPECT_EQ(effective_settings(nullptr)->record_dir, "/tmp/tutti-" + std::to_string(getuid()));
  setenv("TUTTI_RECORD_DIR", "/given", 1);
  EXPECT_EQ(effective_settings(nullptr)->record_dir, "/given");
  if (!kept.empty()) setenv("TMPDIR", kept.c_str(), 1);
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(Log, WritesOneWholeLinePerCallFromManyThreadsAndOnlyWhatIsEnabled) {
  const std::string pattern = testing::TempDir() + "tutti_log_test_%p";
  const std::string path = testing::TempDir() + "tutti_log_test_" + std::to_string(getpid());
  unlink(path.c_str());
  ASSERT_TRUE(set_log(Level::info, pattern).ok());
  EXPECT_TRUE(log_enabled(Level::info));
  EXPECT_FALSE(log_enabled(Level::debug));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i) {
        log(Level::info, "two\nlines");
        log(Level::debug, "not written");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(set_log(Level::warn, "").ok());
  const std::vector<std::string> lines = lines_of(path);
  EXPECT_EQ(lines.size(), 200u);
  for (const std::string& line : lines) EXPECT_THAT(line, testing::EndsWith(" info: two lines"));
  unlink(path.c_str());
}

TEST(Log, AFileThatCannotBeOpenedIsAnErrorThatNamesIt) {
  const Status status = set_log(Level::warn, "/no/such/folder/log");
  EXPECT_EQ(status.code(), TUTTI_SYSTEM_ERROR);
  EXPECT_THAT(status.text(), HasSubstr("/no/such/folder/log"));
}

}  // namespace
}  // namespace tutti
