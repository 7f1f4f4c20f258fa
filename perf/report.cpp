#include "perf/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

#include "perf/names.h"
#include "perf/nccl_file.h"
#include "src/program/files.h"
#include "src/tables/names.h"
#include "src/tables/units.h"

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

// One word where both halves of a row agree, else both.
std::string common(const Row& row, std::string Measured::* field) {
  const std::string first = row.any().*field;
  if (!row.in_place || (*row.in_place).*field == first) return first;
  return first + "/" + (*row.in_place).*field;
}

std::string disturbed_text(double part) { return part < 0 ? "-" : fmt::format("{:.0f}%", 100 * part); }

const char* kind_of_time(Average average) {
  switch (average) {
    case Average::kRank0:
      return "rank 0";
    case Average::kMean:
      return "the mean of the ranks";
    case Average::kLeast:
      return "the quickest rank";
    case Average::kMost:
      break;
  }
  return "the slowest rank";
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  char text[32] = "";
  if (localtime_r(&now, &local) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

// nccl-tests' line of parameters.
std::string parameters(const Request& request) {
  const bool factor = request.step_factor > 1;
  const std::string step = factor ? std::to_string(request.step_factor) : std::to_string(request.step_bytes);
  const std::string sizes = request.elements.empty()
                                ? fmt::format("minBytes {} maxBytes {} step: {}({})", request.min_bytes, request.max_bytes,
                                              step, factor ? "factor" : "bytes")
                                : fmt::format("elements {}", fmt::join(request.elements, ","));
  return fmt::format("# nThread {} nGpus {} {} warmup iters: {} iters: {} agg iters: {} validation: {} graph: 0",
                     request.threads, request.devices, sizes, request.warmup,
                     request.iterations == 0 ? "auto" : std::to_string(request.iterations), request.aggregated,
                     request.checks);
}

/// What is special about the calls.
std::string extras(const Request& request) {
  return fmt::format("{}{}{}{}{}", request.fresh ? ", inputs rewritten between operations" : "",
                     request.reproducible ? ", reproducible" : "", request.accumulate ? ", folded in float32" : "",
                     request.canonical > 0 ? fmt::format(", {} operands in all", request.canonical) : "",
                     request.fuse ? ", fused" : "");
}

}  // namespace

double Measured::algbw_GBps() const { return time.median > 0 ? static_cast<double>(bytes()) / (time.median * 1e3) : 0; }

double Measured::busbw_GBps() const { return algbw_GBps() * collective->bus_factor(ranks); }

double Row::disturbed() const {
  return std::max(out_of_place ? out_of_place->disturbed : -1.0, in_place ? in_place->disturbed : -1.0);
}

std::string too_slow(double average_GBps, double least_GBps) {
  constexpr double kPart = 0.9;
  if (average_GBps >= kPart * least_GBps) return "";
  return fmt::format(
      "the average bus bandwidth is {:.4g} GB/s, less than nine tenths of NCCL_TESTS_MIN_BW={:.4g}; see which rows are "
      "slow, "
      "or lower NCCL_TESTS_MIN_BW",
      average_GBps, least_GBps);
}

double least_traffic(const Measured& measured) {
  const auto n = static_cast<double>(measured.ranks);
  const auto block = static_cast<double>(measured.count * tutti_type_size(measured.type));
  const std::string_view name = measured.collective->name;
  if (name == "all_reduce") return 2 * n * block;
  if (name == "all_gather" || name == "reduce_scatter") return (n * n + n) * block;
  if (name == "broadcast" || name == "reduce") return (n + 1) * block;
  if (name == "all_to_all") return 2 * n * n * block;
  if (name == "gather" || name == "scatter") return 2 * n * block;
  return 0;
}

program::JsonObject json_of(const Measured& measured, const Request& request, double copy_GBps) {
  program::JsonObject time;
  time.measured("min", measured.time.min).measured("median", measured.time.median);
  time.measured("p99", measured.time.p99).measured("max", measured.time.max);
  program::JsonObject line;
  line.add("collective", measured.collective->name).add("bytes", measured.bytes()).add("count", measured.count);
  line.add("type", text_of(measured.type)).add("op", measured.collective->reduces() ? text_of_op(measured.op) : "none");
  line.add("ranks", measured.ranks).add("in_place", measured.in_place).add("memory", name_of(request.memory));
  line.add("algorithm", measured.algorithm).add("transport", measured.transport).add("iterations", measured.iterations);
  line.add("time_us", time).measured("algbw_GBps", measured.algbw_GBps()).measured("busbw_GBps", measured.busbw_GBps());
  line.add_json("wrong", measured.wrong ? std::to_string(*measured.wrong) : "null");
  line.add("root", measured.collective->rooted() ? measured.root : -1).add("fresh", request.fresh);
  line.add("reproducible", request.reproducible).add("accumulate", request.accumulate);
  line.add("average", static_cast<int>(request.average)).add("agg_iters", request.aggregated).add("fuse", request.fuse);
  line.add("cpu_time", request.call_time).add("division", measured.division_text()).add("canonical", request.canonical);
  if (request.memory == MemoryKind::cuda) {
    const double traffic = least_traffic(measured);
    line.add("stream", request.cuda_stream ? "cuda" : "blocking").measured("copy_GBps", copy_GBps);
    // Of ranks on several devices it is not a bound, and of several operands a rank it counts one.
    if (copy_GBps > 0 && traffic > 0 && request.canonical == 0) line.measured("copy_bound_us", traffic / copy_GBps / 1000);
  }
  return measured.disturbed < 0 ? std::move(line.add_json("disturbed", "null"))
                                : std::move(line.measured("disturbed", measured.disturbed, 3));
}

PerfReport::PerfReport(const Request& request, program::Output& output)
    : request_(request), output_(output), begun_at_(now_text()) {}

void PerfReport::introduce(std::vector<RankLocation> locations, std::vector<std::string> oversubscribed, int ranks) {
  locations_ = std::move(locations);
  oversubscribed_ = std::move(oversubscribed);
  ranks_ = ranks;
}

void PerfReport::introduce_device(const std::string& name, double copy_GBps) {
  device_ = name;
  copy_GBps_ = copy_GBps;
}

void PerfReport::begin_cycle(int64_t cycle) {
  cycle_ = cycle;
  series_.clear();  // the plot is the last sweep's
}

double PerfReport::average() const { return measurements_ > 0 ? bus_total_ / static_cast<double>(measurements_) : 0; }

void PerfReport::heading() {
  if (std::exchange(begun_, true)) return;
  const int library = tutti_version();
  output_.line(fmt::format("# tutti-perf {}.{}.{}: {}, {}, {} memory{}", library / 10000, library / 100 % 100,
                           library % 100, request_.collective->name,
                           ranks_ == 1 ? "1 rank" : fmt::format("{} ranks", ranks_), name_of(request_.memory),
                           extras(request_)));
  output_.line(parameters(request_));
  output_.line(fmt::format("# {}: median over iterations of {}{}", request_.call_time ? "cputime" : "time",
                           kind_of_time(request_.average),
                           request_.call_time ? ", of the call that posts an operation to a queue" : ""));
  if (!device_.empty()) {
    output_.line(fmt::format("# device of rank 0: {}, which reads and writes {:.4g} GB/s where it copies; operations {}",
                             device_, copy_GBps_, request_.cuda_stream ? "on a CUDA stream" : "that block"));
  }
  if (request_.barriers) output_.line("# -z 1 (--blocking): a barrier follows each iteration, and is timed with it");
  for (const std::string& note : request_.notes) output_.line("# " + note);
  output_.line("#");
  output_.line("# Ranks");
  for (const std::string& line : location_lines(locations_)) output_.line(line);
  if (request_.environment.split)
    output_.line("# groups run side by side: rows are of rank 0's group, times are over all ranks");
  for (const std::string& line : oversubscribed_) output_.line(line);
  if (ranks_ == 1 && request_.collective->bus_factor(2) > 0 && request_.collective->bus_factor(1) <= 0) {
    output_.line(
        fmt::format("# one rank: {} moves nothing between ranks, so its bus bandwidth is 0; start more, as by -g 2",
                    request_.collective->name));
  }
  column_heads();
}

void PerfReport::column_heads() {
  const std::string half =
      fmt::format("  {:>7}  {:>6}  {:>6} {:>6}", request_.call_time ? "cputime" : "time", "algbw", "busbw", "#wrong");
  const std::string units = fmt::format("  {:>7}  {:>6}  {:>6} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  const std::string stamp = request_.timestamps ? fmt::format("  {:<19}", "timestamp") : "";
  output_.line("#");
  output_.line(
      fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:^29}  {:^29}", "", "", "", "", "", "out-of-place", "in-place"));
  const char* const division = request_.collective->takes_lists ? "  division" : "";
  output_.line(fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}  {:<16}  {:<9}  {:>9}{}{}", "size", "count", "type",
                           "redop", "root", half, half, "algorithm", "transport", "disturbed", division, stamp));
  output_.line(fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}", "(B)", "(elements)", "", "", "", units, units));
}

void PerfReport::count(const Measured& measured) {
  bus_total_ += measured.busbw_GBps();
  ++measurements_;
  wrong_ += measured.wrong.value_or(0);
  std::string label = text_of(measured.type);
  if (measured.collective->reduces()) label += std::string(" ") + text_of_op(measured.op);
  if (measured.collective->rooted() && !request_.root) label += fmt::format(" root {}", measured.root);
  if (request_.divisions.size() > 1) label += std::string(" ") + measured.division_text();
  if (measured.in_place) label += " in place";
  program::Series& series = series_[label];
  series.label = label;
  series.x.push_back(static_cast<double>(measured.bytes()));
  series.y.push_back(measured.busbw_GBps());
}

void PerfReport::record(const Measured& measured, const std::string& timestamp) {
  program::JsonObject line = json_of(measured, request_, copy_GBps_);
  if (request_.cycles != 1) line.add("cycle", cycle_);
  if (request_.timestamps) line.add("timestamp", timestamp);
  output_.record(line);
}

void PerfReport::add(const std::optional<Measured>& out_of_place, const std::optional<Measured>& in_place) {
  const Row row = {out_of_place, in_place, now_text()};
  for (const auto& half : {row.out_of_place, row.in_place}) {
    if (!half) continue;
    count(*half);
    if (output_.json()) record(*half, row.timestamp);
  }
  ++row_count_;
  if (row.disturbed() >= kDisturbed) ++disturbed_rows_;
  if (!request_.output_file.empty()) rows_.push_back(row);
  if (output_.json()) return;
  heading();
  const Measured& any = row.any();
  const std::string division = any.collective->takes_lists ? fmt::format("  {:>8}", any.division_text()) : "";
  output_.line(fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}  {:<16}  {:<9}  {:>9}{}{}", any.bytes(), any.count,
                           text_of(any.type), any.collective->reduces() ? text_of_op(any.op) : "none",
                           any.collective->rooted() ? any.root : -1, columns(row.out_of_place), columns(row.in_place),
                           common(row, &Measured::algorithm), common(row, &Measured::transport),
                           disturbed_text(row.disturbed()), division, request_.timestamps ? "  " + row.timestamp : ""));
}

void PerfReport::add_memory(const std::vector<tutti_memory_use>& uses) {
  heading();
  for (std::size_t rank = 0; rank < uses.size(); ++rank) {
    const tutti_memory_use& use = uses[rank];
    output_.line(fmt::format("# Memory of rank {:<5}: links {}, messages {}, buffers {}, device {}", rank,
                             bytes_text(use.link_bytes), bytes_text(use.message_bytes), bytes_text(use.buffer_bytes),
                             bytes_text(use.device_bytes)));
    program::JsonObject line;
    line.add("memory_of_rank", static_cast<int64_t>(rank)).add("link_bytes", use.link_bytes);
    line.add("message_bytes", use.message_bytes).add("buffer_bytes", use.buffer_bytes);
    output_.record(line.add("device_bytes", use.device_bytes));
  }
}

void PerfReport::footing() {
  heading();
  output_.line(fmt::format("# Out of bounds values : {} {}", wrong_, wrong_ == 0 ? "OK" : "FAILED"));
  const auto least = request_.environment.least_bandwidth;
  output_.line(fmt::format("# Avg bus bandwidth    : {:g} {}", average(),
                           !least                                ? ""
                           : too_slow(average(), *least).empty() ? "OK"
                                                                 : "FAILED"));
  if (disturbed_rows_ > 0) {
    output_.line(
        fmt::format("# {} of {} rows were disturbed: for {:.0f}% of the time or more a rank had no CPU; measure again on a "
                    "quiet machine",
                    disturbed_rows_, row_count_, 100 * kDisturbed));
  }
  output_.line("#");
}

std::string PerfReport::draw() const {
  program::Plot plot;
  plot.title = fmt::format("tutti-perf {}", request_.collective->name);
  plot.x_label = "size (bytes)";
  plot.y_label = "bus bandwidth (GB/s)";
  plot.log_x = true;
  plot.log_y = true;
  for (const auto& [label, series] : series_) plot.series.push_back(series);
  return program::draw_plot(plot, request_.plot);
}

std::string PerfReport::end() {
  footing();
  std::string sentence = request_.plot.empty() ? "" : draw();
  if (request_.output_file.empty()) return sentence;
  const NcclRun run = {&request_, &locations_, begun_at_, now_text(), average(), wrong_};
  const int error = program::write_file(request_.output_file, nccl_file(run, rows_));
  if (error == 0) return sentence;
  return fmt::format("{} cannot be written: {}; name another file", request_.output_file, std::strerror(error));
}

}  // namespace tutti::perf
