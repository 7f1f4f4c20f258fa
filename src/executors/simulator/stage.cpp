#include "src/executors/simulator/stage.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tutti::simulator {
namespace {

Stage::Wire wire_of(const Company& company, std::uint32_t index, const std::vector<std::uint32_t>& player_of) {
  const Company::Wire& wire = company.wires[index];
  const auto player = [&](int rank) { return player_of[static_cast<std::size_t>(rank)]; };
  return {wire.from, wire.to, wire.channel, player(wire.from), player(wire.to), 1, 0};
}

/// Players of the classes' first ranks, and which wire each of their ends is.
void cast_players(const Company& company, const Classes& classes, Stage& stage) {
  stage.player_of = classes.rank;
  stage.players.resize(classes.ranks);
  for (std::size_t r = classes.rank.size(); r-- > 0;) {
    Stage::Player& player = stage.players[classes.rank[r]];
    const std::uint64_t members = player.program == nullptr ? 1 : player.members + 1;
    player = {company.program[r], static_cast<int>(r), members, 0};
  }
  for (Stage::Player& player : stage.players) {
    const auto rank = static_cast<std::size_t>(player.rank);
    player.first_end = static_cast<std::uint32_t>(stage.wire_of_end.size());
    std::vector<std::pair<std::uint32_t, bool>> seen;
    for (std::uint32_t e = company.first_end[rank]; e < company.first_end[rank + 1]; ++e) {
      const std::uint32_t wire = company.wire_of[e];
      std::uint32_t shown = nothing;
      if (wire != nothing) {
        const std::pair own{classes.wire[wire], player.program->links[e - company.first_end[rank]].sends};
        // What a second end of this class and use does is what the first does.
        if (!classes.folded || std::find(seen.begin(), seen.end(), own) == seen.end()) shown = own.first;
        if (classes.folded) seen.push_back(own);
      }
      stage.wire_of_end.push_back(shown);
    }
  }
}

/// The ways of the classes' first wires, over classes of links. A link of class L is passed by as many wires of class w as
/// there are (wire of w, hop over an L) for each L.
void lay_routes(const Company& company, const Network& network, const Classes& classes,
                const std::vector<std::uint32_t>& first_wire, Stage& stage) {
  FlowRoutes& routes = stage.routes;
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
  for (std::uint32_t w = 0; w < stage.wires.size(); ++w) {
    routes.first.push_back(routes.link.size());
    hops.clear();
    for (const std::uint32_t link : company.way(first_wire[w])) {
      hops.push_back(classes.link[link]);
      stage.wires[w].latency += latency[hops.back()];
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
      routes.weight.push_back(static_cast<std::uint32_t>((h - begin) * stage.wires[w].members / members[hops[begin]]));
    }
  }
  routes.first.push_back(routes.link.size());
}

}  // namespace

Stage full_stage(const Company& company) {
  Stage stage;
  Classes classes;
  classes.ranks = static_cast<std::uint32_t>(company.program.size());
  classes.wires = static_cast<std::uint32_t>(company.wires.size());
  classes.rank.resize(classes.ranks);
  classes.wire.resize(classes.wires);
  std::iota(classes.rank.begin(), classes.rank.end(), 0u);
  std::iota(classes.wire.begin(), classes.wire.end(), 0u);
  cast_players(company, classes, stage);
  for (std::uint32_t w = 0; w < classes.wires; ++w) stage.wires.push_back(wire_of(company, w, stage.player_of));
  return stage;
}

Stage folded_stage(const Company& company, const Network& network, const Classes& classes) {
  Stage stage;
  cast_players(company, classes, stage);
  stage.link_of = classes.link;
  stage.wires.resize(classes.wires);
  std::vector<std::uint32_t> first_wire(classes.wires, nothing);
  std::vector<std::uint64_t> members(classes.wires);
  for (std::uint32_t w = static_cast<std::uint32_t>(company.wires.size()); w-- > 0;) {
    const std::uint32_t own = classes.wire[w];
    ++members[own];
    // The first, or better one that a player sends on, so that it bears a player's name.
    const auto sender = [&](std::uint32_t wire) { return company.wires[wire].from; };
    const auto played = [&](std::uint32_t wire) {
      return stage.players[classes.rank[static_cast<std::size_t>(sender(wire))]].rank == sender(wire);
    };
    if (first_wire[own] == nothing || played(w) || !played(first_wire[own])) first_wire[own] = w;
  }
  for (std::uint32_t w = 0; w < classes.wires; ++w) {
    stage.wires[w] = wire_of(company, first_wire[w], stage.player_of);
    stage.wires[w].members = members[w];
  }
  lay_routes(company, network, classes, first_wire, stage);
  return stage;
}

}  // namespace tutti::simulator
