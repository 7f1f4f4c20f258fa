#include "topology/generators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "src/base/made_once.h"
#include "topology/index.h"

namespace tutti {
namespace {

constexpr int most_endpoints = 1 << 20;

// Defaults of options that take another's value where they are not given.
constexpr double as_bandwidth = -1;
constexpr double as_latency = -2;

std::uint32_t number(int index) { return static_cast<std::uint32_t>(index); }

/// A description, taken apart. Options that were not given have their defaults.
struct Description {
  std::string kind;
  std::vector<int> sizes;
  std::map<std::string, double, std::less<>> options;

  double operator[](std::string_view name) const { return options.find(name)->second; }
  double bandwidth(std::string_view name = "GBps") const { return (*this)[name] * 1e9; }
  double latency(std::string_view name = "latency_us") const { return (*this)[name] * 1e-6; }
};

/// Endpoints below switches below switches: one level is a single switch, two or three a fat tree.
///
/// Groups of level 0 are endpoints, of level 1 what a leaf switch has below it, and so on. A group's links up and down lead
/// to the switch of the level above; the last level has one switch.
class TreeNetwork final : public Network {
 public:
  explicit TreeNetwork(const Description& given)
      : latency_(given.latency()),
        trunk_latency_(given.sizes.size() > 1 ? given.latency("trunk_latency_us") : latency_),
        slow_(static_cast<std::uint32_t>(given["slow_endpoint"])),
        slow_bandwidth_(given.bandwidth("slow_GBps")) {
    int size = 1;
    double carried = given.bandwidth();
    const int levels = static_cast<int>(given.sizes.size());
    const int spines = levels > 1 ? static_cast<int>(given["spines"]) : 0;
    endpoints_ = 1;
    for (const int n : given.sizes) endpoints_ *= n;
    for (int l = 0; l < levels; ++l) {
      if (l > 0) {
        const int below = given.sizes[at(levels - l)];
        size *= below;
        carried *= below / given[l == 1 ? "oversubscription" : "core_oversubscription"];
      }
      const int ways = l > 0 && spines > 0 ? spines : 1;
      levels_.push_back({size, ways, links_, carried / ways});
      links_ += 2 * number(endpoints_ / size) * number(ways);
    }
  }

  int endpoints() const override { return endpoints_; }
  std::uint32_t links() const override { return links_; }

  NetworkLink link(std::uint32_t index) const override {
    std::size_t l = levels_.size() - 1;
    while (index < levels_[l].first) --l;
    const Level& level = levels_[l];
    const std::uint32_t local = index - level.first;
    const std::uint32_t group = local / 2 / number(level.ways);
    const std::uint32_t way = local / 2 % number(level.ways);
    const std::string below = name(l, group, level.ways, way);
    std::string above = "switch";
    if (l + 1 < levels_.size()) {
      above = name(l + 1, group / number(levels_[l + 1].size / level.size), level.ways, way);
    } else if (levels_.size() > 1) {
      above = level.ways > 1 ? fmt::format("spine {}", way) : "spine";
    }
    const bool slow = l == 0 && group == slow_;
    return {local % 2 == 0 ? below + " > " + above : above + " > " + below, slow ? slow_bandwidth_ : level.bytes_per_second,
            l == 0 ? latency_ : trunk_latency_};
  }

  void route(int a, int b, std::vector<std::uint32_t>& way) const override {
    way.clear();
    if (a == b) return;
    std::size_t top = 0;
    while (top < levels_.size() && a / levels_[top].size != b / levels_[top].size) {
      way.push_back(index_of(top, a, b));
      ++top;
    }
    while (top-- > 0) way.push_back(index_of(top, b, b) + 1);
  }

 private:
  struct Level {
    int size;             ///< endpoints of a group
    int ways;             ///< links that it has upwards
    std::uint32_t first;  ///< its links: up and down of each way of each group
    double bytes_per_second;
  };

  std::uint32_t index_of(std::size_t l, int endpoint, int destination) const {
    const Level& level = levels_[l];
    return level.first + 2 * number(endpoint / level.size * level.ways + destination % level.ways);
  }
  /// A leaf is one switch, a pod one for each way.
  static std::string name(std::size_t l, std::uint32_t group, int ways, std::uint32_t way) {
    if (l == 2) return ways > 1 ? fmt::format("pod {}.{}", group, way) : fmt::format("pod {}", group);
    return fmt::format("{} {}", l == 0 ? "endpoint" : "leaf", group);
  }

  int endpoints_ = 0;
  std::uint32_t links_ = 0;
  double latency_;
  double trunk_latency_;
  std::uint32_t slow_;  ///< endpoint whose link is slow_bandwidth_'s
  double slow_bandwidth_;
  std::vector<Level> levels_;
};

/// Routers in a grid whose rows close to rings, an endpoint each. Dimension-order routing.
class TorusNetwork final : public Network {
 public:
  explicit TorusNetwork(const Description& given)
      : sizes_(given.sizes), bytes_per_second_(given.bandwidth()), latency_(given.latency()) {
    strides_.resize(sizes_.size());
    for (std::size_t d = sizes_.size(); d-- > 0;) {
      strides_[d] = endpoints_;
      endpoints_ *= sizes_[d];
    }
  }

  int endpoints() const override { return endpoints_; }
  std::uint32_t links() const override { return number(endpoints_) * 2 * static_cast<std::uint32_t>(sizes_.size()); }

  NetworkLink link(std::uint32_t index) const override {
    const int node = static_cast<int>(index / 2 / sizes_.size());
    const std::size_t d = index / 2 % sizes_.size();
    const int peer = moved(node, d, index % 2 == 0 ? 1 : -1);
    return {fmt::format("{} > {}", place(node), place(peer)), bytes_per_second_, latency_};
  }

  void route(int a, int b, std::vector<std::uint32_t>& way) const override {
    way.clear();
    for (std::size_t d = sizes_.size(); d-- > 0;) {
      const int size = sizes_[d];
      const int ahead = (coordinate(b, d) - coordinate(a, d) + size) % size;
      const bool up = ahead <= size - ahead;
      for (int hop = up ? ahead : size - ahead; hop > 0; --hop) {
        way.push_back((number(a) * number(static_cast<int>(sizes_.size())) + number(static_cast<int>(d))) * 2 +
                      (up ? 0 : 1));
        a = moved(a, d, up ? 1 : -1);
      }
    }
  }

 private:
  int coordinate(int node, std::size_t d) const { return node / strides_[d] % sizes_[d]; }
  int moved(int node, std::size_t d, int by) const {
    const int now = coordinate(node, d);
    const int next = by > 0 ? (now + 1 == sizes_[d] ? 0 : now + 1) : (now == 0 ? sizes_[d] : now) - 1;
    return node + (next - now) * strides_[d];
  }
  std::string place(int node) const {
    std::string text = "(";
    for (std::size_t d = 0; d < sizes_.size(); ++d) text += fmt::format("{}{}", d > 0 ? "," : "", coordinate(node, d));
    return text + ")";
  }

  std::vector<int> sizes_;
  std::vector<int> strides_;
  int endpoints_ = 1;
  double bytes_per_second_;
  double latency_;
};

/// Groups of routers, all joined within a group, and each two groups by one link. Minimal routing.
class DragonflyNetwork final : public Network {
 public:
  explicit DragonflyNetwork(const Description& given)
      : groups_(given.sizes[0]),
        routers_(given.sizes[1]),
        hosts_(given.sizes[2]),
        host_bandwidth_(given.bandwidth()),
        local_bandwidth_(given.bandwidth("local_GBps")),
        global_bandwidth_(given.bandwidth("global_GBps")),
        latency_(given.latency()),
        ports_((groups_ - 1 + routers_ - 1) / routers_) {
    local_ = 2 * number(endpoints());
    global_ = local_ + number(groups_ * routers_) * number(routers_ - 1);
  }

  int endpoints() const override { return groups_ * routers_ * hosts_; }
  std::uint32_t links() const override { return global_ + number(groups_) * number(groups_ - 1); }

  NetworkLink link(std::uint32_t index) const override {
    if (index < local_) {
      const std::string host = fmt::format("endpoint {}", index / 2);
      const std::string router = router_name(static_cast<int>(index / 2) / hosts_);
      return {index % 2 == 0 ? host + " > " + router : router + " > " + host, host_bandwidth_, latency_};
    }
    if (index < global_) {
      const int local = static_cast<int>(index - local_);
      const int from = local / (routers_ - 1);
      const int skipped = local % (routers_ - 1);
      const int to = from / routers_ * routers_ + (skipped < from % routers_ ? skipped : skipped + 1);
      return {router_name(from) + " > " + router_name(to), local_bandwidth_, latency_};
    }
    const int group = static_cast<int>(index - global_) / (groups_ - 1);
    const int other = (group + 1 + static_cast<int>(index - global_) % (groups_ - 1)) % groups_;
    return {router_name(gateway(group, other)) + " > " + router_name(gateway(other, group)), global_bandwidth_, latency_};
  }

  void route(int a, int b, std::vector<std::uint32_t>& way) const override {
    way.clear();
    if (a == b) return;
    way.push_back(2 * number(a));
    const int from = a / hosts_, to = b / hosts_;
    const int here = from / routers_, there = to / routers_;
    if (here == there) {
      step(from, to, way);
    } else {
      step(from, gateway(here, there), way);
      way.push_back(global_ + number(here) * number(groups_ - 1) + number(port_to(here, there)));
      step(gateway(there, here), to, way);
    }
    way.push_back(2 * number(b) + 1);
  }

 private:
  int port_to(int group, int other) const { return (other - group - 1 + groups_) % groups_; }
  /// The router of `group` that has its link to `other`.
  int gateway(int group, int other) const { return group * routers_ + port_to(group, other) / ports_; }
  void step(int from, int to, std::vector<std::uint32_t>& way) const {
    if (from == to) return;
    const int own = from % routers_, peer = to % routers_;
    way.push_back(local_ + number(from) * number(routers_ - 1) + number(peer < own ? peer : peer - 1));
  }
  std::string router_name(int router) const { return fmt::format("router {}.{}", router / routers_, router % routers_); }

  int groups_, routers_, hosts_;
  double host_bandwidth_, local_bandwidth_, global_bandwidth_, latency_;
  int ports_;  ///< global links of a router, at most
  std::uint32_t local_ = 0;
  std::uint32_t global_ = 0;
};

/// Machines of GPUs: NVSwitch within, a NIC for each GPU, the NICs of one index on a rail switch, a spine above the rails.
class PodNetwork final : public Network {
 public:
  explicit PodNetwork(const Description& given)
      : machines_(given.sizes[0]),
        gpus_(given.sizes[1]),
        nvlink_{{}, given.bandwidth("nvlink_GBps"), given.latency("nvlink_latency_us")},
        nic_{{}, given.bandwidth(), given.latency()},
        trunk_{{}, given.bandwidth() * machines_ / given["oversubscription"], given.latency()} {}

  int endpoints() const override { return machines_ * gpus_; }
  std::uint32_t links() const override { return rails() + 2 * number(gpus_); }

  NetworkLink link(std::uint32_t index) const override {
    NetworkLink link = index >= rails() ? trunk_ : index >= nics() ? nic_ : nvlink_;
    std::string below = fmt::format("rail {}", (index - rails()) / 2);
    std::string above = "spine";
    if (index < rails()) {
      const int gpu = static_cast<int>(index - (index >= nics() ? nics() : 0)) / 2;
      below = fmt::format("gpu {}.{}", gpu / gpus_, gpu % gpus_);
      above = index >= nics() ? fmt::format("rail {}", gpu % gpus_) : fmt::format("nvswitch {}", gpu / gpus_);
    }
    link.name = index % 2 == 0 ? below + " > " + above : above + " > " + below;
    return link;
  }

  void route(int a, int b, std::vector<std::uint32_t>& way) const override {
    way.clear();
    if (a == b) return;
    const std::uint32_t base = a / gpus_ == b / gpus_ ? 0 : nics();
    way.push_back(base + 2 * number(a));
    if (base != 0 && a % gpus_ != b % gpus_) {
      way.push_back(rails() + 2 * number(a % gpus_));
      way.push_back(rails() + 2 * number(b % gpus_) + 1);
    }
    way.push_back(base + 2 * number(b) + 1);
  }

 private:
  // Links: NVLink up and down of every GPU, NIC up and down of every GPU, trunk up and down of every rail.
  std::uint32_t nics() const { return 2 * number(endpoints()); }
  std::uint32_t rails() const { return 4 * number(endpoints()); }

  int machines_, gpus_;
  NetworkLink nvlink_, nic_, trunk_;
};

/// One line of the table of kinds.
struct Kind {
  std::string_view name;
  std::size_t least_sizes;
  std::size_t most_sizes;
  std::string_view form;
  std::map<std::string, double, std::less<>> options;  ///< with their defaults
  std::shared_ptr<const Network> (*make)(const Description&);
};

template <class Made>
std::shared_ptr<const Network> make(const Description& given) {
  return std::make_shared<const Made>(given);
}

const std::vector<Kind>& kinds() {
  static constinit MadeOnce<std::vector<Kind>> all;
  return all.get([] {
    return std::vector<Kind>{
        {"switch",
         1,
         1,
         "switch:ENDPOINTS",
         {{"slow_endpoint", most_endpoints}, {"slow_GBps", as_bandwidth}},
         make<TreeNetwork>},
        {"fat_tree",
         2,
         3,
         "fat_tree:[PODSx]LEAVESxENDPOINTS",
         {{"oversubscription", 1},
          {"core_oversubscription", 1},
          {"spines", 0},
          {"trunk_latency_us", as_latency},
          {"slow_endpoint", most_endpoints},
          {"slow_GBps", as_bandwidth}},
         make<TreeNetwork>},
        {"torus", 1, 8, "torus:SIZE[xSIZE]...", {}, make<TorusNetwork>},
        {"dragonfly",
         3,
         3,
         "dragonfly:GROUPSxROUTERSxENDPOINTS",
         {{"local_GBps", as_bandwidth}, {"global_GBps", as_bandwidth}},
         make<DragonflyNetwork>},
        {"pod",
         2,
         2,
         "pod:MACHINESxGPUS",
         {{"oversubscription", 1}, {"nvlink_GBps", 450}, {"nvlink_latency_us", 0.5}},
         make<PodNetwork>},
    };
  });
}

const Kind* kind_of(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  if (colon == std::string_view::npos) return nullptr;
  const auto found =
      std::find_if(kinds().begin(), kinds().end(), [&](const Kind& k) { return k.name == spec.substr(0, colon); });
  return found == kinds().end() ? nullptr : &*found;
}

Status refused(std::string_view spec, const std::string& why) {
  return {TUTTI_INVALID_ARGUMENT, fmt::format("the network \"{}\" {}", spec, why)};
}

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (std::size_t end; (end = text.find(by)) != std::string_view::npos; text.remove_prefix(end + 1)) {
    parts.push_back(text.substr(0, end));
  }
  parts.push_back(text);
  return parts;
}

/// Empty, or what is wrong with the sizes.
std::string take_sizes(const Kind& kind, std::string_view text, Description& description) {
  std::int64_t endpoints = 1;
  for (const std::string_view part : split(text, 'x')) {
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits && part.find_first_not_of('0') < part.size() && !parse<int>(part)) {
      return fmt::format("has over {} endpoints, more than can be simulated", most_endpoints);
    }
    const auto size = parse<int>(part);
    if (!size || *size < 1)
      return fmt::format("has the size \"{}\", which is no whole number from 1; write {}", part, kind.form);
    description.sizes.push_back(*size);
    endpoints *= *size;
    if (endpoints > most_endpoints) return fmt::format("has over {} endpoints, more than can be simulated", most_endpoints);
  }
  if (description.sizes.size() < kind.least_sizes || description.sizes.size() > kind.most_sizes) {
    return fmt::format("has {} sizes; write {}{}", description.sizes.size(), kind.form,
                       kind.most_sizes > 3 ? fmt::format(", of up to {}", kind.most_sizes) : "");
  }
  return {};
}

/// Empty, or what is wrong with the option.
std::string take_option(const Kind& kind, std::string_view text, Description& description) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const auto known = description.options.find(name);
  if (known == description.options.end()) {
    std::vector<std::string> names;
    for (const auto& [option, value] : description.options) names.push_back(option);
    return fmt::format("has the option \"{}\", which {} does not know; it knows {}", name, kind.name,
                       fmt::join(names, ", "));
  }
  const double value = equals == std::string_view::npos ? -1 : parse<double>(text.substr(equals + 1)).value_or(-1);
  const bool may_be_0 = name == "spines" || name == "slow_endpoint" || name.ends_with("latency_us");
  if (!std::isfinite(value) || value > 1e9 || (may_be_0 ? value < 0 : value < 1e-9)) {
    return fmt::format("gives {} no number from {} to 1e9; write {}=1", name, may_be_0 ? "0" : "1e-9", name);
  }
  if (name == "spines" && (value != std::floor(value) || value > 512)) {
    return "gives spines no whole number up to 512; write spines=4";
  }
  if (name == "slow_endpoint") {
    int endpoints = 1;
    for (const int size : description.sizes) endpoints *= size;
    if (value != std::floor(value) || value >= endpoints) {
      return fmt::format("gives slow_endpoint no endpoint's number; write 0 to {}", endpoints - 1);
    }
  }
  known->second = value;
  return {};
}

Result<Description> describe(std::string_view spec) {
  const Kind* kind = kind_of(spec);
  if (kind == nullptr) {
    std::vector<std::string_view> names;
    for (const Kind& known : kinds()) names.push_back(known.form);
    return refused(spec, fmt::format("is of no known kind; write {}", fmt::join(names, ", ")));
  }
  Description description{std::string(kind->name), {}, kind->options};
  description.options["GBps"] = 50;
  description.options["latency_us"] = 0.5;
  const auto parts = split(spec.substr(kind->name.size() + 1), ',');
  std::string wrong = take_sizes(*kind, parts[0], description);
  std::set<std::string_view> given;
  for (std::size_t p = 1; p < parts.size() && wrong.empty(); ++p) {
    const std::string_view name = parts[p].substr(0, parts[p].find('='));
    wrong = given.insert(name).second ? take_option(*kind, parts[p], description)
                                      : fmt::format("has the option {} twice; give it once", name);
  }
  const auto core = description.options.find("core_oversubscription");
  if (core != description.options.end() && core->second != 1 && description.sizes.size() < 3) {
    wrong = "has a core_oversubscription but no core; give three sizes, or oversubscription";
  }
  if (wrong.empty() && given.contains("slow_GBps") != given.contains("slow_endpoint")) {
    const bool rate = given.contains("slow_GBps");
    wrong = fmt::format("has a {} but no {}; give both", rate ? "slow_GBps" : "slow_endpoint",
                        rate ? "slow_endpoint" : "slow_GBps");
  }
  if (!wrong.empty()) return refused(spec, wrong);
  for (auto& [name, value] : description.options) {
    if (value == as_bandwidth) value = description["GBps"];
    if (value == as_latency) value = description["latency_us"];
  }
  return description;
}

}  // namespace

std::string_view generators_help() {
  static constinit MadeOnce<std::string> text;
  return text.get([] {
    std::string lines;
    for (const Kind& kind : kinds()) {
      std::vector<std::string> names{"GBps", "latency_us"};
      for (const auto& [option, value] : kind.options) names.push_back(option);
      lines += fmt::format("{}  options: {}\n", kind.form, fmt::join(names, ", "));
    }
    return lines;
  });
}

bool names_generator(std::string_view spec) { return kind_of(spec) != nullptr; }

Result<std::shared_ptr<const Network>> generate_network(std::string_view spec) {
  const auto description = describe(spec);
  if (!description.ok()) return description.status();
  return kind_of(spec)->make(*description);
}

View generated_view(std::string_view spec, const Network& network, int ranks) {
  const auto description = describe(spec);
  View view = flat_view(ranks);
  if (!description.ok()) return view;
  const std::vector<int>& sizes = description->sizes;
  const int machine = description->kind == "pod" ? sizes[1] : 1;
  int rack = 0;  // ranks in one; 0: all are
  if (description->kind == "fat_tree") rack = sizes.back();
  if (description->kind == "dragonfly") rack = sizes[1] * sizes[2];
  for (int r = 0; r < ranks; ++r) view.machine[at(r)] = r / machine;
  for (int r = 0; r < ranks && rack > 0; ++r) view.rack.push_back(r / rack);
  if (description->kind == "torus" && ranks == network.endpoints()) view.torus = sizes;
  std::array<bool, kLinkClasses> found = {};
  std::vector<std::uint32_t> way;
  for (int r = 1; r < ranks; ++r) {
    const LinkClass own = view.link_class(0, r);
    if (std::exchange(found[static_cast<std::size_t>(own)], true)) continue;
    LinkEstimate estimate;
    network.route(0, r, way);
    for (const std::uint32_t index : way) {
      const NetworkLink link = network.link(index);
      estimate.alpha += link.latency_s;
      estimate.beta = std::max(estimate.beta, 1 / link.bytes_per_second);
    }
    view.link(own) = estimate;
  }
  return view;
}

}  // namespace tutti
