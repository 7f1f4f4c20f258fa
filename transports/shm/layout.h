// What lies in shared memory, and the messages that pass over the Unix socket of a pair. Everything here may be written by
// the peer at any time: it is read once into a local, checked, and then used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transports/shm/write_policy.h"

namespace tutti::shm {

inline constexpr std::uint64_t kLine = 64;
/// Writers of different words keep this distance: the adjacent-line prefetcher fetches lines in pairs.
inline constexpr std::uint64_t kPair = 128;
inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint32_t kProtocol = 9;

/// One per endpoint, mapped by all its peers.
struct EndpointPage {
  /// 1 while the owner sleeps on its event_fd. Written by the owner, cleared by whoever rings.
  alignas(kPair) std::uint32_t sleeping;
  /// Set by a peer that has sent something on a socket; cleared by the owner, who then looks at its sockets.
  alignas(kPair) std::uint32_t attention;
  /// 1 while the owner has left its core to others. Apart from `sleeping`, which peers look at with every message.
  alignas(kPair) std::uint32_t yielding;
};
static_assert(sizeof(EndpointPage) <= kPage);

/// How a message lies.
enum class Kind : std::uint8_t {
  kInline = 1,  ///< in the header's own line
  kSlot = 2,    ///< where `placement` says among the payloads
  kPull = 3,    ///< in a region of the sender's: `reference`
  kPut = 4,     ///< in the memory that the receiver granted for it
  kShort = 5,   ///< behind the header, from the next line on
  kTimed = 6,   ///< as kSlot; the receiver times its reading (write_policy.h)
};

inline constexpr std::uint64_t kInlineBytes = 40;
/// What lies behind a header at most. There are many headers, so these messages wait for credit as seldom as inline ones.
inline constexpr std::uint64_t kShortBytes = 1024;
/// From header to header: the header, short data, and a line that keeps the next header out of the prefetcher's pair.
inline constexpr std::uint64_t kHeaderStride = kLine + kShortBytes + kLine;
static_assert(kHeaderStride % kPair == 0);
/// Lines that a round of headers with short messages takes at least, by the length of the last one; where messages lie in
/// slots, a round is of as many headers as slots. Fewer are in use where messages come in turn than there could be, since
/// they stay in the first caches (LinkLayout); but with fewer headers of 40 bytes than 16 to 32, each message takes 10 to
/// 15 ns longer (Zen 5, 40 to 60 ns where cores are far; on Zen 4 a bare probe sees no difference).
inline constexpr std::uint64_t kLapLines = 32;
/// Of a message with its header. In a slot it has none behind that, but counts so that a round ends with the last slot.
constexpr std::uint64_t header_lines(std::uint64_t bytes) {
  return bytes <= kInlineBytes ? 1 : 1 + (bytes + kLine - 1) / kLine;
}

/// Where a message lies in a region.
struct Reference {
  std::uint64_t region;
  std::uint64_t offset;
};

/// Where a message lies, and the way in which it was written: one word.
struct Placement {
  std::uint64_t word;
  static constexpr int kPolicyShift = 56;
  static constexpr std::uint64_t kBorrowed = std::uint64_t{1} << 55;
  static constexpr std::uint64_t kRotated = std::uint64_t{1} << 54;

  static constexpr Placement nowhere() { return {UINT64_MAX}; }
  static constexpr Placement slot(std::uint64_t number) { return {number}; }
  /// A slot that is borrowed from the receiver of the message: of the link there that is told of beside this.
  static constexpr Placement borrowed(std::uint64_t number) { return {number | kBorrowed}; }
  static constexpr Placement rotated(std::uint64_t offset) { return {offset | kRotated}; }
  constexpr Placement with(WritePolicy policy, bool passed) const {
    return {word | (static_cast<std::uint64_t>(policy) + (passed ? kWritePolicies : 0)) << kPolicyShift};
  }

  constexpr bool is_nowhere() const { return word == UINT64_MAX; }
  constexpr bool is_borrowed() const { return (word & kBorrowed) != 0; }
  constexpr bool is_rotated() const { return (word & kRotated) != 0; }
  /// Of a slot its number, else bytes from the first payload on.
  constexpr std::uint64_t value() const { return word & (kRotated - 1); }
  /// Of `with`; from kFillings on where the slot was passed, from twice that on it is nonsense.
  constexpr std::uint64_t policy() const { return word >> kPolicyShift; }
};

/// What a sender's messages say of the other direction on its channel: so many messages have been released.
struct CreditUpdate {
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
    CreditUpdate credit;
  };
  std::uint64_t sequence;  ///< n + 1 once message n is here; the `arrived` word
  std::uint64_t fingerprint;
  std::uint64_t size_and_kind;  ///< bytes below, kind in the top byte, and kWrap
  union {
    unsigned char data[kInlineBytes];
    Announcement where;
  };
};
static_assert(sizeof(SlotHeader) == kLine);
/// Inline messages to this length leave room for what is told.
inline constexpr std::uint64_t kTellingBytes = offsetof(SlotHeader::Announcement, credit);

inline constexpr int kKindShift = 56;
inline constexpr std::uint64_t kSizeMask = (std::uint64_t{1} << kKindShift) - 1;
/// The next message has the first header.
inline constexpr std::uint64_t kWrap = std::uint64_t{1} << 63;

constexpr std::uint64_t pack(std::uint64_t bytes, Kind kind) {
  return bytes | (static_cast<std::uint64_t>(kind) << kKindShift);
}
constexpr Kind kind_of(std::uint64_t size_and_kind) { return static_cast<Kind>((size_and_kind & ~kWrap) >> kKindShift); }

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

/// Numbers of kept slots that have room beside their count.
inline constexpr std::uint64_t kKeptBeside = 28;

/// First page of a link's memory.
struct LinkControl {
  alignas(kPair) std::uint64_t consumed;  ///< messages released; written by the receiver; the `reusable` word
  /// Slots that the receiver has kept ever: how many, and a ring of their numbers, which may lie elsewhere (LinkLayout).
  std::uint64_t retained;
  std::uint32_t kept_slots[kKeptBeside];
  alignas(kPair) std::uint64_t withdrawn;  ///< 1 once memory that the sender offered may change under the receiver's eyes
  alignas(kPair) GrantEntry grants[kGrants];
  /// WriteTimes of the receiver; the sender sets to 0 what it took.
  alignas(kPair) std::uint32_t read_ns[kChoices][kWritePolicies];
};
static_assert(sizeof(LinkControl) <= kPage);

/// Where things lie in a link's memory: the control page, the headers, the payloads. Computed alike on both sides from what
/// they agreed.
///
/// Messages have one header after the other; behind the last, and where a message says so (kWrap), the first one
/// comes again. Whoever runs far ahead of its receiver goes through all: a short message needs no more credit than a header
/// is. Where messages come back in turn, as in most collectives, they tell what was released, and few headers are enough,
/// as many as slots, or more of those with little behind them (kLapLines): the fewer lines the two cores pass to and fro,
/// the more of them are where they were left, in the first caches. A lap of 64 headers that hold 1 KiB each takes 270 ns
/// per message, of 3 or 4 headers 150 ns (Zen 4, both ways at once).
///
/// What is neither in its header nor right behind it has a slot, the one that is likeliest in the sender's first caches, or
/// a place in the rotation area behind them (write_policy.h). Its header says where.
///
/// A slot is where it was read: reading what another core has written brings the lines to the reader's cache, and often
/// from the writer's. So the receiver keeps a slot for its own next message to the sender, and lines pass between the cores
/// once for each message instead of twice (4 KiB both ways at once, Zen 4, cores that share the last cache: 260 instead of
/// 530 ns; 64 KiB 3.3 instead of 11.7 us). It keeps one at a time, of the last message or of an earlier one, so that a
/// sender to whom nothing comes back misses one slot, no more. The control page says which; the slot is its owner's again
/// where the owner releases the message in it. A link's slots hold its messages, those of the other direction, at most as
/// many, the one that is kept and one that is about to be sent: so there are twice as many as messages may be under way,
/// and two.
struct LinkLayout {
  std::uint32_t slots = 0;   ///< messages that may be under way
  std::uint32_t places = 0;  ///< where they can lie
  std::uint32_t headers = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t retained_offset = 0;  ///< of the numbers of kept slots
  std::uint64_t payload_offset = 0;   ///< of the first payload
  std::uint64_t stride = 0;           ///< from payload to payload
  std::uint64_t rotation_offset = 0;  ///< of the rotation area, from the first payload
  std::uint64_t payload_bytes = 0;    ///< from the first payload to the end of the rotation area
  std::uint64_t total = 0;            ///< of the whole memory
  /// Whether messages lie alike.
  constexpr bool like(const LinkLayout& other) const { return slots == other.slots && slot_bytes == other.slot_bytes; }
  /// Bytes from the first payload on.
  constexpr std::uint64_t offset_of(Placement at) const { return at.is_rotated() ? at.value() : at.value() * stride; }
  /// Whether a message may lie there.
  constexpr bool holds(Placement at, std::uint64_t bytes) const {
    if (bytes > slot_bytes || bytes > payload_bytes) return false;
    if (at.is_rotated()) return !at.is_borrowed() && at.value() >= rotation_offset && at.value() <= payload_bytes - bytes;
    return at.value() < places && stride != 0;
  }

  static constexpr std::uint32_t kLeastHeaders = 64;
  /// Addresses only: a page takes memory once it is written.
  static constexpr std::uint64_t kRotationBytes = 4 << 20;
  /// Payloads begin on a 128-byte boundary. Their stride is a multiple of 128 but, for slots of a power of two, not of
  /// 4096: their beginnings do not all fall into one set of the cache. The first begins in the middle of a page, since
  /// callers' buffers begin where a page does, or a little behind: copies from and to there are slow where both lie alike
  /// but for a few bytes (src/base/copy.h).
  static constexpr LinkLayout of(std::uint32_t slots, std::uint64_t slot_bytes) {
    LinkLayout l;
    l.slots = slots;
    l.headers = slots > kLeastHeaders ? slots : kLeastHeaders;
    l.places = 2 * slots + 2;
    l.slot_bytes = slot_bytes;
    const std::uint64_t headers_end = kPage + l.headers * kHeaderStride;
    const bool beside = l.places <= kKeptBeside;
    l.retained_offset = beside ? offsetof(LinkControl, kept_slots) : headers_end;
    const std::uint64_t begin = headers_end + (beside ? 0 : l.places * sizeof(std::uint32_t));
    l.payload_offset = (begin + kPage - 1) / kPage * kPage + kPage / 2;
    const std::uint64_t apart = slot_bytes >= kPage ? kPair : 0;
    l.stride = slot_bytes > kInlineBytes ? (slot_bytes + apart + kPair - 1) / kPair * kPair : 0;
    l.rotation_offset = (l.stride * l.places + kPage - 1) / kPage * kPage;
    l.payload_bytes = l.rotation_offset + (slot_bytes >= kLeastTuned ? kRotationBytes : 0);
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
  kRefuseRegion,   ///< receiver of a kRegion → its owner: a id; it has no descriptor or address space for it
};

struct ControlMessage {
  Verb verb;
  std::int32_t rank = -1;
  std::uint64_t channel = 0;
  std::uint64_t serial = 0;  ///< tells one opening of a channel from the next
  std::uint64_t a = 0, b = 0, c = 0;
  std::uint32_t protocol = kProtocol;  ///< where each version has it
  std::uint32_t pid = 0;
};
static_assert(sizeof(ControlMessage) == 56);

/// The one way in which shared words are touched.
template <typename T>
std::atomic_ref<T> shared(T& word) {
  return std::atomic_ref<T>(word);
}

}  // namespace tutti::shm
