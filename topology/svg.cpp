#include "topology/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <set>

#include "src/tables/units.h"
#include "topology/box_layout.h"
#include "topology/circle_layout.h"
#include "topology/index.h"
#include "topology/phrases.h"

namespace tutti {
namespace {

constexpr double kMargin = 16;
constexpr double kTitle = 18;
constexpr double kShape = 1.8;            ///< boxes are drawn about so many times as wide as high
constexpr std::size_t kLongestLine = 46;  ///< letters
constexpr std::size_t kCoresInARow = 8;
constexpr std::size_t kMostCoresDrawn = 32;  ///< more are only counted

struct Look {
  NodeKind kind;
  const char* fill;
  const char* edge;
  const char* legend;
};
constexpr std::array<Look, 9> kLooks = {{{NodeKind::machine, "#fafafa", "#555555", "machine"},
                                         {NodeKind::package, "#e3ebf3", "#7d92a8", "CPU package"},
                                         {NodeKind::numa, "#f3f7fb", "#9fb4c8", "NUMA node"},
                                         {NodeKind::host_bridge, "#ffffff", "#a0a0a0", "PCIe host bridge"},
                                         {NodeKind::bridge, "#f0f0f0", "#a0a0a0", "PCIe switch or port"},
                                         {NodeKind::nv_switch, "#dcd0f0", "#8d7ab0", "NVSwitch"},
                                         {NodeKind::gpu, "#cfe8c4", "#6f9a5c", "GPU"},
                                         {NodeKind::nic, "#fbe2bd", "#c09650", "NIC"},
                                         {NodeKind::pci, "#ffffff", "#c0c0c0", "PCI function"}}};
constexpr const char* kCoreEdge = "#b9c6d3";

const Look& look_of(NodeKind kind) {
  return *std::find_if(kLooks.begin(), kLooks.end() - 1, [&](const Look& look) { return look.kind == kind; });
}

std::string line(const std::string& text) { return Canvas::fitted(text, kLongestLine); }

/// The machine's side of the drawing, box by box.
class Maker {
 public:
  explicit Maker(const Graph& graph) : graph_(graph), children_(graph.nodes.size()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].parent >= 0) children_[at(graph.nodes[i].parent)].push_back(static_cast<int>(i));
    }
  }

  /// The boxes of a node and what is in it; none where nothing in it is worth a box.
  std::vector<Box> boxes_of(int index) {
    const Node& from = node(index);
    Box box = framed(from);
    const bool way = from.kind == NodeKind::host_bridge || from.kind == NodeKind::bridge;
    if (from.kind == NodeKind::numa || (from.kind == NodeKind::package && !has(index, NodeKind::numa))) {
      add_cores(from, box);
    }
    add_inside(index, box);
    if (way && box.children.empty()) return {};
    if (from.kind == NodeKind::bridge && box.children.size() == 1) return std::move(box.children);
    box.lines = lines_of(from);
    drawn_.insert(from.kind);
    return {std::move(box)};
  }

  /// The kinds that have got a box so far.
  const std::set<NodeKind>& drawn() const { return drawn_; }

 private:
  const Node& node(int index) const { return graph_.nodes[at(index)]; }

  static Box framed(const Node& from) {
    Box box;
    box.order = from.kind == NodeKind::gpu ? 0 : from.kind == NodeKind::nic ? 1 : 2;  // by_kind knows these
    box.fill = look_of(from.kind).fill;
    box.edge = look_of(from.kind).edge;
    return box;
  }

  bool has(int index, NodeKind kind) const {
    return std::any_of(children_[at(index)].begin(), children_[at(index)].end(),
                       [&](int child) { return node(child).kind == kind; });
  }

  /// Containers first, then devices by kind: as a group of their own beside containers, so that neither stretches the
  /// other.
  void add_inside(int index, Box& box) {
    Box containers;
    Box devices;
    for (const int child : children_[at(index)]) {
      for (Box& inner : boxes_of(child)) {
        (inner.children.empty() ? devices : containers).children.push_back(std::move(inner));
      }
    }
    devices.children = by_kind(std::move(devices.children));
    if (!containers.children.empty() && !devices.children.empty()) containers.children.push_back(std::move(devices));
    Box& inside = containers.children.empty() ? devices : containers;
    if (inside.children.empty()) return;
    if (box.children.empty()) {
      box.children = std::move(inside.children);
    } else {  // below the cores
      box.columns = 1;
      box.children.push_back(std::move(inside));
    }
  }

  static std::vector<Box> by_kind(std::vector<Box> boxes) {
    std::vector<Box> sorted;
    for (const int order : {0, 1, 2}) {
      for (Box& box : boxes) {
        if (box.order == order) sorted.push_back(std::move(box));
      }
    }
    return sorted;
  }

  /// Cores of a few stand as boxes, those of many as a number.
  void add_cores(const Node& from, Box& box) const {
    Box cores;
    int count = 0;
    for (const Core& core : graph_.cores) {
      const bool inside = std::includes(from.cpus.begin(), from.cpus.end(), core.cpus.begin(), core.cpus.end());
      if (!inside || core.cpus.empty()) continue;
      ++count;
      Box one;
      one.fill = "#ffffff";
      one.edge = kCoreEdge;
      one.lines = {fmt::format("core {}", core.id), line("CPU " + cpu_list_text(core.cpus))};
      if (graph_.cores.size() <= kMostCoresDrawn) cores.children.push_back(std::move(one));
    }
    if (count == 0) return;
    cores.columns = kCoresInARow;
    if (cores.children.empty()) {
      cores.fill = "#ffffff";
      cores.edge = kCoreEdge;
      cores.lines = {fmt::format("{} cores", count)};
      if (const std::string caches = phrases::caches(graph_, from.cpus); !caches.empty())
        cores.lines.push_back(line(caches));
    }
    box.children.push_back(std::move(cores));
  }

  std::vector<std::string> lines_of(const Node& from) const {
    switch (from.kind) {
      case NodeKind::machine:
        return {line(from.name.empty() ? node_label(from) : node_label(from) + ' ' + from.name)};
      case NodeKind::package:
        return package_lines(from);
      case NodeKind::numa:
        return numa_lines(from);
      case NodeKind::host_bridge:
        return {line("host bridge " + from.name)};
      case NodeKind::bridge:
        return {line(fmt::format("{} {}{}", from.whole_switch ? "switch" : "PCIe", from.pci, rate_of(from)))};
      default:
        return device_lines(from);
    }
  }

  static std::string rate_of(const Node& from) {
    return from.uplink_gbytes > 0 ? fmt::format(", {:.3g} GB/s", from.uplink_gbytes) : std::string();
  }

  static std::vector<std::string> package_lines(const Node& from) {
    std::vector<std::string> lines = {node_label(from)};
    const std::string& name = from.name.empty() ? from.cpu.vendor : from.name;
    if (!name.empty()) lines.push_back(line(name));
    return lines;
  }

  std::vector<std::string> numa_lines(const Node& from) const {
    std::vector<std::string> lines = {from.id < 0 ? "NUMA node unknown" : node_label(from)};
    std::vector<std::string> facts;
    if (!from.cpus.empty()) facts.push_back("CPUs " + Canvas::fitted(cpu_list_text(from.cpus), 28));
    if (from.memory_bytes > 0) facts.push_back(bytes_text(from.memory_bytes));
    if (!facts.empty()) lines.push_back(line(phrases::joined(facts)));
    return lines;
  }

  static std::vector<std::string> device_lines(const Node& from) {
    std::vector<std::string> lines = {node_label(from)};
    const std::size_t narrow = 26;
    if (from.kind == NodeKind::gpu) {
      const std::string architecture = phrases::architecture(from);
      if (!from.name.empty()) lines.push_back(Canvas::fitted(from.name, narrow));
      if (from.name.empty() && !architecture.empty()) lines.push_back(Canvas::fitted(architecture, narrow));
    }
    if (from.kind == NodeKind::nic) {
      if (!from.name.empty() && from.name != from.pci) lines[0] += ' ' + Canvas::fitted(from.name, narrow);
      if (from.nic.speed_gbps > 0) lines.push_back(phrases::speed(from));
    }
    if (!from.pci.empty()) lines.push_back(line(from.pci));
    if (from.uplink_gbytes > 0 && from.kind != NodeKind::nv_switch) {
      lines.push_back(fmt::format("{:.3g} GB/s PCIe", from.uplink_gbytes));
    }
    return lines;
  }

  const Graph& graph_;
  std::vector<std::vector<int>> children_;
  std::set<NodeKind> drawn_;
};

/// A row of samples with what they stand for.
class Legend {
 public:
  explicit Legend(double widest) : widest_(widest) {}

  void add(const Look& look) {
    const double x = next(look.legend);
    canvas_.box(x, y_ + 2, kSample, 12, look.fill, look.edge);
    canvas_.text(x + kSample + 6, y_, look.legend, Canvas::kFont);
  }

  void add(const LineKind& kind) {
    const double x = next(kind.text);
    canvas_.line({x, y_ + 8}, {x + kSample, y_ + 8}, kind.stroke, {});
    canvas_.text(x + kSample + 6, y_, kind.text, Canvas::kFont);
  }

  void add_text(const std::string& text) { canvas_.text(next(text), y_, text, Canvas::kFont); }

  /// Begins a row.
  void wrap() {
    if (x_ > 0) y_ += kRow;
    x_ = 0;
  }

  const Canvas& canvas() const { return canvas_; }
  double width() const { return reached_; }
  double height() const { return y_ + kRow; }

 private:
  static constexpr double kSample = 26;
  static constexpr double kRow = 20;

  /// Where the next sample is to stand.
  double next(const std::string& text) {
    const double width = kSample + 6 + Canvas::width_of(text, Canvas::kFont) + 18;
    if (x_ > 0 && x_ + width > widest_) wrap();
    const double x = x_;
    x_ += width;
    reached_ = std::max(reached_, x_);
    return x;
  }

  Canvas canvas_;
  double widest_;
  double x_ = 0;
  double y_ = 0;
  double reached_ = 0;
};

Legend legend_of(const std::set<NodeKind>& drawn, const std::vector<LineKind>& kinds, double widest) {
  Legend legend(widest);
  for (const Look& look : kLooks) {
    if (drawn.contains(look.kind)) legend.add(look);
  }
  legend.wrap();
  for (const LineKind& kind : kinds) legend.add(kind);
  legend.wrap();
  legend.add_text("GB/s are 10^9 bytes a second one way; GiB are 2^30 bytes");
  return legend;
}

std::string title_of(const Graph& graph) {
  const std::size_t machines = graph.of(NodeKind::machine).size();
  std::vector<std::string> parts;
  if (machines != 1) parts.push_back(fmt::format("{} machines", machines));
  for (const auto& [kind, name] : {std::pair{NodeKind::gpu, "GPU"}, std::pair{NodeKind::nic, "NIC"}}) {
    const std::size_t count = graph.of(kind).size();
    if (count > 0) parts.push_back(fmt::format("{} {}{}", count, name, count == 1 ? "" : "s"));
  }
  std::size_t cpus = 0;
  for (const int machine : graph.of(NodeKind::machine)) cpus += graph.nodes[at(machine)].cpus.size();
  if (cpus > 0) parts.push_back(fmt::format("{} CPUs", cpus));
  if (!graph.source.empty()) parts.push_back("from " + graph.source.substr(graph.source.rfind('/') + 1));
  return Canvas::fitted(phrases::joined(parts), 80);
}

Box cells_of_machines(const Graph& graph, Maker& maker) {
  Box machines;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].parent >= 0) continue;
    for (Box& box : maker.boxes_of(static_cast<int>(i))) machines.children.push_back(std::move(box));
  }
  return machines;
}

/// The circles side by side.
struct Circles {
  Circles(const Graph& graph, const std::vector<std::vector<int>>& rings, const std::vector<double>& gbytes) {
    for (const CircleLayout& circle : std::array{circle_of_gpus(graph, rings, gbytes), circle_of_nics(graph)}) {
      if (circle.width == 0) continue;
      kinds.insert(kinds.end(), circle.kinds.begin(), circle.kinds.end());
      size.width += circle.width + (all.empty() ? 0 : 2 * kMargin);
      size.height = std::max(size.height, circle.height);
      all.push_back(circle);
    }
  }

  void draw(double x, double y, Canvas& page) const {
    for (const CircleLayout& circle : all) {
      page.place(circle.canvas, x, y);
      x += circle.width + 2 * kMargin;
    }
  }

  std::vector<CircleLayout> all;
  std::vector<LineKind> kinds;
  Canvas::Size size;
};

}  // namespace

SvgDrawing draw_svg(const Graph& graph, const std::vector<std::vector<int>>& rings, const std::vector<double>& gbytes) {
  const std::string title = title_of(graph);
  Maker maker(graph);
  Box machines = cells_of_machines(graph, maker);
  lay_out(machines, kShape);
  const Circles circles(graph, rings, gbytes);
  const double top = kMargin + kTitle * Canvas::kLine + 6;
  const Canvas::Size beside{machines.width + 2 * kMargin + circles.size.width,
                            std::max(machines.height, circles.size.height)};
  const Canvas::Size below{std::max(machines.width, circles.size.width), machines.height + kMargin + circles.size.height};
  const bool aside =
      std::abs(std::log(beside.width / beside.height / kShape)) < std::abs(std::log(below.width / below.height / kShape));
  const Canvas::Size all = aside ? beside : below;

  Canvas page;
  page.text(kMargin, kMargin, title, kTitle, true);
  draw(machines, kMargin, top, page);
  if (aside) {
    circles.draw(kMargin + machines.width + 2 * kMargin, top, page);
  } else {
    circles.draw(kMargin, top + machines.height + kMargin, page);
  }
  const double width = std::max(all.width, Canvas::width_of(title, kTitle));
  const Legend legend = legend_of(maker.drawn(), circles.kinds, std::max(width, 600.));
  page.place(legend.canvas(), kMargin, top + all.height + kMargin);
  return page.finish(std::max(width, legend.width()) + 2 * kMargin, top + all.height + legend.height() + 2 * kMargin);
}

}  // namespace tutti
