// How a message lies in the receiver's memory, and what wakes it there.
//
//     ring of heads, at the receiver      | head 64 | payload up to 448 |   512 bytes each, two for each slot
//     ring of bodies, where they are      | up to slot_bytes            |   written before their head
//
// The sender writes the body, then the head by RDMA WRITE WITH IMMEDIATE. A completion at the receiver is the only order
// that verbs promise, so nobody looks at this memory before it has come:
//
//     immediate, 32 bits:    | link 12 | kind 2 | low bits of a count 18 |
//
// Heads and bodies are written by the peer at any time: they are copied once, and then looked at (check_head).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tutti::verbs {

inline constexpr std::uint64_t head_bytes = 512;
inline constexpr std::uint64_t most_short_bytes = 448;  ///< payload that lies in the head
inline constexpr std::uint32_t most_links = 1u << 12;   ///< of one peer that are open at once
/// Counts are told by so many bits, and both ends know them to less than half of that.
inline constexpr std::uint32_t count_bits = 18;

/// What an immediate announces.
enum class Notice : std::uint8_t {
  message = 0,  ///< count: its sequence
  credit = 1,   ///< count: messages that were released
  grant = 2,    ///< count: the message that may land there
  proof = 3,    ///< the path's first: count is 0
};

/// An immediate's parts.
struct Immediate {
  std::uint32_t link = 0;  ///< the receiver's number of the link
  Notice notice = Notice::message;
  std::uint32_t low_count = 0;  ///< the count's lowest bits

  static Immediate of(std::uint32_t link, Notice notice, std::uint64_t count) {
    return {link % most_links, notice, static_cast<std::uint32_t>(count % (1u << count_bits))};
  }
  /// In host order; verbs want it in network order.
  constexpr std::uint32_t packed() const {
    return link << (count_bits + 2) | static_cast<std::uint32_t>(notice) << count_bits | low_count;
  }
  static constexpr Immediate unpacked(std::uint32_t word) {
    return {word >> (count_bits + 2), static_cast<Notice>(word >> count_bits & 3), word & ((1u << count_bits) - 1)};
  }
  /// The count that is nearest to `expected` and has these lowest bits.
  std::uint64_t count_near(std::uint64_t expected) const;
};

/// Where a message's payload is.
enum class HeadKind : std::uint32_t {
  in_head = 1,   ///< behind the head
  in_slot = 2,   ///< in the body of the same place
  granted = 3,   ///< where the receiver's grant said
  announced = 4  ///< it comes in pieces, once the receiver has granted room for all of it
};

/// A head as it lies in memory, little endian. A value: what the peer may change is copied into one before it is used.
struct MessageHead {
  std::uint64_t sequence = 0;     ///< of the message on its link, from 0
  std::uint64_t fingerprint = 0;  ///< the caller's
  std::uint64_t bytes = 0;        ///< payload
  std::uint64_t released = 0;     ///< messages that the sender has released of the channel's other direction
  std::uint32_t link = 0;         ///< the receiver's number of the link
  std::uint32_t life = 0;         ///< which life of the link: a channel may be opened again
  HeadKind kind = HeadKind::in_head;
  std::array<std::uint32_t, 5> unused{};
};
static_assert(sizeof(MessageHead) == 64 && sizeof(MessageHead) + most_short_bytes == head_bytes);

/// What a receiver expects of a head.
struct ExpectedHead {
  std::uint64_t sequence = 0;
  std::uint32_t link = 0;
  std::uint32_t life = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t most_bytes = 0;                ///< of an announced message
  std::optional<std::uint64_t> granted_bytes;  ///< of a message that was granted memory
  std::uint64_t sent = 0;                      ///< messages that this end has sent the other way, which bounds `released`
};

/// What is wrong with a head, as half a sentence; empty where nothing is.
std::string check_head(const MessageHead& head, const ExpectedHead& expected);

/// How many receives the links of one path have to have posted, so that no notice ever finds none.
///
/// A link of window W takes W receives where messages come, and W + 4 where they go: credit and grants come back.
class ReceiveBudget {
 public:
  static constexpr std::uint32_t grants_of_link = 4;

  explicit ReceiveBudget(std::uint32_t most) : most_(most) {}

  static constexpr std::uint32_t of_receiver(std::uint32_t window) { return window; }
  static constexpr std::uint32_t of_sender(std::uint32_t window) { return window + grants_of_link; }

  /// Takes so many for a link; false, with nothing taken, where they do not fit: a further path is needed.
  bool take(std::uint32_t receives) {
    if (receives > most_ - taken_) return false;
    taken_ += receives;
    return true;
  }
  void give_back(std::uint32_t receives) { taken_ -= receives; }
  std::uint32_t taken() const { return taken_; }
  std::uint32_t most() const { return most_; }

 private:
  std::uint32_t most_;
  std::uint32_t taken_ = 0;
};

}  // namespace tutti::verbs
