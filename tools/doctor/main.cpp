// tutti-doctor: looks at this machine and says which transports it can use, and what would make it so.
#include <algorithm>
#include <string>
#include <vector>

#include "src/base/settings.h"
#include "src/program/options.h"
#include "src/program/output.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/report.h"
#include "tools/doctor/values.h"
#include "tools/doctor/verdicts.h"

namespace {

using namespace tutti;

struct Request {
  std::string command;
  std::string file;
  bool settings = false;
};

void declare(program::Options& options, Request& request) {
  options.positional(
      "command", &request.command,
      "verbs: every port of every InfiniBand or RoCE device; record: read a flight recording (not there yet)", false,
      {"verbs", "record"});
  options.positional("FILE", &request.file, "The recording", false);
  options.flag("--settings", &request.settings, "Every setting with type, default, value, origin and help");
  options.example("tutti-doctor", "is this machine well, and which transports are usable");
  options.example("TUTTI_LANES=4 tutti-doctor --settings", "the settings in force, and where they come from");
  options.example("tutti-doctor verbs", "which ports have which addresses, and what keeps them from being used");
  options.example("tutti-doctor --json | jq .transports", "the same for scripts");
}

/// Exit 2 where a setting is malformed or names what is not there, as every program of ours does, which refuses to start
/// with it.
int refuse_bad(const std::vector<SettingRow>& rows, program::Output& output) {
  const auto refused = std::find_if(rows.begin(), rows.end(), [](const SettingRow& row) { return !row.problem.empty(); });
  return refused == rows.end() ? program::kGood : output.fail(program::kWrongUse, refused->problem);
}

int show_settings(program::Output& output) {
  const std::vector<SettingRow> rows = doctor::checked_settings();
  output.line(doctor::settings_text(rows));
  for (const SettingRow& row : rows) output.record(doctor::setting_json(row));
  for (const std::string& sentence : unknown_settings()) output.line(sentence);
  return refuse_bad(rows, output);
}

/// Exit 1 where no transport is usable.
int examine(program::Output& output) {
  const Sysfs files;
  const std::vector<doctor::Finding> findings = doctor::look_around(files);
  const std::vector<doctor::Verdict> verdicts = doctor::judge_transports(files, tolerant_settings(nullptr));
  output.line(doctor::report_text(findings, verdicts));
  output.record(doctor::report_json(findings, verdicts));
  const bool any = std::any_of(verdicts.begin(), verdicts.end(), [](const doctor::Verdict& v) { return v.usable; });
  if (const int code = refuse_bad(doctor::checked_settings(), output); code != program::kGood) return code;
  return any ? program::kGood : output.fail(program::kFailed, "no transport is usable here; the report says why");
}

/// Exit 1 where no port is usable.
int show_verbs(program::Output& output) {
  const doctor::VerbsLook look = doctor::look_at_verbs_ports(Sysfs());
  output.line(doctor::verbs_text(look));
  output.record(doctor::verbs_json(look));
  return look.usable.ok() ? program::kGood
                          : output.fail(program::kFailed, "verbs cannot be used here; the report says why");
}

}  // namespace

int main(int argc, char** argv) {
  program::Output output("tutti-doctor");
  program::Options options("tutti-doctor",
                           "Looks at this machine and says which transports it can use, and why not the others");
  Request request;
  declare(options, request);
  if (const auto code = options.parse(argc, argv, output)) return *code;
  if (request.command == "record") {
    return output.fail(program::kWrongUse, "reading the recording " + (request.file.empty() ? "FILE" : request.file) +
                                               " is not there yet; leave \"record\" out to have this machine looked at");
  }
  if (!request.file.empty()) return output.fail(program::kWrongUse, "verbs takes no file; leave " + request.file + " out");
  if (request.settings && request.command == "verbs")
    return output.fail(program::kWrongUse, "verbs and --settings were both given; leave one of them out");
  if (const int code = output.open(); code != program::kGood) return code;
  if (request.command == "verbs") return output.result(show_verbs(output));
  return output.result(request.settings ? show_settings(output) : examine(output));
}
