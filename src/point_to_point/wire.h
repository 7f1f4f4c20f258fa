// Messages travel in the slots of one link per direction and pair, each of a kind:
//
//     eager    short: tag and bytes at once, kept at the receiver until a receive matches
//     request  long: (tag, bytes) alone; the receiver answers `clear` once a receive matches; then `data` slots follow
//     taken    tells the sender how many eager bytes were consumed, which bounds what a receiver may have to keep
//
// A sender may take back what it has asked for in a request:
//
//     withdraw   the receiver forgets the request, and answers `withdrawn`; where a receive has met it, `clear` answers
//     nothing    answers a `clear` where the sender has not waited for that: the receive takes the next message instead
//
// A request for a short message carries the message's bytes, since a receiver keeps about as much for the request alone.
// Its receive then needs no answer, and `clear` ends its send. So a sender beyond the eager bound still waits for the
// receiver.
//
// Only cleared data and bounded eager bytes are ever on their way, so the receiver always empties its slots. No message
// blocks another's, and transfers with crossed tags finish in any order. A send ends when its bytes have left this process,
// since nobody may make progress here from then on.
//
// The tag of an eager message, and whose bytes data are, travel in the word that links carry beside each message. What
// else is said of a message stands behind its bytes. Its bytes therefore begin where a slot does: a copy to or from an odd
// place would touch every cache line twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "include/tutti/transport.h"
#include "include/tutti/tutti.h"

namespace tutti {

/// What a message is for; see above.
enum class MessageKind : std::uint32_t { eager, request, clear, data, taken, withdraw, withdrawn, nothing };

/// What is said of a message besides its bytes.
struct Trailer {
  std::uint64_t id;     ///< the sender's number of the transfer
  std::uint64_t bytes;  ///< of the whole transfer
  std::uint64_t tag;
  MessageKind kind;
  tutti_type type;  ///< the sender's, for errors
};
/// What a link carries beside a message. The lowest bits tell the rest: an id, or a type and above it a tag.
enum Beside : std::uint64_t { in_trailer, eager_tag, data_id };
inline constexpr int beside_bits = 2;
inline constexpr int type_bits = 8;
/// Ids, tags and types below these have room there.
inline constexpr std::uint64_t id_end = std::uint64_t{1} << (64 - beside_bits);
inline constexpr std::uint64_t tag_end = id_end >> type_bits;
inline constexpr std::uint64_t type_end = std::uint64_t{1} << type_bits;

/// Whether an eager message's tag and type have room beside it.
constexpr bool has_room_beside(std::uint64_t tag, tutti_type type) {
  return tag < tag_end && static_cast<std::uint64_t>(type) < type_end;
}
/// The word beside a message that says all of its trailer but the length; in_trailer where that is too much.
constexpr std::uint64_t beside(const Trailer& trailer) {
  if (trailer.kind == MessageKind::eager && has_room_beside(trailer.tag, trailer.type))
    return (trailer.tag << type_bits | static_cast<std::uint64_t>(trailer.type)) << beside_bits | eager_tag;
  if (trailer.kind == MessageKind::data && trailer.id < id_end) return trailer.id << beside_bits | data_id;
  return in_trailer;
}

/// Bytes of the longest message that its request carries.
inline constexpr std::uint64_t longest_in_request = 64;
/// What one sender may have unconsumed at one receiver, as the sum of weight_of.
inline constexpr std::uint64_t eager_bound = 4 * 1024 * 1024;
/// A message's bytes, and the memory that keeping it with a tag of its own takes: messages of no bytes need some, too.
constexpr std::uint64_t weight_of(std::uint64_t bytes) { return bytes + 256; }
/// So much of it consumed is told in one message.
inline constexpr std::uint64_t taken_lot = eager_bound / 4;

/// A message as it is in a slot.
struct WireMessage {
  Trailer trailer{};
  std::span<const std::byte> payload;

  /// False where it is none.
  bool read(const tutti_message& message) {
    payload = {static_cast<const std::byte*>(message.data), message.bytes};
    const std::uint64_t word = message.fingerprint >> beside_bits;
    switch (message.fingerprint - (word << beside_bits)) {
      case eager_tag:
        trailer = {0, payload.size(), word >> type_bits, MessageKind::eager,
                   static_cast<tutti_type>(word & (type_end - 1))};
        return true;
      case data_id:
        trailer = {word, payload.size(), 0, MessageKind::data, {}};
        return true;
      case in_trailer:
        return word == 0 && read_trailer();
      default:
        return false;
    }
  }

 private:
  bool read_trailer() {
    if (payload.size() < sizeof(Trailer)) return false;
    std::memcpy(&trailer, payload.last(sizeof(Trailer)).data(), sizeof(Trailer));
    payload = payload.first(payload.size() - sizeof(Trailer));
    if (trailer.kind == MessageKind::eager) trailer.bytes = payload.size();
    return true;
  }
};

}  // namespace tutti
