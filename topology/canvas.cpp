#include "topology/canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/printable.h"

namespace tutti {
namespace {

bool starts_letter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

/// How an element ends that has nothing in it but perhaps a hint.
std::string ending(std::string_view element, std::string_view hint) {
  return hint.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", escaped(Canvas::fitted(hint, 200)), element);
}

}  // namespace

std::string Canvas::fitted(std::string_view text, std::size_t most) {
  std::string out = printable(text);
  if (static_cast<std::size_t>(std::count_if(out.begin(), out.end(), starts_letter)) <= most) return out;
  std::size_t end = 0;
  for (std::size_t left = most; end < out.size(); ++end) {
    if (starts_letter(out[end]) && left-- <= 1) break;
  }
  return out.substr(0, end) + "…";
}

double Canvas::width_of(std::string_view text, double size) {
  return static_cast<double>(std::count_if(text.begin(), text.end(), starts_letter)) * size * kLetter;
}

void Canvas::box(double x, double y, double width, double height, std::string_view fill, std::string_view edge,
                 std::string_view hint) {
  body_ +=
      fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"3\" fill=\"{}\" stroke=\"{}\"",
                  x, y, width, height, fill, edge);
  body_ += ending("rect", hint);
}

void Canvas::line(Point from, Point to, const Stroke& stroke, const std::string& hint) {
  body_ += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{:.1f}\"{}", from.x,
      from.y, to.x, to.y, stroke.colour, stroke.width, stroke.dashed ? " stroke-dasharray=\"6 3\"" : "");
  body_ += ending("line", hint);
}

void Canvas::arrow(Point from, Point to, const Stroke& stroke) {
  line(from, to, stroke, {});
  const double dx = to.x - from.x;
  const double dy = to.y - from.y;
  const double length = std::max(1e-9, std::hypot(dx, dy));
  const Point along{dx / length, dy / length};
  const Point tip{from.x + .6 * dx, from.y + .6 * dy};
  const double head = 4 + 1.5 * stroke.width;
  const Point base{tip.x - head * along.x, tip.y - head * along.y};
  const double half = head / 2;
  body_ += fmt::format("<polygon points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\" fill=\"{}\"/>\n", tip.x, tip.y,
                       base.x - half * along.y, base.y + half * along.x, base.x + half * along.y, base.y - half * along.x,
                       stroke.colour);
}

void Canvas::text(double x, double y, std::string_view text, double size, bool bold) {
  if (text.empty()) return;
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\"{} xml:space=\"preserve\">{}</text>\n", x,
                       y + size, size, bold ? " font-weight=\"bold\"" : "", escaped(text));
  texts_.push_back({x, y, width_of(text, size), size * kLine, std::string(text)});
}

void Canvas::place(const Canvas& other, double x, double y) {
  body_ += fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n{}</g>\n", x, y, other.body_);
  for (SvgText text : other.texts_) {
    text.x += x;
    text.y += y;
    texts_.push_back(std::move(text));
  }
}

SvgDrawing Canvas::finish(double width, double height) const {
  SvgDrawing drawing{width, height, {}, texts_};
  drawing.svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" fill=\"#222222\">\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n{2}</svg>\n",
      width, height, body_);
  return drawing;
}

}  // namespace tutti
