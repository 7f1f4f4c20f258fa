#include "tools/doctor/values.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "src/base/addresses.h"
#include "src/base/descriptor.h"
#include "src/communicator/known_transports.h"
#include "src/program/exit_code.h"
#include "src/selection/select.h"

namespace tutti::doctor {
namespace {

/// Why the value is refused; empty where it is not. The library's words.
using Refusal = std::string (*)(const Settings&);

std::string sentence(const Status& status) {
  return status.ok() ? "" : program::one_sentence(status.error().message, status.error().remedy);
}

std::string refuse_plugin_path(const Settings& settings) {
  return sentence(known_transports(settings.plugin_path).refusal);
}

std::string refuse_transports(const Settings& settings) {
  const KnownTransports known = known_transports(settings.plugin_path);
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
  if (settings.secret_file.empty() || !settings.secret.empty()) return "";
  const auto refused = [&](const std::string& why) {
    return fmt::format("TUTTI_SECRET_FILE=\"{}\" {}; name a file that holds the key, or set TUTTI_SECRET",
                       settings.secret_file, why);
  };
  const Descriptor file(::open(settings.secret_file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about{};
  if (!file || ::fstat(file.get(), &about) != 0) return refused(fmt::format("cannot be read: {}", std::strerror(errno)));
  if (S_ISDIR(about.st_mode)) return refused(fmt::format("cannot be read: {}", std::strerror(EISDIR)));
  // What a pipe holds is for the program that is meant.
  if (!S_ISREG(about.st_mode)) return "";
  constexpr std::size_t most = 64 * 1024;
  std::string secret(most + 1, '\0');
  const ssize_t n = ::read(file.get(), secret.data(), secret.size());
  if (n < 0) return refused(fmt::format("cannot be read: {}", std::strerror(errno)));
  secret.resize(static_cast<std::size_t>(n));
  if (secret.size() > most) return refused("holds more than 64 KiB");
  return secret.find_first_not_of("\r\n") == std::string::npos ? refused("is empty") : "";
}

struct ValueCheck {
  std::string_view setting;
  Refusal refuse;
};
constexpr std::array<ValueCheck, 5> kChecks = {{
    {"TUTTI_PLUGIN_PATH", refuse_plugin_path},
    {"TUTTI_TRANSPORTS", refuse_transports},
    {"TUTTI_ALGORITHM", refuse_algorithm},
    {"TUTTI_INTERFACE", refuse_interface},
    {"TUTTI_SECRET_FILE", refuse_secret_file},
}};

}  // namespace

std::vector<SettingRow> checked_settings() {
  const Settings settings = tolerant_settings(nullptr);
  std::vector<SettingRow> rows = describe_settings(nullptr);
  for (SettingRow& row : rows) {
    for (const ValueCheck& check : kChecks) {
      if (row.problem.empty() && row.name == check.setting) row.problem = check.refuse(settings);
    }
  }
  return rows;
}

}  // namespace tutti::doctor
