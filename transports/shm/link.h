// The two ends of a link. The functions that run for every message are here, inline, and touch the first lines of the
// object and the slot's own lines only.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "include/tutti/transport.h"
#include "src/base/copy.h"
#include "src/base/prefetch.h"
#include "src/base/unique_fd.h"
#include "src/base/unreachable_timer.h"
#include "transports/shm/credit.h"
#include "transports/shm/endpoint.h"
#include "transports/shm/layout.h"
#include "transports/shm/peer.h"
#include "transports/shm/write_placement.h"

namespace tutti::shm {

/// What both ends have in common. `tutti_link*` points to one.
class ShmLink {
 public:
  enum class Stage { kOpening, kOpen, kBroken };

  virtual ~ShmLink();
  ShmLink(const ShmLink&) = delete;
  ShmLink& operator=(const ShmLink&) = delete;

  std::uint64_t channel() const { return channel_; }
  std::uint64_t serial() const { return serial_; }
  Stage stage() const { return stage_; }
  Peer& peer() const { return peer_; }
  Endpoint& endpoint() const { return endpoint_; }

  tutti_link_result state(tutti_link_state* state) const;
  /// Why the link can bring nothing more; empty while it can.
  virtual std::string failure() const = 0;
  virtual tutti_quiesced quiesce() = 0;
  /// Quiesces, and tells the peer that this end goes. Throws std::bad_alloc.
  virtual void give_up() = 0;
  void count(tutti_link_stats& stats) const {
    stats.messages = next_;
    stats.bytes = bytes_;
    stats.stalls = stalls_;
  }

  /// The link can carry nothing new from here on; the first sentence stays.
  void break_off(std::string why);
  /// At `now`, while it is opening: where its peer could not be reached for too long altogether it breaks, and it is true.
  bool expire(std::uint64_t now);

 protected:
  ShmLink(Endpoint& endpoint, Peer& peer, std::uint64_t channel, std::uint32_t slots, std::uint64_t slot_bytes);
  void settle(Stage stage);
  tutti_link_result broken(std::string why) {
    break_off(std::move(why));
    return TUTTI_LINK_BROKEN;
  }
  tutti_link_result nothing() const { return stage_ == Stage::kBroken ? TUTTI_LINK_BROKEN : TUTTI_LINK_NOT_YET; }
  std::string peer_name() const { return "rank " + std::to_string(peer_.rank()); }
  /// That the peer opened the channel with those slots.
  std::string differs(const ControlMessage& theirs) const;
  virtual void on_broken() {}
  /// Takes the memory over and finds the words in it.
  void attach(Mapping mapping);
  unsigned char* memory() const { return static_cast<unsigned char*>(mapping_.data()); }
  unsigned char* headers_begin() const { return memory() + kPage; }
  /// The header behind the next message's, which says whether it is the first one again.
  unsigned char* following(bool again) const {
    return again || at_ + kHeaderStride == headers_end_ ? headers_begin() : at_ + kHeaderStride;
  }

  // What every message touches.
  unsigned char* at_ = nullptr;     ///< header of the next message
  std::uint64_t next_ = 0;          ///< number of the next message
  std::uint64_t inline_limit_ = 0;  ///< sender: first message without a header, as known; 0 where the link is not open
  unsigned char* headers_end_ = nullptr;
  std::uint64_t limit_ = 0;  ///< sender: first message without a payload, likewise
  std::uint64_t bytes_ = 0;  ///< of all messages sent, or released
  LinkControl* control_ = nullptr;
  EndpointPage* peer_page_ = nullptr;
  ChannelPair& channel_pair_;
  LinkLayout layout_;

  Endpoint& endpoint_;
  Peer& peer_;
  const std::uint64_t channel_;
  std::uint64_t serial_ = 0;
  std::uint64_t stalls_ = 0;  ///< times that a sender had no credit
  Stage stage_ = Stage::kOpening;
  UnreachableTimer absence_;  ///< of its peer, while it is opening
  std::string why_;
  Mapping mapping_;
  virtual const std::uint64_t* reusable() const { return nullptr; }

  SlotHeader& header() const { return *reinterpret_cast<SlotHeader*>(at_); }
  void wake() const {
    // Relaxed, and not ordered after the store before it. That store may still be in our store buffer while the peer, about
    // to sleep, sets this word. Where it then looks at ours for a last time, both miss each other. A full fence on every
    // message would cost more than it saves. The peer's naps are bounded for this reason, as transport.h says.
    if (shared(peer_page_->sleeping).load(std::memory_order_relaxed) != 0) [[unlikely]]
      peer_.ring();
  }
};

/// The producer: owns the memory.
class SenderLink final : public ShmLink {
 public:
  SenderLink(Endpoint& endpoint, Peer& peer, std::uint64_t channel, std::uint32_t slots, std::uint64_t slot_bytes);
  ~SenderLink() override;
  /// Creates the memory and tells the peer.
  Status begin();

  tutti_link_result reserve(std::uint64_t bytes, std::uint64_t fingerprint, tutti_room& room) {
    if (bytes <= kShortBytes) {
      if (next_ >= inline_limit_ && !find_credit(inline_limit_)) [[unlikely]]
        return no_credit();
      room = {short_room(bytes), 0};
      return TUTTI_LINK_OK;
    }
    if (next_ >= limit_ && !find_credit(limit_)) return no_credit();
    return reserve_large(bytes, fingerprint, room);
  }

  /// Whether what is reserved is memory that the receiver granted.
  bool has_grant() const { return granted_ != nullptr; }

  tutti_link_result commit(std::uint64_t bytes, std::uint64_t fingerprint) {
    if (stage_ == Stage::kBroken) [[unlikely]]
      return TUTTI_LINK_BROKEN;
    SlotHeader& h = header();
    Kind kind = Kind::kSlot;
    if (bytes <= kInlineBytes) {
      // Small data waits here until now, so that the line which the receiver polls is taken from it once, not at each
      // store.
      if (bytes <= kTellingBytes) {
        // A word of its own is most of what comes, and is taken from the store buffer where a longer read would wait for
        // it.
        std::memcpy(h.data, staged_, sizeof(std::uint64_t));
        if (bytes > sizeof(std::uint64_t)) std::memcpy(h.data + 8, staged_ + 8, kTellingBytes - 8);
        credit(h);
      } else {
        std::memcpy(h.data, staged_, kInlineBytes);
      }
      publish(h, pack(bytes, Kind::kInline), fingerprint);
      return TUTTI_LINK_OK;
    } else if (bytes <= kShortBytes) {
      kind = Kind::kShort;
    } else if (granted_ != nullptr) {
      kind = Kind::kPut;
      finish_put();
    } else {
      return commit_placed(bytes, fingerprint);
    }
    credit(h);
    publish(h, pack(bytes, kind), fingerprint);
    if (kind == Kind::kShort) prefetch_short(bytes);
    return TUTTI_LINK_OK;
  }

  /// All of the above, of what lies in one piece.
  tutti_link_result send(const void* source, std::uint64_t bytes, std::uint64_t fingerprint) {
    if (bytes <= kTellingBytes) {
      if (next_ >= inline_limit_ && !find_credit(inline_limit_)) [[unlikely]]
        return no_credit();
      SlotHeader& h = header();
      copy_few(h.data, static_cast<const unsigned char*>(source), bytes);
      credit(h);
      publish(h, pack(bytes, Kind::kInline), fingerprint);
      return TUTTI_LINK_OK;
    }
    if (bytes <= kShortBytes) {
      if (next_ >= inline_limit_ && !find_credit(inline_limit_)) [[unlikely]]
        return no_credit();
      copy_memory(short_room(bytes), source, bytes);
      return commit(bytes, fingerprint);
    }
    return send_large(source, bytes, fingerprint);
  }

  tutti_link_result offer(OwnRegion* region, const void* source, std::uint64_t bytes, std::uint64_t fingerprint);

  std::string failure() const override { return stage_ == Stage::kBroken ? why_ : std::string(); }
  tutti_quiesced quiesce() override;
  void give_up() override;

  // From the peer.
  void accepted();
  void refused(const ControlMessage& message) { break_off(differs(message)); }
  void receiver_closed(std::string why) {
    slots_.peer_closed();
    break_off(std::move(why));
  }
  /// It could not take that region of ours: what it shall pull from there is copied into its slots.
  void region_refused(std::uint64_t id);

 private:
  /// At most kTellingBytes, of which a call would be a good part: the first and the last of them, which may be the same.
  static void copy_few(unsigned char* to, const unsigned char* from, std::uint64_t bytes) {
    static_assert(kTellingBytes <= 24);
    const auto both_ends = [&]<typename Word>(Word) {
      Word first, last;
      std::memcpy(&first, from, sizeof first);
      std::memcpy(&last, from + bytes - sizeof last, sizeof last);
      std::memcpy(to, &first, sizeof first);
      std::memcpy(to + bytes - sizeof last, &last, sizeof last);
    };
    if (bytes > 16) std::memcpy(to + 8, from + 8, 8);
    if (bytes >= 8) return both_ends(std::uint64_t{});
    if (bytes >= 4) return both_ends(std::uint32_t{});
    if (bytes >= 2) return both_ends(std::uint16_t{});
    if (bytes == 1) *to = *from;
  }
  /// Word by word, as they were stored: a load of both would wait for the last of the two stores.
  void credit(SlotHeader& h) const {
    shared(h.where.credit.serial)
        .store(channel_pair_.our_credit.serial, std::memory_order_relaxed);  // relaxed: `publish` follows
    shared(h.where.credit.released).store(channel_pair_.our_credit.released, std::memory_order_relaxed);
  }
  [[gnu::noinline]] tutti_link_result no_credit() {
    ++stalls_;
    return nothing();
  }
  tutti_link_result resend(std::uint64_t message, const OwnRegion* region, std::uint64_t id);
  /// Whether a message that was to be pulled has room in its slot.
  bool fits(std::uint64_t bytes) const { return bytes <= layout_.slot_bytes && layout_.slot_bytes > kInlineBytes; }
  tutti_link_result cannot_copy(std::uint64_t bytes);
  void on_broken() override { limit_ = inline_limit_ = 0; }
  const std::uint64_t* reusable() const override { return control_ != nullptr ? &control_->consumed : nullptr; }
  /// Looks how much has been released, and whether the next message is below `limit` then, one of the two below.
  bool find_credit(const std::uint64_t& limit);
  void set_limits() {
    inline_limit_ = credit_.inline_limit();
    limit_ = credit_.limit();
  }
  /// What the peer's messages said of our messages' release.
  std::uint64_t told() const { return channel_pair_.peer_credit.released; }
  void learn() {
    if (credit_.learn(told(), next_)) set_limits();
  }
  /// The next message is often like this one. Where it waits for an answer first, all its lines may come meanwhile. A
  /// sender that goes on and on has no time for that, and would contend for lines that the peer prefetches behind what it
  /// reads.
  void prefetch_short(std::uint64_t bytes) {
    const std::uint64_t end = credit_.in_turn(next_, told()) ? bytes : 1;
    for (std::uint64_t i = 0; i < end; i += kLine) prefetch_to_write(at_ + kLine + i);
  }
  /// The peer has kept all slots.
  [[gnu::noinline]] tutti_link_result miss_slots();
  unsigned char* short_room(std::uint64_t bytes) { return bytes <= kInlineBytes ? staged_ : at_ + kLine; }
  tutti_link_result send_large(const void* source, std::uint64_t bytes, std::uint64_t fingerprint);
  tutti_link_result reserve_large(std::uint64_t bytes, std::uint64_t fingerprint, tutti_room& room);
  unsigned char* take_grant(std::uint64_t bytes, std::uint64_t fingerprint);
  void finish_put();
  tutti_link_result commit_placed(std::uint64_t bytes, std::uint64_t fingerprint);
  std::uint64_t rotation_span() const;

  void publish(SlotHeader& h, std::uint64_t size_and_kind, std::uint64_t fingerprint) {
    if (told() != credit_.consumed()) learn();
    const bool again = credit_.wraps_early(next_, size_and_kind & kSizeMask, told());
    h.fingerprint = fingerprint;
    h.size_and_kind = size_and_kind | (again ? kWrap : 0);
    // Release: payload and header must be visible to whoever acquires the sequence. Only we write it.
    const std::uint64_t next = next_ + 1;
    shared(h.sequence).store(next, std::memory_order_release);
    next_ = next;
    bytes_ += size_and_kind & kSizeMask;
    at_ = following(again);
    if (at_ == headers_begin()) {
      credit_.begin_lap(next);
      set_limits();
    }
    // The receiver read the next header's line last, a lap ago, and polls it soon. As our own line by then, it takes the
    // next message with one transfer between the cores instead of two.
    prefetch_to_write(at_);
    wake();
  }

  alignas(kLine) unsigned char staged_[kLine] = {};
  SenderCredit credit_;
  PeerRegion* granted_ = nullptr;        ///< of the reserved message, held until it is committed
  unsigned char* granted_at_ = nullptr;  ///< where it is written
  SenderSlots slots_;
  WritePlacement writing_;
};

/// The consumer: maps the producer's memory and reads it where it lies.
class ReceiverLink final : public ShmLink {
 public:
  ReceiverLink(Endpoint& endpoint, Peer& peer, std::uint64_t channel, std::uint32_t slots, std::uint64_t slot_bytes);
  ~ReceiverLink() override;
  /// Takes the sender's announcement where it is there already.
  Status begin();

  tutti_link_result view(tutti_message* message) {
    if (stage_ == Stage::kOpening || control_ == nullptr) [[unlikely]]
      return nothing();
    SlotHeader& h = header();
    for (std::uint64_t i = 0; i < expected_; i += kLine) prefetch_to_read(at_ + kLine + i);
    // Acquire: pairs with the sender's release of the same word, behind header and payload.
    if (shared(h.sequence).load(std::memory_order_acquire) != next_ + 1) return nothing();
    viewed_ = next_ + 1;
    // Acquire: a message that was to be pulled may have become one in its slot, with its bytes before this word.
    const std::uint64_t size_and_kind = shared(h.size_and_kind).load(std::memory_order_acquire);
    const std::uint64_t bytes = size_and_kind & kSizeMask;
    const Kind kind = kind_of(size_and_kind);
    again_ = (size_and_kind & kWrap) != 0;
    message->bytes = viewed_bytes_ = bytes;
    message->fingerprint = h.fingerprint;
    const std::uint64_t peer_credit = channel_pair_.peer_credit.released;
    if (kind != Kind::kInline || bytes <= kTellingBytes) hear(h.where.credit);
    expected_ = 0;
    if (kind == Kind::kInline && bytes <= kInlineBytes) {
      message->data = h.data;
      return TUTTI_LINK_OK;
    }
    if (kind == Kind::kShort && bytes <= kShortBytes) {
      message->data = at_ + kLine;
      if (bytes <= kExpectedBytes && channel_pair_.peer_credit.released != peer_credit) expected_ = bytes;
      return TUTTI_LINK_OK;
    }
    return view_elsewhere(message, size_and_kind);
  }

  tutti_link_result revalidate() { return pulled_ == nullptr || still_offered() ? TUTTI_LINK_OK : TUTTI_LINK_BROKEN; }

  void release() {
    if (pulled_ != nullptr) [[unlikely]]
      drop_pulled();
    if (timer_.is_running()) [[unlikely]]
      timer_.stop();
    if (slots_.is_reading()) slots_.release();
    at_ = following(again_);
    bytes_ += viewed_bytes_;
    channel_pair_.our_credit.released = ++next_;
    // Release: our reads of the slot come before the sender may write it again. Only we write this word.
    shared(control_->consumed).store(next_, std::memory_order_release);
    wake();
  }

  tutti_link_result grant(OwnRegion* region, void* target, std::uint64_t bytes, std::uint64_t fingerprint);

  /// While messages are here that were committed before the sender ended, there is nothing to complain about.
  std::string failure() const override;
  tutti_quiesced quiesce() override;
  void give_up() override;

  // From the peer.
  void offered(const ControlMessage& message, const SharedFd& memory);

 private:
  struct Granted {
    std::uint64_t message = UINT64_MAX;
    void* target = nullptr;
    std::uint64_t bytes = 0;
  };

  tutti_link_result malformed(const std::string& what);
  [[gnu::noinline]] tutti_link_result misplaced(Placement at, std::uint64_t bytes);
  tutti_link_result oversized(std::uint64_t size_and_kind);
  /// A message that is not behind its header.
  [[gnu::noinline]] tutti_link_result view_elsewhere(tutti_message* message, std::uint64_t size_and_kind);
  tutti_link_result view_pull(tutti_message* message);
  bool still_offered();
  tutti_link_result view_put(tutti_message* message);
  tutti_link_result view_slot(tutti_message* message, Kind kind);
  void drop_pulled();
  /// The peer tells about the link that we have now, or about one that we had.
  void hear(CreditUpdate& credit) {
    // Relaxed: each word is read once, as the peer may write nonsense at any time; both came with the message.
    const std::uint64_t serial = shared(credit.serial).load(std::memory_order_relaxed);
    if (serial == channel_pair_.peer_credit.serial)
      channel_pair_.peer_credit.released = shared(credit.released).load(std::memory_order_relaxed);
    if (!channel_pair_.gone.empty() && channel_pair_.gone.front().serial < serial) [[unlikely]]
      forget_before(serial);
  }
  /// Out of line by itself, so that looking for a message saves no register for it.
  [[gnu::noinline]] void forget_before(std::uint64_t serial) { slots_.forget_before(serial); }
  /// Whether message next_, or the one after it, is here.
  bool arrived(std::uint64_t message) const;
  bool take_back(const Granted& granted);

  /// Bytes behind the next header that are fetched with every look at it, so that they come with the header. They are those
  /// of a message like the last one, if that answered one of ours. Where messages go one way, or are many, the sender would
  /// only find its lines taken while it writes them.
  std::uint64_t expected_ = 0;
  static constexpr std::uint64_t kExpectedBytes = 512;
  std::uint64_t viewed_ = 0;        ///< messages that the caller has seen: a grant is for a later one
  std::uint64_t viewed_bytes_ = 0;  ///< of the last of them
  bool again_ = false;              ///< the message after it has the first header
  bool damaged_ = false;
  PeerRegion* pulled_ = nullptr;  ///< of the viewed message, held until it is released
  ReadTimer timer_;               ///< of that message
  ReceiverSlots slots_;
  const void* pulled_data_ = nullptr;
  std::uint64_t pulled_bytes_ = 0;
  std::uint64_t next_grant_ = 0;
  Granted granted_[kGrants];
};

}  // namespace tutti::shm
