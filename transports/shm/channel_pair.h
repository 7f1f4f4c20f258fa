// What the two links of a channel, there and back, share at one end: credit, and slots that pass to and fro between them.
//
//     our end                                        the peer's end
//     SenderSlots   ── message in slot 5 of ours ──→ ReceiverSlots     reads it, and keeps slot 5
//          ↑                                              │ lends it
//     ReceiverSlots ←── message in slot 5 of ours ── SenderSlots       borrows it, and writes its next message there
//          └ returns slot 5
//
// Why slots do so is said in layout.h. A link may go while its slots are out: its memory then stays until nobody reads
// there.
#pragma once

#include <cstdint>
#include <list>
#include <utility>

#include "src/base/unique_fd.h"
#include "transports/shm/credit.h"
#include "transports/shm/layout.h"
#include "transports/shm/slot_pool.h"

namespace tutti::shm {

class SenderSlots;
class ReceiverSlots;

/// Memory of a sending link that is gone.
struct RetiredMemory {
  std::uint64_t serial;
  Mapping mapping;
  LinkLayout layout;
  bool is_closed = false;  ///< the peer's end is closed, too: it lends no more from there
};

/// What the two links of a channel have to tell each other at one end.
struct ChannelPair {
  CreditUpdate our_credit;        ///< what our receiving link has released: our sending link's messages say so
  CreditUpdate peer_credit;       ///< what the peer's messages said of our sending link's
  SenderSlots* sender = nullptr;  ///< while that link has its memory, and likewise
  ReceiverSlots* receiver = nullptr;
  /// Of our former sending links, the oldest first: messages of the peer's may still lie in them, for whichever receiving
  /// link reads them.
  std::list<RetiredMemory> gone;

  /// The peer has closed its end of our sending link of that serial.
  void peer_closed(std::uint64_t serial);
  /// Nothing is read at this end, so what the peer lends no more is freed.
  void sweep() {
    gone.remove_if([](const RetiredMemory& memory) { return memory.is_closed; });
  }
};

/// The slots that a sending link's messages take: its own, or the one that the receiving link of its pair lends. Belongs to
/// the link, as does its memory, until `close` hands that over. Pair, credit and layout outlive it. Not thread safe.
class SenderSlots {
 public:
  SenderSlots(ChannelPair& pair, const SenderCredit& credit, const LinkLayout& layout)
      : pair_(pair), credit_(credit), layout_(layout), pool_(layout) {}
  SenderSlots(const SenderSlots&) = delete;
  SenderSlots& operator=(const SenderSlots&) = delete;

  /// The link of that serial has its memory.
  void open(std::uint64_t serial, unsigned char* memory);
  /// It ends. Memory in which messages may still be read goes to ChannelPair::gone.
  void close(bool all_released, Mapping memory);
  std::uint64_t serial() const { return serial_; }
  const LinkLayout& layout() const { return layout_; }
  const unsigned char* payloads() const { return payloads_; }

  /// The slot of the next message, the same one until it is sent or its lender is gone. There is credit for it. Nowhere:
  /// the peer has kept all slots, so its memory is damaged.
  Placement next() {
    if (!has_next()) take();
    return next_;
  }
  /// Whether `next` is, or would be, a slot that this end has read last.
  bool is_next_recently_read() const;
  /// `message` was written to `next`. It is moved where that slot's lender is gone, since messages tell by the link that is
  /// there whose slot they are in. Returns where it lies; nowhere: as `next`.
  Placement send(std::uint64_t message, std::uint64_t bytes);
  /// Sends a copy of `from` as `message`, in a slot of our own. Returns where it lies; nowhere: as `next`.
  Placement send_copy(std::uint64_t message, const void* from, std::uint64_t bytes);
  unsigned char* address(Placement at) const {
    return (at.is_borrowed() ? lent_payloads_ : payloads_) + layout_.offset_of(at);
  }
  void find_kept() { pool_.find_kept(credit_.consumed()); }

  /// The peer has closed the other end: it lends nothing more from here.
  void peer_closed() { peer_closed_ = true; }

  // From the receiving link of the pair.
  /// The peer had kept that slot of the link of that serial, and what it wrote there is read.
  void put_back(std::uint64_t serial, std::uint32_t slot) {
    if (serial == serial_) pool_.put_back(slot);
  }
  /// The link of that serial goes, and this is its memory.
  void on_lender_closed(std::uint64_t serial, Mapping memory);

 private:
  /// Whose link lends us slots, if any.
  ReceiverSlots* lender() const;
  bool has_lender() const { return pair_.our_credit.serial == lender_; }
  bool has_next() const { return !next_.is_nowhere() && (!next_.is_borrowed() || has_lender()); }
  void take();
  void leave_memory(Mapping memory);

  ChannelPair& pair_;
  const SenderCredit& credit_;
  const LinkLayout& layout_;
  std::uint64_t serial_ = 0;
  unsigned char* payloads_ = nullptr;
  SlotPool pool_;
  Placement next_ = Placement::nowhere();  ///< taken, and not sent yet
  bool is_recently_read_ = false;          ///< this end has read it last
  std::uint64_t lender_ = 0;               ///< serial of the link that lends it
  unsigned char* lent_payloads_ = nullptr;
  Mapping lent_memory_;  ///< of a lender that is gone, while its slot is here
  /// A node for ChannelPair::gone, made beforehand: when that is needed, there may be no memory.
  bool peer_closed_ = false;
  std::list<RetiredMemory> retired_{1};
};

/// The slot that a receiving link reads, and the one that it keeps for the pair's sending link. Belongs to the link; pair
/// and layout outlive it. Not thread safe.
class ReceiverSlots {
 public:
  ReceiverSlots(ChannelPair& pair, const LinkLayout& layout) : pair_(pair), layout_(layout) {}
  ReceiverSlots(const ReceiverSlots&) = delete;
  ReceiverSlots& operator=(const ReceiverSlots&) = delete;

  /// The link has mapped the memory of the sender with that serial.
  void open(std::uint64_t serial, unsigned char* memory);
  /// It ends. The memory goes to the sending link where that writes there.
  void close(Mapping memory);
  std::uint64_t serial() const { return serial_; }
  const LinkLayout& layout() const { return layout_; }
  unsigned char* payloads() const { return payloads_; }

  /// The address of `bytes` that are placed so, of our link `serial` where that is borrowed; they are read until `release`.
  /// Null: no message can lie there.
  const unsigned char* view(Placement at, std::uint64_t serial, std::uint64_t bytes);
  bool is_reading() const { return !viewed_.is_nowhere(); }
  /// What `view` gave is read. Before the message is said to be released.
  void release();
  /// The peer reads from our link `serial`, so it lends no more from earlier ones. (Whoever reads from none may have what
  /// comes next from one that is gone here.)
  void forget_before(std::uint64_t serial);

  // From the sending link of the pair.
  /// The slot of the sender's that was kept, for a message to it; no more than once. SlotPool::kNone where there is none.
  std::uint32_t take_kept() { return std::exchange(kept_, SlotPool::kNone); }
  bool has_kept() const { return kept_ != SlotPool::kNone; }
  /// Whether the message that is being read lies in memory of our sending link of that serial.
  bool reads_from(std::uint64_t serial) const { return is_reading() && viewed_.is_borrowed() && viewed_serial_ == serial; }
  /// It goes, and a slot that it borrowed may never come back. Nothing is kept from here on, or more would be missing.
  void stop_keeping() {
    keeps_ = false;
    kept_ = SlotPool::kNone;
  }

 private:
  /// The payloads of our sending link `serial`; null where they are gone.
  const unsigned char* own_payloads(std::uint64_t serial) const;

  Placement viewed_ = Placement::nowhere();  ///< what is read
  std::uint64_t viewed_serial_ = 0;          ///< and of which link of ours, where it is borrowed
  ChannelPair& pair_;
  const LinkLayout& layout_;
  std::uint64_t serial_ = 0;
  unsigned char* payloads_ = nullptr;
  KeptSlots kept_ever_;
  std::uint64_t kept_count_ = 0;
  std::uint32_t kept_ = SlotPool::kNone;  ///< a slot of the sender's, for our next message to it
  bool keeps_ = true;
};

}  // namespace tutti::shm
