// Leaders' reduce: the mirror image of leaders_broadcast.cpp, up a binomial tree on every machine, then up one of machines.
//
//     machine 0   root ←───────── leader   machine 1        one sum of each machine crosses the network
//                 ↗  ↖            ↗  ↖
//
// Time ⌈log₂ n⌉(αₒ + mβₒ + mγ) + ⌈log₂ g⌉(αᵢ + mβᵢ + mγ) for n machines with at most g ranks.
#include "algorithms/algorithms.h"
#include "algorithms/leaders.h"

namespace tutti {
namespace leaders_reduce_detail {

void build(Builder& builder, const View& view, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const CrewTree tree(view, builder.problem().root, builder.rank());
  std::vector<Ref> sources{input(0)};
  for (const auto* children : {&tree.inside, &tree.across}) {
    for (const int child : *children) sources.push_back(lane.from(child));
  }
  if (tree.parent < 0) {
    lane.complete(sources, std::vector{output(0)});
  } else {
    lane.move(sources, std::vector{lane.to(tree.parent)});
  }
}

Cost cost(const Problem& problem, const View& view) {
  Cost cost = crew_tree_cost(problem, view);
  const MachineGroups crews(view, 0);
  cost.gammas = log2_ceil(crews.machines()) + log2_ceil(crews.most());
  return cost;
}

}  // namespace leaders_reduce_detail

const Algorithm leaders_reduce = {"leaders",
                                  Collective::reduce,
                                  "up a tree of each machine's ranks, then of machines",
                                  has_crews,
                                  crew_tree_shape,
                                  leaders_reduce_detail::build,
                                  leaders_reduce_detail::cost};

}  // namespace tutti
