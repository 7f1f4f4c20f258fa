#include "tools/plan/schedule_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "src/base/plural.h"
#include "src/schedule/text.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/units.h"
#include "topology/canvas.h"
#include "topology/index.h"

namespace tutti::plan_tool {
namespace {

// Pixels.
constexpr double kMargin = 20;
constexpr double kTitle = 18;
constexpr double kCaption = 12;
constexpr double kLabel = 10;
constexpr double kMove = 96;  ///< room of a move, where time leaves the choice
constexpr double kLeastWidth = 760;
constexpr double kMostWidth = 6000;
constexpr double kLeastBox = 6;  ///< a move that takes no time is as wide
constexpr double kTick = 90;     ///< least distance of two ticks
constexpr double kSquare = 14;   ///< of the legend

const Canvas::Stroke kArrow = {"#5a6672", 1, false};
const Canvas::Stroke kGrid = {"#e2e5e9", 1, false};
constexpr const char* kBand = "#f7f8fa";
constexpr const char* kBandEdge = "#d5dae0";

struct Look {
  const char* word;
  const char* fill;
  const char* pale;  ///< while it waits
  const char* edge;
};
constexpr std::array<Look, 8> kLooks = {{{"copy", "#c9c9c9", "#f0f0f0", "#8f8f8f"},
                                         {"send", "#7eb3e6", "#dfecf9", "#4a80b5"},
                                         {"recv", "#86cf8a", "#e0f3e1", "#4c9a50"},
                                         {"relay", "#6fcfc6", "#dcf3f1", "#3a978e"},
                                         {"reduce", "#f3dd6d", "#fcf6d9", "#b39b28"},
                                         {"reduce_send", "#f7b267", "#fdeedb", "#bd7a2e"},
                                         {"recv_reduce", "#f08a8a", "#fbe1e1", "#b34e4e"},
                                         {"recv_reduce_send", "#bb9ee0", "#eee6f8", "#7d5fa6"}}};

const Look& look_of(std::string_view word) {
  return *std::find_if(kLooks.begin(), kLooks.end() - 1, [&](const Look& look) { return word == look.word; });
}

/// 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

class ScheduleDrawing {
 public:
  ScheduleDrawing(const Plan& plan, std::span<const Program> programs, const SimulatorReport& report)
      : plan_(plan), programs_(programs), report_(report) {
    std::map<std::pair<int, std::uint32_t>, std::size_t> moves;
    std::size_t most = 1;
    for (const SimulatedStep& step : report.steps) most = std::max(most, ++moves[{step.rank, step.lane}]);
    width_ = std::clamp(static_cast<double>(most) * kMove, kLeastWidth, kMostWidth);
    std::size_t lanes = 1;
    for (const Program& program : programs) lanes = std::max(lanes, program.lanes.size());
    row_ = lanes <= 4 ? 20 : lanes <= 16 ? 12 : 5;
    left_ = kMargin + Canvas::width_of(fmt::format("rank {}", programs.size()), kCaption) + 10;
    if (names_lanes(lanes)) left_ += Canvas::width_of(fmt::format("lane {}", lanes), kLabel) + 8;
    boxes_.resize(report.steps.size());
  }

  SvgDrawing draw(const std::string& network) {
    double y = draw_captions(network);
    y = draw_legend(y) + kSquare;
    const double top = y;
    y = place_bands(y + kCaption * Canvas::kLine + 4);
    draw_axis(top, y);
    for (std::size_t s = 0; s < report_.steps.size(); ++s) draw_move(s);
    draw_messages();
    for (std::size_t s = 0; s < report_.steps.size(); ++s) draw_label(s);
    return canvas_.finish(std::max(widest_, left_ + width_ + right()) + kMargin,
                          y + kCaption * Canvas::kLine + 4 + kMargin);
  }

 private:
  /// Where a move is drawn: it waits from `left` to `works`.
  struct Box {
    double left = 0;
    double works = 0;
    double right = 0;
    double top = 0;
  };
  /// The moves of a link's two ends, in the order of its messages.
  struct Ends {
    std::vector<std::size_t> senders;
    std::vector<std::size_t> takers;
  };

  bool names_lanes(std::size_t lanes) const { return lanes > 1 && row_ >= kLabel * Canvas::kLine - 1; }
  double x_of(double seconds) const { return left_ + (report_.seconds > 0 ? seconds / report_.seconds * width_ : 0); }
  /// Room for what stands out on the right: half of a tick's label, the box of a move that ends the run.
  static double right() { return kTick / 2; }

  const Step& step_of(const SimulatedStep& step) const {
    const Program& program = programs_[at(step.rank)];
    return program.steps[program.lanes[step.lane].first + step.step];
  }
  const char* word(const SimulatedStep& step) const { return word_of(programs_[at(step.rank)], step_of(step)); }

  void caption(double y, const std::string& text, double size, bool bold) {
    canvas_.text(kMargin, y, text, size, bold);
    widest_ = std::max(widest_, kMargin + Canvas::width_of(text, size));
  }

  /// Returns where they end.
  double draw_captions(const std::string& network) {
    const Problem& problem = plan_.problem;
    caption(kMargin,
            fmt::format("{} by {} on {} ranks{}", kind_of(problem), Canvas::fitted(plan_.algorithm, 60), problem.ranks,
                        rooted(problem.collective) ? fmt::format(", root {}", problem.root) : ""),
            kTitle, true);
    const double second = kMargin + kTitle * Canvas::kLine;
    std::uint64_t passes = plan_.passes(problem.count);
    if (problem.irregular) {  // whose counts are the call's
      passes = 0;
      for (const SimulatedStep& step : report_.steps) passes = std::max(passes, step.pass + 1);
    }
    const std::string blocks =
        problem.irregular ? "blocks of" : fmt::format("{} bytes a block of", problem.count * element_bytes(problem.type));
    caption(second,
            fmt::format("{} {}{}: {}, {} of {} bytes in all, {}; {} in virtual time", blocks, text_of(problem.type),
                        reduces(problem.collective) ? fmt::format(" by {}", text_of(problem.op)) : "",
                        plural(static_cast<std::int64_t>(report_.steps.size()), "move"),
                        plural(static_cast<std::int64_t>(report_.messages), "message"), report_.bytes,
                        passes == 1 ? "1 pass" : fmt::format("{} passes", passes),
                        time_text_within(report_.seconds, report_.seconds)),
            kCaption, false);
    const double third = second + kCaption * Canvas::kLine;
    caption(third, fmt::format("time from left to right, simulated on {}", network), kCaption, false);
    return third + kCaption * Canvas::kLine + 8;
  }

  /// Room for an entry of the legend, in the next line where it does not fit into this one. sign: of the room before its
  /// text.
  Canvas::Point legend_entry(Canvas::Point& at, const std::string& text, double sign) {
    const double wide = sign + Canvas::width_of(text, kCaption) + 16;
    if (at.x > kMargin && at.x + wide > left_ + width_) at = {kMargin, at.y + kSquare + 8};
    const Canvas::Point place = at;
    canvas_.text(place.x + sign, place.y - 1, text, kCaption);
    at.x += wide;
    widest_ = std::max(widest_, at.x);
    return place;
  }

  /// Returns where it ends.
  double draw_legend(double y) {
    constexpr double sign = 2 * kSquare + 6;
    Canvas::Point next{kMargin, y};
    for (const Look& look : kLooks) {
      const auto is = [&](const SimulatedStep& step) { return std::string_view(word(step)) == look.word; };
      if (std::none_of(report_.steps.begin(), report_.steps.end(), is)) continue;
      const Canvas::Point place = legend_entry(next, look.word, sign);
      canvas_.box(place.x, place.y, kSquare, kSquare, look.pale, look.edge);
      canvas_.box(place.x + kSquare, place.y, kSquare, kSquare, look.fill, look.edge);
    }
    legend_entry(next, "(pale while it waits)", 0);
    const Canvas::Point place = legend_entry(next, "a message, from its send to where it is taken", sign);
    canvas_.arrow(place, {place.x + 2 * kSquare, place.y + kSquare}, kArrow);
    legend_entry(next, "[block;chunk], +n for n of them", 0);
    return next.y + kSquare;
  }

  /// Draws the bands of all ranks from y on; returns where they end.
  double place_bands(double y) {
    const double gap = row_ >= 20 ? 24 : 14;
    for (std::size_t r = 0; r < programs_.size(); ++r) {
      const std::size_t lanes = std::max<std::size_t>(1, programs_[r].lanes.size());
      const double high = std::max(kCaption * Canvas::kLine, static_cast<double>(lanes) * (row_ + 2) + 2);
      tops_.push_back(y);
      canvas_.box(left_ - 2, y, width_ + right(), high, kBand, kBandEdge);
      canvas_.text(kMargin, y + 2, fmt::format("rank {}", r), kCaption, true);
      for (std::size_t l = 0; l < lanes && names_lanes(lanes); ++l) {
        const std::string name = fmt::format("lane {}", l);
        const double top = y + 2 + static_cast<double>(l) * (row_ + 2) + (row_ - kLabel * Canvas::kLine) / 2;
        canvas_.text(left_ - 8 - Canvas::width_of(name, kLabel), top, name, kLabel);
      }
      y += high + gap;
    }
    return y - gap;
  }

  /// Ticks with their times above and below the bands, and lines across.
  void draw_axis(double top, double bottom) {
    const double whole = report_.seconds;
    const double step = whole > 0 ? round_step(whole * kTick / width_) : 1;
    for (int tick = 0; tick * step <= whole * (1 + 1e-9); ++tick) {
      const double x = x_of(tick * step);
      const std::string text = time_text_within(tick * step, whole);
      const double left = x - Canvas::width_of(text, kCaption) / 2;
      canvas_.text(left, top, text, kCaption);
      canvas_.text(left, bottom + 4, text, kCaption);
      canvas_.line({x, top + kCaption * Canvas::kLine}, {x, bottom + 4}, kGrid, {});
    }
  }

  void draw_move(std::size_t index) {
    const SimulatedStep& step = report_.steps[index];
    double& taken = taken_[{step.rank, step.lane}];  // up to where the lane's row is drawn on
    Box& box = boxes_[index];
    box.top = tops_[at(step.rank)] + 2 + step.lane * (row_ + 2);
    box.left = std::max(x_of(step.arrived), taken);
    // What takes no time has a width nevertheless; what waited takes it from that.
    box.works = std::max(box.left, std::min(x_of(step.begin), x_of(step.end) - kLeastBox));
    box.right = std::max(x_of(step.end), box.works + kLeastBox);
    taken = box.right;
    const Look& look = look_of(word(step));
    const std::string hint =
        fmt::format("rank {}, lane {}, step {}, pass {}: {}; {} bytes, {} to {}", step.rank, step.lane, step.step,
                    step.pass, print_step(programs_[at(step.rank)], step_of(step)), step.bytes,
                    time_text_within(step.begin, report_.seconds), time_text_within(step.end, report_.seconds));
    if (box.works - box.left >= 1) canvas_.box(box.left, box.top, box.works - box.left, row_, look.pale, look.edge, hint);
    canvas_.box(box.works, box.top, box.right - box.works, row_, look.fill, look.edge, hint);
  }

  /// What a move is of, as long as it fits.
  void draw_label(std::size_t index) {
    if (row_ < kLabel * Canvas::kLine - 1) return;
    const SimulatedStep& step = report_.steps[index];
    const Program& program = programs_[at(step.rank)];
    const Step& move = step_of(step);
    const auto first = program.operands.begin() + move.operands;
    const auto last = first + move.sources + move.destinations;
    const auto message = std::find_if(first, last, [](const Operand& operand) { return operand.place == Place::link; });
    const std::string chunks = print_range((message == last ? first : message)->range);
    const Box& box = boxes_[index];
    for (const std::string& text : {fmt::format("{} {}", word(step), chunks), chunks}) {
      const double wide = Canvas::width_of(text, kLabel);
      const double high = kLabel * Canvas::kLine;
      if (wide + 6 > box.right - box.left) continue;
      const bool within = wide + 6 <= box.works - box.left;
      const double right = within ? box.works : box.right;
      const double left = (box.left + right - wide) / 2;
      const double top = box.top + (row_ - high) / 2;
      const Look& look = look_of(word(step));
      const char* const paper = within ? look.pale : look.fill;
      canvas_.box(left, top + 1, wide, high - 2, paper, paper);  // over the arrows that cross here
      return canvas_.text(left, top, text, kLabel);
    }
  }

  void draw_messages() {
    std::map<std::tuple<int, int, std::uint32_t>, Ends> ends;
    for (std::size_t s = 0; s < report_.steps.size(); ++s) {
      const int rank = report_.steps[s].rank;
      const Program& program = programs_[at(rank)];
      const Step& step = step_of(report_.steps[s]);
      for (std::uint32_t o = 0; o < std::uint32_t{step.sources} + step.destinations; ++o) {
        const Operand& operand = program.operands[step.operands + o];
        if (operand.place != Place::link) continue;
        const Link& link = program.links[operand.link];
        if (o < step.sources) {
          ends[{link.peer, rank, link.channel}].takers.push_back(s);
        } else {
          ends[{rank, link.peer, link.channel}].senders.push_back(s);
        }
      }
    }
    // Links are ordered: the nth to be sent is the nth to be delivered and the nth to be taken.
    std::vector<std::size_t> delivered(report_.links.size());
    for (const SimulatedFlight& flight : report_.flights) {
      const LinkTraffic& link = report_.links[flight.link];
      const Ends& at_ends = ends[{link.from, link.to, link.channel}];
      const std::size_t nth = delivered[flight.link]++;
      if (nth < std::min(at_ends.senders.size(), at_ends.takers.size())) {
        draw_message(flight, at_ends.senders[nth], at_ends.takers[nth]);
      }
    }
  }

  void draw_message(const SimulatedFlight& flight, std::size_t sender, std::size_t taker) {
    const Box& from = boxes_[sender];
    const Box& to = boxes_[taker];
    const bool down = to.top > from.top;
    const double end = std::clamp(x_of(flight.delivered), to.left, to.right);
    canvas_.arrow({(from.works + from.right) / 2, from.top + (down ? row_ : 0)}, {end, to.top + (down ? 0 : row_)}, kArrow);
  }

  const Plan& plan_;
  std::span<const Program> programs_;
  const SimulatorReport& report_;
  Canvas canvas_;
  double width_ = 0;          ///< of the whole time
  double left_ = 0;           ///< where time begins
  double row_ = 0;            ///< height of a lane
  double widest_ = 0;         ///< what captions and legend take
  std::vector<double> tops_;  ///< of bands
  std::vector<Box> boxes_;    ///< by step of the report
  std::map<std::pair<int, std::uint32_t>, double> taken_;
};

}  // namespace

SvgDrawing schedule_svg(const Plan& plan, std::span<const Program> programs, const SimulatorReport& report,
                        const std::string& network) {
  return ScheduleDrawing(plan, programs, report).draw(network);
}

}  // namespace tutti::plan_tool
