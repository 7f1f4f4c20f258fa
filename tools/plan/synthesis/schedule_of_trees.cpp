#include "tools/plan/synthesis/schedule_of_trees.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "algorithms/phases.h"
#include "src/schedule/builder.h"
#include "src/schedule/fusion.h"
#include "src/schedule/msccl_xml.h"

namespace tutti::synthesis {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// What the shares put on every row, of what it carries.
class Fill {
 public:
  Fill(const Resources& resources, const TreePacking& packing)
      : capacity_(resources.capacity()), fill_(resources.capacity().size(), 0) {
    for (const PackedPair& packed : packing.pairs) loads_.push_back(resources.loads(packed.pair));
  }

  void add(std::size_t pair, double times) {
    for (const auto& [row, load] : loads_[pair]) fill_[row] += times * load / capacity_[row];
  }
  /// How bad the fill is: the fullest rows count for nearly all, and yet it gets better when one of several equally full
  /// ones does. unit: what the fullest would be at best.
  double badness(double unit) const {
    constexpr double steepness = 24;
    double sum = 0;
    for (const double fill : fill_) sum += std::pow(fill / unit, steepness);
    return sum;
  }

 private:
  const std::vector<double>& capacity_;
  std::vector<Loads> loads_;
  std::vector<double> fill_;
};

std::vector<std::uint32_t> by_largest_remainder(const TreePacking& packing, std::uint32_t chunks) {
  std::vector<std::uint32_t> counts;
  std::vector<double> remainders;
  std::uint32_t left = chunks;
  for (const PackedPair& packed : packing.pairs) {
    const double quota = chunks * packed.bytes_per_second / packing.bytes_per_second;
    // A quota of a whole number may come out of the solver a little below.
    const auto whole = std::min(left, static_cast<std::uint32_t>(std::floor(quota + 1e-9)));
    counts.push_back(whole);
    remainders.push_back(quota - whole);
    left -= whole;
  }
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++counts[order[i]];
  return counts;
}

/// Moves one chunk where that helps most; false where it helps nowhere.
bool move_a_chunk(Fill& fill, std::vector<std::uint32_t>& counts, double unit) {
  constexpr double worthwhile = 1 - 1e-9;
  double best = fill.badness(unit) * worthwhile;
  std::size_t best_from = 0;
  std::size_t best_to = 0;
  for (std::size_t from = 0; from < counts.size(); ++from) {
    if (counts[from] == 0) continue;
    fill.add(from, -1);
    for (std::size_t to = 0; to < counts.size(); ++to) {
      if (to == from) continue;
      fill.add(to, 1);
      if (const double badness = fill.badness(unit); badness < best) {
        best = badness;
        best_from = from;
        best_to = to;
      }
      fill.add(to, -1);
    }
    fill.add(from, 1);
  }
  if (best_from == best_to) return false;
  fill.add(best_from, -1);
  fill.add(best_to, 1);
  --counts[best_from];
  ++counts[best_to];
  return true;
}

/// One rank's moves for a pair of trees on lanes `lane` (up) and `lane` + 1 (down).
void build_pair(Builder& builder, const TreeShare& share, std::uint32_t lane, std::uint32_t first_chunk) {
  const int rank = builder.rank();
  const LaneBuilder climb = builder.lane(lane);
  const LaneBuilder descend = builder.lane(lane + 1);  // at the root, only the name of its links
  const std::vector<int> below = children_of(share.pair.in)[at(rank)];
  const std::vector<int> next = children_of(share.pair.out)[at(rank)];
  for (std::uint32_t c = first_chunk; c < first_chunk + share.chunks; ++c) {
    std::vector<Ref> sources;
    for (const int child : below) {
      if (child < rank) sources.push_back(climb.from(child));
    }
    sources.push_back(input(c));
    for (const int child : below) {
      if (child > rank) sources.push_back(climb.from(child));
    }
    std::vector<Ref> destinations{output(c)};
    for (const int child : next) destinations.push_back(descend.to(child));
    if (rank == share.pair.in.root) {
      climb.complete(sources, destinations);
    } else {
      climb.move(sources, std::vector{climb.to(share.pair.in.parent[at(rank)])});
      descend.move(std::vector{descend.from(share.pair.out.parent[at(rank)])}, destinations);
    }
  }
}

/// One rank's moves on a ring.
void build_ring(const LaneBuilder& lane, const std::vector<int>& order, int rank) {
  const int p = static_cast<int>(order.size());
  const int place = static_cast<int>(std::find(order.begin(), order.end(), rank) - order.begin());
  const auto count = static_cast<std::uint32_t>(p);
  const Part part{lane.index() * count, count};
  const tutti::Ring ring{p, order[at((place + p - 1) % p)], order[at((place + 1) % p)], place + 1};
  const auto in = [&](std::uint32_t share) { return part.share(share, count).in(); };
  const auto out = [&](std::uint32_t share) { return part.share(share, count).out(); };
  reduce_scatter_round(lane, ring, in, out(ring.after(0)), Sum::complete);
  all_gather_round(lane, ring, out);
}

Plan plan_of(const Problem& problem, const char* name, const Shape& shape, std::uint64_t message_bytes) {
  Plan plan;
  plan.problem = problem;
  plan.algorithm = name;
  plan.shape = shape;
  finish_plan(plan, message_bytes);
  return plan;
}

}  // namespace

std::vector<TreeShare> share_chunks(const Resources& resources, const TreePacking& packing, std::uint32_t chunks) {
  std::vector<std::uint32_t> counts = by_largest_remainder(packing, chunks);
  Fill fill(resources, packing);
  for (std::size_t pair = 0; pair < counts.size(); ++pair) fill.add(pair, counts[pair]);
  const double unit = chunks / packing.bytes_per_second;
  // Each move makes it better, so that none comes twice; the bound is for the time that it may take.
  for (std::uint32_t moves = 0; moves < 4 * chunks && move_a_chunk(fill, counts, unit);) ++moves;
  std::vector<TreeShare> shares;
  for (std::size_t pair = 0; pair < counts.size(); ++pair) {
    if (counts[pair] > 0) shares.push_back({packing.pairs[pair].pair, counts[pair]});
  }
  return shares;
}

double rate_of(const Resources& resources, const std::vector<TreeShare>& shares) {
  std::vector<double> fill(resources.capacity().size(), 0);
  double chunks = 0;
  for (const TreeShare& share : shares) {
    chunks += share.chunks;
    for (const auto& [row, load] : resources.loads(share.pair))
      fill[row] += share.chunks * load / resources.capacity()[row];
  }
  double fullest = 0;
  for (const double row : fill) fullest = std::max(fullest, row);
  return chunks / fullest;
}

Schedule schedule_of_trees(const Problem& problem, const std::vector<TreeShare>& shares, std::uint64_t message_bytes) {
  Shape shape{.chunks = 0, .lanes = 2 * static_cast<std::uint32_t>(shares.size()), .credit = most_credit};
  int round_trip = 0;
  for (const TreeShare& share : shares) {
    shape.chunks += share.chunks;
    round_trip = std::max(round_trip, height_of(share.pair.in) + height_of(share.pair.out));
  }
  // Passes are cheap where there is no scratch, and a pass comes back only after the round trip.
  shape.depth = static_cast<std::uint32_t>(round_trip) + 1;
  Schedule schedule{plan_of(problem, "synthesized_trees", shape, message_bytes), {}};
  for (int rank = 0; rank < problem.ranks; ++rank) {
    Builder builder(problem, shape, rank);
    std::uint32_t lane = 0;
    std::uint32_t chunk = 0;
    for (const TreeShare& share : shares) {
      build_pair(builder, share, lane, chunk);
      lane += 2;
      chunk += share.chunks;
    }
    schedule.programs.push_back(fuse(schedule.plan, rank, builder.finish()));
  }
  return schedule;
}

Schedule schedule_of_rings(const Problem& problem, const std::vector<RingShare>& rings, std::uint64_t message_bytes) {
  std::vector<const std::vector<int>*> order_of;  // by lane
  for (const RingShare& ring : rings) order_of.insert(order_of.end(), ring.lanes, &ring.order);
  const auto lanes = static_cast<std::uint32_t>(order_of.size());
  const Shape shape{
      .chunks = static_cast<std::uint32_t>(problem.ranks) * lanes, .lanes = lanes, .depth = 2, .credit = most_credit};
  Schedule schedule{plan_of(problem, "synthesized_rings", shape, message_bytes), {}};
  for (int rank = 0; rank < problem.ranks; ++rank) {
    Builder builder(problem, shape, rank);
    for (std::uint32_t l = 0; l < lanes; ++l) build_ring(builder.lane(l), *order_of[l], rank);
    schedule.programs.push_back(fuse(schedule.plan, rank, builder.finish()));
  }
  return schedule;
}

}  // namespace tutti::synthesis
