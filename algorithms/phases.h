// Phases that algorithms are made of: one rank's moves of a reduce-scatter or an all-gather round a ring, and of halving
// with ever other partners. Each is described here once, whatever the ranks are to each other, and whichever chunks or
// blocks are its shares.
//
// A phase says where share s of its ring is by a function of s, so the same moves serve chunks of one block and blocks of a
// buffer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/arithmetic.h"
#include "src/schedule/builder.h"

namespace tutti {

/// Chunks [low, low + size) of block 0.
struct Part {
  std::uint32_t low = 0;
  std::uint32_t size = 0;
  /// Share `index` of `shares` equal ones.
  Part share(std::uint32_t index, std::uint32_t shares) const { return {low + index * (size / shares), size / shares}; }
  Part lower() const { return share(0, 2); }
  Part upper() const { return share(1, 2); }
  Ref in() const { return input(low, size); }
  Ref out() const { return output(low, size); }
};

/// Where a rank's own sums are: still the input, or, after an earlier phase, the output.
enum class OperandSource : std::uint8_t { input, sums };
inline Ref own_of(OperandSource own, const Part& part) { return own == OperandSource::input ? part.in() : part.out(); }

/// What a fold is to the elements: every rank's share is in it only after the last phase.
enum class SumState : std::uint8_t { partial, complete };
template <typename Sources, typename Destinations>
void fold(const LaneBuilder& lane, SumState sum, const Sources& sources, const Destinations& destinations) {
  if (sum == SumState::complete) {
    lane.complete(sources, destinations);
  } else {
    lane.move(sources, destinations);
  }
}

/// One rank of a ring. Everybody sends before it receives, all around: links need room for two messages.
struct Ring {
  int size = 1;
  int previous = 0;  ///< rank
  int next = 0;      ///< rank
  int owned = 0;     ///< share that this rank has in full between the reduce-scatter and the all-gather

  /// The share `steps` steps after `owned`'s, in the order in which shares pass here.
  std::uint32_t after(int steps) const { return wrap(owned - steps, size); }
};

/// Whether the step that completes the owned share sends it on at once: where a reduce-scatter and an all-gather of the
/// same ring follow each other on a lane.
enum class OwnedShare : std::uint8_t { stays, forward };

/// d−1 steps of (size of a share): afterwards `total` holds the ring's sum of share `owned`.
/// own: std::uint32_t share → Ref of this rank's own sums of it.
template <typename OwnShare>
void reduce_scatter_round(const LaneBuilder& lane, const Ring& ring, const OwnShare& own, const Ref& total, SumState sum,
                          OwnedShare owned = OwnedShare::stays) {
  const Ref from = lane.from(ring.previous);
  const Ref to = lane.to(ring.next);
  lane.move({own(ring.after(1))}, {to});
  for (int m = 2; m < ring.size; ++m) lane.move({from, own(ring.after(m))}, {to});
  const std::initializer_list<Ref> sources{from, own(ring.after(ring.size))};
  if (owned == OwnedShare::forward) {
    fold(lane, sum, sources, std::initializer_list<Ref>{total, to});
  } else {
    fold(lane, sum, sources, std::initializer_list<Ref>{total});
  }
}

/// d−1 steps of (size of a share): afterwards everybody has all shares. at: std::uint32_t share → Ref where it belongs; the
/// one that is owned is there, and has been sent where it goes on.
template <typename At>
void all_gather_round(const LaneBuilder& lane, const Ring& ring, const At& at, OwnedShare owned = OwnedShare::stays) {
  const Ref from = lane.from(ring.previous);
  const Ref to = lane.to(ring.next);
  if (owned == OwnedShare::stays) lane.move({at(ring.after(0))}, {to});
  for (int m = 1; m < ring.size - 1; ++m) lane.move({from}, {at(ring.after(m)), to});
  lane.move({from}, {at(ring.after(ring.size - 1))});
}

/// One halving: the partner, and which half of what both have this rank sums up.
struct Swap {
  int partner = 0;
  bool upper = false;
};

/// All-reduce of `part` by halving and doubling: with each partner in turn the half that it sums up is swapped for what it
/// has of the other one, then, partners in reverse, the sums are handed back. At every swap both partners have the same
/// part. The side of the lower half stands first in every fold. Links need room for two messages.
/// halving, doubling: std::size_t swap → LaneBuilder of its way there and back; the same one for the last swap.
template <typename Halving, typename Doubling>
void all_reduce_by_halving(Part part, std::span<const Swap> swaps, OperandSource own, const Halving& halving,
                           const Doubling& doubling) {
  std::vector<Part> others;
  for (std::size_t s = 0; s < swaps.size(); ++s) {
    const LaneBuilder lane = halving(s);
    const Swap& swap = swaps[s];
    const Part kept = swap.upper ? part.upper() : part.lower();
    const Part other = swap.upper ? part.lower() : part.upper();
    lane.move({own_of(own, other)}, {lane.to(swap.partner)});
    const Ref first = swap.upper ? lane.from(swap.partner) : own_of(own, kept);
    const Ref second = swap.upper ? own_of(own, kept) : lane.from(swap.partner);
    fold(lane, s + 1 == swaps.size() ? SumState::complete : SumState::partial, std::initializer_list<Ref>{first, second},
         std::initializer_list<Ref>{kept.out()});
    others.push_back(other);
    part = kept;
    own = OperandSource::sums;
  }
  for (std::size_t s = swaps.size(); s-- > 0;) {
    const LaneBuilder lane = doubling(s);
    const Part& other = others[s];
    lane.move({part.out()}, {lane.to(swaps[s].partner)});
    lane.move({lane.from(swaps[s].partner)}, {other.out()});
    part = {std::min(part.low, other.low), part.size * 2};
  }
}

/// The same, all on one lane.
inline void all_reduce_by_halving(const LaneBuilder& lane, Part part, std::span<const Swap> swaps, OperandSource own) {
  const auto always = [&lane](std::size_t) { return lane; };
  all_reduce_by_halving(part, swaps, own, always, always);
}

}  // namespace tutti
