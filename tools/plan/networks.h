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

  /// The places of ranks 0 to ranks - 1, which are the endpoints of these numbers.
  View view(int ranks) const;
};

/// text: a generator's description (topology/generators.h). Else the sentence that refuses it.
Result<NamedNetwork> open_network(const std::string& text);

}  // namespace tutti::plan_tool
