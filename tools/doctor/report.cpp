#include "tools/doctor/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tutti::doctor {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void add_line(std::string& out, const std::string& line) {
  if (!out.empty()) out += '\n';
  out += line;
}

const char* shown_health(Health health) { return health == Health::good ? "" : health_name(health); }

std::string findings_text(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings) {
    add_line(out, fmt::format("{:<15}{:<5}{}", finding.name, shown_health(finding.health), finding.text));
    if (!finding.remedy.empty()) add_line(out, fmt::format("{:<20}> {}", "", finding.remedy));
  }
  return out;
}

Json findings_json(const std::vector<Finding>& findings) {
  Json all = Json::array();
  for (const Finding& finding : findings) {
    all.push_back({{"name", finding.name},
                   {"health", health_name(finding.health)},
                   {"text", finding.text},
                   {"remedy", finding.remedy}});
  }
  return all;
}

/// With what a value looks like, where its type does not say that.
std::string help_of(const SettingRow& row) {
  const bool plain = row.type == "text" || row.type == "list" || row.type == "secret";
  return plain ? row.help : row.help + " Takes " + row.form + ".";
}

}  // namespace

std::string report_text(const std::vector<Finding>& findings, const std::vector<Verdict>& verdicts) {
  std::string out = findings_text(findings);
  add_line(out, "");
  add_line(out, fmt::format("{:<11}{:<9}{}", "transport", "usable", "why"));
  for (const Verdict& verdict : verdicts) {
    add_line(out, fmt::format("{:<11}{:<9}{}", verdict.transport, verdict.usable ? "yes" : "no", verdict.why));
    if (!verdict.remedy.empty()) add_line(out, fmt::format("{:<20}> {}", "", verdict.remedy));
  }
  return out;
}

program::JsonObject report_json(const std::vector<Finding>& findings, const std::vector<Verdict>& verdicts) {
  Json transports = Json::array();
  for (const Verdict& verdict : verdicts) {
    transports.push_back(
        {{"name", verdict.transport}, {"usable", verdict.usable}, {"why", verdict.why}, {"remedy", verdict.remedy}});
  }
  program::JsonObject object;
  object.add_json("checks", dump(findings_json(findings))).add_json("transports", dump(transports));
  return object;
}

std::string verbs_text(const VerbsLook& look) {
  std::string out = findings_text(look.ports);
  if (!look.ports.empty()) add_line(out, "");
  if (look.usable.ok()) {
    add_line(out, "usable");
    return out;
  }
  add_line(out, "not usable: " + look.usable.error().message);
  add_line(out, fmt::format("{:<20}> {}", "", look.usable.error().remedy));
  return out;
}

program::JsonObject verbs_json(const VerbsLook& look) {
  program::JsonObject object;
  const bool usable = look.usable.ok();
  object.add_json("ports", dump(findings_json(look.ports))).add("usable", usable);
  object.add("why", usable ? "" : look.usable.error().message).add("remedy", usable ? "" : look.usable.error().remedy);
  return object;
}

std::string settings_text(const std::vector<SettingRow>& rows) {
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  std::size_t widest = 5;
  for (const SettingRow& row : rows) widest = std::max(widest, shown(row.value).size());
  std::string out =
      fmt::format("{:<25}{:<10}{:<9}{:<{}}{:<13}{}", "setting", "type", "default", "value", widest + 2, "origin", "help");
  for (const SettingRow& row : rows) {
    add_line(out, fmt::format("{:<25}{:<10}{:<9}{:<{}}{:<13}{}", row.name, row.type, shown(row.fallback), shown(row.value),
                              widest + 2, row.origin, help_of(row)));
    if (!row.problem.empty()) add_line(out, fmt::format("{:<25}{}", "", row.problem));
  }
  return out;
}

program::JsonObject setting_json(const SettingRow& row) {
  program::JsonObject object;
  object.add("name", row.name).add("type", row.type).add("form", row.form).add("default", row.fallback);
  object.add("value", row.value).add("origin", row.origin).add("help", row.help).add("problem", row.problem);
  return object;
}

}  // namespace tutti::doctor
