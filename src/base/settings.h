// The settings of the library: one table of names, types, defaults and help, and the values that follow from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace tutti {

/// How much is logged; each level includes those before it.
enum class Level : int { error = 0, warn = 1, info = 2, debug = 3, trace = 4 };

/// How a waiting rank uses its core: adapt spins while every rank has one, always and never do what they say.
enum class Spin : int { adapt = 0, always = 1, never = -1 };

/// TCP ports to listen on, both ends included; {0, 0} leaves the choice to the system.
struct PortRange {
  std::uint16_t low = 0;
  std::uint16_t high = 0;
};

/// Every setting, with its effective value. Times in nanoseconds, sizes in bytes. The values below are overwritten by
/// the table's defaults, which are the ones that count; empty strings and lists mean "not given".
struct Settings {
  std::string comm_id;                     ///< TUTTI_COMM_ID: printed unique id or an address, for env://
  int rank = -1;                           ///< TUTTI_RANK, -1: not given
  int ranks = -1;                          ///< TUTTI_RANKS, -1: not given
  std::vector<std::string> interfaces;     ///< TUTTI_INTERFACE: network interfaces; empty: all that are up
  PortRange port_range;                    ///< TUTTI_PORT_RANGE
  int traffic_class = 0;                   ///< TUTTI_TRAFFIC_CLASS: DSCP of data on networks, 0: the system's
  std::vector<std::string> transports;     ///< TUTTI_TRANSPORTS, in any order; empty: all that are viable
  std::string transports_place;            ///< what `transports` comes from: "TUTTI_TRANSPORTS" or "config.transports"
  std::string algorithm;                   ///< TUTTI_ALGORITHM, as given; empty: the library chooses
  int lanes = 0;                           ///< TUTTI_LANES; 0: the library chooses
  bool reproducible = false;               ///< TUTTI_REPRODUCIBLE: folds in rank order, at once
  std::string tuning;                      ///< TUTTI_TUNING: a tuning table's path; empty: the built-in estimates
  std::vector<std::string> msccl;          ///< TUTTI_MSCCL: paths of MSCCL algorithm files
  std::string machine;                     ///< TUTTI_MACHINE: this rank's, for choosing algorithms; empty: the kernel's
  std::string rack;                        ///< TUTTI_RACK: that machine's; empty: no matter
  std::vector<std::int32_t> torus;         ///< TUTTI_TORUS: sizes of the torus that ranks lie on; empty: none
  std::uint64_t connect_timeout_ns = 0;    ///< TUTTI_CONNECT_TIMEOUT
  std::uint64_t operation_timeout_ns = 0;  ///< TUTTI_OPERATION_TIMEOUT
  std::uint64_t idle_timeout_ns = 0;       ///< TUTTI_IDLE_TIMEOUT
  int memory = 0;                          ///< TUTTI_MEMORY: a tutti_memory_kind, AUTO, HOST or CUDA
  int device = -1;                         ///< TUTTI_DEVICE: a CUDA device's number, -1: the current one
  int min_blocks = 0;                      ///< TUTTI_MIN_BLOCKS: thread blocks of a launch, 0: the library chooses
  int max_blocks = 0;                      ///< TUTTI_MAX_BLOCKS: likewise
  bool launch_order = false;               ///< TUTTI_LAUNCH_ORDER: launches on a device run in the order of the calls
  Spin spin = Spin::adapt;                 ///< TUTTI_SPIN
  Level log = Level::warn;                 ///< TUTTI_LOG
  std::string log_file;                    ///< TUTTI_LOG_FILE; empty: stderr
  bool record = true;                      ///< TUTTI_RECORD: keep a flight recording
  std::string record_dir;                  ///< TUTTI_RECORD_DIR: where recordings are written, never empty
  std::uint64_t record_bytes = 0;          ///< TUTTI_RECORD_BYTES: most that one rank records
  std::string plugin_path;                 ///< TUTTI_PLUGIN_PATH: folders of transport plugins, colon-separated
  std::string module_dir;   ///< TUTTI_MODULE_DIR: folder of the library's own modules; empty: beside libtutti
  std::string secret;       ///< TUTTI_SECRET
  std::string secret_file;  ///< TUTTI_SECRET_FILE
};

/// What is to be raised where an operation that missed its deadline is only slow. own_ns: the call's own limit; 0: none.
constexpr const char* limit_to_raise(std::uint64_t own_ns) {
  return own_ns != 0 ? "the call's timeout" : "TUTTI_OPERATION_TIMEOUT";
}

/// What a setting's effective value comes from, weakest first.
enum class Origin { by_default, by_config, by_environment };

/// One setting as people read it.
struct SettingRow {
  std::string name;      ///< "TUTTI_LANES"
  std::string type;      ///< "integer", "duration", …
  std::string form;      ///< what a value looks like, one phrase
  std::string fallback;  ///< the default as text
  std::string value;     ///< the effective value as text; "(set)" for a secret that is set; as given where malformed
  std::string origin;    ///< "default", "config" or "environment"
  std::string help;      ///< one sentence
  std::string problem;   ///< why the value is refused; empty where it is good
};

/// The values in force: explicit environment (TUTTI_*, empty counts as unset) over the fields of `config` over defaults.
///
/// config  may be NULL; read no further than its `size` says, and not kept.
/// parent  what is inherited from, in the place of the defaults; NULL: nothing.
/// Errors: TUTTI_INVALID_ARGUMENT naming the first malformed variable or field, its value and the accepted form.
/// Thread safe as long as nobody changes the environment meanwhile. Reads no file and logs nothing.
Result<Settings> effective_settings(const tutti_config* config, const Settings* parent = nullptr);

/// As effective_settings, with the default in place of what is malformed: for what must work before anything is checked.
Settings tolerant_settings(const tutti_config* config);

/// Every setting in the table's order, malformed ones with their problem. As effective_settings otherwise.
std::vector<SettingRow> describe_settings(const tutti_config* config);

/// One sentence for each TUTTI_* variable of the environment that is no setting, with the name that was probably meant.
std::vector<std::string> unknown_settings();

/// Logs unknown_settings() as warnings, the first time that it is called in this process. Thread safe.
void warn_of_unknown_settings();

}  // namespace tutti
