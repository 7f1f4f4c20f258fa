#include "src/executors/simulator/simulation_setup.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tutti::simulator {
namespace {

SimulationSetup::WireClass wire_of(const RankLinks& rank_links, std::uint32_t index,
                                   const std::vector<std::uint32_t>& class_of_rank) {
  const RankLinks::Wire& wire = rank_links.wires[index];
  const auto rank_class = [&](int rank) { return class_of_rank[static_cast<std::size_t>(rank)]; };
  return {wire.from, wire.to, wire.channel, rank_class(wire.from), rank_class(wire.to), 1, 0};
}

/// The classes' first ranks, and which wire each of their ends is.
void take_rank_classes(const RankLinks& rank_links, const Classes& classes, SimulationSetup& setup) {
  setup.class_of_rank = classes.rank;
  setup.rank_classes.resize(classes.ranks);
  for (std::size_t r = classes.rank.size(); r-- > 0;) {
    SimulationSetup::RankClass& rank_class = setup.rank_classes[classes.rank[r]];
    const std::uint64_t members = rank_class.program == nullptr ? 1 : rank_class.members + 1;
    rank_class = {rank_links.program[r], static_cast<int>(r), members, 0};
  }
  for (SimulationSetup::RankClass& rank_class : setup.rank_classes) {
    const auto rank = static_cast<std::size_t>(rank_class.rank);
    rank_class.first_end = static_cast<std::uint32_t>(setup.wire_of_end.size());
    std::vector<std::pair<std::uint32_t, bool>> seen;
    for (std::uint32_t e = rank_links.first_end[rank]; e < rank_links.first_end[rank + 1]; ++e) {
      const std::uint32_t wire = rank_links.wire_of[e];
      std::uint32_t shown = nothing;
      if (wire != nothing) {
        const std::pair own{classes.wire[wire], rank_class.program->links[e - rank_links.first_end[rank]].sends};
        // What a second end of this class and use does is what the first does.
        if (!classes.folded || std::find(seen.begin(), seen.end(), own) == seen.end()) shown = own.first;
        if (classes.folded) seen.push_back(own);
      }
      setup.wire_of_end.push_back(shown);
    }
  }
}

/// The ways of the classes' first wires, over classes of links. A link of class L is passed by as many wires of class w as
/// there are (wire of w, hop over an L) for each L.
void lay_routes(const RankLinks& rank_links, const Network& network, const Classes& classes,
                const std::vector<std::uint32_t>& first_wire, SimulationSetup& setup) {
  FlowRoutes& routes = setup.routes;
  std::vector<std::uint64_t> members(classes.links);
  std::vector<double> latency(classes.links);
  routes.capacity.resize(classes.links);
  for (std::uint32_t l = 0; l < network.links(); ++l) {
    if (classes.link[l] == nothing || members[classes.link[l]]++ > 0) continue;
    const NetworkLink link = network.link(l);
    routes.capacity[classes.link[l]] = link.bytes_per_second;
    latency[classes.link[l]] = link.latency_s;
  }
  std::vector<std::uint32_t> hops;
  for (std::uint32_t w = 0; w < setup.wires.size(); ++w) {
    routes.first.push_back(routes.link.size());
    hops.clear();
    for (const std::uint32_t link : rank_links.way(first_wire[w])) {
      hops.push_back(classes.link[link]);
      setup.wires[w].latency += latency[hops.back()];
    }
    if (!classes.folded) {
      routes.link.insert(routes.link.end(), hops.begin(), hops.end());
      continue;
    }
    std::sort(hops.begin(), hops.end());
    for (std::size_t h = 0; h < hops.size();) {
      const std::size_t begin = h;
      while (h < hops.size() && hops[h] == hops[begin]) ++h;
      routes.link.push_back(hops[begin]);
      routes.weight.push_back(static_cast<std::uint32_t>((h - begin) * setup.wires[w].members / members[hops[begin]]));
    }
  }
  routes.first.push_back(routes.link.size());
}

}  // namespace

SimulationSetup unfolded_setup(const RankLinks& rank_links) {
  SimulationSetup setup;
  Classes classes;
  classes.ranks = static_cast<std::uint32_t>(rank_links.program.size());
  classes.wires = static_cast<std::uint32_t>(rank_links.wires.size());
  classes.rank.resize(classes.ranks);
  classes.wire.resize(classes.wires);
  std::iota(classes.rank.begin(), classes.rank.end(), 0u);
  std::iota(classes.wire.begin(), classes.wire.end(), 0u);
  take_rank_classes(rank_links, classes, setup);
  for (std::uint32_t w = 0; w < classes.wires; ++w) setup.wires.push_back(wire_of(rank_links, w, setup.class_of_rank));
  return setup;
}

SimulationSetup folded_setup(const RankLinks& rank_links, const Network& network, const Classes& classes) {
  SimulationSetup setup;
  take_rank_classes(rank_links, classes, setup);
  setup.link_of = classes.link;
  setup.wires.resize(classes.wires);
  std::vector<std::uint32_t> first_wire(classes.wires, nothing);
  std::vector<std::uint64_t> members(classes.wires);
  for (std::uint32_t w = static_cast<std::uint32_t>(rank_links.wires.size()); w-- > 0;) {
    const std::uint32_t own = classes.wire[w];
    ++members[own];
    // The first, or better one that a shown rank sends on, so that it bears that rank's name.
    const auto sender = [&](std::uint32_t wire) { return rank_links.wires[wire].from; };
    const auto played = [&](std::uint32_t wire) {
      return setup.rank_classes[classes.rank[static_cast<std::size_t>(sender(wire))]].rank == sender(wire);
    };
    if (first_wire[own] == nothing || played(w) || !played(first_wire[own])) first_wire[own] = w;
  }
  for (std::uint32_t w = 0; w < classes.wires; ++w) {
    setup.wires[w] = wire_of(rank_links, first_wire[w], setup.class_of_rank);
    setup.wires[w].members = members[w];
  }
  lay_routes(rank_links, network, classes, first_wire, setup);
  return setup;
}

void add_strands(SimulationSetup& setup, std::uint32_t strands) {
  if (strands == 1) return;
  std::vector<SimulationSetup::WireClass> wires;
  FlowRoutes routes;
  routes.capacity = std::move(setup.routes.capacity);
  const bool routed = !setup.routes.first.empty();
  for (std::uint32_t w = 0; w < setup.wires.size(); ++w) {
    for (std::uint32_t s = 0; s < strands; ++s) {
      wires.push_back(setup.wires[w]);
      wires.back().channel = Strand{s, strands}.channel(setup.wires[w].channel);
      if (!routed) continue;
      routes.first.push_back(routes.link.size());
      for (std::uint64_t hop = setup.routes.first[w]; hop < setup.routes.first[w + 1]; ++hop) {
        routes.link.push_back(setup.routes.link[hop]);
        if (!setup.routes.weight.empty()) routes.weight.push_back(setup.routes.weight[hop]);
      }
    }
  }
  if (routed) routes.first.push_back(routes.link.size());
  setup.wires = std::move(wires);
  setup.routes = std::move(routes);
  for (std::uint32_t& wire : setup.wire_of_end) {
    if (wire != nothing) wire *= strands;
  }
}

}  // namespace tutti::simulator
