#include "transports/shm/channel_pair.h"

#include <algorithm>

#include "src/base/copy.h"

namespace tutti::shm {

void ChannelPair::peer_closed(std::uint64_t serial) {
  for (RetiredMemory& memory : gone) {
    if (memory.serial == serial) memory.is_closed = true;
  }
}

void SenderSlots::open(std::uint64_t serial, unsigned char* memory) {
  serial_ = serial;
  payloads_ = memory + layout_.payload_offset;
  pool_.open({memory, layout_});
  pair_.sender = this;
}

void SenderSlots::close(bool all_released, Mapping memory) {
  if (pair_.sender != this) return;
  pair_.sender = nullptr;
  ReceiverSlots* const reader = pair_.receiver;
  const bool is_read = reader != nullptr && reader->reads_from(serial_);
  if (!all_released || !pool_.is_whole() || is_read) leave_memory(std::move(memory));
  const bool owes = !all_released || (!next_.is_nowhere() && next_.is_borrowed());
  if (reader != nullptr && owes) reader->stop_keeping();
}

/// Messages that are still to be read may lie there. The peer says when none does, by what else it sends; one that sends
/// nothing is believed to lend from the last few links only.
void SenderSlots::leave_memory(Mapping memory) {
  constexpr std::size_t most = 8;
  std::list<RetiredMemory>& gone = pair_.gone;
  retired_.front() = {serial_, std::move(memory), layout_, peer_closed_};
  gone.splice(gone.end(), retired_);
  if (gone.size() <= most) return;
  gone.erase(std::find_if_not(gone.begin(), gone.end(), [reader = pair_.receiver](const RetiredMemory& retired) {
    return reader != nullptr && reader->reads_from(retired.serial);
  }));
}

ReceiverSlots* SenderSlots::lender() const {
  ReceiverSlots* const receiver = pair_.receiver;
  return receiver != nullptr && receiver->layout().like(layout_) ? receiver : nullptr;
}

bool SenderSlots::is_next_recently_read() const {
  if (has_next()) return is_recently_read_;
  const ReceiverSlots* const from = lender();
  return pool_.has_returned() || (from != nullptr && from->has_kept());
}

/// One that we have read: the peer's that is kept, else ours that was returned last; else any of ours.
void SenderSlots::take() {
  if (lent_memory_) [[unlikely]]
    lent_memory_ = {};  // it held a slot that is given up
  is_recently_read_ = is_next_recently_read();
  ReceiverSlots* const from = lender();
  if (const std::uint32_t kept = from != nullptr ? from->take_kept() : SlotPool::kNone; kept != SlotPool::kNone) {
    lender_ = from->serial();
    lent_payloads_ = from->payloads();
    next_ = Placement::borrowed(kept);
    return;
  }
  const std::uint32_t own = pool_.take(credit_.consumed());
  next_ = own == SlotPool::kNone ? Placement::nowhere() : Placement::slot(own);
}

Placement SenderSlots::send(std::uint64_t message, std::uint64_t bytes) {
  const Placement at = std::exchange(next_, Placement::nowhere());
  if (!at.is_borrowed()) {
    pool_.send(static_cast<std::uint32_t>(at.value()), message);
  } else if (!has_lender()) [[unlikely]] {
    return send_copy(message, address(at), bytes);
  }
  return at;
}

Placement SenderSlots::send_copy(std::uint64_t message, const void* from, std::uint64_t bytes) {
  const std::uint32_t slot = pool_.take(credit_.consumed());
  if (slot == SlotPool::kNone) return Placement::nowhere();
  copy_memory(address(Placement::slot(slot)), from, bytes);
  pool_.send(slot, message);
  return Placement::slot(slot);
}

void SenderSlots::on_lender_closed(std::uint64_t serial, Mapping memory) {
  if (!next_.is_nowhere() && next_.is_borrowed() && lender_ == serial) lent_memory_ = std::move(memory);
}

void ReceiverSlots::open(std::uint64_t serial, unsigned char* memory) {
  serial_ = serial;
  payloads_ = memory + layout_.payload_offset;
  kept_ever_ = {memory, layout_};
  pair_.receiver = this;
}

void ReceiverSlots::close(Mapping memory) {
  if (pair_.receiver != this) return;
  pair_.receiver = nullptr;
  if (pair_.sender != nullptr) pair_.sender->on_lender_closed(serial_, std::move(memory));
}

const unsigned char* ReceiverSlots::view(Placement at, std::uint64_t serial, std::uint64_t bytes) {
  // Both links of a channel lie alike, or neither lends.
  const unsigned char* const from = at.is_borrowed() ? own_payloads(serial) : payloads_;
  if (from == nullptr || !layout_.holds(at, bytes)) [[unlikely]]
    return nullptr;
  viewed_ = at;
  viewed_serial_ = serial;
  return from + layout_.offset_of(at);
}

const unsigned char* ReceiverSlots::own_payloads(std::uint64_t serial) const {
  const SenderSlots* const sender = pair_.sender;
  if (sender != nullptr && sender->serial() == serial) return sender->layout().like(layout_) ? sender->payloads() : nullptr;
  for (const RetiredMemory& memory : pair_.gone) {
    if (memory.serial != serial || !memory.layout.like(layout_)) continue;
    return static_cast<const unsigned char*>(memory.mapping.data()) + layout_.payload_offset;
  }
  return nullptr;
}

void ReceiverSlots::release() {
  const Placement at = std::exchange(viewed_, Placement::nowhere());
  const auto slot = static_cast<std::uint32_t>(at.value());
  SenderSlots* const sender = pair_.sender;
  if (sender == nullptr) return;
  if (at.is_borrowed()) {
    sender->put_back(viewed_serial_, slot);
  } else if (!at.is_rotated() && keeps_ && !has_kept() && sender->layout().like(layout_)) {
    kept_ = slot;
    kept_ever_.add(kept_count_++, slot);
  }
}

void ReceiverSlots::forget_before(std::uint64_t serial) {
  std::erase_if(pair_.gone,
                [&](const RetiredMemory& memory) { return memory.serial < serial && !reads_from(memory.serial); });
}

}  // namespace tutti::shm
