#include "tools/doctor/values.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/addresses.h"
#include "src/bootstrap/rendezvous_address.h"
#include "src/program/exit_code.h"
#include "src/selection/msccl_files.h"
#include "src/selection/select.h"
#include "src/selection/tuning.h"
#include "tools/doctor/verdicts.h"

namespace tutti::doctor {
namespace {

/// Why the value is refused; empty where it is not. The library's words.
using Refusal = std::string (*)(const Settings&);

std::string sentence(const Status& status) {
  return status.ok() ? "" : program::one_sentence(status.error().message, status.error().remedy);
}

std::string refuse_plugin_path(const Settings& settings) { return sentence(transports_of_library(settings).refusal); }

std::string refuse_transports(const Settings& settings) {
  const KnownTransports known = transports_of_library(settings);
  return sentence(choose_transports(known.all, settings.transports, settings.transports_place).status());
}

std::string refuse_algorithm(const Settings& settings) {
  const auto overrides = Overrides::parse(settings.algorithm);
  return overrides.ok() ? "" : "TUTTI_ALGORITHM: " + overrides.status().text();
}

std::string refuse_interface(const Settings& settings) {
  if (settings.interfaces.empty()) return "";
  const auto addresses = local_addresses(fmt::format("{}", fmt::join(settings.interfaces, ",")));
  return addresses.ok() ? "" : addresses.status().text();
}

std::string refuse_secret_file(const Settings& settings) {
  struct stat about{};
  const bool pipe = ::stat(settings.secret_file.c_str(), &about) == 0 && S_ISFIFO(about.st_mode);
  if (pipe) return "";  // what it holds is for the program that is meant
  constexpr std::uint64_t most_ns = 1'000'000'000;
  return sentence(configured_key(settings, {Deadline::in(most_ns)}).status());
}

std::string refuse_comm_id(const Settings& settings) {
  return settings.comm_id.empty() ? "" : sentence(check_comm_id(settings.comm_id));
}

std::string refuse_tuning(const Settings& settings) {
  return settings.tuning.empty() ? "" : sentence(Tuning::read(settings.tuning).status());
}

std::string refuse_msccl(const Settings& settings) { return sentence(MscclFiles::read(settings.msccl).status()); }

struct ValueCheck {
  std::string_view setting;
  Refusal refuse;
};
constexpr std::array<ValueCheck, 8> kValueChecks = {{
    {"TUTTI_PLUGIN_PATH", refuse_plugin_path},
    {"TUTTI_TRANSPORTS", refuse_transports},
    {"TUTTI_ALGORITHM", refuse_algorithm},
    {"TUTTI_TUNING", refuse_tuning},
    {"TUTTI_MSCCL", refuse_msccl},
    {"TUTTI_INTERFACE", refuse_interface},
    {"TUTTI_SECRET_FILE", refuse_secret_file},
    {"TUTTI_COMM_ID", refuse_comm_id},
}};

}  // namespace

std::vector<SettingRow> checked_settings() {
  const Settings settings = tolerant_settings(nullptr);
  std::vector<SettingRow> rows = describe_settings(nullptr);
  for (SettingRow& row : rows) {
    for (const ValueCheck& check : kValueChecks) {
      if (row.problem.empty() && row.name == check.setting) row.problem = check.refuse(settings);
    }
  }
  return rows;
}

}  // namespace tutti::doctor
