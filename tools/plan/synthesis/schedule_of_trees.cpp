#include "tools/plan/synthesis/schedule_of_trees.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "algorithms/phases.h"
#include "src/schedule/builder.h"
#include "src/schedule/fusion.h"
#include "topology/index.h"

namespace tutti::synthesis {
namespace {

/// A pair of trees, what it takes, and the chunks that it has so far.
struct Option {
  TreePair pair;
  Loads loads;
  double handicap = 1;  ///< for its height
  std::uint32_t chunks = 0;
};

/// Makes options.
struct Maker {
  const Resources& resources;
  double height_price;

  Option operator()(const TreePair& pair, std::uint32_t chunks) const {
    return {pair, resources.loads(pair), 1 + height_price * (height_of(pair.in) + height_of(pair.out)), chunks};
  }
};

double power(double base, int exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 != 0) result *= base;
  }
  return result;
}

/// What chunks put on every row: the seconds that it takes for them, a chunk being a byte.
class Fill {
 public:
  /// unit: what the fullest row would have at best. steepness: how much more the fuller rows count.
  Fill(const Resources& resources, double unit, int steepness, const std::vector<Option>& options)
      : capacity_(resources.capacity()),
        unit_(unit),
        steepness_(steepness),
        fill_(capacity_.size(), 0),
        bad_(capacity_.size(), 0) {
    for (const Option& option : options) add(option.loads, option.chunks);
  }

  void add(const Loads& loads, double times) {
    for (const auto& [row, load] : loads) {
      fill_[row] += times * load / capacity_[row] / unit_;
      bad_[row] = power(fill_[row], steepness_);
    }
  }
  /// How bad the fill is: the fullest rows count for nearly all, and yet it gets better when one of several equally full
  /// ones does.
  double badness() const { return std::accumulate(bad_.begin(), bad_.end(), 0.0); }
  /// By how much these loads would make it worse.
  double worse_by(const Loads& loads) const {
    double sum = 0;
    for (const auto& [row, load] : loads) {
      sum += power(fill_[row] + load / capacity_[row] / unit_, steepness_) - bad_[row];
    }
    return sum;
  }
  /// The same for each row's load of one more chunk. Above 0 but for rounding, which is taken away.
  std::vector<double> prices() const {
    std::vector<double> prices;
    for (std::uint32_t row = 0; row < fill_.size(); ++row) prices.push_back(std::max(0.0, worse_by({{row, 1}})));
    return prices;
  }

 private:
  const std::vector<double>& capacity_;
  double unit_;
  int steepness_;
  std::vector<double> fill_;  ///< of the unit
  std::vector<double> bad_;
};

/// All pairs of a packing, with chunks by largest remainder after their rates.
std::vector<Option> by_largest_remainder(const Maker& option_of, const TreePacking& packing, std::uint32_t chunks) {
  std::vector<Option> options;
  std::vector<double> remainders;
  std::uint32_t left = chunks;
  for (const PackedPair& packed : packing.pairs) {
    const double quota = chunks * packed.bytes_per_second / packing.bytes_per_second;
    // A quota of a whole number may come out of the solver a little below.
    const auto whole = std::min(left, static_cast<std::uint32_t>(std::floor(quota + 1e-9)));
    options.push_back(option_of(packed.pair, whole));
    remainders.push_back(quota - whole);
    left -= whole;
  }
  std::vector<std::size_t> order(options.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++options[order[i]].chunks;
  return options;
}

/// The pairs that are best by prices, whatever their height, and the best shallow ones.
std::vector<TreePair> good_pairs(const PricedHops& hops) {
  std::vector<TreePair> pairs = cheapest_pairs(hops);
  const std::size_t roots = pairs.size();
  for (std::size_t root = 0; root < roots; ++root) {
    const TreePair cheapest = pairs[root];
    const auto in = shallow_arborescence(hops.climb, static_cast<int>(root));
    const auto out = shallow_arborescence(hops.descend, static_cast<int>(root));
    pairs.insert(pairs.end(), {{*in, *out}, {*in, cheapest.out}, {cheapest.in, *out}});
  }
  return pairs;
}

/// Moves a chunk of options[from] to the trees that are best for it as all others are: one of the options, or of what is
/// good at the fill's prices, which then is an option, too. False where it is with the best.
bool move_a_chunk(const Maker& option_of, Fill& fill, std::vector<Option>& options, std::size_t from) {
  constexpr double worthwhile = 1e-9;
  const double now = fill.badness();
  fill.add(options[from].loads, -1);
  const auto cost = [&](const Option& option) { return fill.worse_by(option.loads) * option.handicap; };
  double least = cost(options[from]) - worthwhile * now;
  std::size_t best = from;
  const std::size_t known = options.size();
  for (std::size_t o = 0; o < known; ++o) {
    if (const double its = cost(options[o]); its < least) {
      least = its;
      best = o;
    }
  }
  for (const TreePair& pair : good_pairs(PricedHops(option_of.resources, fill.prices()))) {
    Option option = option_of(pair, 0);
    const double its = cost(option);
    if (its >= least) continue;
    least = its;
    best = known;
    options.resize(known);
    options.push_back(std::move(option));
  }
  fill.add(options[best].loads, 1);
  --options[from].chunks;
  ++options[best].chunks;
  return best != from;
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
  reduce_scatter_round(lane, ring, in, out(ring.after(0)), SumState::complete);
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

std::vector<TreeShare> share_chunks(const Resources& resources, const TreePacking& packing, std::uint32_t chunks,
                                    double height_price) {
  const Maker option_of{resources, height_price};
  std::vector<Option> options = by_largest_remainder(option_of, packing, chunks);
  // With a price of heights chunks might change their trees for ever.
  constexpr int most_rounds = 32;
  for (const int steepness : {6, 12, 24, 48}) {
    Fill fill(resources, chunks / packing.bytes_per_second, steepness, options);
    bool moved = true;
    for (int round = 0; round < most_rounds && moved; ++round) {
      moved = false;
      for (std::size_t from = 0; from < options.size(); ++from) {
        if (options[from].chunks > 0) moved = move_a_chunk(option_of, fill, options, from) || moved;
      }
    }
  }
  std::vector<TreeShare> shares;
  for (Option& option : options) {
    if (option.chunks > 0) shares.push_back({std::move(option.pair), option.chunks});
  }
  return shares;
}

std::vector<TreeShare> shallow_shares(const Resources& resources, std::uint32_t chunks_each) {
  std::vector<double> prices;
  for (const double capacity : resources.capacity()) prices.push_back(1 / capacity);
  const PricedHops hops(resources, prices);
  std::vector<TreeShare> shares;
  for (int root = 0; root < resources.ranks(); ++root) {
    const auto in = shallow_arborescence(hops.climb, root);
    const auto out = shallow_arborescence(hops.descend, root);
    if (in && out) shares.push_back({{*in, *out}, chunks_each});
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
