// Packing small structs into bytes and back: little endian, bounds checked, no alignment assumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

/// Appends values to a byte vector. Not thread safe.
class ByteWriter {
 public:
  void u8(std::uint8_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void u16(std::uint16_t value) { integer(value, 2); }
  void u32(std::uint32_t value) { integer(value, 4); }
  void i32(std::int32_t value) { integer(static_cast<std::uint32_t>(value), 4); }
  void u64(std::uint64_t value) { integer(value, 8); }
  /// The bytes alone, without their number.
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void raw(std::span<const unsigned char> bytes) { raw(std::as_bytes(bytes)); }
  /// Number of bytes as u32, then the bytes.
  void blob(std::span<const std::byte> bytes) {
    u32(static_cast<std::uint32_t>(bytes.size()));
    raw(bytes);
  }
  void text(std::string_view text) { blob(std::as_bytes(std::span(text.data(), text.size()))); }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void integer(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) u8(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  std::vector<std::byte> bytes_;
};

/// Reads what ByteWriter wrote. Reading beyond the end gives zeros and makes ok() false for good, so that a parser
/// checks once, at its end. Does not own the bytes. Not thread safe.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(integer(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(integer(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::int32_t i32() { return static_cast<std::int32_t>(u32()); }
  std::uint64_t u64() { return integer(8); }
  /// The next n bytes in place, or an empty span where there are fewer.
  std::span<const std::byte> raw(std::size_t n) {
    if (n > bytes_.size() - at_) {
      fail();
      return {};
    }
    at_ += n;
    return bytes_.subspan(at_ - n, n);
  }
  /// Copies the next out.size() bytes; zeros where there are fewer.
  void copy(std::span<unsigned char> out) {
    const auto from = raw(out.size());
    if (from.empty()) {
      std::memset(out.data(), 0, out.size());
    } else {
      std::memcpy(out.data(), from.data(), from.size());
    }
  }
  std::span<const std::byte> blob() { return raw(u32()); }
  std::string text() {
    const auto bytes = blob();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::size_t left() const { return bytes_.size() - at_; }
  /// True while nothing was read beyond the end.
  bool ok() const { return ok_; }
  /// True where everything was read and nothing beyond.
  bool complete() const { return ok_ && left() == 0; }
  void fail() {
    ok_ = false;
    at_ = bytes_.size();
  }

 private:
  std::uint64_t integer(std::size_t width) {
    std::uint64_t value = 0;
    const auto bytes = raw(width);
    for (std::size_t i = 0; i < bytes.size(); ++i) value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
    return value;
  }
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace tutti
