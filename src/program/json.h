// JSON objects for the lines that our programs write. Keeps the JSON library out of everybody's headers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tutti::program {

/// An object under construction, its fields in the order they were added. Movable. Not thread safe.
class JsonObject {
 public:
  JsonObject();
  ~JsonObject();
  JsonObject(JsonObject&&) noexcept;
  JsonObject& operator=(JsonObject&&) noexcept;

  /// Adds a field and returns the object. Text that is not UTF-8 is written with replacement characters; a number that
  /// is not finite becomes null.
  JsonObject& add(std::string_view key, std::string_view value);
  JsonObject& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  JsonObject& add(std::string_view key, const std::string& value) { return add(key, std::string_view(value)); }
  JsonObject& add(std::string_view key, bool value);
  JsonObject& add(std::string_view key, int value) { return add(key, static_cast<int64_t>(value)); }
  JsonObject& add(std::string_view key, int64_t value);
  JsonObject& add(std::string_view key, uint64_t value);
  JsonObject& add(std::string_view key, double value);
  JsonObject& add(std::string_view key, const JsonObject& value);
  /// A value that is written in JSON already (an array, for one); null where it is not well-formed.
  JsonObject& add_json(std::string_view key, std::string_view json);
  /// The same for one that the caller has just written, on one line, and answers for: it is not looked through again.
  JsonObject& add_written(std::string_view key, std::string json);
  /// A measured number, rounded to `digits` significant digits.
  JsonObject& measured(std::string_view key, double value, int digits = 6);

  /// The object on one line, without a newline at its end.
  std::string text() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace tutti::program
