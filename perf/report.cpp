#include "perf/report.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "perf/names.h"

namespace tutti::perf {
namespace {

std::string time_text(double us) {
  if (us < 9.995) return fmt::format("{:.2f}", us);
  if (us < 99.95) return fmt::format("{:.1f}", us);
  return fmt::format("{:.0f}", us);
}

// "  time  algbw  busbw  #wrong", in nccl-tests' widths.
std::string columns(const std::optional<Measured>& measured) {
  if (!measured) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>5}", "N/A", "N/A", "N/A", "N/A");
  const std::string wrong = measured->wrong ? fmt::format("{}", *measured->wrong) : "N/A";
  return fmt::format("  {:>7}  {:>6.2f}  {:>6.2f}  {:>5}", time_text(measured->time.median), measured->algbw_GBps(),
                     measured->busbw_GBps(), wrong);
}

}  // namespace

double Measured::algbw_GBps() const { return time.median > 0 ? static_cast<double>(bytes()) / (time.median * 1e3) : 0; }

double Measured::busbw_GBps() const { return algbw_GBps() * collective->bus_factor(ranks); }

program::JsonObject json_of(const Measured& measured, const Request& request) {
  program::JsonObject time;
  time.measured("min", measured.time.min).measured("median", measured.time.median);
  time.measured("p99", measured.time.p99).measured("max", measured.time.max);
  program::JsonObject line;
  line.add("collective", measured.collective->name).add("bytes", measured.bytes()).add("count", measured.count);
  line.add("type", name_of(measured.type)).add("op", measured.collective->reduces ? name_of(measured.op) : "none");
  line.add("ranks", measured.ranks).add("in_place", measured.in_place).add("memory", name_of(request.memory));
  line.add("algorithm", measured.algorithm).add("transport", measured.transport).add("iterations", measured.iterations);
  line.add("time_us", time).measured("algbw_GBps", measured.algbw_GBps()).measured("busbw_GBps", measured.busbw_GBps());
  line.add_json("wrong", measured.wrong ? std::to_string(*measured.wrong) : "null");
  line.add("root", measured.collective->rooted() ? measured.root : -1).add("fresh", request.fresh);
  return line;
}

void Report::heading(int ranks) {
  if (std::exchange(begun_, true)) return;
  const int library = tutti_version();
  output_.line(fmt::format("# tutti-perf {}.{}.{}: {}, {}, {} memory{}", library / 10000, library / 100 % 100,
                           library % 100, request_.collective->name, fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"),
                           name_of(request_.memory), request_.fresh ? ", inputs rewritten between operations" : ""));
  output_.line("# time: median over iterations of the slowest rank");
  output_.line("#");
  output_.line(
      "#                                                              out-of-place                       in-place         "
      " ");
  output_.line(
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong");
  output_.line(
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)      "
      " ");
}

void Report::count(const Measured& measured) {
  bus_total_ += measured.busbw_GBps();
  ++measurements_;
  wrong_ += measured.wrong.value_or(0);
  std::string label = name_of(measured.type);
  if (measured.collective->reduces) label += std::string(" ") + name_of(measured.op);
  if (measured.collective->rooted() && !request_.root) label += fmt::format(" root {}", measured.root);
  if (measured.in_place) label += " in place";
  program::Series& series = series_[label];
  series.label = label;
  series.x.push_back(static_cast<double>(measured.bytes()));
  series.y.push_back(measured.busbw_GBps());
}

void Report::record(const Measured& measured) { output_.record(json_of(measured, request_)); }

void Report::add(const Measured& out_of_place, const std::optional<Measured>& in_place) {
  count(out_of_place);
  if (in_place) count(*in_place);
  if (output_.json()) {
    record(out_of_place);
    if (in_place) record(*in_place);
    return;
  }
  heading(out_of_place.ranks);
  const std::string line =
      fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", out_of_place.bytes(), out_of_place.count,
                  name_of(out_of_place.type), out_of_place.collective->reduces ? name_of(out_of_place.op) : "none",
                  out_of_place.collective->rooted() ? out_of_place.root : -1);
  output_.line(line + columns(out_of_place) + columns(in_place));
}

std::string Report::end(int ranks) {
  heading(ranks);
  output_.line(fmt::format("# Out of bounds values : {} {}", wrong_, wrong_ == 0 ? "OK" : "FAILED"));
  const double average = measurements_ > 0 ? bus_total_ / static_cast<double>(measurements_) : 0;
  output_.line(fmt::format("# Avg bus bandwidth    : {:g} ", average));
  output_.line("#");
  if (request_.plot.empty()) return "";
  program::Plot plot;
  plot.title = fmt::format("tutti-perf {}", request_.collective->name);
  plot.x_label = "size (bytes)";
  plot.y_label = "bus bandwidth (GB/s)";
  plot.log_x = true;
  plot.log_y = true;
  for (const auto& [label, series] : series_) plot.series.push_back(series);
  return program::draw_plot(plot, request_.plot);
}

}  // namespace tutti::perf
