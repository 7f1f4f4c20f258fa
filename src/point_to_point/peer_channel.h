// The two links with one peer, and what stands in line to go out on them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "src/base/copy.h"
#include "src/base/link_shape.h"
#include "src/control/control.h"
#include "src/executors/host/host_link.h"
#include "src/point_to_point/active_transfer.h"
#include "src/point_to_point/wire.h"
#include "src/reduction/reduction.h"

namespace tutti {

/// Copies bytes. non_temporal: past the caches.
inline void copy_payload(std::byte* to, std::span<const std::byte> from, bool non_temporal) {
  if (from.empty()) return;
  if (!non_temporal) {
    copy_memory(to, from.data(), from.size());
    return;
  }
  const FoldSource source = {from.data()};
  const FoldDestination destination = {to, true};
  find_copy()({&source, &destination, 1, 1, from.size()});
}

/// Whether a link is open, and moves by itself.
inline bool moves_by_itself(const HostLink* link) {
  return link != nullptr && link->state.size != 0 && (link->state.capabilities & TUTTI_NEEDS_PROGRESS) == 0;
}

/// What transfers share of one peer. Not thread safe.
struct PeerChannel {
  HostLink* to = nullptr;
  HostLink* from = nullptr;
  std::vector<Trailer> notices;       ///< to be sent, in any order: of what was taken back
  std::uint64_t notices_leaving = 0;  ///< those committed, as far as the transport has got with them
  TransferLine answers;               ///< receives that have met a request and must send its clear
  TransferLine sends;                 ///< not announced yet
  TransferLine sending;               ///< data, in turn
  TransferLine leaving;               ///< all committed, as far as the transport has got with it
  std::uint64_t committed = 0;        ///< messages
  std::uint64_t sent = 0;             ///< bytes in them
  std::uint64_t eager_under_way = 0;
  std::uint64_t taken = 0;      ///< eager bytes consumed here, of which the peer has not been told
  std::uint64_t needed = 0;     ///< by so many transfers under way that name it
  bool gone = false;            ///< its links broke when no transfer needed it, and none has come that does
  std::uint64_t broken_ns = 0;  ///< when a link broke that a transfer needs; 0: none has
  std::uint64_t asked_ns = 0;   ///< when a reason for that was looked for last
  std::unique_ptr<ControlPlane::Inquiry> asked;  ///< about that

  /// Sends a message; false: no credit now.
  bool send(const Trailer& trailer, std::span<const std::byte> payload) {
    const std::uint64_t word = beside(trailer);
    const bool in_one = word != in_trailer && !payload.empty() && payload.size() < least_streamed;
    // What breaks here is told by the peer's link to us, by the control plane, or by the deadline.
    if (in_one ? to->transport->send(to->link, payload.data(), payload.size(), word) != TUTTI_LINK_OK
               : !send_in_parts(trailer, word, payload)) {
      return false;
    }
    ++committed;
    sent += payload.size();
    return true;
  }

  /// Whether a transfer of at most `longest` bytes may be sent before the receiver has asked for it.
  bool may_send_eagerly(const Transfer& transfer, std::uint64_t longest) const {
    // A tag that has no room beside the message lies behind it.
    const bool beside = has_room_beside(transfer.tag, transfer.type);
    const std::uint64_t room = beside ? link_slot_bytes : link_slot_bytes - sizeof(Trailer);
    return transfer.bytes <= std::min(longest, room) && eager_under_way + weight_of(transfer.bytes) <= eager_bound;
  }

  /// Sends all of a transfer; false: no credit now.
  bool send_eagerly(const Transfer& transfer, std::uint64_t id) {
    const Trailer trailer{id, transfer.bytes, transfer.tag, MessageKind::eager, transfer.type};
    if (!send(trailer, {transfer.memory, transfer.bytes})) return false;
    eager_under_way += weight_of(transfer.bytes);
    return true;
  }

  /// The next message of the first in `sending`; false: no credit now.
  bool send_part() {
    ActiveTransfer& active = sending.front();
    const std::uint64_t part = std::min(link_slot_bytes, active.transfer.bytes - active.done);
    if (!send(active.trailer(MessageKind::data), {active.transfer.memory + active.done, part})) return false;
    active.done += part;
    sending.pop();
    if (active.done < active.transfer.bytes) {
      sending.push(active);
    } else {
      leave(active);
    }
    return true;
  }

  /// Tells the peer how much was taken; false: no credit now.
  bool send_taken() {
    if (!send({0, taken, 0, MessageKind::taken, {}}, {})) return false;
    taken = 0;
    return true;
  }

  /// Sends a notice; false: no credit now.
  bool send_notice() {
    if (!send(notices.back(), {})) return false;
    notices.pop_back();
    ++notices_leaving;
    return true;
  }

  /// A transfer has nothing more to commit.
  void leave(ActiveTransfer& active) {
    active.last = committed;
    leaving.push(active);
  }
  /// Whether all that a leaving transfer has committed has left this process, as far as the link counts.
  bool has_left(const ActiveTransfer& active) const {
    return to->state.reusable != nullptr && to->reusable() >= active.last;
  }

 private:
  bool send_in_parts(const Trailer& trailer, std::uint64_t word, std::span<const std::byte> payload) {
    const std::uint64_t bytes = payload.size() + (word == in_trailer ? sizeof(Trailer) : 0);
    tutti_room room;
    if (to->transport->reserve(to->link, bytes, word, &room) != TUTTI_LINK_OK) return false;
    auto* const data = static_cast<std::byte*>(room.data);
    copy_payload(data, payload, bytes >= least_streamed && (room.flags & TUTTI_ROOM_NON_TEMPORAL) != 0);
    if (word == in_trailer) std::memcpy(data + payload.size(), &trailer, sizeof(Trailer));
    static_cast<void>(to->transport->commit(to->link, bytes, word));
    return true;
  }
};

}  // namespace tutti
