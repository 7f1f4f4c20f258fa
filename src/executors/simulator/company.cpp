#include "src/executors/simulator/company.h"

#include <bit>

namespace tutti::simulator {
namespace {

/// Finds a wire by its ends' names: open addressing, as there may be millions.
class Joining {
 public:
  Joining(std::vector<Company::Wire>& wires, std::size_t ends)
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
      const Company::Wire& wire = wires_[entry];
      if (wire.from == from && wire.to == to && wire.channel == channel) return entry;
    }
  }

 private:
  std::vector<Company::Wire>& wires_;
  std::vector<std::uint32_t> table_;
  std::size_t mask_;
};

/// Joins the ends of `company`, whose programs are known. peer_of(rank, link): -1 where no step uses the link.
template <class PeerOf>
void join(Company& company, const PeerOf& peer_of) {
  std::uint32_t ends = 0;
  for (const Program* program : company.program) {
    company.first_end.push_back(ends);
    ends += static_cast<std::uint32_t>(program->links.size());
  }
  company.first_end.push_back(ends);
  company.wire_of.reserve(ends);
  Joining joining(company.wires, ends);
  for (int r = 0; r < company.ranks(); ++r) {
    const std::vector<Link>& links = company.program[static_cast<std::size_t>(r)]->links;
    for (std::size_t l = 0; l < links.size(); ++l) {
      const std::int32_t peer = peer_of(r, l);
      const auto end = static_cast<std::uint32_t>(company.wire_of.size());
      company.wire_of.push_back(nothing);
      if (peer < 0) continue;
      const bool sends = links[l].sends;
      const std::uint32_t wire = joining.find_or_add(sends ? r : peer, sends ? peer : r, links[l].channel);
      company.wire_of.back() = wire;
      (sends ? company.wires[wire].sending : company.wires[wire].receiving) = end;
    }
  }
}

}  // namespace

Company company_of(std::span<const Program> programs) {
  Company company;
  for (const Program& program : programs) {
    company.part.push_back(static_cast<std::uint32_t>(company.program.size()));
    company.program.push_back(&program);
  }
  join(company, [&](int r, std::size_t link) { return programs[static_cast<std::size_t>(r)].links[link].peer; });
  return company;
}

Company company_of(const Cast& cast) {
  Company company;
  company.part = cast.part;
  for (const std::uint32_t part : cast.part) company.program.push_back(&cast.parts[part]);
  join(company, [&](int r, std::size_t link) { return cast.peers_of(r)[link]; });
  return company;
}

std::string find_ways(Company& company, const Network& network) {
  if (network.endpoints() < company.ranks()) {
    return "the network has " + std::to_string(network.endpoints()) + " endpoints for " + std::to_string(company.ranks()) +
           " ranks";
  }
  std::vector<std::uint32_t> way;
  for (const Company::Wire& wire : company.wires) {
    company.first_hop.push_back(company.hops.size());
    network.route(wire.from, wire.to, way);
    if (way.empty() && wire.from != wire.to) {
      return "rank " + std::to_string(wire.from) + " cannot reach rank " + std::to_string(wire.to) + " on the network";
    }
    company.hops.insert(company.hops.end(), way.begin(), way.end());
  }
  company.first_hop.push_back(company.hops.size());
  return {};
}

}  // namespace tutti::simulator
