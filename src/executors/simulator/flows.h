// Flows over a network, whose links they share fairly: max-min, each flow as fast as its narrowest link lets it.
//
// Rates are max-min fair exactly where every flow has a *bottleneck*: a link that is full, and on which no other flow is
// faster (Bertsekas & Gallager, Data Networks, 6.5.2). So after flows come or go only those are looked at whose bottleneck
// may have gone: their rates are found by water-filling with all others as they are, whoever then has no bottleneck any
// more joins them, and so on until everybody has one. A change far away costs nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace tutti::simulator {

/// The links that flows pass. A link that stands for many alike, or is passed by many flows alike, carries a flow several
/// times: its weight.
struct FlowRoutes {
  std::vector<double> capacity;       ///< by link: bytes per second
  std::vector<std::uint64_t> first;   ///< by flow, and the end: where its hops are
  std::vector<std::uint32_t> link;    ///< by hop
  std::vector<std::uint32_t> weight;  ///< by hop; empty: 1 each
};

/// All flows of a run. Deterministic.
class Flows {
 public:
  explicit Flows(FlowRoutes routes);

  /// Says that a flow has, or no longer has, something to send. Rates change when `settle` is called.
  void start(std::uint32_t flow) { set(flow, true); }
  void stop(std::uint32_t flow) { set(flow, false); }
  /// Whether anything was said since.
  bool unsettled() const { return !said_.empty(); }
  /// Finds the rates. Returns the flows that are active and were started since, or whose rate changed.
  const std::vector<std::uint32_t>& settle();
  /// Bytes per second, as of the last settle, to 5e-10. Infinite for a flow without links.
  double rate(std::uint32_t flow) const { return flows_[flow].told; }
  /// What every link carries where a flow carries bytes_of(flow).
  template <class BytesOf>
  std::vector<double> carried(const BytesOf& bytes_of) const {
    std::vector<double> bytes(links_.size());
    for (std::uint32_t f = 0; f < flows_.size(); ++f) {
      for (std::uint64_t hop = routes_.first[f]; hop < routes_.first[f + 1]; ++hop) {
        bytes[routes_.link[hop]] += static_cast<double>(bytes_of(f)) * weight_of(hop);
      }
    }
    return bytes;
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct Flow {
    double rate = 0;                  ///< as computed
    double told = 0;                  ///< as given by rate()
    double next = 0;                  ///< its rate as it is being found
    std::uint32_t bottleneck = none;  ///< link
    std::uint32_t place = none;       ///< in active_, none where it is not
    std::uint32_t chosen = 0;         ///< the round in which it was last chosen to be looked at
    bool wanted = false;              ///< whether it has something to send
    bool said = false;                ///< it is listed in said_
    bool frozen = false;              ///< its next rate is found
  };
  /// A flow on a link.
  struct Entry {
    std::uint32_t flow;
    std::uint32_t hop;  ///< counted from the flow's first
  };
  struct Link {
    std::vector<Entry> entries;
    double free = 0;         ///< what flows not yet found may share
    double weight = 0;       ///< of these
    std::uint32_t seen = 0;  ///< the round in which it was last touched
  };

  void set(std::uint32_t flow, bool wanted);
  void attach(std::uint32_t flow);
  void detach(std::uint32_t flow);
  void come_and_go();
  void choose(std::uint32_t flow);
  void choose_held_up(std::uint32_t flow);
  void water_fill();
  void touch_links();
  void freeze(std::uint32_t link, double share);
  bool choose_without_bottleneck();
  void look_at(std::uint32_t link);
  std::uint32_t weight_of(std::uint64_t hop) const { return routes_.weight.empty() ? 1 : routes_.weight[hop]; }
  bool is_chosen(const Flow& flow) const { return flow.chosen == round_; }

  FlowRoutes routes_;
  std::vector<Flow> flows_;
  std::vector<Link> links_;
  std::vector<std::uint32_t> place_on_link_;  ///< by hop: where its entry is
  std::vector<std::uint32_t> active_;
  std::vector<std::uint32_t> said_;
  std::vector<std::uint32_t> chosen_;
  std::vector<std::uint32_t> touched_;  ///< links of the chosen
  std::vector<std::uint32_t> changed_;
  std::vector<std::pair<double, std::uint32_t>> heap_;  ///< (share, link), the least first
  std::uint32_t round_ = 0;                             ///< of settle
  std::uint32_t pass_ = 0;                              ///< of water_fill
};

}  // namespace tutti::simulator
