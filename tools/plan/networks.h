// The network that --topology names.
#pragma once

#include <memory>
#include <string>

#include "src/base/status.h"
#include "topology/network.h"
#include "topology/view.h"

namespace tutti::plan_tool {

/// A network, and how ranks lie on it.
struct NamedNetwork {
  std::string name;
  std::shared_ptr<const Network> network;
  View places;  ///< of all endpoints of a machine that a file describes; else without ranks

  /// The places of ranks 0 to ranks - 1, which are the endpoints of these numbers.
  View view(int ranks) const;
};

/// text: a generator's description (topology/generators.h), or the path of a file, hwloc's XML or NCCL's, whose GPUs are
/// the endpoints, in the order of their numbers. Else the sentence that refuses it.
Result<NamedNetwork> open_network(const std::string& text);

}  // namespace tutti::plan_tool
