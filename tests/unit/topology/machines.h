// Graphs of machines, built by tests: piece by piece, and some that everybody knows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "topology/graph.h"

namespace tutti::test {

/// Builds a graph. Functions return indices of nodes; bandwidths are in GB/s one way.
struct Machines {
  Graph graph;

  int machine() { return add(NodeKind::machine, -1, 0, next_id(NodeKind::machine)); }
  /// A package with one NUMA node, which is returned.
  int package(int machine) {
    const int package = add(NodeKind::package, machine, 0, children(machine));
    return add(NodeKind::numa, package, 0, graph.nodes[static_cast<std::size_t>(package)].id);
  }
  int host_bridge(int numa) { return add(NodeKind::host_bridge, numa, 0, next_id(NodeKind::host_bridge)); }
  int bridge(int parent, double gbytes) { return add(NodeKind::bridge, parent, gbytes, next_id(NodeKind::bridge)); }
  int gpu(int parent, double gbytes, int id = -1) {
    return add(NodeKind::gpu, parent, gbytes, id < 0 ? next_id(NodeKind::gpu) : id);
  }
  int nic(int parent, double gbits, bool gdr, double gbytes = 64) {
    const int index = add(NodeKind::nic, parent, gbytes, next_id(NodeKind::nic));
    NicFacts& facts = graph.nodes[static_cast<std::size_t>(index)].nic;
    facts.speed_gbps = gbits;
    facts.ports = 1;
    facts.verbs = true;
    facts.gdr = gdr;
    return index;
  }
  void nvlink(int a, int b, int count, double one = 25) {
    graph.links.push_back({a, b, LinkKind::nvlink, count, count * one, 0});
  }

  /// GPUs with `ports` GB/s to an NVSwitch, each behind a PCIe switch with one NIC of `nic_gbytes`, half of them (rounded
  /// up) near each of two packages.
  int add_switched_machine(int gpus, double ports, int nics, double nic_gbytes) {
    const int index = machine();
    const std::array<int, 2> hosts = {host_bridge(package(index)), host_bridge(package(index))};
    const int nv_switch = add(NodeKind::nv_switch, hosts[0], 16, next_id(NodeKind::nv_switch));
    for (int i = 0; i < std::max(gpus, nics); ++i) {
      const int pcie = bridge(hosts[i < (gpus + 1) / 2 ? 0 : 1], 64);
      if (i < gpus) graph.links.push_back({gpu(pcie, 64), nv_switch, LinkKind::nvlink, 1, ports, 0});
      if (i < nics) nic(pcie, nic_gbytes * 8, true);
    }
    return index;
  }

  int add(NodeKind kind, int parent, double gbytes, int id) {
    Node node;
    node.kind = kind;
    node.parent = parent;
    node.id = id;
    node.uplink_gbytes = gbytes;
    return graph.add(std::move(node));
  }

 private:
  int next_id(NodeKind kind) const {
    return static_cast<int>(
        std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.kind == kind; }));
  }
  int children(int parent) const {
    return static_cast<int>(
        std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.parent == parent; }));
  }
};

/// How many NVLinks a DGX-1 has between two of its GPUs: the hybrid cube mesh, as `nvidia-smi topo -m` shows it.
inline int dgx1_links(int a, int b, bool volta) {
  constexpr std::array<std::array<int, 8>, 8> links = {{{0, 1, 1, 2, 2, 0, 0, 0},
                                                        {1, 0, 2, 1, 0, 2, 0, 0},
                                                        {1, 2, 0, 2, 0, 0, 1, 0},
                                                        {2, 1, 2, 0, 0, 0, 0, 1},
                                                        {2, 0, 0, 0, 0, 1, 1, 2},
                                                        {0, 2, 0, 0, 1, 0, 2, 1},
                                                        {0, 0, 1, 0, 1, 2, 0, 2},
                                                        {0, 0, 0, 1, 2, 1, 2, 0}}};
  const int count = links[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
  return volta ? count : std::min(count, 1);
}

/// A DGX-1 with V100 (24 NVLinks of 25 GB/s) or P100 (16 of 20): two packages, two PCIe switches each, two GPUs and a NIC
/// of 100 Gbit/s behind each switch.
inline Machines dgx1(bool volta) {
  Machines machines;
  const int machine = machines.machine();
  std::array<int, 8> gpus{};
  int next = 0;
  for (int package = 0; package < 2; ++package) {
    const int numa = machines.package(machine);
    for (int i = 0; i < 2; ++i) {
      const int pcie = machines.bridge(machines.host_bridge(numa), 15.754);
      for (int j = 0; j < 2; ++j) gpus[static_cast<std::size_t>(next++)] = machines.gpu(pcie, 15.754);
      machines.nic(pcie, 100, true, 15.754);
    }
  }
  for (int a = 0; a < 8; ++a) {
    for (int b = a + 1; b < 8; ++b) {
      const int count = dgx1_links(a, b, volta);
      if (count == 0) continue;
      machines.nvlink(gpus[static_cast<std::size_t>(a)], gpus[static_cast<std::size_t>(b)], count, volta ? 25 : 20);
    }
  }
  return machines;
}

/// GPUs with `links` NVLinks of 25 GB/s each to switches.
inline Machines switched(int gpus, int links) {
  Machines machines;
  machines.add_switched_machine(gpus, links * 25., 0, 0);
  return machines;
}

/// A rail-optimised pod: in each machine GPUs with 450 GB/s to an NVSwitch and a NIC of 400 Gbit/s each.
inline Machines pod(int count, int gpus) {
  Machines machines;
  for (int i = 0; i < count; ++i) machines.add_switched_machine(gpus, 450, gpus, 50);
  return machines;
}

}  // namespace tutti::test
