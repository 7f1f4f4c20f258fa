#include "transports/verbs/layout.h"

#include <fmt/format.h>

namespace tutti::verbs {

std::uint64_t Immediate::count_near(std::uint64_t expected) const {
  constexpr std::uint64_t whole = std::uint64_t{1} << count_bits;
  // How far it lies ahead, modulo the bits that are told; more than half a turn ahead is behind.
  const std::uint64_t ahead = (low_count - expected) % whole;
  if (ahead < whole / 2) return expected + ahead;
  const std::uint64_t behind = whole - ahead;
  return behind <= expected ? expected - behind : expected + ahead;
}

std::string check_head(const MessageHead& head, const ExpectedHead& expected) {
  if (head.link != expected.link || head.life != expected.life)
    return fmt::format("a head of link {}.{} where one of {}.{} was announced", head.link, head.life, expected.link,
                       expected.life);
  if (head.sequence != expected.sequence)
    return fmt::format("message {} where {} is due", head.sequence, expected.sequence);
  if (head.released > expected.sent)
    return fmt::format("credit for {} messages of {} that were sent", head.released, expected.sent);
  switch (head.kind) {
    case HeadKind::in_head:
      return head.bytes <= most_short_bytes ? "" : fmt::format("{} bytes in a head", head.bytes);
    case HeadKind::in_slot:
      return head.bytes <= expected.slot_bytes ? ""
                                               : fmt::format("{} bytes in a slot of {}", head.bytes, expected.slot_bytes);
    case HeadKind::granted:
      if (!expected.granted_bytes) return "a message into memory that was not granted";
      return head.bytes == *expected.granted_bytes
                 ? ""
                 : fmt::format("{} bytes into a grant of {}", head.bytes, *expected.granted_bytes);
    case HeadKind::announced:
      return head.bytes <= expected.most_bytes ? "" : fmt::format("a message of {} bytes", head.bytes);
  }
  return fmt::format("a head of kind {}", static_cast<std::uint32_t>(head.kind));
}

}  // namespace tutti::verbs
