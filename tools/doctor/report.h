// The doctor's findings as lines for people and for scripts.
#pragma once

#include <string>
#include <vector>

#include "src/base/settings.h"
#include "src/program/json.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/verbs_look.h"
#include "tools/doctor/verdicts.h"

namespace tutti::doctor {

/// The human report, ending without a newline.
std::string report_text(const std::vector<Finding>& findings, const std::vector<Verdict>& verdicts);

/// The report of `tutti-doctor verbs`, ending without a newline.
std::string verbs_text(const VerbsLook& look);
/// {"ports":[{"name","health","text","remedy"}],"usable","why","remedy"}
program::JsonObject verbs_json(const VerbsLook& look);

/// {"checks":[{"name","health","text","remedy"}],"transports":[{"name","usable","why","remedy"}]}
program::JsonObject report_json(const std::vector<Finding>& findings, const std::vector<Verdict>& verdicts);

/// The table of settings, ending without a newline.
std::string settings_text(const std::vector<SettingRow>& rows);

/// One setting: name, type, form, default, value, origin, help, problem.
program::JsonObject setting_json(const SettingRow& row);

}  // namespace tutti::doctor
