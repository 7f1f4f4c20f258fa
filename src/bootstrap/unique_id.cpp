#include "src/bootstrap/unique_id.h"

#include <algorithm>
#include <cstring>

namespace tutti {

namespace {

constexpr std::string_view kMagic = "TUT1";
constexpr std::string_view kPrefix = "tutti1:";
constexpr std::size_t kBytes = sizeof(tutti_unique_id);
constexpr std::size_t kChecksumAt = kBytes - 4;
constexpr std::string_view kDigits = "0123456789abcdef";
static_assert(kPrefix.size() + 2 * kBytes + 1 == TUTTI_UNIQUE_ID_TEXT);

// Against damage, not against malice: whoever can alter an id can write a whole one.
std::uint32_t checksum(const tutti_unique_id& id) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (std::size_t i = 0; i < kChecksumAt; ++i) hash = (hash ^ id.bytes[i]) * 16777619u;
  return hash;
}

const char* const kRemedy = "Pass the id exactly as tutti_get_unique_id or tutti_unique_id_to_text gave it";

}  // namespace

tutti_unique_id pack_unique_id(const UniqueIdContents& contents) {
  ByteWriter out;
  out.raw(std::as_bytes(std::span(kMagic)));
  out.raw(std::span<const unsigned char>(contents.key));
  for (const SocketAddress& address : contents.addresses) {
    ByteWriter one;
    address.pack(one);
    if (out.size() + one.size() <= kChecksumAt) out.raw(one.bytes());
  }
  tutti_unique_id id{};
  std::memcpy(id.bytes, out.bytes().data(), out.size());
  const std::uint32_t sum = checksum(id);
  for (std::size_t i = 0; i < 4; ++i) id.bytes[kChecksumAt + i] = static_cast<unsigned char>(sum >> (8 * i));
  return id;
}

Result<UniqueIdContents> unpack_unique_id(const tutti_unique_id& id) {
  ByteReader tail(std::as_bytes(std::span(id.bytes)).subspan(kChecksumAt));
  if (std::memcmp(id.bytes, kMagic.data(), kMagic.size()) != 0) {
    return Status(TUTTI_INVALID_ARGUMENT, "The 128 bytes are no unique id of this version of Tutti", kRemedy);
  }
  if (tail.u32() != checksum(id)) {
    return Status(TUTTI_INVALID_ARGUMENT, "The unique id was altered: its checksum is wrong", kRemedy);
  }
  UniqueIdContents contents;
  std::copy_n(id.bytes + kMagic.size(), kKeyBytes, contents.key.begin());
  const std::size_t start = kMagic.size() + kKeyBytes;
  ByteReader in(std::as_bytes(std::span(id.bytes)).subspan(start, kChecksumAt - start));
  while (in.left() >= 7 && in.ok()) {
    const SocketAddress address = SocketAddress::unpack(in);
    if (address.valid()) contents.addresses.push_back(address);
  }
  if (contents.addresses.empty()) {
    return Status(TUTTI_INVALID_ARGUMENT, "The unique id holds no address at which its maker could be found", kRemedy);
  }
  return contents;
}

std::string id_to_text(const tutti_unique_id& id) {
  std::string text(kPrefix);
  for (const unsigned char byte : id.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Result<tutti_unique_id> id_from_text(std::string_view text) {
  const auto refuse = [](const std::string& why) {
    return Status(TUTTI_INVALID_ARGUMENT, "The text is no unique id: " + why, kRemedy);
  };
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return refuse("it is empty");
  text = text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
  if (text.substr(0, kPrefix.size()) != kPrefix) return refuse("it does not begin with \"" + std::string(kPrefix) + "\"");
  if (text.size() != TUTTI_UNIQUE_ID_TEXT - 1) {
    return refuse("it has " + std::to_string(text.size()) + " characters instead of " +
                  std::to_string(TUTTI_UNIQUE_ID_TEXT - 1));
  }
  tutti_unique_id id{};
  for (std::size_t i = 0; i < 2 * kBytes; ++i) {
    const auto digit = kDigits.find(text[kPrefix.size() + i]);
    if (digit == std::string_view::npos) {
      return refuse("character " + std::to_string(kPrefix.size() + i + 1) + " is no hexadecimal digit");
    }
    id.bytes[i / 2] = static_cast<unsigned char>(id.bytes[i / 2] << 4 | digit);
  }
  if (auto contents = unpack_unique_id(id); !contents) return contents.status();
  return id;
}

}  // namespace tutti
