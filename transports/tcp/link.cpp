#include "transports/tcp/link.h"

#include <algorithm>

#include "transports/tcp/peer.h"
#include "transports/tcp/stream.h"

namespace tutti::tcp {

namespace {

// Beyond these, released buffers go back to the system.
constexpr std::size_t kKeptBuffers = 64;

static_assert(sizeof(std::atomic<std::uint64_t>) == 8 && std::atomic<std::uint64_t>::is_always_lock_free,
              "the words that agents poll are the atomics themselves");

std::size_t kept_buffers(const LinkShape& shape) { return std::min<std::size_t>(shape.window, kKeptBuffers); }

}  // namespace

std::uint32_t window_for(std::uint32_t slots) { return 2 * std::max(slots, 1u); }

void TcpLink::fail(const std::string& sentence, bool orderly) {
  if (broken_) return;
  broken_ = true;
  orderly_ = orderly;
  fault_ = sentence;
}

void TcpLink::fill_state(tutti_link_state* state) const {
  tutti_link_state full{};
  full.size = sizeof full;
  full.capabilities = TUTTI_CAN_OFFER_ANY | TUTTI_CAN_GRANT_ANY | TUTTI_NEEDS_PROGRESS;
  full.slots = shape_.window;
  full.slot_bytes = shape_.slot_bytes;
  *state = full;
}

void TcpLink::attach(Stream& stream) {
  stream_ = &stream;
  OutFrame frame;
  frame.header = control_frame(FrameKind::kOpen, shape_.channel, shape_.window, shape_.slot_bytes);
  frame.header.flags = sends() ? kBySender : 0;
  stream.send(std::move(frame));
}

void TcpLink::opened(std::uint64_t window, std::uint64_t slot_bytes) {
  if (window != shape_.window || slot_bytes != shape_.slot_bytes) {
    fail(peer_.name() + " opened channel " + std::to_string(shape_.channel) + " with " + std::to_string(window / 2) +
         " slots of " + std::to_string(slot_bytes) + " bytes, this rank with " + std::to_string(shape_.window / 2) +
         " of " + std::to_string(shape_.slot_bytes));
    return;
  }
  open_ = true;
}

// A peer that said goodbye did so after its last message: those that wait to be viewed are as good as ever.
tutti_link_result TcpLink::failure() const {
  return !broken_ || (orderly_ && still_of_use()) ? TUTTI_LINK_OK : TUTTI_LINK_BROKEN;
}

// ---- Sender.

Sender::Sender(Peer& peer, const LinkShape& shape)
    : TcpLink(peer, shape), limit_(shape.window), staging_(shape.slot_bytes, kept_buffers(shape)) {}

tutti_link_result Sender::state(tutti_link_state* state) {
  if (failure() == TUTTI_LINK_BROKEN) return TUTTI_LINK_BROKEN;
  if (!open_) return TUTTI_LINK_NOT_YET;
  fill_state(state);
  state->reusable = reinterpret_cast<const std::uint64_t*>(&reusable_);
  return TUTTI_LINK_OK;
}

bool Sender::credit(std::uint64_t limit) {
  // The receiver can only have released what was sent, and never takes credit back.
  if (!open_ || limit < limit_ || limit > sent_ + shape_.window) return false;
  limit_ = limit;
  return true;
}

tutti_link_result Sender::reserve(std::uint64_t bytes, tutti_room& room) {
  if (broken_) return TUTTI_LINK_BROKEN;
  if (!may_send() || bytes > shape_.slot_bytes) {
    ++stalls_;
    return TUTTI_LINK_NOT_YET;
  }
  if (!reserved_ || reserved_.capacity() < bytes) reserved_ = staging_.take(bytes);
  room = {reserved_.data(), 0};
  return TUTTI_LINK_OK;
}

tutti_link_result Sender::commit(std::uint64_t bytes, std::uint64_t fingerprint) {
  if (broken_ || !reserved_ || reserved_.capacity() < bytes) return TUTTI_LINK_BROKEN;
  const void* source = reserved_.data();
  return send(source, bytes, fingerprint, std::move(reserved_));
}

tutti_link_result Sender::offer(const void* source, std::uint64_t bytes, std::uint64_t fingerprint) {
  if (broken_) return TUTTI_LINK_BROKEN;
  if (!may_send()) {
    ++stalls_;
    return TUTTI_LINK_NOT_YET;
  }
  return send(source, bytes, fingerprint, ByteBuffer());
}

tutti_link_result Sender::send(const void* source, std::uint64_t bytes, std::uint64_t fingerprint, ByteBuffer staging) {
  if (bytes > kMaxMessage) {
    fail("a message of " + std::to_string(bytes) + " bytes for " + peer_.name() + " is longer than any may be");
    return TUTTI_LINK_BROKEN;
  }
  OutFrame frame;
  frame.header = control_frame(FrameKind::kData, shape_.channel, sent_++, bytes);
  frame.header.fingerprint = fingerprint;
  frame.payload = static_cast<const std::byte*>(source);
  frame.staging = std::move(staging);
  frame.sender = this;
  messages_counted_ = sent_;
  bytes_counted_ += bytes;
  stream_->send(std::move(frame));
  return broken_ ? TUTTI_LINK_BROKEN : TUTTI_LINK_OK;
}

void Sender::gone(ByteBuffer staging) {
  staging_.give(std::move(staging));
  // Release: whoever sees the count with acquire may overwrite the source, so our reads of it (the kernel's copy) come
  // first. Only this thread writes the word, so a relaxed load of it is current.
  reusable_.store(reusable_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// What the peer took before it left is flushed, so a broken link is no error by itself.
tutti_link_result Sender::flushed() {
  // Relaxed: this thread's own word.
  // The last sender to have something under way sees to what others of its connection, which are through, left behind it.
  const auto all_gone = [this] {
    return reusable_.load(std::memory_order_relaxed) == sent_ && (stream_ == nullptr || stream_->settled());
  };
  if (!all_gone() && !broken_) stream_->write();
  if (all_gone()) return TUTTI_LINK_OK;
  return broken_ ? TUTTI_LINK_BROKEN : TUTTI_LINK_NOT_YET;
}

tutti_quiesced Sender::give_up() {
  if (stream_ == nullptr) return TUTTI_QUIESCED;
  return stream_->forget(*this) ? TUTTI_QUIESCED : TUTTI_FENCED;
}

// ---- Receiver.

Receiver::Receiver(Peer& peer, const LinkShape& shape)
    : TcpLink(peer, shape), messages_(shape.window + 2), pool_(shape.slot_bytes, kept_buffers(shape)) {}

tutti_link_result Receiver::state(tutti_link_state* state) {
  if (failure() == TUTTI_LINK_BROKEN) return TUTTI_LINK_BROKEN;
  if (!open_) return TUTTI_LINK_NOT_YET;
  fill_state(state);
  state->arrived = reinterpret_cast<const unsigned char*>(&arrived_);
  return TUTTI_LINK_OK;
}

std::uint64_t Receiver::arrived() const {
  // Relaxed: this thread's own word.
  return arrived_.load(std::memory_order_relaxed);
}

bool Receiver::begin(const FrameHeader& header, std::byte** target, std::string* why) {
  if (header.sequence != begun_) {
    *why = "message " + std::to_string(header.sequence) + " came where " + std::to_string(begun_) + " was due";
    return false;
  }
  if (begun_ - announced_ >= shape_.window) {
    *why = "message " + std::to_string(begun_) + " came without credit";
    return false;
  }
  Message& slot = message(begun_);
  const bool put = slot.granted && slot.bytes == header.bytes && slot.fingerprint == header.fingerprint;
  slot.granted = false;
  slot.bytes = header.bytes;
  slot.fingerprint = header.fingerprint;
  if (!put) {
    slot.buffer = pool_.take(header.bytes);
    slot.data = slot.buffer.data();
    if (slot.data == nullptr) {
      *why = "there is no memory for a message of " + std::to_string(header.bytes) + " bytes";
      return false;
    }
  }
  ++begun_;
  *target = slot.data;
  return true;
}

void Receiver::end() {
  // Release: the message's bytes, and its entry, are there for whoever acquires the count.
  arrived_.store(arrived() + 1, std::memory_order_release);
}

tutti_link_result Receiver::view(tutti_message* out) {
  if (released_ == arrived()) return broken_ ? TUTTI_LINK_BROKEN : TUTTI_LINK_NOT_YET;
  const Message& oldest = message(released_);
  out->data = oldest.data;
  out->bytes = oldest.bytes;
  out->fingerprint = oldest.fingerprint;
  viewed_ = true;
  return TUTTI_LINK_OK;
}

void Receiver::release() {
  if (released_ == arrived()) return;
  Message& oldest = message(released_);
  ++messages_counted_;
  bytes_counted_ += oldest.bytes;
  pool_.give(std::move(oldest.buffer));
  oldest = Message{};
  viewed_ = false;
  ++released_;
  if (broken_) return;
  stream_->owe(*this);
  if (owed() >= shape_.window / 2) stream_->announce();
}

tutti_link_result Receiver::grant(void* target, std::uint64_t bytes, std::uint64_t fingerprint) {
  if (broken_) return TUTTI_LINK_BROKEN;
  const std::uint64_t next = std::max(released_ + (viewed_ ? 1 : 0), granted_);
  if (next > released_ + 1 || next < begun_) return TUTTI_LINK_NOT_YET;
  Message& ahead = message(next);
  ahead.data = static_cast<std::byte*>(target);
  ahead.bytes = bytes;
  ahead.fingerprint = fingerprint;
  ahead.granted = true;
  granted_ = next + 1;
  return TUTTI_LINK_OK;
}

FrameHeader Receiver::announce() {
  announced_ = released_;
  return control_frame(FrameKind::kCredit, shape_.channel, released_ + shape_.window);
}

tutti_link_result Receiver::flushed() {
  if (broken_) return orderly_ ? TUTTI_LINK_OK : TUTTI_LINK_BROKEN;  // who left needs no credit
  if (stream_ == nullptr) return TUTTI_LINK_OK;
  // Credit that is owed may stay so: it is less than a lot, without which the sender has all that it was promised.
  if (stream_->settled()) return TUTTI_LINK_OK;
  stream_->write();
  return stream_->settled() ? TUTTI_LINK_OK : TUTTI_LINK_NOT_YET;
}

tutti_quiesced Receiver::give_up() {
  if (stream_ != nullptr) stream_->forget(*this);
  return TUTTI_QUIESCED;
}

}  // namespace tutti::tcp
