// What the C face of every transport in this library does alike.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "include/tutti/transport.h"

namespace tutti {

/// Writes a `why` of transport.h: at most n bytes, the terminating 0 included; nothing where there is no room at all.
inline void write_why(char* why, std::size_t n, const std::string& text) {
  if (why != nullptr && n > 0) std::snprintf(why, n, "%s", text.c_str());
}

/// The option's number; `absent` where it is not given, or is no whole number.
inline std::uint64_t option_number(const tutti_endpoint_config& config, const char* key, std::uint64_t absent) {
  const char* const text = tutti_option_of(&config, key);
  std::uint64_t number = 0;
  if (text == nullptr) return absent;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  return error == std::errc() && stop == end ? number : absent;
}

}  // namespace tutti
