// The settings, for bindings that list them.
#include "src/base/settings.h"

#include <algorithm>
#include <cstring>

#include "src/api/handles.h"

namespace tutti {
namespace {

/// As much of the text as there is room for, its terminating NUL included.
template <std::size_t kRoom>
void copy(const std::string& text, char (&to)[kRoom]) {
  const std::size_t bytes = std::min(text.size(), kRoom - 1);
  std::memcpy(to, text.data(), bytes);
  to[bytes] = '\0';
}

}  // namespace
}  // namespace tutti

tutti_status tutti_setting_get(int index, tutti_setting* setting) {
  return tutti::guarded([&]() -> tutti::Status {
    if (setting == nullptr || setting->size < sizeof(size_t))
      return tutti::invalid("tutti_setting_get needs a setting whose size is set", "Set setting.size = sizeof setting.");
    const std::vector<tutti::SettingRow> rows = tutti::describe_settings(nullptr);
    if (index < 0 || static_cast<std::size_t>(index) >= rows.size())
      return tutti::invalid("there is no setting " + std::to_string(index),
                            "Settings have the numbers from 0 to " + std::to_string(rows.size() - 1) + ".");
    const tutti::SettingRow& row = rows[static_cast<std::size_t>(index)];
    tutti_setting whole{};
    whole.size = setting->size;
    tutti::copy(row.name, whole.name);
    tutti::copy(row.type, whole.type);
    tutti::copy(row.form, whole.form);
    tutti::copy(row.fallback, whole.fallback);
    tutti::copy(row.value, whole.value);
    tutti::copy(row.origin, whole.origin);
    tutti::copy(row.help, whole.help);
    std::memcpy(setting, &whole, std::min(setting->size, sizeof whole));
    return {};
  });
}
