// Central all-reduce: one server, rank 0, gets everybody's share, folds them in rank order in one sweep, and tells
// everybody.
//
//     1 2 3 … p−1  ─→  0        x_0 + x_1 + … + x_{p−1}
//     0  ─→  1 2 3 … p−1
//
// What a parameter server does, and what the others are measured against: its port carries everything. Time 2α + 2(p−1)mβ +
// (p−1)mγ, and the posting of 2(p−1) messages.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"
#include "src/base/saturating.h"

namespace tutti {
namespace {

Shape shape(const Problem&, const View&, const Parameters&) { return {.chunks = 1, .lanes = 1, .message_cells = 1}; }

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  if (builder.rank() != 0) {
    lane.move({input(0)}, {lane.to(0)});
    lane.move({lane.from(0)}, {output(0)});
    return;
  }
  std::vector<Ref> shares{input(0)};
  std::vector<Ref> results{output(0)};
  for (int r = 1; r < builder.ranks(); ++r) {
    shares.push_back(lane.from(r));
    results.push_back(lane.to(r));
  }
  lane.complete(shares, results);
}

Cost cost(const Problem& problem, const View& view) {
  const double others = problem.ranks - 1;
  const double edges = 2 * tree_messages(problem);
  // One folds, while the others' cores, and the rest of its own, are idle. Of what it reads and writes the others do half;
  // beside it, its core does that for those who share it.
  if (counts_messages(view) && view.through_memory)
    return {2, others + view.oversubscription - 1, others / view.oversubscription, edges, edges};
  // What a socket takes at once waits in the kernel until the server comes to it; of longer blocks the server's port is the
  // limit (4 ranks on 2 cores over the loopback: 32 KiB 45 to 56 us, 128 KiB 116 to 284, 512 KiB 440 to 940).
  constexpr std::uint64_t at_once = 64 * 1024;
  const double sent = bytes_of(problem.count, problem.type) <= at_once ? edges : 2 * others;
  return {2 * alphas_at_once(problem.ranks - 1, view), 2 * others, others, edges, sent};
}

}  // namespace

const Algorithm central_all_reduce = {"central",
                                      Collective::all_reduce,
                                      "one rank sums for all, as a parameter server does; its port carries everything",
                                      always_fits,
                                      shape,
                                      build,
                                      cost};

}  // namespace tutti
