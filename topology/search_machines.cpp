// Rings and trees across machines. Each machine is searched by itself, with one more place that stands for what is outside:
//
//     outside ──(port, NIC, PCIe)──► gpu2 ──► gpu0 ──► gpu3 ──► gpu1 ──(PCIe, NIC, port)──► outside
//
// Every machine's set is a number of bytes per second, cut into its rings. Laid side by side and cut where any machine's
// is cut, they join to rings through all machines, at the sum of the machine that has the least.
#include <algorithm>

#include "topology/binary_tree.h"
#include "topology/bottleneck.h"
#include "topology/index.h"
#include "topology/packed.h"
#include "topology/search.h"
#include "topology/search_costs.h"

namespace tutti {
namespace {

/// By how much a set that also goes by PCIe must surpass one of NVLink and xGMI alone. What PCIe adds beside them is less
/// than its bandwidth says (a hop's latency, copies by the CPU's interconnect), and NCCL does not mix them either.
constexpr double kWorthMixing = 1.5;
/// Less than this part of the sum is rounding, and no ring.
constexpr double kNothing = 1e-9;

std::vector<std::vector<int>> ends_by_machine(const MachineNetwork& network) {
  std::vector<std::vector<int>> ends(at(network.machines()));
  for (int e = 0; e < network.endpoints(); ++e) ends[at(network.machine(e))].push_back(e);
  return ends;
}

/// The hops of a machine, all and those by NVLink and xGMI alone.
struct MachineHops {
  TransitGraph all;
  TransitGraph peers;
  friend bool operator==(const MachineHops& a, const MachineHops& b) { return a.all.same(b.all) && a.peers.same(b.peers); }
};

/// A machine's endpoints as places from 1, and what is outside as place 0. The ways to and from outside are by the nearest
/// NICs, in their order. Without an outside, endpoints are places from 0.
MachineHops machine_hops(const MachineNetwork& network, const std::vector<int>& ends, bool outside) {
  const int first = outside ? 1 : 0;
  const int places = static_cast<int>(ends.size()) + first;
  MachineHops hops{TransitGraph(places), TransitGraph(places)};
  std::vector<std::uint32_t> way;
  const auto add = [&](bool peers, int a, int b, const std::vector<std::uint32_t>& links) {
    hops.all.add(network, a, b, links);
    if (peers) hops.peers.add(network, a, b, links);
  };
  for (int a = first; a < places; ++a) {
    const int from = ends[at(a - first)];
    for (std::size_t nic = 0; outside && nic < network.nics(from).size(); ++nic) {
      add(true, 0, a, network.nics(from)[nic].in);
      add(true, a, 0, network.nics(from)[nic].out);
    }
    for (int b = first; b < places; ++b) {
      const int to = ends[at(b - first)];
      if (a == b) continue;
      network.route(from, to, way);
      if (!way.empty()) add(network.peers(from, to), a, b, way);
    }
  }
  return hops;
}

/// PCIe between GPUs beside NVLink must be worth its trouble, and is not even searched where it cannot be.
template <typename Order, typename Pack>
Packed<Order> pack_apart(const MachineHops& hops, Pack pack) {
  if (hops.all.same(hops.peers)) return pack(hops.all);
  Packed<Order> peers = pack(hops.peers);
  if (peers.sum > 0 && peers.sum * kWorthMixing >= hops.all.bound()) return peers;
  Packed<Order> all = pack(hops.all);
  return peers.sum * kWorthMixing >= all.sum ? peers : all;
}

/// A part of a machine's set: one of its orders, the rails it comes and goes by, and how much of it is not joined yet.
struct Share {
  std::size_t order = 0;
  int rail_in = 0;
  int rail_out = 0;
  double rate = 0;
};

template <typename Order>
struct Machine {
  std::vector<int> ends;
  std::vector<Order> orders;
  std::vector<Share> shares;
};

/// What is joined so far: which order it takes in each machine.
struct Joined {
  std::vector<std::size_t> orders;
  int rail = 0;
  double rate = 0;
};

/// Goes on with each part into the next machine, by a share of the same rail as far as there is one, and then by any.
std::vector<Joined> join(const std::vector<Joined>& parts, std::vector<Share>& shares, double nothing) {
  std::vector<Joined> longer;
  std::vector<double> left;
  const auto go_on = [&](std::size_t part, bool same_rail) {
    for (Share& share : shares) {
      if (same_rail && share.rail_in != parts[part].rail) continue;
      const double rate = std::min(left[part], share.rate);
      if (rate <= nothing) continue;
      longer.push_back(parts[part]);
      longer.back().orders.push_back(share.order);
      longer.back().rail = share.rail_out;
      longer.back().rate = rate;
      left[part] -= rate;
      share.rate -= rate;
    }
  };
  for (const Joined& part : parts) left.push_back(part.rate);
  for (const bool same_rail : {true, false}) {
    for (std::size_t part = 0; part < parts.size(); ++part) go_on(part, same_rail);
  }
  return longer;
}

template <typename Order>
std::vector<Joined> join_all(std::vector<Machine<Order>>& machines, double sum) {
  std::vector<Joined> parts;
  double left = sum;
  for (const Share& share : machines[0].shares) {
    const double rate = std::min(left, share.rate);
    if (rate <= kNothing * sum) continue;
    parts.push_back({{share.order}, share.rail_out, rate});
    left -= rate;
  }
  for (std::size_t m = 1; m < machines.size(); ++m) parts = join(parts, machines[m].shares, kNothing * sum);
  return parts;
}

/// Searches each machine that is not like one before. `search` gives the packed set for a machine's hops.
template <typename Order, typename Search, typename Rails>
std::vector<Machine<Order>> search_each(const MachineNetwork& network, Search search, Rails rails, double& sum,
                                        double& bound) {
  std::vector<std::pair<MachineHops, Packed<Order>>> known;
  std::vector<Machine<Order>> machines;
  sum = bound = kNever;
  for (std::vector<int>& ends : ends_by_machine(network)) {
    MachineHops hops = machine_hops(network, ends, true);
    auto found = std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.first == hops; });
    if (found == known.end()) {
      Packed<Order> packed = pack_apart<Order>(hops, search);
      found = known.insert(known.end(), {std::move(hops), std::move(packed)});
    }
    Machine<Order> machine{std::move(ends), {}, {}};
    for (const auto& [order, rate] : found->second.orders) {
      const auto [in, out] = rails(machine.ends, order);
      machine.shares.push_back({machine.orders.size(), in, out, rate});
      machine.orders.push_back(order);
    }
    sum = std::min(sum, found->second.sum);
    bound = std::min(bound, found->second.bound);
    machines.push_back(std::move(machine));
  }
  return machines;
}

int rail_of(const MachineNetwork& network, int end, int nic) { return network.nics(end)[at(nic)].rail; }

FoundRing joined_ring(const std::vector<Machine<RingOrder>>& machines, const Joined& part) {
  FoundRing ring;
  ring.bytes_per_second = part.rate;
  for (std::size_t m = 0; m < machines.size(); ++m) {
    const RingOrder& order = machines[m].orders[part.orders[m]];
    const std::vector<int>& ends = machines[m].ends;
    for (std::size_t i = 1; i < order.order.size(); ++i) ring.order.push_back(ends[at(order.order[i] - 1)]);
    ring.passages.push_back({static_cast<int>(m), ends[at(order.order[1] - 1)], order.ways.front(),
                             ends[at(order.order.back() - 1)], order.ways.back()});
  }
  return ring;
}

int rail_changes_of(const MachineNetwork& network, const FoundRing& ring) {
  int changes = 0;
  for (std::size_t m = 0; m < ring.passages.size(); ++m) {
    const Passage& from = ring.passages[m];
    const Passage& to = ring.passages[(m + 1) % ring.passages.size()];
    changes += rail_of(network, from.exit, from.exit_nic) == rail_of(network, to.entry, to.entry_nic) ? 0 : 1;
  }
  return changes;
}

/// Neighbors that a machine has in both trees of a double tree together, at most.
int most_neighbors(int machines) {
  int most = 0;
  for (int m = 0; m < machines; ++m) {
    int neighbors = 0;
    for (const bool second : {false, true}) {
      const BinaryNode node = binary_node(double_tree_position(m, machines, second), machines);
      for (const int other : {node.parent, node.left, node.right}) neighbors += other >= 0 ? 1 : 0;
    }
    most = std::max(most, neighbors);
  }
  return most;
}

/// One tree of a double tree over the machines with each machine's own tree below its head.
Tree joined_tree(const std::vector<Machine<TreeShape>>& machines, const Joined& part, bool second) {
  const int count = static_cast<int>(machines.size());
  Tree tree;
  tree.bytes_per_second = part.rate / 2;
  const auto shape = [&](int m) -> const TreeShape& { return machines[at(m)].orders[part.orders[at(m)]]; };
  const auto head = [&](int m) { return machines[at(m)].ends[at(shape(m).head - 1)]; };
  for (int m = 0; m < count; ++m) tree.passages.push_back({m, head(m), shape(m).head_way, head(m), shape(m).head_way});
  std::vector<int> found = {double_tree_rank(0, count, second)};
  tree.root = head(found[0]);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const int m = found[i];
    const BinaryNode node = binary_node(double_tree_position(m, count, second), count);
    for (const int child : {node.left, node.right}) {
      if (child < 0) continue;
      found.push_back(double_tree_rank(child, count, second));
      tree.edges.emplace_back(head(m), head(found.back()));
    }
    for (const auto& [parent, child] : rooted(shape(m), shape(m).head)) {
      tree.edges.emplace_back(machines[at(m)].ends[at(parent - 1)], machines[at(m)].ends[at(child - 1)]);
    }
  }
  return tree;
}

/// The links from endpoint a to b, of another machine by the NICs of the passages.
void append_hop(const MachineNetwork& network, const std::vector<Passage>& passages, int a, int b,
                std::vector<std::uint32_t>& links) {
  std::vector<std::uint32_t> way;
  if (passages.empty() || network.machine(a) == network.machine(b)) {
    network.route(a, b, way);
  } else {
    const Passage& from = passages[at(network.machine(a))];
    const Passage& to = passages[at(network.machine(b))];
    way = network.nics(a)[at(from.exit_nic)].out;
    const std::vector<std::uint32_t>& in = network.nics(b)[at(to.entry_nic)].in;
    way.insert(way.end(), in.begin(), in.end());
  }
  links.insert(links.end(), way.begin(), way.end());
}

/// Rings of one machine.
RingSet search_alone(const MachineNetwork& network, const SearchOptions& options) {
  const MachineHops hops = machine_hops(network, ends_by_machine(network)[0], false);
  const Packed<RingOrder> packed = pack_apart<RingOrder>(hops, [&](const TransitGraph& some) {
    Steps steps(options.steps);
    return pack_rings(some, options.give_up, steps);
  });
  RingSet set{{}, packed.sum, packed.bound, packed.optimal(), 0};
  for (const auto& [ring, rate] : packed.orders) set.rings.push_back({ring.order, rate, 0, {}});
  mark_bottleneck(network, set.rings);
  return set;
}

/// Trees of one machine.
TreeSet search_trees_alone(const MachineNetwork& network, const SearchOptions& options) {
  const MachineHops hops = machine_hops(network, ends_by_machine(network)[0], false);
  const Packed<TreeShape> packed = pack_apart<TreeShape>(hops, [&](const TransitGraph& some) {
    Steps steps(options.steps);
    return pack_trees(some, 0, options.give_up, steps);
  });
  TreeSet set{{}, packed.sum, packed.bound, packed.optimal()};
  for (const auto& [shape, rate] : packed.orders) {
    const int root = center_of(shape, network.endpoints(), 0);
    set.trees.push_back({root, rooted(shape, root), rate, 0, {}});
  }
  mark_bottleneck(network, set.trees);
  return set;
}

}  // namespace

std::vector<std::uint32_t> links_of(const MachineNetwork& network, const FoundRing& ring) {
  std::vector<std::uint32_t> links;
  for (std::size_t i = 0; i < ring.order.size(); ++i) {
    append_hop(network, ring.passages, ring.order[i], ring.order[(i + 1) % ring.order.size()], links);
  }
  return links;
}

std::vector<std::uint32_t> links_of(const MachineNetwork& network, const Tree& tree) {
  std::vector<std::uint32_t> links;
  for (const auto& [parent, child] : tree.edges) {
    append_hop(network, tree.passages, parent, child, links);
    append_hop(network, tree.passages, child, parent, links);
  }
  return links;
}

RingSet search_machine_rings(const MachineNetwork& network, const SearchOptions& options) {
  if (network.endpoints() < 2) return {.optimal = true};
  if (network.machines() < 2) return search_alone(network, options);
  const auto search = [&](const TransitGraph& hops) {
    Steps steps(options.steps);
    return pack_rings(hops, options.give_up, steps);
  };
  const auto rails = [&](const std::vector<int>& ends, const RingOrder& ring) {
    return std::pair(rail_of(network, ends[at(ring.order[1] - 1)], ring.ways.front()),
                     rail_of(network, ends[at(ring.order.back() - 1)], ring.ways.back()));
  };
  RingSet set;
  std::vector<Machine<RingOrder>> machines =
      search_each<RingOrder>(network, search, rails, set.bytes_per_second, set.bound);
  set.optimal = Packed<RingOrder>{{}, set.bytes_per_second, set.bound}.optimal();
  for (const Joined& part : join_all(machines, set.bytes_per_second)) {
    set.rings.push_back(joined_ring(machines, part));
    set.rail_changes += rail_changes_of(network, set.rings.back());
  }
  mark_bottleneck(network, set.rings);
  return set;
}

TreeSet search_machine_trees(const MachineNetwork& network, const SearchOptions& options) {
  if (network.endpoints() < 2) return {.optimal = true};
  if (network.machines() < 2) return search_trees_alone(network, options);
  const double neighbors = most_neighbors(network.machines());
  const auto search = [&](const TransitGraph& hops) {
    Steps steps(options.steps);
    return pack_trees(hops, neighbors / 2, options.give_up, steps);  // each of the two trees has half the rate
  };
  const auto rails = [&](const std::vector<int>& ends, const TreeShape& tree) {
    const int rail = rail_of(network, ends[at(tree.head - 1)], tree.head_way);
    return std::pair(rail, rail);
  };
  TreeSet set;
  std::vector<Machine<TreeShape>> machines =
      search_each<TreeShape>(network, search, rails, set.bytes_per_second, set.bound);
  set.optimal = Packed<TreeShape>{{}, set.bytes_per_second, set.bound}.optimal();
  for (const Joined& part : join_all(machines, set.bytes_per_second)) {
    for (const bool second : {false, true}) set.trees.push_back(joined_tree(machines, part, second));
  }
  mark_bottleneck(network, set.trees);
  return set;
}

}  // namespace tutti
