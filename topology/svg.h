// The graph as a drawing: boxes in boxes for what contains what, and beside them a circle of GPUs with the links between
// them.
#pragma once

#include <string>
#include <vector>

#include "topology/graph.h"

namespace tutti {

/// Where a text stands in a drawing, in its units (pixels); x and y are the upper left corner.
struct SvgText {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  std::string text;
};

/// A drawing, and where its texts are, for who wants to check that none covers another.
struct SvgDrawing {
  double width = 0;
  double height = 0;
  std::string svg;  ///< a whole document, ending with a newline
  std::vector<SvgText> texts;
};

/// Draws a graph of one or several machines: machine > package > NUMA node > PCIe > devices as lstopo does, bridges only
/// where several ways meet; then the GPUs in a circle with NVLink and xGMI in the width of their bandwidth, NVSwitches as
/// hubs, the network between NICs likewise, and a legend with units. Circles of more than 64 devices are left out. rings
/// each a list of GPUs by their places in graph.of(NodeKind::gpu), which of one machine are their ids; drawn over
///         the links, with arrows. A ring with a place that there is not is left out.
/// gbytes  GB/s of each ring, for the legend; may be empty.
/// Thread safe.
SvgDrawing draw_svg(const Graph& graph, const std::vector<std::vector<int>>& rings = {},
                    const std::vector<double>& gbytes = {});

}  // namespace tutti
