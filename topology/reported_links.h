// Links as their ends tell them: both ends of a bundle, or one.
#pragma once

#include <algorithm>
#include <map>
#include <tuple>

#include "topology/graph.h"

namespace tutti {

/// Collects what devices say of their links, and adds each bundle once. Not thread safe.
class ReportedLinks {
 public:
  /// `from` says that it has `count` more links to `to`; both are nodes of the graph.
  void report(LinkKind kind, int from, int to, int count) { reported_[{kind, from, to}] += count; }

  /// Adds an edge for each pair. Where both ends speak and differ, the fewer links count.
  /// gbytes_of_one  (const Node& teller, LinkKind) -> GB/s one way of one link.
  template <typename Rate>
  void add_to(Graph& graph, Rate gbytes_of_one) const {
    for (const auto& [link, count] : reported_) {
      const auto [kind, from, to] = link;
      const auto back = reported_.find({kind, to, from});
      if (back != reported_.end() && from > to) continue;  // told by the other end already
      const int fewer = back == reported_.end() ? count : std::min(count, back->second);
      const double one = gbytes_of_one(graph.nodes[static_cast<std::size_t>(from)], kind);
      graph.links.push_back({from, to, kind, fewer, fewer * one, 0});
    }
  }

 private:
  std::map<std::tuple<LinkKind, int, int>, int> reported_;
};

}  // namespace tutti
