// Networks by description: machines that nobody here has, as large as one likes. Routes are computed, not stored, so that
// 65,536 endpoints cost a few hundred bytes.
//
//     switch:64                                   endpoints on one switch
//     fat_tree:64x32,oversubscription=4           64 leaf switches of 32 endpoints; their uplinks carry a 4th of that
//     fat_tree:16x64x64,core_oversubscription=2   three levels: 16 pods of 64 leaves of 64 endpoints
//     torus:16x16, torus:8x8x8                    a neighbour in each direction of each dimension
//     dragonfly:9x4x2                             9 groups of 4 routers of 2 endpoints
//     pod:128x8                                   128 machines of 8 GPUs, rail-optimised
#pragma once

#include <memory>
#include <string_view>

#include "src/base/status.h"
#include "topology/network.h"
#include "topology/view.h"

namespace tutti {

/// The kinds of networks that can be generated, with their options, a line each; for help and errors.
std::string_view generators_help();

/// Whether `spec` begins as a generator's description does ("torus:…"), rather than as a file's path.
bool names_generator(std::string_view spec);

/// Builds "KIND:SIZExSIZE…[,OPTION=NUMBER]…". Every kind takes GBps (10^9 bytes a second of a link and direction, 50) and
/// latency_us (microseconds that one link takes, 0.5). Besides:
///   fat_tree          oversubscription (1): what endpoints could send together, over what their leaf's uplinks carry;
///                     core_oversubscription (1): likewise for a pod's uplinks. spines (0): 0 takes a switch's uplinks as
///                     one trunk, as adaptive routing or packet spraying make of them; S cuts it into S links of which
///                     messages take number destination mod S, as static routing does. trunk_latency_us (latency_us): of
///                     links between switches.
///   switch, fat_tree  slow_endpoint: one whose link has slow_GBps instead, both ways.
///   torus             dimension-order routing, the shorter way around, upwards where both are as long.
///   dragonfly         local_GBps, global_GBps (GBps each): minimal routing; each pair of groups has one global link (Kim
///   et
///                     al., ISCA 2008), group g's k-th to group g + 1 + k, at router k / ceil((groups - 1) / routers).
///   pod               nvlink_GBps (450), nvlink_latency_us (0.5): within a machine; a NIC and a rail switch per GPU index;
///                     a spine above the rails for others, with oversubscription (1).
/// Returns the network, or the sentence that says what is wrong with `spec`. Pure.
Result<std::shared_ptr<const Network>> generate_network(std::string_view spec);

/// The places of ranks 0 to ranks - 1 on the endpoints of such a network, for algorithms and selection: a pod's machines, a
/// fat tree's leaves and a dragonfly's groups as racks of machines with a rank each, and a torus's sizes where every
/// endpoint has a rank. Estimates are those of the way from rank 0 to the first rank of a class of links, alone. spec: as
/// above, and good.
View generated_view(std::string_view spec, const Network& network, int ranks);

}  // namespace tutti
