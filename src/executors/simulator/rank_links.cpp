#include "src/executors/simulator/rank_links.h"

#include <bit>

namespace tutti::simulator {
namespace {

/// Finds a wire by its ends' names: open addressing, as there may be millions.
class Joining {
 public:
  Joining(std::vector<RankLinks::Wire>& wires, std::size_t ends)
      : wires_(wires), table_(std::bit_ceil(2 * ends + 2), nothing), mask_(table_.size() - 1) {}

  std::uint32_t find_or_add(std::int32_t from, std::int32_t to, std::uint32_t channel) {
    std::uint64_t hash = static_cast<std::uint64_t>(from) << 32 ^ static_cast<std::uint64_t>(to) << 8 ^ channel;
    hash *= 0x9e3779b97f4a7c15u;
    for (std::size_t at = (hash ^ hash >> 32) & mask_;; at = (at + 1) & mask_) {
      std::uint32_t& entry = table_[at];
      if (entry == nothing) {
        entry = static_cast<std::uint32_t>(wires_.size());
        wires_.push_back({from, to, channel, nothing, nothing});
        return entry;
      }
      const RankLinks::Wire& wire = wires_[entry];
      if (wire.from == from && wire.to == to && wire.channel == channel) return entry;
    }
  }

 private:
  std::vector<RankLinks::Wire>& wires_;
  std::vector<std::uint32_t> table_;
  std::size_t mask_;
};

/// Joins the ends of `rank_links`, whose programs are known. peer_of(rank, link): -1 where no step uses the link.
template <class PeerOf>
void join(RankLinks& rank_links, const PeerOf& peer_of) {
  std::uint32_t ends = 0;
  for (const Program* program : rank_links.program) {
    rank_links.first_end.push_back(ends);
    ends += static_cast<std::uint32_t>(program->links.size());
  }
  rank_links.first_end.push_back(ends);
  rank_links.wire_of.reserve(ends);
  Joining joining(rank_links.wires, ends);
  for (int r = 0; r < rank_links.ranks(); ++r) {
    const std::vector<Link>& links = rank_links.program[static_cast<std::size_t>(r)]->links;
    for (std::size_t l = 0; l < links.size(); ++l) {
      const std::int32_t peer = peer_of(r, l);
      const auto end = static_cast<std::uint32_t>(rank_links.wire_of.size());
      rank_links.wire_of.push_back(nothing);
      if (peer < 0) continue;
      const bool sends = links[l].sends;
      const std::uint32_t wire = joining.find_or_add(sends ? r : peer, sends ? peer : r, links[l].channel);
      rank_links.wire_of.back() = wire;
      (sends ? rank_links.wires[wire].sending : rank_links.wires[wire].receiving) = end;
    }
  }
}

}  // namespace

RankLinks rank_links_of(std::span<const Program> programs) {
  RankLinks rank_links;
  for (const Program& program : programs) {
    rank_links.program_class.push_back(static_cast<std::uint32_t>(rank_links.program.size()));
    rank_links.program.push_back(&program);
  }
  join(rank_links, [&](int r, std::size_t link) { return programs[static_cast<std::size_t>(r)].links[link].peer; });
  return rank_links;
}

RankLinks rank_links_of(const ProgramClasses& program_classes) {
  RankLinks rank_links;
  rank_links.program_class = program_classes.class_of;
  for (const std::uint32_t part : program_classes.class_of) rank_links.program.push_back(&program_classes.programs[part]);
  join(rank_links, [&](int r, std::size_t link) { return program_classes.peers_of(r)[link]; });
  return rank_links;
}

std::string find_ways(RankLinks& rank_links, const Network& network) {
  if (network.endpoints() < rank_links.ranks()) {
    return "the network has " + std::to_string(network.endpoints()) + " endpoints for " +
           std::to_string(rank_links.ranks()) + " ranks";
  }
  std::vector<std::uint32_t> way;
  for (const RankLinks::Wire& wire : rank_links.wires) {
    rank_links.first_hop.push_back(rank_links.hops.size());
    network.route(wire.from, wire.to, way);
    if (way.empty() && wire.from != wire.to) {
      return "rank " + std::to_string(wire.from) + " cannot reach rank " + std::to_string(wire.to) + " on the network";
    }
    rank_links.hops.insert(rank_links.hops.end(), way.begin(), way.end());
  }
  rank_links.first_hop.push_back(rank_links.hops.size());
  return {};
}

}  // namespace tutti::simulator
