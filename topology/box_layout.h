// Boxes in boxes: each as large as its texts and what is in it, which stands in rows.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "topology/canvas.h"

namespace tutti {

/// A box with a few lines of text at its top and other boxes below them.
struct Box {
  std::string fill = "none";
  std::string edge = "none";       ///< none: neither drawn nor padded
  std::vector<std::string> lines;  ///< the first one bold
  std::vector<Box> children;
  std::size_t columns = 0;  ///< children side by side, 0: as the wanted shape asks
  int order = 0;            ///< among its siblings, for who sorts them
  double width = 0;         ///< set by lay_out
  double height = 0;        ///< set by lay_out
  double x = 0;             ///< within the parent, set by lay_out
  double y = 0;
};

/// Finds sizes and places of a box and all within: children stand in rows and columns, as many as make the box nearest to
/// `aspect` times as wide as high, and fill their places.
void lay_out(Box& box, double aspect);

/// Draws a box that has been laid out, its upper left corner at (x, y).
void draw(const Box& box, double x, double y, Canvas& canvas);

}  // namespace tutti
