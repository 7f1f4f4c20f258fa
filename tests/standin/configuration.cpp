#include "tests/standin/configuration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace standin {
namespace {

constexpr int kMostDevices = 16;

bool read_int(const std::string& text, int least, int most, int& out) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < least || value > most) return false;
  out = value;
  return true;
}

bool read_seed(const std::string& text, std::uint64_t& out) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && stop == text.data() + text.size();
}

}  // namespace

bool set_value(Configuration& configuration, const std::string& name, const std::string& value) {
  if (name == "DEVICES") return read_int(value, 0, kMostDevices, configuration.devices);
  if (name == "SMS") return read_int(value, 1, 1024, configuration.sms);
  if (name == "BLOCKS_PER_SM") return read_int(value, 1, 64, configuration.blocks_per_sm);
  if (name == "QUEUES") return read_int(value, 1, 128, configuration.queues);
  if (name == "THREADS") return read_int(value, 1, 1024, configuration.threads);
  if (name == "VERSION") return read_int(value, 0, 99999, configuration.version);
  if (name == "SEED") return read_seed(value, configuration.seed);
  if (name != "LINKS") return false;
  configuration.links = value;
  return true;
}

Configuration read_environment() {
  Configuration configuration;
  for (const char* name : {"DEVICES", "SMS", "BLOCKS_PER_SM", "QUEUES", "THREADS", "SEED", "LINKS", "VERSION"}) {
    const std::string variable = std::string("STANDIN_") + name;
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0' || set_value(configuration, name, value)) continue;
    std::fprintf(stderr, "stand-in driver: %s=%s is not understood\n", variable.c_str(), value);
  }
  return configuration;
}

bool linked(const Configuration& configuration, int one, int other) {
  if (one == other || configuration.links == "all") return true;
  if (configuration.links == "none") return false;
  const std::string pair = std::to_string(std::min(one, other)) + "-" + std::to_string(std::max(one, other));
  std::istringstream stream(configuration.links);
  for (std::string each; std::getline(stream, each, ',');) {
    if (each == pair) return true;
  }
  return false;
}

}  // namespace standin
