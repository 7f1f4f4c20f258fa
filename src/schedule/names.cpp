#include "src/schedule/names.h"

namespace tutti {

std::optional<Collective> collective_of(std::string_view name) {
  for (int c = 0; c < collective_count; ++c) {
    if (name == name_of(static_cast<Collective>(c))) return static_cast<Collective>(c);
  }
  return std::nullopt;
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (int c = 0; c < collective_count; ++c) names.emplace_back(name_of(static_cast<Collective>(c)));
  return names;
}

}  // namespace tutti
