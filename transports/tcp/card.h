// What an endpoint tells its peers about itself: its descriptor, unpacked.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/addresses.h"

namespace tutti::tcp {

using EndpointId = std::array<unsigned char, 16>;

/// An endpoint's calling card. A value.
struct Card {
  EndpointId id{};  ///< random: proves to the connecting side that it reached whom it meant
  std::int32_t rank = -1;
  std::uint64_t machine = 0;   ///< equal where the kernel is the same
  std::uint64_t network = 0;   ///< the network namespace, meaningful within one machine
  std::uint32_t megabits = 0;  ///< of its fastest interface
  bool everywhere = false;     ///< it listens on all its addresses, loopback among them, at one port
  std::vector<SocketAddress> addresses;

  /// At most TUTTI_DESCRIPTOR_MAX bytes; addresses that do not fit are left out, the last first.
  std::vector<std::byte> pack() const;
  /// Nothing where the bytes are no card.
  static std::optional<Card> unpack(std::span<const std::byte> bytes);

  /// Both in one network namespace of one machine: loopback reaches from one to the other.
  bool beside(const Card& other) const { return machine == other.machine && network == other.network; }
};

/// The speed of the fastest of these interfaces (comma-separated names, empty for all but loopback) in Mbit/s, as the
/// system tells it; 10000 where it tells nothing. Thread safe.
std::uint32_t interface_megabits(const std::vector<InterfaceAddress>& addresses);

/// Where to try to reach `other` from here, in order of preference; loopback first where both are beside each other.
std::vector<SocketAddress> ways_to(const Card& other, const Card& self);

}  // namespace tutti::tcp
