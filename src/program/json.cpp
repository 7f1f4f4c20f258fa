#include "src/program/json.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace tutti::program {

struct JsonObject::Body {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
};

JsonObject::JsonObject() : body_(std::make_unique<Body>()) {}
JsonObject::~JsonObject() = default;
JsonObject::JsonObject(JsonObject&&) noexcept = default;
JsonObject& JsonObject::operator=(JsonObject&&) noexcept = default;

JsonObject& JsonObject::add(std::string_view key, std::string_view value) {
  body_->json[std::string(key)] = std::string(value);
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, bool value) {
  body_->json[std::string(key)] = value;
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, int64_t value) {
  body_->json[std::string(key)] = value;
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, uint64_t value) {
  body_->json[std::string(key)] = value;
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, double value) {
  body_->json[std::string(key)] = value;
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, const JsonObject& value) {
  body_->json[std::string(key)] = value.body_->json;
  return *this;
}

JsonObject& JsonObject::add_json(std::string_view key, std::string_view json) {
  nlohmann::ordered_json value = nlohmann::ordered_json::parse(json, nullptr, false);
  body_->json[std::string(key)] = value.is_discarded() ? nlohmann::ordered_json() : std::move(value);
  return *this;
}

JsonObject& JsonObject::measured(std::string_view key, double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  return add(key, std::isfinite(value) ? std::strtod(text, nullptr) : value);
}

std::string JsonObject::text() const {
  return body_->json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tutti::program
