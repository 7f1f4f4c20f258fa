#include "topology/cells.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace tutti {
namespace {

constexpr double kFont = 12;
constexpr double kPad = 8;
constexpr double kGap = 8;

struct Size {
  double width = 0;
  double height = 0;
};

Size size_of_lines(const Cell& cell) {
  Size size;
  for (const std::string& line : cell.lines) size.width = std::max(size.width, Canvas::width_of(line, kFont));
  size.height = static_cast<double>(cell.lines.size()) * kFont * Canvas::kLine;
  return size;
}

/// Rows and columns of so many children each, as wide and high as the largest in them needs.
struct Grid {
  std::vector<double> widths;
  std::vector<double> heights;

  Grid(const std::vector<Cell>& children, std::size_t columns)
      : widths(columns), heights((children.size() + columns - 1) / columns) {
    for (std::size_t i = 0; i < children.size(); ++i) {
      widths[i % columns] = std::max(widths[i % columns], children[i].width);
      heights[i / columns] = std::max(heights[i / columns], children[i].height);
    }
  }

  Size size() const {
    const auto sum = [](const std::vector<double>& parts) {
      return std::accumulate(parts.begin(), parts.end(), kGap * static_cast<double>(parts.size() - 1));
    };
    return {sum(widths), sum(heights)};
  }

  void place(std::vector<Cell>& children, double left, double top) const {
    double y = top;
    for (std::size_t row = 0; row < heights.size(); ++row) {
      double x = left;
      for (std::size_t column = 0; column < widths.size() && row * widths.size() + column < children.size(); ++column) {
        Cell& child = children[row * widths.size() + column];
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
double off(const Size& size, double aspect) { return std::abs(std::log(size.width / size.height / aspect)); }

}  // namespace

void lay_out(Cell& cell, double aspect) {
  const double pad = cell.edge == "none" ? 0 : kPad;
  const Size lines = size_of_lines(cell);
  cell.width = lines.width + 2 * pad;
  cell.height = lines.height + 2 * pad;
  if (cell.children.empty()) return;
  for (Cell& child : cell.children) lay_out(child, aspect);
  const double above = lines.height > 0 ? lines.height + kPad / 2 : 0;
  std::size_t best = 1;
  double least = 1e300;
  for (std::size_t n = 1; n <= std::min(kMostColumns, cell.children.size()); ++n) {
    if (cell.columns != 0 && n != std::min(cell.columns, cell.children.size())) continue;
    Size size = Grid(cell.children, n).size();
    size.width = std::max(size.width, lines.width) + 2 * pad;
    size.height += above + 2 * pad;
    if (off(size, aspect) >= least) continue;
    least = off(size, aspect);
    best = n;
    cell.width = size.width;
    cell.height = size.height;
  }
  Grid(cell.children, best).place(cell.children, pad, pad + above);
}

void draw(const Cell& cell, double x, double y, Canvas& canvas) {
  if (cell.edge != "none") canvas.box(x, y, cell.width, cell.height, cell.fill, cell.edge);
  double line = y + kPad;
  for (std::size_t i = 0; i < cell.lines.size(); ++i) {
    canvas.text(x + kPad, line, cell.lines[i], kFont, i == 0);
    line += kFont * Canvas::kLine;
  }
  for (const Cell& child : cell.children) draw(child, x + child.x, y + child.y, canvas);
}

}  // namespace tutti
