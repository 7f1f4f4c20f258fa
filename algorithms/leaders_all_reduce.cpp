// Leaders' all-reduce, for machines with any numbers of ranks: each leader sums its machine's shares, the leaders reduce
// among themselves round a ring, and hand the result out.
//
//     collect (lane 0)      x_1, x_2, … → leader:  x_0 + x_1 + … → output, chunk by chunk
//     across  (lane 1)      ring of leaders, as ring_all_reduce.cpp
//     publish (lane 2)      leader → output, 1, 2, …
//
// Three lanes, so that one pass is collected while another crosses. Where machines are equal the hierarchical algorithm
// uses every rank's link instead of the leader's. Time for at most g ranks on each of n machines
// 2αᵢ + 2(g−1)mβᵢ + 2(n−1)αₒ + 2(n−1)/n·mβₒ + (g−1 + (n−1)/n)mγ.
#include "algorithms/algorithms.h"
#include "algorithms/leaders.h"
#include "algorithms/phases.h"

namespace tutti {
namespace leaders_all_reduce_detail {

Shape shape(const Problem&, const View& view, const Parameters& parameters) {
  return {.chunks = static_cast<std::uint32_t>(view.machines()),
          .lanes = 3,
          .depth = or_default(parameters.depth, 3),
          .credit = 2,
          .message_cells = 1};
}

void lead(Builder& builder, const MachineGroups& crews, int machine) {
  const LaneBuilder collect = builder.lane(0);
  const LaneBuilder across = builder.lane(1);
  const LaneBuilder publish = builder.lane(2);
  const std::vector<int>& crew = crews[machine];
  const int n = crews.machines();
  const Part all{0, builder.shape().chunks};
  const bool alone = crew.size() == 1;
  for (std::uint32_t c = 0; c < all.size && !alone; ++c) {
    std::vector<Ref> shares{input(c)};
    for (std::size_t m = 1; m < crew.size(); ++m) shares.push_back(collect.from(crew[m]));
    collect.move(shares, std::vector{output(c)});
  }
  const Ring ring{n, crews.leader(wrap_rank(machine - 1, n)), crews.leader(wrap_rank(machine + 1, n)), machine};
  const auto out = [&](std::uint32_t share) { return all.share(share, all.size).out(); };
  const auto own = [&](std::uint32_t share) {
    return own_of(alone ? OperandSource::input : OperandSource::sums, all.share(share, all.size));
  };
  reduce_scatter_round(across, ring, own, out(ring.after(0)), SumState::complete, OwnedShare::forward);
  all_gather_round(across, ring, out, OwnedShare::forward);
  for (int step = 0; step < n && !alone; ++step) {
    std::vector<Ref> destinations;
    for (std::size_t m = 1; m < crew.size(); ++m) destinations.push_back(publish.to(crew[m]));
    publish.move(std::vector{out(ring.after(step))}, destinations);
  }
}

void build(Builder& builder, const View& view, const Parameters&) {
  const MachineGroups crews(view, 0);
  const CrewMember me(crews, builder.rank());
  if (me.position == 0) return lead(builder, crews, me.machine);
  const int leader = crews.leader(me.machine);
  const Ring ring{crews.machines(), 0, 0, me.machine};  // in whose order the leader has the results
  for (std::uint32_t c = 0; c < builder.shape().chunks; ++c) {
    builder.lane(0).move({input(c)}, {builder.lane(0).to(leader)});
  }
  for (int step = 0; step < ring.size; ++step) {
    builder.lane(2).move({builder.lane(2).from(leader)}, {output(ring.after(step))});
  }
}

Cost cost(const Problem&, const View& view) {
  const MachineGroups crews(view, 0);
  const double n = crews.machines();
  const double others = crews.most() - 1;
  Cost cost{2 * (n - 1), 2 * (n - 1) / n, others + (n - 1) / n};
  cost[crew_link(view)] = {2, 2 * others, 2 * (others - 1)};
  return cost;
}

}  // namespace leaders_all_reduce_detail

const Algorithm leaders_all_reduce = {"leaders",
                                      Collective::all_reduce,
                                      "a leader on each machine sums, crosses and hands out; for unequal machines",
                                      has_crews,
                                      leaders_all_reduce_detail::shape,
                                      leaders_all_reduce_detail::build,
                                      leaders_all_reduce_detail::cost};

}  // namespace tutti
