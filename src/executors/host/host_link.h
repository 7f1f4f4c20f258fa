// A link as the host's executors and transfers use it.
#pragma once

#include <atomic>
#include <cstdint>

#include "include/tutti/transport.h"

namespace tutti {

/// An open link, as the executor uses it. The link belongs to its transport's endpoint.
struct HostLink {
  const tutti_transport* transport = nullptr;
  tutti_link* link = nullptr;
  tutti_link_state state{};
  int peer = -1;
  std::uint32_t endpoint = 0;  ///< its transport's number: index of Binding::regions
  std::uint64_t offered = 0;   ///< messages sent so far on this link, by commit or offer

  /// Messages whose source may be overwritten. Of an open link that counts them (`state.reusable`).
  std::uint64_t reusable() const {
    // Acquire: the transport's reads of that memory came before.
    return std::atomic_ref<const std::uint64_t>(*state.reusable).load(std::memory_order_acquire);
  }
  /// Whether its peer runs at this moment, as far as it tells; false where that cannot be told. Of an open link.
  bool peer_runs() const {
    if (state.peer_yielding == nullptr) return false;
    // Acquire, as transport.h asks for: what a peer sent before it said that it yields can be viewed.
    return std::atomic_ref<const std::uint32_t>(*state.peer_yielding).load(std::memory_order_acquire) == 0;
  }
};

/// A call's buffers as an endpoint knows them; null: not registered there.
struct Regions {
  const tutti_region* input = nullptr;
  const tutti_region* output = nullptr;
};

}  // namespace tutti
