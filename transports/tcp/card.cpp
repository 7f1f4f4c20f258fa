#include "transports/tcp/card.h"

#include <algorithm>
#include <fstream>

#include "include/tutti/transport.h"
#include "src/base/byte_codec.h"

namespace tutti::tcp {

namespace {

constexpr std::uint32_t kMark = 0x54434331;  // "1CCT"
constexpr std::size_t kLongestAddress = 19;
constexpr std::size_t kMostWays = 32;
constexpr std::uint32_t kUnknownMegabits = 10'000;

constexpr std::array<unsigned char, 4> kLoopback4 = {127, 0, 0, 1};
constexpr std::array<unsigned char, 16> kLoopback6 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

}  // namespace

std::vector<std::byte> Card::pack() const {
  ByteWriter out;
  out.u32(kMark);
  out.raw(std::span<const unsigned char>(id));
  out.i32(rank);
  out.u64(machine);
  out.u64(network);
  out.u32(megabits);
  out.u8(everywhere ? 1 : 0);
  const std::size_t fit = (TUTTI_DESCRIPTOR_MAX - out.size() - 1) / kLongestAddress;
  const std::size_t count = std::min({addresses.size(), fit, std::size_t{255}});
  out.u8(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) addresses[i].pack(out);
  return out.take();
}

std::optional<Card> Card::unpack(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  if (in.u32() != kMark) return std::nullopt;
  Card card;
  in.copy(card.id);
  card.rank = in.i32();
  card.machine = in.u64();
  card.network = in.u64();
  card.megabits = in.u32();
  card.everywhere = in.u8() != 0;
  const unsigned count = in.u8();
  for (unsigned i = 0; i < count && in.ok(); ++i) card.addresses.push_back(SocketAddress::unpack(in));
  if (!in.complete() || card.addresses.empty() || card.megabits == 0) return std::nullopt;
  return card;
}

std::uint32_t interface_megabits(const std::vector<InterfaceAddress>& addresses) {
  std::int64_t fastest = 0;
  for (const auto& one : addresses) {
    if (one.address.loopback()) continue;
    std::int64_t speed = 0;
    std::ifstream("/sys/class/net/" + one.interface + "/speed") >> speed;  // -1 or an error where nobody knows
    fastest = std::max(fastest, speed);
  }
  return fastest > 0 ? static_cast<std::uint32_t>(fastest) : kUnknownMegabits;
}

std::vector<SocketAddress> ways_to(const Card& other, const Card& self) {
  std::vector<SocketAddress> ways;
  const bool beside = other.beside(self);
  if (beside && other.everywhere) {
    const std::uint16_t port = other.addresses.front().port();
    ways.push_back(SocketAddress::v4(kLoopback4, port));
    ways.push_back(SocketAddress::v6(kLoopback6, port));
  }
  for (const auto& address : other.addresses) {
    if (address.loopback() && !beside) continue;  // that would be our own loopback
    for (const auto& scoped : with_scopes(address)) {
      if (ways.size() < kMostWays && std::find(ways.begin(), ways.end(), scoped) == ways.end()) ways.push_back(scoped);
    }
  }
  return ways;
}

}  // namespace tutti::tcp
