// Swing all-reduce: halving and doubling with partners that swing from one side to the other, so that they stay near on a
// ring or torus, and with 2D parts that use all ports at once.
//
//     step 0     0 ⇄ 1   2 ⇄ 3   4 ⇄ 5   6 ⇄ 7        even ranks swap with r + ρ(s), odd ones with r − ρ(s), mod p,
//     step 1     1 ⇄ 2   3 ⇄ 4   5 ⇄ 6   7 ⇄ 0        ρ(s) = (1 − (−2)^(s+1))/3 = 1, −1, 3, −5, 11, …
//     step 2     0 ⇄ 3   2 ⇄ 5   4 ⇄ 7   6 ⇄ 1
//
// On a torus steps take turns with the dimensions, each with its own coordinate and count of steps; part j begins with
// dimension j mod D, and the second D parts mirror the first: even ranks swap with r − ρ(s). Dimensions have to be powers
// of two; those that are through first are left out. The bandwidth-optimal version of De Sensi et al., NSDI'24. Time 2 log₂
// p·α + Ξ(m/D)(1−1/p)β + (p−1)/p·mγ, Ξ → 1.20 in 2D, 1.037 in 3D, 1.008 in 4D; 1-D is bad (1.29 at 8 ranks, 2.14 at 64), as
// partners are far apart.
//
// Which half a rank keeps. Differences of ρ(s), ρ(s+1), … are multiples of 2^(s+1), so the ranks that it still meets from
// step s on are the even ones that are equal to it (or, where it is odd, to r − ρ(s)) mod 2^(s+1), and their partners: half
// as many after each step. Those that stay together keep the same half, told by the next bit of that remainder.
#include <bit>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/tori.h"

namespace tutti {
namespace swing_all_reduce_detail {

/// ρ(s), times the direction of the part.
int swing(int step, bool forward) {
  int power = -2;
  for (int s = 0; s < step; ++s) power *= -2;
  return (1 - power) / 3 * (forward ? 1 : -1);
}

int steps_of(const GridDimension& d) { return log2_ceil(d.size); }

/// Whether coordinate x of a dimension keeps the upper half at its step `step`.
bool keeps_upper(int x, int step, const GridDimension& d, bool forward) {
  if (step + 1 == steps_of(d)) return x % 2 != 0;  // the last: partners differ in nothing else
  const int even = x % 2 == 0 ? x : x - swing(step + 1, forward);
  return (wrap(even, d.size) >> (step + 1) & 1) != 0;
}

/// The dimension of each step of a part that begins with dimension `first`: in turns, but those that are through.
std::vector<int> turns(const Grid& torus, int first) {
  std::vector<int> dimensions;
  bool any = true;
  for (int round = 0; any; ++round) {
    any = false;
    for (const int d : dimensions_from(torus, first)) {
      if (round >= steps_of(torus[d])) continue;
      dimensions.push_back(d);
      any = true;
    }
  }
  return dimensions;
}

std::vector<Swap> swaps_of(const Grid& torus, int rank, std::uint32_t part) {
  const bool forward = part < static_cast<std::uint32_t>(torus.size());
  std::vector<int> done(static_cast<std::size_t>(torus.size()), 0);
  std::vector<Swap> swaps;
  for (const int d : turns(torus, static_cast<int>(part) % torus.size())) {
    const int step = done[static_cast<std::size_t>(d)]++;
    const int x = torus.coordinate(rank, d);
    const int distance = swing(step, forward);
    swaps.push_back(
        {torus.neighbor(rank, d, x % 2 == 0 ? x + distance : x - distance), keeps_upper(x, step, torus[d], forward)});
  }
  return swaps;
}

bool fits(const Problem&, const View& view) {
  const Grid torus = torus_of(view);
  bool powers = torus.size() > 0;
  for (const GridDimension& d : torus.dimensions()) powers = powers && std::has_single_bit(static_cast<unsigned>(d.size));
  return powers;
}

Shape shape(const Problem& problem, const View& view, const Parameters&) {
  const std::uint32_t parts = torus_parts(torus_of(view));
  const auto ranks = static_cast<std::uint32_t>(problem.ranks);
  return {.chunks = parts * ranks, .lanes = parts, .credit = 2, .message_cells = ranks / 2};
}

void build(Builder& builder, const View& view, const Parameters&) {
  const Grid torus = torus_of(view);
  const auto ranks = static_cast<std::uint32_t>(builder.ranks());
  for (std::uint32_t part = 0; part < torus_parts(torus); ++part) {
    all_reduce_by_halving(builder.lane(part), {part * ranks, ranks}, swaps_of(torus, builder.rank(), part),
                          OperandSource::input);
  }
}

/// What a rank's links carry of a reduce-scatter or an all-gather in so many steps: each link of a dimension is passed by
/// as many messages of a part and its mirror image as their partners are apart.
double links_carry(const Grid& torus, std::size_t steps) {
  std::vector<std::vector<double>> carried(static_cast<std::size_t>(torus.size()));  // by dimension and step of the part
  for (int part = 0; part < torus.size(); ++part) {
    std::vector<int> done(carried.size(), 0);
    double message = 1.0 / torus_parts(torus);
    std::size_t step = 0;
    for (const int d : turns(torus, part)) {
      const auto dimension = static_cast<std::size_t>(d);
      const auto there = static_cast<int>(wrap(swing(done[dimension]++, true), torus[d].size));
      carried[dimension].resize(steps);
      carried[dimension][step++] += (message /= 2) * std::min(there, torus[d].size - there);
    }
  }
  double betas = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    double most = 0;
    for (const std::vector<double>& of : carried) most = std::max(most, of[step]);
    betas += most;
  }
  return betas;
}

Cost cost(const Problem& problem, const View& view) {
  const Grid torus = torus_of(view);
  if (torus.size() == 0) return {};
  std::size_t steps = 0;
  for (const GridDimension& d : torus.dimensions()) steps += static_cast<std::size_t>(steps_of(d));
  const double others = (problem.ranks - 1.0) / problem.ranks;
  const double carried = has_ports(view) ? links_carry(torus, steps) : others;
  return {2.0 * static_cast<double>(steps), 2 * carried, others};
}

}  // namespace swing_all_reduce_detail

const Algorithm swing_all_reduce = {"swing",
                                    Collective::all_reduce,
                                    "halves swapped with partners that stay near on a torus, on all ports; few waits",
                                    swing_all_reduce_detail::fits,
                                    swing_all_reduce_detail::shape,
                                    swing_all_reduce_detail::build,
                                    swing_all_reduce_detail::cost};

}  // namespace tutti
