// Devices in a circle with the links between them: where boxes in boxes cannot show who is joined to whom.
#pragma once

#include <string>
#include <vector>

#include "topology/canvas.h"
#include "topology/graph.h"

namespace tutti {

/// What a legend says of a line.
struct LineKind {
  std::string text;  ///< "NV2, 50 GB/s"
  Canvas::Stroke stroke;
};

struct CircleLayout {
  Canvas canvas;
  double width = 0;  ///< 0: there is nothing to draw
  double height = 0;
  std::vector<LineKind> kinds;  ///< those that occur
};

/// GPUs with their NVLinks and xGMI links and rings over them. NVSwitches that join the same GPUs are one hub.
/// rings, gbytes  as draw_svg takes them.
CircleLayout circle_of_gpus(const Graph& graph, const std::vector<std::vector<int>>& rings,
                            const std::vector<double>& gbytes);

/// NICs with the network between them.
CircleLayout circle_of_nics(const Graph& graph);

}  // namespace tutti
