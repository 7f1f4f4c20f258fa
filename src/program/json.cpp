#include "src/program/json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace tutti::program {

namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

/// Fields as they are written: whatever is large is built once, and once only.
struct JsonObject::Body {
  std::vector<std::pair<std::string, std::string>> fields;  // keys and values, both in JSON

  void set(std::string_view key, std::string value) {
    std::string name = dump(std::string(key));
    const auto same = std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.first == name; });
    if (same != fields.end()) {
      same->second = std::move(value);
    } else {
      fields.emplace_back(std::move(name), std::move(value));
    }
  }
};

JsonObject::JsonObject() : body_(std::make_unique<Body>()) {}
JsonObject::~JsonObject() = default;
JsonObject::JsonObject(JsonObject&&) noexcept = default;
JsonObject& JsonObject::operator=(JsonObject&&) noexcept = default;

JsonObject& JsonObject::add(std::string_view key, std::string_view value) {
  body_->set(key, dump(std::string(value)));
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, bool value) {
  body_->set(key, dump(value));
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, int64_t value) {
  body_->set(key, dump(value));
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, uint64_t value) {
  body_->set(key, dump(value));
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, double value) {
  body_->set(key, dump(value));
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, const JsonObject& value) {
  body_->set(key, value.text());
  return *this;
}

JsonObject& JsonObject::add_json(std::string_view key, std::string_view json) {
  const bool good = Json::accept(json);
  // A line break can only be between values: it is none of the line's.
  const bool one_line = json.find_first_of("\r\n") == std::string_view::npos;
  body_->set(key, !good ? "null" : one_line ? std::string(json) : dump(Json::parse(json)));
  return *this;
}

JsonObject& JsonObject::add_written(std::string_view key, std::string json) {
  body_->set(key, std::move(json));
  return *this;
}

JsonObject& JsonObject::measured(std::string_view key, double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  return add(key, std::isfinite(value) ? std::strtod(text, nullptr) : value);
}

std::string JsonObject::text() const {
  std::size_t length = 2;
  for (const auto& [key, value] : body_->fields) length += key.size() + value.size() + 2;
  std::string text;
  text.reserve(length);
  text += '{';
  for (const auto& [key, value] : body_->fields) {
    if (text.size() > 1) text += ',';
    text.append(key).append(1, ':').append(value);
  }
  text += '}';
  return text;
}

}  // namespace tutti::program
