// The network that GPUs and NICs of one or several machines send over: NVLink and xGMI bundles, NVSwitches, PCIe edge by
// edge, what is between CPU packages, and the NICs' ports.
//
//     gpu0 ──► gpu1            an NVLink or xGMI bundle between the two
//     gpu0 ──► (switches) ──► gpu5          the bundles to and from the NVSwitches
//     gpu0 ──► bridge ──► … ──► package0 ──► package1 ──► … ──► gpu4        the tree of PCIe
//     gpu0 ──► … nic0 ──► port ──► (network) ──► port ──► nic3 … ──► gpu9   another machine
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "topology/graph.h"
#include "topology/network.h"

namespace tutti {

/// A NIC by which an endpoint reaches other machines.
struct NicWay {
  int nic = 0;   ///< index into Graph::nodes
  int rail = 0;  ///< number of the NIC among those of its machine that carry messages, from 0
  PathType type = PathType::pix;
  bool gdr = false;                ///< the NIC reads and writes the device's memory itself; else by the host's memory
  std::vector<std::uint32_t> out;  ///< links from the device onto the wire
  std::vector<std::uint32_t> in;   ///< links from the wire to the device
};

/// The network between chosen devices. Plain data, without ties to the graph that it was made from; ways are put together
/// as they are asked for, so that 1,024 GPUs need no million of them. All functions are const and thread safe.
class MachineNetwork final : public Network {
 public:
  int endpoints() const override { return static_cast<int>(ends_.size()); }
  std::uint32_t links() const override { return static_cast<std::uint32_t>(links_.size()); }
  NetworkLink link(std::uint32_t index) const override { return links_[index]; }
  /// Within a machine the way of path_between. To another machine by the first of nics() on either side, GPUs that have the
  /// same NICs near taking turns.
  void route(int a, int b, std::vector<std::uint32_t>& way) const override;

  /// Whether NVLink or xGMI joins two endpoints, directly or by switches. Not for an endpoint with itself.
  bool peers(int a, int b) const;
  /// Index into Graph::nodes of an endpoint's device.
  int device(int endpoint) const { return end(endpoint).device; }
  /// "gpu0".
  const std::string& label(int endpoint) const { return end(endpoint).label; }
  /// Which machine an endpoint is on, numbered from 0 in the order in which the endpoints name them.
  int machine(int endpoint) const { return end(endpoint).machine; }
  int machines() const { return machines_; }
  /// The NICs nearest to an endpoint, those behind the same PCIe switches (PIX and PXB) counting alike: the nearest first,
  /// among equals in turn. Empty where all endpoints are on one machine.
  const std::vector<NicWay>& nics(int endpoint) const { return end(endpoint).nics; }

 private:
  friend class MachineNetworkMaker;
  struct End {
    int device = 0;
    int machine = 0;
    int fabric = -1;         ///< NVSwitches that it has links to, -1: none
    std::uint32_t up = 0;    ///< its bundle to them, where fabric >= 0
    std::uint32_t down = 0;  ///< and back
    std::vector<int> chain;  ///< its node and all that contain it, innermost first
    std::vector<NicWay> nics;
    std::vector<std::pair<int, std::uint32_t>> bundles;  ///< NVLink, xGMI: the link to another device, by its node
    std::string label;
  };
  struct Edge {
    int up = -1;  ///< link to the container, -1: no bound
    int down = -1;
  };

  /// The bundle from an endpoint to a device, nothing where there is none.
  static std::optional<std::uint32_t> bundle(const End& from, int device);
  const End& end(int endpoint) const { return ends_[static_cast<std::size_t>(endpoint)]; }
  void tree_route(const std::vector<int>& from, const std::vector<int>& to, bool through_host,
                  std::vector<std::uint32_t>& way) const;

  int machines_ = 0;
  std::vector<End> ends_;
  std::vector<NetworkLink> links_;
  std::vector<Edge> edges_;                                    // by node
  std::vector<bool> inside_pcie_;                              // by node: a PCIe switch or device, no part of the host
  std::map<std::pair<int, int>, std::uint32_t> between_cpus_;  // by the two parts of a machine
};

/// The network between the given GPUs and NICs of a graph, endpoint i being devices[i].
///
/// Every direction of a link has its bandwidth for itself. PCIe: Node::uplink_gbytes; a bridge that does not tell its own
/// is as wide as the widest link below it, a device as its bridge, and else 12 GB/s (NCCL's: 16 lanes of the third
/// generation). A host bridge, and what is within a package, bounds nothing unless it says so. Between two parts of a
/// machine (packages, as a rule) there is a link each way, as wide as path_between says. NVLinks and xGMI links of unknown
/// bandwidth have their generation's. Links of which the graph does not tell the bandwidth are NetworkLink::assumed. GPUs
/// send over NVLink to GPUs they have a direct link with and by switches, not through other GPUs, as in NCCL; direct links
/// of two kinds do not add up.
///
/// Between machines there is a network that nobody waits for but at the NICs' ports, each speed_gbps * ports both ways; a
/// NIC of unknown speed is as fast as its PCIe link. NICs with verbs are used alone where there are some, and NICs without
/// an interface only where none has any. What a NIC without GPU memory (gdr) carries goes by the host's memory, past the
/// host bridge.
///
/// Errors: TUTTI_INVALID_ARGUMENT where an index is no GPU or NIC of the graph or is given twice, or where there are
/// several machines and one has no NIC.
Result<MachineNetwork> network_of(const Graph& graph, const std::vector<int>& devices);

}  // namespace tutti
