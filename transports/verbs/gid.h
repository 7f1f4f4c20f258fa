// GIDs, the addresses of a port, and which two of them join a pair of ports.
//
//     fe80::xx              link-local, of the port's own making
//     ::ffff:10.0.0.1       RoCE: its interface's IPv4 address
//     2001:db8::1, fd00::1  RoCE: its interface's IPv6 address
//
// An index into a port's table means nothing on another host. So there is no setting for it, and a pair is chosen by what
// its addresses are.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::verbs {

/// By what packets are addressed, the best last.
enum class GidType : std::uint8_t { infiniband, roce_v1, roce_v2 };

/// How far an address reaches, the best last.
enum class GidScope : std::uint8_t { link_local, global, ipv4 };

/// 16 bytes in network order.
using GidBytes = std::array<unsigned char, 16>;

/// One entry of a port's table.
struct Gid {
  GidBytes bytes{};
  std::uint32_t index = 0;
  GidType type = GidType::infiniband;
  std::uint8_t prefix = 0;  ///< bits that tell its subnet, of all 128; 0: unknown
  std::string interface;    ///< the network interface that has the address; empty: none has it

  GidScope scope() const;
  /// "10.0.0.1" where it is IPv4's, else as an IPv6 address.
  std::string text() const;
  /// Whether packets can be addressed by it: those of RoCE need an interface with that address.
  bool is_usable() const { return type == GidType::infiniband || !interface.empty(); }
};

/// Bits that two addresses have in common at their beginning.
int common_prefix(const GidBytes& a, const GidBytes& b);

/// Two entries that may join their ports, and how well.
struct GidPair {
  Gid own;
  Gid other;
  bool same_subnet = false;  ///< as each side's prefix says
  int common_bits = 0;

  /// The better one is greater. Where an entry stands in its table decides last, so that every order is the same again.
  std::strong_ordering operator<=>(const GidPair& than) const;
  bool operator==(const GidPair& than) const { return (*this <=> than) == std::strong_ordering::equal; }
  /// "RoCE v2, IPv4, one subnet".
  std::string why() const;
};

/// Pairs by which two ports may reach each other, the best first. Both entries are usable, and of one type and one scope.
/// RoCE v2 comes before v1; IPv4 before other global addresses, and these before link-local ones; then one subnet before
/// two, and the longer common prefix.
std::vector<GidPair> pairs_of(std::span<const Gid> own, std::span<const Gid> other);

/// "InfiniBand", "RoCE v1", "RoCE v2".
const char* name_of(GidType type);

}  // namespace tutti::verbs
