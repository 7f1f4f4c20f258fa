// Leaders' broadcast: down a binomial tree of machines first, then down one on every machine.
//
//     machine 0   root ─────────→ leader   machine 1        one rank of each machine gets it over the network, the largest
//                 ↙  ↘            ↙  ↘                      subtrees first; any numbers of ranks, in any order
//
// Time ⌈log₂ n⌉(αₒ + mβₒ) + ⌈log₂ g⌉(αᵢ + mβᵢ) for n machines with at most g ranks.
#include "algorithms/algorithms.h"
#include "algorithms/leaders.h"

namespace tutti {
namespace leaders_broadcast_detail {

void build(Builder& builder, const View& view, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const CrewTree tree(view, builder.problem().root, builder.rank());
  std::vector<Ref> destinations{output(0)};
  for (const auto* children : {&tree.across, &tree.inside}) {
    for (auto child = children->rbegin(); child != children->rend(); ++child) destinations.push_back(lane.to(*child));
  }
  lane.move(std::vector{tree.parent < 0 ? input(0) : lane.from(tree.parent)}, destinations);
}

}  // namespace leaders_broadcast_detail

const Algorithm leaders_broadcast = {"leaders",     Collective::broadcast, "down a tree of machines, then of their ranks",
                                     has_crews,     crew_tree_shape,       leaders_broadcast_detail::build,
                                     crew_tree_cost};

}  // namespace tutti
