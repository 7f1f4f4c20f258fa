// Rings and trees of greatest bandwidth over a network.
//
// All rings of a set are used at once, each with a rate of its own. A ring of rate r sends r bytes per second over every
// link on the way of each of its hops (twice that over a link that two of its hops pass), and no link carries more than it
// can. What is sought is the greatest sum of rates. A tree of rate r sends r bytes per second up and r down along each
// edge: an all-reduce that is pipelined. So trees all-reduce at the sum of their rates, and rings of n places at n/(2(n−1))
// of theirs.
//
// Up to 17 places (GPUs of one machine, and what is outside it) the sum is that of the linear program over all rings, or
// over all trees, so no other set is better (unless SearchOptions::give_up allows it); RingSet::optimal says whether the
// steps sufficed to show it. Beyond, the program's set or a greedy one is taken, and beyond 24 places, or 2,048 links
// between them, a greedy one (greedy.h). Machines are searched one by one and joined: a ring enters each once. Fewer, equal
// rings are preferred to the linear program's where they have the same sum.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "topology/machine_network.h"
#include "topology/network.h"

namespace tutti {

struct SearchOptions {
  /// What bounds the time: steps of a few nanoseconds for each machine that differs from those before. The result depends
  /// on nothing else, so that all ranks of one build find the same.
  std::uint64_t steps = 100'000'000;
  /// The part of the sum that may be given up where fewer rings or trees have the rest. The best set of a machine without
  /// symmetry may have dozens, some of them with next to nothing.
  double give_up = 0;
};

/// How a ring or tree enters and leaves a machine: MachineNetwork::nics(entry)[entry_nic], and likewise.
struct Passage {
  int machine = 0;  ///< as MachineNetwork::machine
  int entry = 0;    ///< the endpoint that receives from outside
  int entry_nic = 0;
  int exit = 0;  ///< the endpoint that sends outside
  int exit_nic = 0;
};

struct FoundRing {
  std::vector<int> order;  ///< endpoints; the last sends to the first
  double bytes_per_second = 0;
  std::uint32_t bottleneck = 0;   ///< the network's link on its way that the set fills most
  std::vector<Passage> passages;  ///< machine by machine, where there are several
};

struct RingSet {
  std::vector<FoundRing> rings = {};  ///< empty where there are fewer than two endpoints, or no ring
  double bytes_per_second = 0;
  double bound = 0;      ///< that no set of rings can exceed (entering each machine once); 0: unknown unless `optimal`
  bool optimal = false;  ///< the bound is reached
  int rail_changes = 0;  ///< hops between machines by NICs of different rails, over all rings
};

struct Tree {
  int root = 0;
  std::vector<std::pair<int, int>> edges;  ///< parent to child, level by level within a machine
  double bytes_per_second = 0;
  std::uint32_t bottleneck = 0;
  std::vector<Passage> passages;  ///< machine by machine, where there are several: entry and exit are the machine's head
};

struct TreeSet {
  std::vector<Tree> trees = {};
  double bytes_per_second = 0;
  double bound = 0;
  bool optimal = false;
};

/// The one ring of the greatest rate, place 0 first. Nothing where there is none. Up to 10 endpoints no other ring is
/// better; beyond, as far as the steps go.
std::optional<FoundRing> best_ring(const Network& network, const SearchOptions& options = {});

/// The set of rings with the greatest sum of rates over all endpoints of a network, its own ways taken as they are.
RingSet search_rings(const Network& network, const SearchOptions& options = {});
/// Likewise trees, each rooted where the farthest endpoint is nearest.
TreeSet search_trees(const Network& network, const SearchOptions& options = {});

/// Rings over the devices of machines. On one machine those of search_rings, but by NVLink and xGMI alone, unless PCIe
/// beside them gives half as much again: what a hop by PCIe costs besides is not in a sum of bandwidths, and GPUs that have
/// such links do not mix them with PCIe in NCCL either. bound and optimal are of the set's kind. On several, each ring
/// enters every machine by a NIC near the first of its GPUs there, and leaves by a NIC near the last; machines follow each
/// other in their numbers' order, and rings go on by the NIC of the same rail where one is free.
RingSet search_machine_rings(const MachineNetwork& network, const SearchOptions& options = {});
/// Trees likewise: in each machine a tree below its head, the GPU that has the NIC; between the heads double binary trees
/// (binary_tree.h), so that every machine is a leaf in one of two.
TreeSet search_machine_trees(const MachineNetwork& network, const SearchOptions& options = {});

/// The links that all hops of a ring pass, one after the other; those of a tree, both ways of each edge.
std::vector<std::uint32_t> links_of(const Network& network, const FoundRing& ring);
std::vector<std::uint32_t> links_of(const Network& network, const Tree& tree);
/// The same where hops between machines go by the NICs of the passages.
std::vector<std::uint32_t> links_of(const MachineNetwork& network, const FoundRing& ring);
std::vector<std::uint32_t> links_of(const MachineNetwork& network, const Tree& tree);

}  // namespace tutti
