// What lies in shared memory, and the messages that pass over the Unix socket of a pair. Everything here may be written by
// the peer at any time: it is read once into a local, checked, and then used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transports/shm/filling.h"

namespace tutti::shm {

inline constexpr std::uint64_t kLine = 64;
/// Writers of different words keep this distance: the adjacent-line prefetcher fetches lines in pairs.
inline constexpr std::uint64_t kPair = 128;
inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint32_t kProtocol = 5;

/// One per endpoint, mapped by all its peers.
struct EndpointPage {
  /// 1 while the owner sleeps on its event_fd. Written by the owner, cleared by whoever rings.
  alignas(kPair) std::uint32_t sleeping;
  /// Set by a peer that has sent something on a socket; cleared by the owner, who then looks at its sockets.
  alignas(kPair) std::uint32_t attention;
};
static_assert(sizeof(EndpointPage) <= kPage);

/// How a message lies.
enum class Kind : std::uint8_t {
  kInline = 1,  ///< in the header's own line
  kSlot = 2,    ///< where `placement` says among the payloads
  kPull = 3,    ///< in a region of the sender's: `reference`
  kPut = 4,     ///< in the memory that the receiver granted for it
  kShort = 5,   ///< behind the header, from the next line on
  kTimed = 6,   ///< as kSlot; the receiver times its reading (filling.h)
};

inline constexpr std::uint64_t kInlineBytes = 40;
/// What lies behind a header at most. There are many headers, so these messages wait for credit as seldom as inline ones.
inline constexpr std::uint64_t kShortBytes = 1024;
/// From header to header: the header, short data, and a line that keeps the next header out of the prefetcher's pair.
inline constexpr std::uint64_t kHeaderStride = kLine + kShortBytes + kLine;
static_assert(kHeaderStride % kPair == 0);

/// Where a message lies in a region.
struct Reference {
  std::uint64_t region;
  std::uint64_t offset;
};

/// Where a message lies among the payloads, and the way in which it was written: one word.
struct Placement {
  std::uint64_t word;
  static constexpr int kFillingShift = 56;
  static constexpr Placement at(std::uint64_t offset, std::uint64_t filling = 0) {
    return {offset | filling << kFillingShift};
  }
  /// From the first payload.
  constexpr std::uint64_t offset() const { return word & ((std::uint64_t{1} << kFillingShift) - 1); }
  constexpr std::uint64_t filling() const { return word >> kFillingShift; }
};

/// What a sender's messages say of the other direction on its channel: so many messages have been released.
struct Tell {
  std::uint64_t serial;  ///< of the link that brought them, its sender's; 0: of none
  std::uint64_t released;
};

/// What announces a message: flag and small data travel in one cache line.
struct alignas(kLine) SlotHeader {
  /// Where a message that is not in this line lies. Of its own each, for what was to be pulled may become a payload under
  /// the receiver's eyes.
  struct Announcement {
    Reference reference;
    Placement placement;
    Tell tell;
  };
  std::uint64_t sequence;  ///< n + 1 once message n is here; the `arrived` word
  std::uint64_t fingerprint;
  std::uint64_t size_and_kind;  ///< bytes below, kind in the top byte, and kStartsOver
  union {
    unsigned char data[kInlineBytes];
    Announcement where;
  };
};
static_assert(sizeof(SlotHeader) == kLine);
/// Inline messages to this length leave room for what is told.
inline constexpr std::uint64_t kTellingBytes = offsetof(SlotHeader::Announcement, tell);

inline constexpr int kKindShift = 56;
inline constexpr std::uint64_t kSizeMask = (std::uint64_t{1} << kKindShift) - 1;
/// The next message has the first header.
inline constexpr std::uint64_t kStartsOver = std::uint64_t{1} << 63;

constexpr std::uint64_t pack(std::uint64_t bytes, Kind kind) {
  return bytes | (static_cast<std::uint64_t>(kind) << kKindShift);
}
constexpr Kind kind_of(std::uint64_t size_and_kind) {
  return static_cast<Kind>((size_and_kind & ~kStartsOver) >> kKindShift);
}

/// Memory that the receiver offers for one message.
struct alignas(kLine) GrantEntry {
  std::uint64_t state;  ///< ((message + 1) << 2) | one of the below
  Reference target;
  std::uint64_t bytes;
  std::uint64_t fingerprint;  ///< of the operation whose message may land there
};
enum : std::uint64_t { kGranted = 1, kTaken = 2, kRevoked = 3 };
constexpr std::uint64_t grant_state(std::uint64_t message, std::uint64_t what) { return ((message + 1) << 2) | what; }

/// At most two grants are outstanding, the viewed message's and the next one's; four entries keep their lines apart in
/// time.
inline constexpr std::uint64_t kGrants = 4;
/// Messages below this are never granted: looking for a grant would cost more than the copy.
inline constexpr std::uint64_t kGrantFloor = kShortBytes + 1;

/// First page of a link's memory.
struct LinkControl {
  alignas(kPair) std::uint64_t consumed;   ///< messages released; written by the receiver; the `reusable` word
  alignas(kPair) std::uint64_t withdrawn;  ///< 1 once memory that the sender offered may change under the receiver's eyes
  alignas(kPair) GrantEntry grants[kGrants];
  /// FillingTimes of the receiver; the sender sets to 0 what it took.
  alignas(kPair) std::uint32_t read_ns[kSizeClasses][kFillings];
};
static_assert(sizeof(LinkControl) <= kPage);

/// Where things lie in a link's memory: the control page, the headers, the payloads. Computed alike on both sides from what
/// they agreed.
///
/// Messages have one header after the other; behind the last, and where a message says so (kStartsOver), the first one
/// comes again. Whoever runs far ahead of its receiver goes through all: a short message needs no more credit than a header
/// is. Where messages come back in turn, as in most collectives, they tell what was released, and three headers are enough:
/// the fewer lines the two cores pass to and fro, the more of them are where they were left, in the first caches. A round
/// of 64 headers that hold 1 KiB each takes 270 ns per message, of 3 headers 150 ns (Zen 4, both ways at once).
///
/// What is neither in its header nor right behind it has the first payload that is free, for the same reason, or a place in
/// the cold payloads behind them (filling.h). Its header says where.
struct LinkLayout {
  std::uint32_t slots = 0;
  std::uint32_t headers = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t payload_offset = 0;  ///< of the first payload
  std::uint64_t stride = 0;          ///< from payload to payload
  std::uint64_t cold_offset = 0;     ///< of the cold payloads, from the first payload
  std::uint64_t payload_bytes = 0;   ///< from the first payload to the end of the cold ones
  std::uint64_t total = 0;           ///< of the whole memory

  static constexpr std::uint32_t kLeastHeaders = 64;
  /// Addresses only: a page takes memory once it is written.
  static constexpr std::uint64_t kColdBytes = 4 << 20;
  /// Payloads begin on a 128-byte boundary. Their stride is a multiple of 128 but, for slots of a power of two, not of
  /// 4096: their beginnings do not all fall into one set of the cache.
  static constexpr LinkLayout of(std::uint32_t slots, std::uint64_t slot_bytes) {
    LinkLayout l;
    l.slots = slots;
    l.headers = slots > kLeastHeaders ? slots : kLeastHeaders;
    l.slot_bytes = slot_bytes;
    l.payload_offset = (kPage + l.headers * kHeaderStride + kPage - 1) / kPage * kPage;
    const std::uint64_t apart = slot_bytes >= kPage ? kPair : 0;
    l.stride = slot_bytes > kInlineBytes ? (slot_bytes + apart + kPair - 1) / kPair * kPair : 0;
    l.cold_offset = (l.stride * slots + kPage - 1) / kPage * kPage;
    l.payload_bytes = l.cold_offset + (slot_bytes >= kLeastFilled ? kColdBytes : 0);
    l.total = l.payload_offset + l.payload_bytes;
    return l;
  }
  static constexpr std::uint32_t kMostSlots = 1u << 16;
  static constexpr std::uint64_t kMostSlotBytes = std::uint64_t{1} << 36;
  static constexpr bool sane(std::uint32_t slots, std::uint64_t slot_bytes) {
    return slots >= 1 && slots <= kMostSlots && slot_bytes >= 1 && slot_bytes <= kMostSlotBytes;
  }
};

/// What passes over the socket of a pair, in order.
enum class Verb : std::uint32_t {
  kHello = 1,      ///< fds: endpoint page, doorbell
  kLink,           ///< sender → receiver: its end of (channel, serial); fd: the link's memory; a slots, b slot_bytes
  kAccept,         ///< receiver → sender: mapped it
  kRefuse,         ///< receiver → sender: other sizes: a slots, b slot_bytes are the receiver's
  kCloseSender,    ///< nothing more will be committed
  kCloseReceiver,  ///< nothing more will be released
  kRegion,         ///< fd: its file; a id, b bytes, c offset in the file
  kForgetRegion,   ///< a id
  kRefuseRegion,   ///< receiver of a kRegion → its owner: a id; its file did not arrive, so nothing can lie there for it
};

struct ControlMessage {
  Verb verb;
  std::uint32_t channel = 0;
  std::uint64_t serial = 0;  ///< tells one opening of a channel from the next
  std::uint64_t a = 0, b = 0, c = 0;
  std::int32_t rank = -1;
  std::uint32_t pid = 0;
  std::uint32_t protocol = kProtocol;
  std::uint32_t unused = 0;
};
static_assert(sizeof(ControlMessage) == 56);

/// The one way in which shared words are touched.
template <typename T>
std::atomic_ref<T> shared(T& word) {
  return std::atomic_ref<T>(word);
}

}  // namespace tutti::shm
