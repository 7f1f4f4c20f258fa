#include "transports/verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <tuple>

namespace tutti::verbs {
namespace {

constexpr std::array<unsigned char, 12> mapped_prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int prefix_bits = 8 * static_cast<int>(mapped_prefix.size());

const char* name_of(GidScope scope) {
  constexpr std::array names = {"link-local", "IPv6", "IPv4"};
  return names[static_cast<std::size_t>(scope)];
}

/// Whether both say that the other one is in their subnet. Of link-local addresses nobody can say: their prefix is the
/// same everywhere.
bool share_subnet(const Gid& a, const Gid& b, int common) {
  return a.scope() != GidScope::link_local && a.prefix != 0 && b.prefix != 0 && common >= std::max(a.prefix, b.prefix);
}

}  // namespace

GidScope Gid::scope() const {
  if (std::equal(mapped_prefix.begin(), mapped_prefix.end(), bytes.begin())) return GidScope::ipv4;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80 ? GidScope::link_local : GidScope::global;
}

std::string Gid::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = scope() == GidScope::ipv4;
  // The room is enough for either, so it cannot fail.
  inet_ntop(v4 ? AF_INET : AF_INET6, bytes.data() + (v4 ? mapped_prefix.size() : 0), text.data(), text.size());
  return text.data();
}

int common_prefix(const GidBytes& a, const GidBytes& b) {
  int bits = 0;
  for (std::size_t i = 0; i < a.size(); ++i, bits += 8) {
    const auto differ = static_cast<unsigned char>(a[i] ^ b[i]);
    if (differ != 0) return bits + std::countl_zero(differ);
  }
  return bits;
}

std::strong_ordering GidPair::operator<=>(const GidPair& than) const {
  const auto merit = [](const GidPair& pair) {
    return std::tuple(pair.own.type, pair.own.scope(), pair.same_subnet, pair.common_bits);
  };
  if (const auto order = merit(*this) <=> merit(than); order != 0) return order;
  return std::tuple(than.own.index, than.other.index) <=> std::tuple(own.index, other.index);
}

std::string GidPair::why() const {
  std::string text = verbs::name_of(own.type);
  if (own.type != GidType::infiniband) text += std::string(", ") + name_of(own.scope());
  if (same_subnet) return text + ", one subnet";
  const int known = own.scope() == GidScope::ipv4 ? common_bits - prefix_bits : common_bits;
  return own.scope() == GidScope::link_local ? text : text + ", " + std::to_string(known) + " bits in common";
}

std::vector<GidPair> pairs_of(std::span<const Gid> own, std::span<const Gid> other) {
  std::vector<GidPair> pairs;
  for (const Gid& a : own) {
    for (const Gid& b : other) {
      if (!a.is_usable() || !b.is_usable() || a.type != b.type || a.scope() != b.scope()) continue;
      const int common = common_prefix(a.bytes, b.bytes);
      pairs.push_back({a, b, share_subnet(a, b, common), common});
    }
  }
  std::sort(pairs.begin(), pairs.end(), std::greater());
  return pairs;
}

const char* name_of(GidType type) {
  constexpr std::array names = {"InfiniBand", "RoCE v1", "RoCE v2"};
  return names[static_cast<std::size_t>(type)];
}

}  // namespace tutti::verbs
