#include "topology/box_layout.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace tutti {
namespace {

constexpr double kPad = 8;
constexpr double kGap = 8;

Canvas::Size size_of_lines(const Box& box) {
  Canvas::Size size;
  for (const std::string& line : box.lines) size.width = std::max(size.width, Canvas::width_of(line, Canvas::kFont));
  size.height = static_cast<double>(box.lines.size()) * Canvas::kFont * Canvas::kLine;
  return size;
}

/// Rows and columns of so many children each, as wide and high as the largest in them needs.
struct BoxGrid {
  std::vector<double> widths;
  std::vector<double> heights;

  BoxGrid(const std::vector<Box>& children, std::size_t columns)
      : widths(columns), heights((children.size() + columns - 1) / columns) {
    for (std::size_t i = 0; i < children.size(); ++i) {
      widths[i % columns] = std::max(widths[i % columns], children[i].width);
      heights[i / columns] = std::max(heights[i / columns], children[i].height);
    }
  }

  Canvas::Size size() const {
    const auto sum = [](const std::vector<double>& parts) {
      return std::accumulate(parts.begin(), parts.end(), kGap * static_cast<double>(parts.size() - 1));
    };
    return {sum(widths), sum(heights)};
  }

  void place(std::vector<Box>& children, double left, double top) const {
    double y = top;
    for (std::size_t row = 0; row < heights.size(); ++row) {
      double x = left;
      for (std::size_t column = 0; column < widths.size() && row * widths.size() + column < children.size(); ++column) {
        Box& child = children[row * widths.size() + column];
        child.x = x;
        child.y = y;
        child.width = widths[column];
        child.height = heights[row];
        x += widths[column] + kGap;
      }
      y += heights[row] + kGap;
    }
  }
};

constexpr std::size_t kMostColumns = 64;

/// How far from the wanted shape a size is, either way.
double off(const Canvas::Size& size, double aspect) { return std::abs(std::log(size.width / size.height / aspect)); }

}  // namespace

void lay_out(Box& box, double aspect) {
  const double pad = box.edge == "none" ? 0 : kPad;
  const Canvas::Size lines = size_of_lines(box);
  box.width = lines.width + 2 * pad;
  box.height = lines.height + 2 * pad;
  if (box.children.empty()) return;
  for (Box& child : box.children) lay_out(child, aspect);
  const double above = lines.height > 0 ? lines.height + kPad / 2 : 0;
  std::size_t best = 1;
  double least = 1e300;
  for (std::size_t n = 1; n <= std::min(kMostColumns, box.children.size()); ++n) {
    if (box.columns != 0 && n != std::min(box.columns, box.children.size())) continue;
    Canvas::Size size = BoxGrid(box.children, n).size();
    size.width = std::max(size.width, lines.width) + 2 * pad;
    size.height += above + 2 * pad;
    if (off(size, aspect) >= least) continue;
    least = off(size, aspect);
    best = n;
    box.width = size.width;
    box.height = size.height;
  }
  BoxGrid(box.children, best).place(box.children, pad, pad + above);
}

void draw(const Box& box, double x, double y, Canvas& canvas) {
  if (box.edge != "none") canvas.box(x, y, box.width, box.height, box.fill, box.edge);
  double line = y + kPad;
  for (std::size_t i = 0; i < box.lines.size(); ++i) {
    canvas.text(x + kPad, line, box.lines[i], Canvas::kFont, i == 0);
    line += Canvas::kFont * Canvas::kLine;
  }
  for (const Box& child : box.children) draw(child, x + child.x, y + child.y, canvas);
}

}  // namespace tutti
