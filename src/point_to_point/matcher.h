// Matches receives with messages by (source, tag): receives that are posted, and messages that came unexpected.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "src/point_to_point/active_transfer.h"
#include "src/point_to_point/lines.h"
#include "src/point_to_point/wire.h"

namespace tutti {

/// A message that came before its receive was posted. Its bytes follow the struct in the same allocation.
struct UnexpectedMessage {
  Trailer trailer;
  int source;
  ActiveTransfer* sent;  ///< instead of bytes: this rank's own, which lies in its caller's memory still
  std::uint64_t bytes;   ///< that came with it
  LineNode<UnexpectedMessage> of_source = {};
  LineNode<UnexpectedMessage> of_any = {};

  struct Free {
    void operator()(UnexpectedMessage* message) const { ::operator delete(message); }
  };
  using Owner = std::unique_ptr<UnexpectedMessage, Free>;
  /// Copies the payload. Throws std::bad_alloc.
  static Owner make(const Trailer& trailer, int source, ActiveTransfer* sent, std::span<const std::byte> payload) {
    void* const room = ::operator new(sizeof(UnexpectedMessage) + payload.size());
    Owner message(new (room) UnexpectedMessage{trailer, source, sent, payload.size()});
    if (!payload.empty()) std::memcpy(message.get() + 1, payload.data(), payload.size());
    return message;
  }
  std::span<const std::byte> payload() const { return {reinterpret_cast<const std::byte*>(this + 1), bytes}; }
};
static_assert(std::is_trivially_destructible_v<UnexpectedMessage> && sizeof(UnexpectedMessage) + 64 <= weight_of(0));

/// Whether a receive can take a message of so many bytes: not too long, and whole elements. Most have just its length.
constexpr bool takes(const Transfer& receive, std::uint64_t bytes) {
  return bytes == receive.bytes || (bytes < receive.bytes && bytes % receive.element == 0);
}

/// Receives that no message has met, in the order of posting, and messages that no receive has met, in the order of
/// arrival. Transfers are the caller's, messages its own. Not thread safe.
class Matcher {
 public:
  Matcher() = default;
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;
  ~Matcher() { forget_messages(); }

  bool has_messages() const { return !messages_.empty(); }
  /// Bytes of the messages that are kept. Thread safe. Relaxed: a figure for reports.
  std::uint64_t kept_bytes() const { return kept_bytes_.load(std::memory_order_relaxed); }

  /// Appends a receive. Throws std::bad_alloc.
  void post(ActiveTransfer& receive) {
    auto& receives = is_any(receive.transfer) ? receives_of_any_ : receives_;
    receives.make_room();
    receives.push(receive, match_of(receive.transfer));
  }

  /// As post, in its place by its number: a receive whose message was taken back. Throws std::bad_alloc.
  void post_again(ActiveTransfer& receive) {
    auto& receives = is_any(receive.transfer) ? receives_of_any_ : receives_;
    receives.make_room();
    receives.insert(receive, match_of(receive.transfer),
                    [&receive](const ActiveTransfer& other) { return other.id > receive.id; });
  }

  /// Takes out a posted receive.
  void remove(ActiveTransfer& receive) { (is_any(receive.transfer) ? receives_of_any_ : receives_).remove(receive); }

  /// Takes out the first posted receive that a message matches; nullptr where none does.
  ActiveTransfer* take_receive(int source, std::uint64_t tag) {
    ActiveTransfer* const named = receives_.first({tag, source});
    ActiveTransfer* const any = receives_of_any_.first({tag, TUTTI_ANY_SOURCE});
    const bool takes_any = named == nullptr || (any != nullptr && any->id < named->id);
    ActiveTransfer* const taken = takes_any ? any : named;
    if (taken != nullptr) (takes_any ? receives_of_any_ : receives_).remove(*taken);
    return taken;
  }

  /// Appends a message. Throws std::bad_alloc.
  void keep(UnexpectedMessage::Owner message) {
    messages_.make_room();
    messages_of_any_.make_room();
    messages_.push(*message, {message->trailer.tag, message->source});
    messages_of_any_.push(*message, {message->trailer.tag, TUTTI_ANY_SOURCE});
    kept_bytes_.fetch_add(message->bytes, std::memory_order_relaxed);  // relaxed: see kept_bytes
    static_cast<void>(message.release());
  }

  /// Takes out the first message that a receive matches; nullptr where none does.
  UnexpectedMessage::Owner take_message(const Transfer& receive) {
    const Match match = match_of(receive);
    return take_out(is_any(receive) ? messages_of_any_.first(match) : messages_.first(match));
  }

  /// Takes out the first message of that source and tag that `is_it` is true of; nullptr where there is none.
  template <typename Predicate>
  UnexpectedMessage::Owner take_message(const Match& match, const Predicate& is_it) {
    UnexpectedMessage* found = messages_.first(match);
    while (found != nullptr && !is_it(*found)) found = found->of_source.next;
    return take_out(found);
  }

  /// Gives all receives up, which are the caller's.
  void forget_receives() {
    receives_.clear();
    receives_of_any_.clear();
  }
  /// Frees all messages.
  void forget_messages() {
    messages_of_any_.clear();
    messages_.clear([](UnexpectedMessage& message) { UnexpectedMessage::Owner{&message}; });
    kept_bytes_.store(0, std::memory_order_relaxed);  // relaxed: see kept_bytes
  }

 private:
  static bool is_any(const Transfer& receive) { return receive.peer == TUTTI_ANY_SOURCE; }
  static Match match_of(const Transfer& receive) { return {receive.tag, receive.peer}; }
  UnexpectedMessage::Owner take_out(UnexpectedMessage* message) {
    if (message != nullptr) {
      messages_.remove(*message);
      messages_of_any_.remove(*message);
      kept_bytes_.fetch_sub(message->bytes, std::memory_order_relaxed);  // relaxed: see kept_bytes
    }
    return UnexpectedMessage::Owner(message);
  }

  Lines<ActiveTransfer, &ActiveTransfer::node> receives_;
  Lines<ActiveTransfer, &ActiveTransfer::node> receives_of_any_;
  Lines<UnexpectedMessage, &UnexpectedMessage::of_source> messages_;  ///< each stands in both
  Lines<UnexpectedMessage, &UnexpectedMessage::of_any> messages_of_any_;
  std::atomic<std::uint64_t> kept_bytes_{0};
};

}  // namespace tutti
