#include "tools/plan/load_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace tutti::plan_tool {
namespace {

// Pixels.
constexpr int width = 960;
constexpr int margin = 24;
constexpr int bars_left = 290;
constexpr int bars_width = 420;
constexpr int row = 22;
constexpr int square = 15;

constexpr std::size_t most_bars = 16;
constexpr std::size_t squares_in_row = (width - 2 * margin) / square;
constexpr std::size_t most_squares = squares_in_row * 24;
constexpr std::size_t most_letters = 36;  // of a link's name, left of its bar

/// From nothing to full; readable without seeing colours, too, as they grow darker.
constexpr std::array<std::string_view, 6> shades = {"#eceff1", "#c6dbef", "#9ecae1", "#fdae6b", "#e6550d", "#a50f15"};
constexpr std::array<std::string_view, 6> shade_names = {"unused",     "up to 20 %", "20 to 40 %",
                                                         "40 to 60 %", "60 to 80 %", "above 80 %"};

std::string_view shade(double busy) {
  if (busy <= 0) return shades[0];
  return shades[1 + std::min<std::size_t>(4, static_cast<std::size_t>(busy * 5))];
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string shortened(const std::string& name) {
  return name.size() <= most_letters ? name : name.substr(0, most_letters - 3) + "...";
}

std::string bytes_text(double bytes) {
  constexpr std::array<std::string_view, 6> units = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < units.size()) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.3f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

class Drawing {
 public:
  Drawing(const Network& network, const SimulatorReport& report) : network_(network), report_(report) {
    for (std::uint32_t l = 0; l < report.loads.size(); ++l) {
      const double full = network.link(l).bytes_per_second * report.seconds;
      busy_.push_back(full > 0 ? static_cast<double>(report.loads[l]) / full : 0);
      if (report.loads[l] > 0) used_.push_back(l);
    }
    const auto count = static_cast<std::ptrdiff_t>(std::min(most_bars, used_.size()));
    busiest_ = used_;
    std::partial_sort(busiest_.begin(), busiest_.begin() + count, busiest_.end(),
                      [&](std::uint32_t a, std::uint32_t b) { return busy_[a] != busy_[b] ? busy_[a] > busy_[b] : a < b; });
    busiest_.resize(static_cast<std::size_t>(count));
  }

  std::string draw(const std::string& title) {
    text(margin, 34, 18, title, "start", true);
    text(margin, 56, 13,
         fmt::format("{} in virtual time; {} of {} links used", time_text(report_.seconds), used_.size(), busy_.size()));
    int y = draw_legend(76);
    y = draw_bars(y + 30);
    y = draw_squares(y + 34);
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
               "font-family=\"sans-serif\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
               width, y + margin) +
           body_ + "</svg>\n";
  }

 private:
  void text(int x, int y, int size, const std::string& what, std::string_view anchor = "start", bool bold = false) {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, size, anchor,
                         bold ? " font-weight=\"bold\"" : "", escaped(what));
  }
  void box(int x, int y, double w, int h, std::string_view fill, const std::string& told) {
    body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"><title>{}</title></rect>\n", x,
                         y, w, h, fill, escaped(told));
  }

  int draw_legend(int y) {
    text(margin, y + 12, 12, "share of the time a link was full:");
    int x = margin + 210;
    for (std::size_t s = 0; s < shades.size(); ++s, x += 118) {
      box(x, y, 16, 16, shades[s], std::string(shade_names[s]));
      text(x + 22, y + 12, 12, std::string(shade_names[s]));
    }
    return y + 16;
  }

  int draw_bars(int y) {
    text(margin, y, 14, fmt::format("The {} busiest links", busiest_.size()), "start", true);
    text(width - margin, y, 12, "bytes, share of its bandwidth used", "end");
    y += 12;
    const int bottom = y + row * static_cast<int>(busiest_.size());
    for (int tick = 0; tick <= 4; ++tick) {
      const int x = bars_left + bars_width * tick / 4;
      body_ += fmt::format("<line x1=\"{0}\" y1=\"{1}\" x2=\"{0}\" y2=\"{2}\" stroke=\"#ddd\"/>\n", x, y, bottom);
      text(x, bottom + 16, 11, fmt::format("{} %", 25 * tick), "middle");
    }
    for (const std::uint32_t l : busiest_) {
      const NetworkLink link = network_.link(l);
      const std::string carried = bytes_text(static_cast<double>(report_.loads[l]));
      text(bars_left - 8, y + 15, 12, shortened(link.name), "end");
      box(bars_left, y + 3, bars_width * std::min(1.0, busy_[l]), row - 6, shade(busy_[l]), told(l));
      text(width - margin, y + 15, 12,
           fmt::format("{}, {:.1f} % of {:.4g} GB/s", carried, 100 * busy_[l], link.bytes_per_second * 1e-9), "end");
      y += row;
    }
    return bottom + 16;
  }

  std::string told(std::uint32_t l) const {
    return fmt::format("{}: {}, {:.1f} %", network_.link(l).name, bytes_text(static_cast<double>(report_.loads[l])),
                       100 * busy_[l]);
  }

  int draw_squares(int y) {
    const std::size_t each = std::max<std::size_t>(1, (busy_.size() + most_squares - 1) / most_squares);
    const std::string meaning = each == 1 ? "a square each" : fmt::format("a square is the busiest of {} neighbours", each);
    text(margin, y, 14, fmt::format("All {} links in the network's order, {}", busy_.size(), meaning), "start", true);
    y += 12;
    std::size_t index = 0;
    for (std::size_t first = 0; first < busy_.size(); first += each, ++index) {
      std::size_t most = first;
      for (std::size_t l = first; l < std::min(busy_.size(), first + each); ++l) most = busy_[l] > busy_[most] ? l : most;
      const int column = static_cast<int>(index % squares_in_row), line = static_cast<int>(index / squares_in_row);
      box(margin + column * square, y + line * square, square - 2, square - 2, shade(busy_[most]),
          told(static_cast<std::uint32_t>(most)));
    }
    return y + square * static_cast<int>((index + squares_in_row - 1) / squares_in_row);
  }

  const Network& network_;
  const SimulatorReport& report_;
  std::vector<double> busy_;  ///< by link: share of the run for which it was full
  std::vector<std::uint32_t> used_;
  std::vector<std::uint32_t> busiest_;
  std::string body_;
};

}  // namespace

std::string link_load_svg(const std::string& title, const Network& network, const SimulatorReport& report) {
  return Drawing(network, report).draw(title);
}

}  // namespace tutti::plan_tool
