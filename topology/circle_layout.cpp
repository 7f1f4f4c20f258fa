#include "topology/circle_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <tuple>

#include "topology/index.h"
#include "topology/phrases.h"

namespace tutti {
namespace {

constexpr std::size_t kMostDevices = 64;
constexpr std::size_t kMostRings = 24;
constexpr double kWide = 6;      ///< pixels of the link with the greatest bandwidth
constexpr double kThin = 1;      ///< of the least
constexpr double kApart = 4;     ///< between rings side by side, at most
constexpr double kLeast = 2.5;   ///< and at least, as far as boxes may grow for it
constexpr double kHighest = 62;  ///< pixels of a box

/// Okabe and Ito's colours, told apart by everybody.
constexpr std::array<const char*, 7> kRingColours = {"#d55e00", "#0072b2", "#009e73", "#cc79a7",
                                                     "#e69f00", "#56b4e9", "#8a6d00"};

/// An end of links: a device, or switches that join the same devices.
struct End {
  Canvas::Point place;
  std::string label;
  const char* fill = "#ffffff";
};

struct Edge {
  std::size_t a = 0;
  std::size_t b = 0;
  LinkKind kind = LinkKind::nvlink;
  int count = 0;
  double gbytes = 0;
};

class Circle {
 public:
  Circle(const Graph& graph, NodeKind kind, bool network) : graph_(graph), network_(network) {
    devices_ = graph.of(kind);
    if (network) keep_linked();
    std::sort(devices_.begin(), devices_.end(), [&](int a, int b) {
      return std::tuple(machine_of(a), node(a).id, a) < std::tuple(machine_of(b), node(b).id, b);
    });
  }

  CircleLayout draw(const std::vector<std::vector<int>>& rings, const std::vector<double>& gbytes) {
    CircleLayout circle;
    if (devices_.size() < 2 || devices_.size() > kMostDevices) return circle;
    choose(rings, gbytes);
    add_devices();
    add_edges();
    if (edges_.empty() && rings.empty()) return circle;
    draw_edges(circle);
    draw_rings(circle);
    for (const End& end : ends_) draw_end(end, circle.canvas);
    circle.width = 2 * (radius_ + box_width_ / 2) + 2;
    circle.height = 2 * (radius_ + box_height_ / 2) + 2;
    return circle;
  }

 private:
  struct Ring {
    std::size_t number = 0;
    const std::vector<int>* places = nullptr;
    double gbytes = 0;  ///< 0: unknown
  };

  const Node& node(int index) const { return graph_.nodes[at(index)]; }
  int machine_of(int index) const { return graph_.enclosing(index, NodeKind::machine); }

  void keep_linked() {
    std::set<int> linked;
    for (const GraphLink& link : graph_.links) {
      if (link.kind == LinkKind::network) linked.insert({link.a, link.b});
    }
    std::erase_if(devices_, [&](int device) { return !linked.contains(device); });
  }

  std::string label_of(int device) const {
    const bool several = graph_.of(NodeKind::machine).size() > 1;
    const std::string name = node_label(node(device));
    return several ? fmt::format("{}:{}", node_label(node(machine_of(device))), name) : name;
  }

  void add_devices() {
    std::size_t longest = 0;
    for (const int device : devices_) longest = std::max(longest, label_of(device).size());
    // Rings side by side end at boxes only where those are as wide as all of them together.
    box_height_ = std::clamp((most_side_by_side_ - 1) * kLeast + 6, 26., kHighest);
    box_width_ = std::max(box_height_, static_cast<double>(longest) * Canvas::kFont * Canvas::kLetter + 14);
    const auto count = static_cast<double>(devices_.size());
    radius_ = std::max({140., count * (box_width_ + 14) / (2 * std::numbers::pi), 1.6 * box_width_});
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / count - std::numbers::pi / 2;
      end_of_[devices_[i]] = ends_.size();
      ends_.push_back({{centre_x() + radius_ * std::cos(angle), centre_y() + radius_ * std::sin(angle)},
                       label_of(devices_[i]),
                       node(devices_[i]).kind == NodeKind::gpu ? "#cfe8c4" : "#fbe2bd"});
    }
  }

  double centre_x() const { return radius_ + box_width_ / 2 + 1; }
  double centre_y() const { return radius_ + box_height_ / 2 + 1; }

  /// Switches by the devices that they join.
  std::map<std::set<int>, std::set<int>> switches() const {
    std::map<int, std::set<int>> joined;
    for (const GraphLink& link : graph_.links) {
      for (const auto& [a, b] : {std::pair{link.a, link.b}, std::pair{link.b, link.a}}) {
        if (node(a).kind == NodeKind::nv_switch && end_of_.contains(b)) joined[a].insert(b);
      }
    }
    std::map<std::set<int>, std::set<int>> hubs;
    for (const auto& [nv_switch, devices] : joined) hubs[devices].insert(nv_switch);
    return hubs;
  }

  void add_hubs() {
    const auto hubs = switches();
    for (const auto& [devices, same] : hubs) {
      Canvas::Point sum;
      for (const int device : devices) {
        sum.x += ends_[end_of_[device]].place.x - centre_x();
        sum.y += ends_[end_of_[device]].place.y - centre_y();
      }
      const double share = hubs.size() > 1 ? .6 / static_cast<double>(devices.size()) : 0;
      for (const int nv_switch : same) end_of_[nv_switch] = ends_.size();
      ends_.push_back({{centre_x() + sum.x * share, centre_y() + sum.y * share},
                       same.size() == 1 ? node_label(node(*same.begin())) : fmt::format("{} NVSwitches", same.size()),
                       "#dcd0f0"});
    }
  }

  void add_edges() {
    if (!network_) add_hubs();
    std::map<std::tuple<std::size_t, std::size_t, LinkKind>, Edge> bundles;
    for (const GraphLink& link : graph_.links) {
      if ((link.kind == LinkKind::network) != network_) continue;
      const auto a = end_of_.find(link.a);
      const auto b = end_of_.find(link.b);
      if (a == end_of_.end() || b == end_of_.end()) continue;
      const auto [first, second] = std::minmax(a->second, b->second);
      Edge& edge = bundles[{first, second, link.kind}];
      edge.a = first;
      edge.b = second;
      edge.kind = link.kind;
      edge.count += link.count;
      edge.gbytes += link.gbytes;
    }
    for (const auto& [key, edge] : bundles) edges_.push_back(edge);
  }

  static std::string words_of(const Edge& edge) {
    const std::string kind = edge.kind == LinkKind::network ? std::string(phrases::link_kind(edge.kind))
                                                            : phrases::link_kind(edge.kind) + std::to_string(edge.count);
    return edge.gbytes > 0 ? fmt::format("{}, {:.4g} GB/s", kind, edge.gbytes) : kind;
  }

  static const char* colour_of(LinkKind kind) {
    return kind == LinkKind::nvlink ? "#7f9f6a" : kind == LinkKind::xgmi ? "#b07a7a" : "#8a8a8a";
  }

  void draw_edges(CircleLayout& circle) const {
    double most = 0;
    for (const Edge& edge : edges_) most = std::max(most, edge.gbytes);
    for (const Edge& edge : edges_) {
      const double share = most > 0 ? edge.gbytes / most : 0;
      const Canvas::Stroke stroke{colour_of(edge.kind), kThin + share * (kWide - kThin), false};
      const std::string text = words_of(edge);
      const std::string hint = fmt::format("{} to {}: {}", ends_[edge.a].label, ends_[edge.b].label, text);
      circle.canvas.line(ends_[edge.a].place, ends_[edge.b].place, stroke, hint);
      const bool known =
          std::any_of(circle.kinds.begin(), circle.kinds.end(), [&](const LineKind& kind) { return kind.text == text; });
      if (!known) circle.kinds.push_back({text, stroke});
    }
  }

  bool is_ring(const std::vector<int>& ring, std::size_t gpus) const {
    return !network_ && ring.size() > 1 &&
           std::all_of(ring.begin(), ring.end(), [&](int gpu) { return gpu >= 0 && at(gpu) < gpus; });
  }

  /// The rings that are drawn, and how many run between each two GPUs.
  void choose(const std::vector<std::vector<int>>& rings, const std::vector<double>& gbytes) {
    const std::size_t gpus = graph_.of(NodeKind::gpu).size();
    for (std::size_t r = 0; r < rings.size() && rings_.size() < kMostRings; ++r) {
      const std::vector<int>& ring = rings[r];
      if (!is_ring(ring, gpus)) continue;
      rings_.push_back({r, &ring, r < gbytes.size() ? gbytes[r] : 0});
      for (std::size_t i = 0; i < ring.size(); ++i) {
        const int uses = ++uses_[std::minmax(ring[i], ring[(i + 1) % ring.size()])];
        most_side_by_side_ = std::max(most_side_by_side_, uses);
      }
    }
  }

  static std::string words_of(const Ring& ring) {
    const std::string rate = ring.gbytes > 0 ? fmt::format(", {:.1f} GB/s", ring.gbytes) : "";
    return Canvas::fitted(fmt::format("ring {}{}: {}", ring.number, rate, fmt::join(*ring.places, " ")), 76);
  }

  /// Rings over the same pair of GPUs run side by side, all between the sides of the boxes.
  void draw_rings(CircleLayout& circle) const {
    const std::vector<int> gpus = graph_.of(NodeKind::gpu);
    std::map<std::pair<int, int>, int> done;
    for (std::size_t r = 0; r < rings_.size(); ++r) {
      const std::vector<int>& ring = *rings_[r].places;
      const Canvas::Stroke stroke{kRingColours[r % kRingColours.size()], 1.8, r >= kRingColours.size()};
      for (std::size_t i = 0; i < ring.size(); ++i) {
        const int from = ring[i];
        const int to = ring[(i + 1) % ring.size()];
        const std::pair<int, int> pair = std::minmax(from, to);
        const int uses = uses_.at(pair);
        const double apart = std::min(kApart, (box_height_ - 6) / std::max(1, uses - 1));
        const double shift = apart * (done[pair]++ - (uses - 1) / 2.);
        draw_hop(gpus[at(from)], gpus[at(to)], from < to ? shift : -shift, stroke, circle.canvas);
      }
      circle.kinds.push_back({words_of(rings_[r]), stroke});
    }
  }

  void draw_hop(int from, int to, double shift, const Canvas::Stroke& stroke, Canvas& canvas) const {
    const Canvas::Point a = ends_[end_of_.at(from)].place;
    const Canvas::Point b = ends_[end_of_.at(to)].place;
    const double length = std::max(1e-9, std::hypot(b.x - a.x, b.y - a.y));
    const Canvas::Point aside{-(b.y - a.y) / length * shift, (b.x - a.x) / length * shift};
    canvas.arrow({a.x + aside.x, a.y + aside.y}, {b.x + aside.x, b.y + aside.y}, stroke);
  }

  void draw_end(const End& end, Canvas& canvas) const {
    const double text = Canvas::width_of(end.label, Canvas::kFont);
    const double width = std::max(box_width_, text + 14);
    canvas.box(end.place.x - width / 2, end.place.y - box_height_ / 2, width, box_height_, end.fill, "#555555");
    canvas.text(end.place.x - text / 2, end.place.y - Canvas::kFont * Canvas::kLine / 2, end.label, Canvas::kFont, true);
  }

  const Graph& graph_;
  bool network_;
  std::vector<int> devices_;
  std::map<int, std::size_t> end_of_;
  std::vector<End> ends_;
  std::vector<Edge> edges_;
  std::vector<Ring> rings_;
  std::map<std::pair<int, int>, int> uses_;  ///< rings between two places
  int most_side_by_side_ = 0;
  double radius_ = 0;
  double box_width_ = 0;
  double box_height_ = 0;
};

}  // namespace

CircleLayout circle_of_gpus(const Graph& graph, const std::vector<std::vector<int>>& rings,
                            const std::vector<double>& gbytes) {
  return Circle(graph, NodeKind::gpu, false).draw(rings, gbytes);
}

CircleLayout circle_of_nics(const Graph& graph) { return Circle(graph, NodeKind::nic, true).draw({}, {}); }

}  // namespace tutti
