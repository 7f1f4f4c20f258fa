// A page of SVG: boxes, lines and texts, with the room that each text takes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/svg.h"

namespace tutti {

/// What a page is made of. Fonts are monospaced, so that the width of a text is known without asking the viewer.
class Canvas {
 public:
  struct Point {
    double x = 0;
    double y = 0;
  };
  struct Size {
    double width = 0;
    double height = 0;
  };
  struct Stroke {
    std::string colour;
    double width = 1;
    bool dashed = false;
  };

  static constexpr double kLetter = .62;  ///< width of a letter in font sizes: DejaVu Sans Mono's .602, and some air
  static constexpr double kLine = 1.3;    ///< height of a line in font sizes
  static constexpr double kFont = 12;     ///< font size of what is no title

  /// Valid UTF-8 without control characters, at most `most` letters; what is more ends in an ellipsis.
  static std::string fitted(std::string_view text, std::size_t most);
  /// Width of a text in a font size.
  static double width_of(std::string_view text, double size);

  /// hint  shown by viewers when the mouse rests on the box, or the line; may be empty.
  void box(double x, double y, double width, double height, std::string_view fill, std::string_view edge,
           std::string_view hint = {});
  void line(Point from, Point to, const Stroke& stroke, const std::string& hint);
  /// A line with an arrow's head at three fifths of the way.
  void arrow(Point from, Point to, const Stroke& stroke);
  /// x, y  the upper left corner of the line of text.
  void text(double x, double y, std::string_view text, double size, bool bold = false);
  /// Another page, its upper left corner at (x, y).
  void place(const Canvas& other, double x, double y);

  /// The whole document.
  SvgDrawing finish(double width, double height) const;

 private:
  std::string body_;
  std::vector<SvgText> texts_;
};

}  // namespace tutti
