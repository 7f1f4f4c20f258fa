// What algorithms, selection and the simulator see of the machines: where every rank is, and what links between places
// cost. Plain data, a few bytes a rank, so that 65,536 ranks are no matter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace tutti {

/// Time of a message of m bytes over a link is alpha + m * beta.
struct LinkEstimate {
  double alpha = 0;  ///< seconds
  double beta = 0;   ///< seconds per byte

  double seconds(double bytes) const { return alpha + bytes * beta; }
  friend bool operator==(const LinkEstimate&, const LinkEstimate&) = default;
};

/// How near two ranks are.
enum class LinkClass : std::uint8_t {
  self,           ///< the same rank: a copy
  same_numa,      ///< the same machine and NUMA node
  same_machine,   ///< the same machine, another NUMA node or an unknown one
  other_machine,  ///< over the network, within the rack where racks are known
  other_rack,     ///< over the network, to another rack
};
inline constexpr std::size_t kLinkClasses = 5;
/// "self", "same_numa", "same_machine", "other_machine", "other_rack"; static.
const char* name_of(LinkClass c);

/// Estimates where nothing was measured: core to core .3 us and about 8 GB/s handed over through shared memory (measured
/// on two cores of one node, per copy made), half as dear again across nodes; 20 us and 10 Gbit/s by TCP, to
/// other racks as well.
inline constexpr std::array<LinkEstimate, kLinkClasses> kUnmeasuredLinks = {
    {{0, 1e-10}, {3e-7, 1.2e-10}, {4.5e-7, 1.8e-10}, {2e-5, 8e-10}, {2e-5, 8e-10}}};

/// The places of a communicator's ranks. Equal on all ranks of it, as everything that is chosen from it must be.
struct View {
  std::vector<std::int32_t> machine;  ///< machine[r]: index of rank r's machine, from 0 without gaps
  std::vector<std::int32_t> numa;     ///< numa[r]: index of its NUMA node within the machine, -1 where unknown
  /// core[r]: index of the CPU that rank r is bound to, from 0 without gaps. Empty: unless all are bound to one, and share.
  /// Set by share_cores, as oversubscription is, and what rings and barriers owe to them.
  std::vector<std::int32_t> core;
  /// Ranks in the order in which they stand in rings: neighbours there are near each other. Empty: by their numbers.
  std::vector<std::int32_t> ring_order;
  /// How many times as many ranks a round of a barrier reaches: one more than the messages that take less than a wait.
  std::int32_t barrier_ways = 4;
  std::vector<std::int32_t> rack;  ///< rack[r]: index of its machine's rack, from 0 without gaps; empty: all in one
  /// Sizes of the torus that the ranks lie on, each with two ports in every dimension; their product is the number of
  /// ranks, and the last coordinate varies fastest with the rank: on 2x3, rank 4 is at (1, 1). Empty: no torus.
  std::vector<std::int32_t> torus;
  std::array<LinkEstimate, kLinkClasses> links = kUnmeasuredLinks;
  /// Seconds per byte folded, besides those of reading it from the link, which beta has: arithmetic and the own operand
  /// (2 ranks, 4 to 512 KiB: what the flat all-reduce folds more than the direct one).
  double gamma = 1e-11;
  double oversubscription = 1;  ///< ranks that share a core, on the machine where most do; at least 1
  /// Seconds that a rank which shares its core waits for each of the others there until it has the core: what a wait costs
  /// then (3 to 8 ranks on 2 cores, five algorithms, 128 B to 2 KiB: 2.3 to 20 us a call, by this and a fifth of it for
  /// each message to within a fifth).
  double yield_seconds = 1e-6;
  /// What a byte costs a ring, of what it costs elsewhere, where ranks share cores and have more than their caches hold: a
  /// ring's few slots stay there, out of which the many of an exchange with everybody push each other (4 ranks on 2 cores,
  /// 2 MiB: .4 to .54 of the direct all-reduce's time; 1 MiB: 1 to 1.4 of it).
  double ring_share = 0.5;
  /// Messages are read where the sender wrote them, between any two ranks.
  bool through_memory = true;

  int ranks() const { return static_cast<int>(machine.size()); }

  /// How many machines there are. O(ranks).
  int machines() const;

  /// a, b  ranks of this view.
  bool same_machine(int a, int b) const { return machine[index(a)] == machine[index(b)]; }

  bool same_rack(int a, int b) const { return rack.empty() || rack[index(a)] == rack[index(b)]; }

  /// a, b  ranks of this view.
  LinkClass link_class(int a, int b) const {
    if (a == b) return LinkClass::self;
    if (!same_machine(a, b)) return same_rack(a, b) ? LinkClass::other_machine : LinkClass::other_rack;
    const bool same_node = numa[index(a)] >= 0 && numa[index(a)] == numa[index(b)];
    return same_node ? LinkClass::same_numa : LinkClass::same_machine;
  }

  /// What a message from rank a to rank b costs when nothing else is under way.
  LinkEstimate estimate(int a, int b) const { return links[static_cast<std::size_t>(link_class(a, b))]; }

  /// The estimate between ranks of this class; assignable, to put measured values in.
  LinkEstimate& link(LinkClass c) { return links[static_cast<std::size_t>(c)]; }
  const LinkEstimate& link(LinkClass c) const { return links[static_cast<std::size_t>(c)]; }

  friend bool operator==(const View&, const View&) = default;

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
};

/// Of a plan's hash: one that also tells what ranks do by the view, and no shape shows. That is the order of rings, the
/// ways of barriers, and whose messages a rank takes first. Ranks that saw these differently find out at their first
/// message.
std::uint64_t hash_with_order(std::uint64_t hash, const View& view);

/// The classes of links that there are between ranks of the view. O(n log n).
std::set<LinkClass> classes_between(const View& view);
/// The class of the dearest links between ranks of the view. O(ranks).
LinkClass dearest_links(const View& view);

/// All ranks on one NUMA node of one machine.
View flat_view(int ranks);

/// `machines` machines with `ranks_per_machine` consecutive ranks each, spread evenly and in blocks over `numa_nodes`
/// nodes.
View uniform_view(int machines, int ranks_per_machine, int numa_nodes = 1);

}  // namespace tutti
