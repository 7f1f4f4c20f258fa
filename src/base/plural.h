// Numbers of things in sentences.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

/// "1 rank", "2 ranks": a number and a noun whose plural ends in s.
inline std::string plural(std::int64_t number, std::string_view noun) {
  return std::to_string(number) + ' ' + std::string(noun) + (number == 1 ? "" : "s");
}

}  // namespace tutti
