#include "src/base/settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "src/base/dimensions.h"
#include "src/base/log.h"
#include "src/tables/units.h"

extern char** environ;

namespace tutti {
namespace {

constexpr std::string_view kPrefix = "TUTTI_";
// Not for users to set: where the tests find sample data, and what the local launcher tells its children.
constexpr std::array<std::string_view, 3> kNoSettings = {"TUTTI_SHARED", "TUTTI_LOCAL_RANK", "TUTTI_LAUNCHER_PIPE"};

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// What reading a value came to. Types without limits answer a bool.
enum class Reading { good, malformed, too_small, too_large };

Reading reading(Reading outcome) { return outcome; }
Reading reading(bool good) { return good ? Reading::good : Reading::malformed; }

template <typename T>
Reading whole_number(std::string_view text, T& out) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  if (stop != end || text.empty() || error == std::errc::invalid_argument) return Reading::malformed;
  if (error == std::errc()) return Reading::good;
  return text.front() == '-' ? Reading::too_small : Reading::too_large;
}

struct Unit {
  std::string_view name;
  double scale;
};

/// A decimal number with one of `units` (the first is the one without a name) into a whole number of the smallest unit.
template <std::size_t N>
Reading scaled_number(std::string_view text, const std::array<Unit, N>& units, std::uint64_t& out) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error == std::errc::invalid_argument || !std::isfinite(number)) return Reading::malformed;
  const std::string_view rest = trimmed(std::string_view(stop, static_cast<std::size_t>(end - stop)));
  const auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == rest; });
  if (unit == units.end()) return Reading::malformed;
  const double value = std::round(number * unit->scale);
  // 2^62 keeps sums of two times, or of a time and a deadline, within 64 bits.
  if (error == std::errc::result_out_of_range || value > 0x1p62) return Reading::too_large;
  if (!(value >= 1)) return Reading::too_small;
  out = static_cast<std::uint64_t>(value);
  return Reading::good;
}

// ---- Types: how a value is read and printed --------------------------------------------------------------------------

struct Text {
  static constexpr const char* name = "text";
  static constexpr const char* form = "any text";
  static bool parse(std::string_view text, std::string& out) {
    out = text;
    return true;
  }
  static std::string print(const std::string& value) { return value; }
};

struct Secret : Text {
  static constexpr const char* name = "secret";
  static std::string print(const std::string& value) { return value.empty() ? "" : "(set)"; }
};

/// An address is no secret. All else may be an id: whoever has one can join.
struct CommIdText : Text {
  static std::string print(const std::string& value) {
    return value.empty() || value.find("://") != std::string::npos ? value : "(set)";
  }
};

struct List {
  static constexpr const char* name = "list";
  static constexpr const char* form = "names separated by commas";
  static bool parse(std::string_view text, std::vector<std::string>& out) {
    out.clear();
    while (!text.empty()) {
      const std::size_t comma = text.find(',');
      const std::string_view item = trimmed(text.substr(0, comma));
      if (item.empty()) return false;
      out.emplace_back(item);
      if (comma == std::string_view::npos) return true;
      text.remove_prefix(comma + 1);
    }
    return out.empty();
  }
  static std::string print(const std::vector<std::string>& value) { return fmt::format("{}", fmt::join(value, ",")); }
};

template <int Low, int High>
struct Integer {
  static constexpr const char* name = "integer";
  static Reading parse(std::string_view text, int& out) {
    const Reading number = whole_number(text, out);
    if (number != Reading::good) return number;
    return out < Low ? Reading::too_small : out > High ? Reading::too_large : Reading::good;
  }
  static std::string print(int value) { return std::to_string(value); }
};
struct Lanes : Integer<0, 64> {
  static constexpr const char* form = "a whole number from 1 to 64, or 0 to let the library choose";
};
struct RankNumber : Integer<0, INT32_MAX> {
  static constexpr const char* form = "a whole number from 0 to one less than TUTTI_RANKS";
  static Reading parse(std::string_view text, int& out) {
    return text.empty() ? (out = -1, Reading::good) : Integer::parse(text, out);
  }
  static std::string print(int value) { return value < 0 ? "" : std::to_string(value); }
};
struct RankCount : RankNumber {
  static constexpr const char* form = "a whole number of at least 1";
  static Reading parse(std::string_view text, int& out) {
    const Reading number = RankNumber::parse(text, out);
    return number == Reading::good && out == 0 ? Reading::too_small : number;
  }
};

struct DeviceNumber : RankNumber {
  static constexpr const char* form = "a whole number of at least 0";
};
/// A DSCP, which has six bits (RFC 2474).
struct TrafficClassNumber : Integer<0, 63> {
  static constexpr const char* form = "a DSCP value from 1 to 63, or 0 for the system's";
};
struct Blocks : Integer<0, 65535> {
  static constexpr const char* form = "a whole number from 1 to 65535, or 0 to let the library choose";
};

struct TorusSizes {
  static constexpr const char* name = "sizes";
  static constexpr const char* form = "whole numbers of at least 1 with x between them, as 16x16 or 4x4x2";
  static bool parse(std::string_view text, std::vector<std::int32_t>& out) {
    const auto sizes = text.empty() ? std::optional(std::vector<std::int32_t>()) : parse_dimensions(text);
    out = sizes.value_or(std::vector<std::int32_t>());
    return sizes.has_value();
  }
  static std::string print(const std::vector<std::int32_t>& value) { return fmt::format("{}", fmt::join(value, "x")); }
};

struct Duration {
  static constexpr const char* name = "duration";
  static constexpr const char* form =
      "a number above 0 with ns, us, ms, s (meant where nothing stands), m or h, as 30, 500ms or 2m";
  static Reading parse(std::string_view text, std::uint64_t& out) {
    static constexpr std::array<Unit, 7> units = {
        {{"", 1e9}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
    return scaled_number(text, units, out);
  }
  static std::string print(std::uint64_t ns) { return exact_duration_text(ns); }
};

struct Bytes {
  static constexpr const char* name = "bytes";
  static constexpr const char* form =
      "a number above 0 with K, M or G (1024 and its powers), or of bytes where nothing stands, as 4M";
  static Reading parse(std::string_view text, std::uint64_t& out) {
    static constexpr std::array<Unit, 4> units = {{{"", 1}, {"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}}};
    return scaled_number(text, units, out);
  }
  static std::string print(std::uint64_t bytes) { return size_text(bytes); }
};

struct Boolean {
  static constexpr const char* name = "boolean";
  static constexpr const char* form = "1, on, true or yes, or 0, off, false or no";
  static bool parse(std::string_view text, bool& out) {
    static constexpr std::array<std::string_view, 4> yes = {"1", "on", "true", "yes"};
    static constexpr std::array<std::string_view, 4> no = {"0", "off", "false", "no"};
    out = std::find(yes.begin(), yes.end(), text) != yes.end();
    return out || std::find(no.begin(), no.end(), text) != no.end();
  }
  static std::string print(bool value) { return value ? "on" : "off"; }
};

struct PortPair {
  static constexpr const char* name = "ports";
  static constexpr const char* form = "LOW-HIGH or one port, from 1 to 65535, or any";
  static Reading parse(std::string_view text, PortRange& out) {
    if (text == "any") return out = {0, 0}, Reading::good;
    const std::size_t dash = text.find('-');
    const Reading low = whole_number(text.substr(0, dash), out.low);
    if (low != Reading::good) return low;
    out.high = out.low;
    const Reading high = dash == std::string_view::npos ? Reading::good : whole_number(text.substr(dash + 1), out.high);
    if (high != Reading::good) return high;
    if (out.low < 1) return Reading::too_small;
    return reading(out.low <= out.high);
  }
  static std::string print(PortRange value) { return value.low == 0 ? "any" : fmt::format("{}-{}", value.low, value.high); }
};

/// One of a few words.
template <typename Enum, typename Words>
struct Choice {
  static constexpr const char* name = "choice";
  static bool parse(std::string_view text, Enum& out) {
    for (const auto& [word, value] : Words::words) {
      if (text == word) return out = value, true;
    }
    return false;
  }
  static std::string print(Enum value) {
    for (const auto& [word, of_word] : Words::words) {
      if (of_word == value) return std::string(word);
    }
    return {};
  }
};
struct SpinWords {
  static constexpr std::array<std::pair<std::string_view, Spin>, 3> words = {
      {{"adapt", Spin::adapt}, {"always", Spin::always}, {"never", Spin::never}}};
};
struct SpinChoice : Choice<Spin, SpinWords> {
  static constexpr const char* form = "adapt, always or never";
};
struct MemoryWords {
  static constexpr std::array<std::pair<std::string_view, int>, 3> words = {
      {{"auto", TUTTI_MEMORY_AUTO}, {"host", TUTTI_MEMORY_HOST}, {"cuda", TUTTI_MEMORY_CUDA}}};
};
struct MemoryChoice : Choice<int, MemoryWords> {
  static constexpr const char* form = "auto, host or cuda";
};
struct LevelWords {
  static constexpr std::array<std::pair<std::string_view, Level>, 5> words = {{{"error", Level::error},
                                                                               {"warn", Level::warn},
                                                                               {"info", Level::info},
                                                                               {"debug", Level::debug},
                                                                               {"trace", Level::trace}}};
};
struct LevelChoice : Choice<Level, LevelWords> {
  static constexpr const char* form = "error, warn, info, debug or trace";
};

// ---- Fields of tutti_config, as text ---------------------------------------------------------------------------------

using FromConfig = std::optional<std::string> (*)(const tutti_config&);

/// The field if the caller's struct, whose size may be an older version's, has it.
template <auto Member>
auto field(const tutti_config& config) {
  const auto* where = reinterpret_cast<const char*>(&(config.*Member));
  const auto end = static_cast<std::size_t>(where - reinterpret_cast<const char*>(&config)) + sizeof(config.*Member);
  using Value = std::remove_cvref_t<decltype(config.*Member)>;
  return end <= config.size ? config.*Member : Value{};
}

template <auto Member>
std::optional<std::string> text_field(const tutti_config& config) {
  const char* text = field<Member>(config);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

template <auto Member>
std::optional<std::string> number_field(const tutti_config& config) {
  const auto value = field<Member>(config);
  if (value == 0) return std::nullopt;
  return std::to_string(value);
}

template <auto Member>
std::optional<std::string> nanoseconds_field(const tutti_config& config) {
  const auto text = number_field<Member>(config);
  return text ? std::optional(*text + "ns") : std::nullopt;
}

std::optional<std::string> spin_field(const tutti_config& config) {
  const int value = field<&tutti_config::spin>(config);
  if (value == 0) return std::nullopt;
  const std::string word = SpinChoice::print(static_cast<Spin>(value));
  return word.empty() ? std::to_string(value) : word;
}

std::optional<std::string> memory_field(const tutti_config& config) {
  const int value = field<&tutti_config::memory>(config);
  if (value == TUTTI_MEMORY_AUTO) return std::nullopt;
  const std::string word = MemoryChoice::print(value);
  return word.empty() ? std::to_string(value) : word;
}

/// A field counts devices from 1, since 0 is unset.
std::optional<std::string> device_field(const tutti_config& config) {
  const int value = field<&tutti_config::device>(config);
  if (value == 0) return std::nullopt;
  return std::to_string(value < 0 ? value : value - 1);  // one that no device has is told as the caller gave it
}

// ---- The table -------------------------------------------------------------------------------------------------------

struct Setting {
  const char* name;
  const char* type;
  const char* form;
  const char* fallback;
  const char* help;
  Reading (*parse)(std::string_view, Settings&);
  std::string (*print)(const Settings&);
  void (*copy)(const Settings&, Settings&);
  const char* config_name;
  FromConfig from_config;
};

template <typename Type, auto Member>
constexpr Setting setting(const char* name, const char* fallback, const char* help, const char* config_name = nullptr,
                          FromConfig from_config = nullptr) {
  return {name,
          Type::name,
          Type::form,
          fallback,
          help,
          [](std::string_view text, Settings& out) { return reading(Type::parse(text, out.*Member)); },
          [](const Settings& from) { return Type::print(from.*Member); },
          [](const Settings& from, Settings& to) { to.*Member = from.*Member; },
          config_name,
          from_config};
}

/// Its names are checked where the transports are known; the sentence then names the place.
constexpr const char* kTransports = "TUTTI_TRANSPORTS";

using S = Settings;
using C = tutti_config;
constexpr std::array kTable = {
    setting<CommIdText, &S::comm_id>(
        "TUTTI_COMM_ID", "",
        "Printed unique id, or an address (tcp://HOST:PORT, tcp://[fe80::1%eth0]:PORT, file:///PATH), that env:// "
        "joins at."),
    setting<RankNumber, &S::rank>("TUTTI_RANK", "", "This process's rank, for env://."),
    setting<RankCount, &S::ranks>("TUTTI_RANKS", "", "How many ranks there are, for env://."),
    setting<List, &S::interfaces>("TUTTI_INTERFACE", "",
                                  "Names of the network interfaces to use; all that are up where empty.",
                                  "config.interface", text_field<&C::interface>),
    setting<PortPair, &S::port_range>("TUTTI_PORT_RANGE", "any", "TCP ports to listen on."),
    setting<TrafficClassNumber, &S::traffic_class>("TUTTI_TRAFFIC_CLASS", "0",
                                                   "Class (DSCP) of the packets that carry data between machines.",
                                                   "config.traffic_class", number_field<&C::traffic_class>),
    setting<List, &S::transports>(
        kTransports, "",
        "Transports that may be used, of which each pair of ranks takes the quickest; all that are viable where empty.",
        "config.transports", text_field<&C::transports>),
    setting<Text, &S::algorithm>(
        "TUTTI_ALGORITHM", "",
        "Algorithms to use instead of the library's choice: NAME, COLLECTIVE:NAME or COLLECTIVE:FROM-TO:NAME (bytes), "
        "separated by commas, of which the first that fits a call counts.",
        "config.algorithm", text_field<&C::algorithm>),
    setting<Lanes, &S::lanes>("TUTTI_LANES", "0", "Lanes of a schedule; 0 lets the library choose.", "config.lanes",
                              number_field<&C::lanes>),
    setting<Boolean, &S::reproducible>(
        "TUTTI_REPRODUCIBLE", "off",
        "Whether sums, products and averages of floats have the same bits whatever algorithm and transport they take.",
        "config.reproducible", number_field<&C::reproducible>),
    setting<Text, &S::tuning>(
        "TUTTI_TUNING", "",
        "File of measured constants, see perf/tune, by which algorithms are chosen; built-in estimates "
        "where empty.",
        "config.tuning", text_field<&C::tuning>),
    setting<List, &S::msccl>("TUTTI_MSCCL", "",
                             "MSCCL algorithm files, each used for the calls that it is for; see docs/schedule.md.",
                             "config.msccl", text_field<&C::msccl>),
    setting<Text, &S::machine>(
        "TUTTI_MACHINE", "",
        "Name of this rank's machine, by which algorithms for several machines are chosen: ranks with other "
        "names count as being elsewhere; the machine that it runs on where empty."),
    setting<Text, &S::rack>("TUTTI_RACK", "", "Name of this machine's rack, for algorithms that cross racks seldom."),
    setting<TorusSizes, &S::torus>("TUTTI_TORUS", "",
                                   "Sizes of the torus that the ranks lie on, the last coordinate varying fastest; no "
                                   "matter to communicators of another number of ranks."),
    setting<Duration, &S::connect_timeout_ns>("TUTTI_CONNECT_TIMEOUT", "60s",
                                              "Longest time to create a communicator, or to reach a peer.",
                                              "config.connect_timeout_ns", nanoseconds_field<&C::connect_timeout_ns>),
    setting<Duration, &S::operation_timeout_ns>("TUTTI_OPERATION_TIMEOUT", "300s", "Longest time of one operation.",
                                                "config.operation_timeout_ns", nanoseconds_field<&C::operation_timeout_ns>),
    setting<Duration, &S::idle_timeout_ns>("TUTTI_IDLE_TIMEOUT", "10s", "A peer that is silent this long is lost.",
                                           "config.idle_timeout_ns", nanoseconds_field<&C::idle_timeout_ns>),
    setting<MemoryChoice, &S::memory>(
        "TUTTI_MEMORY", "auto",
        "Memory that calls are given: auto asks the CUDA driver where a program has loaded it, host never does.",
        "config.memory", memory_field),
    setting<DeviceNumber, &S::device>("TUTTI_DEVICE", "", "CUDA device of this rank; the current one where empty.",
                                      "config.device", device_field),
    setting<Blocks, &S::min_blocks>("TUTTI_MIN_BLOCKS", "0", "Fewest thread blocks that a launch on a device takes.",
                                    "config.min_blocks", number_field<&C::min_blocks>),
    setting<Blocks, &S::max_blocks>("TUTTI_MAX_BLOCKS", "0", "Most thread blocks that a launch on a device takes.",
                                    "config.max_blocks", number_field<&C::max_blocks>),
    setting<Boolean, &S::launch_order>(
        "TUTTI_LAUNCH_ORDER", "off",
        "Launches of all communicators on a device run one after another, in the order of the calls."),
    setting<SpinChoice, &S::spin>("TUTTI_SPIN", "adapt",
                                  "Whether waiting keeps the core: adapt does so while every rank has one.", "config.spin",
                                  spin_field),
    setting<LevelChoice, &S::log>("TUTTI_LOG", "warn", "How much is logged."),
    setting<Text, &S::log_file>(
        "TUTTI_LOG_FILE", "",
        "File that the log is appended to, %p being the process and %h the host; stderr where empty."),
    setting<Boolean, &S::record>("TUTTI_RECORD", "on",
                                 "Keep a flight recording, written out when an operation fails (no effect yet)."),
    setting<Text, &S::record_dir>("TUTTI_RECORD_DIR", "",
                                  "Folder of recordings; tutti-UID in TMPDIR, else in /tmp, where empty (no effect yet)."),
    setting<Bytes, &S::record_bytes>("TUTTI_RECORD_BYTES", "4M", "Most that one rank's recording takes (no effect yet)."),
    setting<Text, &S::plugin_path>("TUTTI_PLUGIN_PATH", "", "Folders with transport plugins, separated by colons."),
    setting<Text, &S::module_dir>("TUTTI_MODULE_DIR", "",
                                  "Folder of the library's own modules; tutti/ beside libtutti where empty."),
    setting<Secret, &S::secret>("TUTTI_SECRET", "", "The key that ranks prove to each other under env:// and tcp://.",
                                "config.secret", text_field<&C::secret>),
    setting<Text, &S::secret_file>("TUTTI_SECRET_FILE", "",
                                   "File that holds the key, for where TUTTI_SECRET would be seen."),
};

/// A setting's text, where it comes from, and by which name people know that place.
struct Given {
  std::string text;
  Origin origin = Origin::by_default;
  const char* place = nullptr;
};

Given given(const Setting& row, const tutti_config* config) {
  const char* in_environment = std::getenv(row.name);
  if (in_environment != nullptr && !trimmed(in_environment).empty()) {
    return {std::string(trimmed(in_environment)), Origin::by_environment, row.name};
  }
  if (config != nullptr && row.from_config != nullptr) {
    if (auto text = row.from_config(*config)) return {std::move(*text), Origin::by_config, row.config_name};
  }
  return {row.fallback, Origin::by_default, row.name};
}

Status refusal(const Setting& row, const Given& value, Reading outcome) {
  const bool is_secret = std::string_view(row.type) == Secret::name;
  const std::string why = outcome == Reading::too_large   ? "too large"
                          : outcome == Reading::too_small ? "too small"
                                                          : fmt::format("no {}", row.type);
  return Status(TUTTI_INVALID_ARGUMENT,
                fmt::format("{} is \"{}\", which is {}", value.place, is_secret ? "(set)" : value.text, why),
                fmt::format("Give {}", row.form));
}

Status apply(const Setting& row, const Given& value, Settings& out) {
  if (std::string_view(row.name) == kTransports) out.transports_place = value.place;
  const Reading outcome = row.parse(value.text, out);
  return outcome == Reading::good ? Status() : refusal(row, value, outcome);
}

/// Defaults that depend on the machine or the user, which a constant cannot say.
void resolve(Settings& settings) {
  if (!settings.record_dir.empty()) return;
  const char* temporary = std::getenv("TMPDIR");
  settings.record_dir =
      fmt::format("{}/tutti-{}", temporary != nullptr && *temporary != '\0' ? temporary : "/tmp", getuid());
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

/// " Did you mean NAME?" where a setting is so close that it is probably meant, else nothing.
std::string suggestion(std::string_view name) {
  const auto nearest = std::min_element(kTable.begin(), kTable.end(), [&](const Setting& a, const Setting& b) {
    return edit_distance(name, a.name) < edit_distance(name, b.name);
  });
  const std::size_t length = name.size() - kPrefix.size();
  const std::size_t close = std::max<std::size_t>(2, length / 4);
  const std::size_t distance = edit_distance(name, nearest->name);
  return distance <= close && distance < length ? fmt::format(" Did you mean {}?", nearest->name) : "";
}

const char* origin_name(Origin origin) {
  static constexpr std::array<const char*, 3> names = {"default", "config", "environment"};
  return names[static_cast<std::size_t>(origin)];
}

}  // namespace

Result<Settings> effective_settings(const tutti_config* config, const Settings* parent) {
  Settings settings;
  if (parent != nullptr) settings.transports_place = parent->transports_place;
  for (const Setting& row : kTable) {
    const Given value = given(row, config);
    if (parent != nullptr && value.origin == Origin::by_default) {
      row.copy(*parent, settings);
    } else if (Status status = apply(row, value, settings); !status.ok()) {
      return status;
    }
  }
  resolve(settings);
  return settings;
}

Settings tolerant_settings(const tutti_config* config) {
  Settings settings;
  for (const Setting& row : kTable) {
    if (apply(row, given(row, config), settings).ok()) continue;
    // The default is well-formed: settings_test reads the table without an environment.
    [[maybe_unused]] const Status status = apply(row, {row.fallback, Origin::by_default, row.name}, settings);
  }
  resolve(settings);
  return settings;
}

std::vector<SettingRow> describe_settings(const tutti_config* config) {
  std::vector<SettingRow> rows;
  std::vector<Given> values;
  Settings settings;
  for (const Setting& row : kTable) {
    values.push_back(given(row, config));
    const Status status = apply(row, values.back(), settings);
    rows.push_back({row.name, row.type, row.form, row.fallback, status.ok() ? "" : values.back().text,
                    origin_name(values.back().origin), row.help, status.ok() ? "" : status.text()});
  }
  resolve(settings);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].problem.empty()) rows[i].value = kTable[i].print(settings);
  }
  return rows;
}

std::vector<std::string> unknown_settings() {
  std::vector<std::string> sentences;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    if (!name.starts_with(kPrefix)) continue;
    const auto is_name = [&](const auto& known) { return name == known; };
    if (std::any_of(kTable.begin(), kTable.end(), [&](const Setting& row) { return is_name(row.name); })) continue;
    if (std::any_of(kNoSettings.begin(), kNoSettings.end(), is_name)) continue;
    sentences.push_back(
        fmt::format("{} is no setting and has no effect.{} tutti-doctor --settings lists them", name, suggestion(name)));
  }
  std::sort(sentences.begin(), sentences.end());
  return sentences;
}

void warn_of_unknown_settings() {
  static constinit std::atomic<bool> done{false};
  // Relaxed: only one caller may see false; nothing else is published by the flag.
  if (done.exchange(true, std::memory_order_relaxed)) return;
  for (const std::string& sentence : unknown_settings()) log(Level::warn, sentence);
}

}  // namespace tutti
