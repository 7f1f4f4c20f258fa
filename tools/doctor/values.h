// Settings whose form is good, but whose value programs refuse on this machine.
#pragma once

#include <vector>

#include "src/base/settings.h"

namespace tutti::doctor {

/// describe_settings(NULL), where a setting has a problem also if what it names is not there: a plugin folder, a
/// transport, an algorithm, an interface, a secret's file. Loads plugins; reads no pipe. Thread safe.
std::vector<SettingRow> checked_settings();

}  // namespace tutti::doctor
