#include "tools/plan/load_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "src/tables/units.h"
#include "topology/canvas.h"

namespace tutti::plan_tool {
namespace {

// Pixels.
constexpr int width = 1040;
constexpr int margin = 24;
constexpr int bars_left = 304;
constexpr int bars_width = 420;
constexpr int row = 22;
constexpr int square = 15;
constexpr int title_size = 18;
constexpr int head_size = 14;
constexpr int text_size = 12;

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

class LoadDrawing {
 public:
  LoadDrawing(const Network& network, const SimulatorReport& report) : network_(network), report_(report) {
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

  SvgDrawing draw(const std::string& title) {
    const auto letters = static_cast<std::size_t>((width - 2 * margin) / (title_size * Canvas::kLetter));
    page_.text(margin, 16, Canvas::fitted(title, letters), title_size, true);
    page_.text(margin, 44,
               fmt::format("{} in virtual time; {} of {} links used", exact_time_text(report_.seconds), used_.size(),
                           busy_.size()),
               text_size);
    int y = draw_legend(76);
    y = draw_bars(y + 18);
    y = draw_squares(y + 18);
    return page_.finish(width, y + margin);
  }

 private:
  void text_to(double right, double y, const std::string& text) {
    page_.text(right - Canvas::width_of(text, text_size), y, text, text_size);
  }
  void box(double x, double y, double w, double h, std::string_view fill, const std::string& told) {
    page_.box(x, y, w, h, fill, "none", told);
  }

  int draw_legend(int y) {
    page_.text(margin, y, "share of its bandwidth used:", text_size);
    double x = margin + 230;
    for (std::size_t s = 0; s < shades.size(); ++s, x += 116) {
      box(x, y, 16, 16, shades[s], std::string(shade_names[s]));
      page_.text(x + 22, y, shade_names[s], text_size);
    }
    return y + 16;
  }

  int draw_bars(int y) {
    page_.text(margin, y, fmt::format("The {} busiest links", busiest_.size()), head_size, true);
    text_to(width - margin, y, "bytes, share of its bandwidth used");
    y += 24;
    const int bottom = y + row * static_cast<int>(busiest_.size());
    for (int tick = 0; tick <= 4; ++tick) {
      const double x = bars_left + bars_width * tick / 4.0;
      page_.line({x, static_cast<double>(y)}, {x, static_cast<double>(bottom)}, {"#ddd", 1, false}, {});
      const std::string share = fmt::format("{} %", 25 * tick);
      text_to(x + Canvas::width_of(share, text_size) / 2, bottom + 4, share);
    }
    for (const std::uint32_t l : busiest_) {
      const NetworkLink link = network_.link(l);
      text_to(bars_left - 8, y + 3, Canvas::fitted(link.name, most_letters));
      box(bars_left, y + 3, bars_width * std::min(1.0, busy_[l]), row - 6, shade(busy_[l]), told(l));
      text_to(width - margin, y + 3,
              fmt::format("{}, {:.1f} % of {:.4g} GB/s", traffic_text(static_cast<double>(report_.loads[l])),
                          100 * busy_[l], link.bytes_per_second * 1e-9));
      y += row;
    }
    return bottom + 4 + row;
  }

  std::string told(std::uint32_t l) const {
    return fmt::format("{}: {}, {:.1f} %", network_.link(l).name, traffic_text(static_cast<double>(report_.loads[l])),
                       100 * busy_[l]);
  }

  int draw_squares(int y) {
    const std::size_t each = std::max<std::size_t>(1, (busy_.size() + most_squares - 1) / most_squares);
    const std::string meaning = each == 1 ? "a square each" : fmt::format("a square is the busiest of {} neighbours", each);
    page_.text(margin, y, fmt::format("All {} links in the network's order, {}", busy_.size(), meaning), head_size, true);
    y += 24;
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
  std::vector<double> busy_;  ///< by link: the share of its bandwidth that was used, over the whole run
  std::vector<std::uint32_t> used_;
  std::vector<std::uint32_t> busiest_;
  Canvas page_;
};

}  // namespace

SvgDrawing link_load_svg(const std::string& title, const Network& network, const SimulatorReport& report) {
  return LoadDrawing(network, report).draw(title);
}

}  // namespace tutti::plan_tool
