// The builder: how an algorithm writes a program.
//
// An algorithm reads as if its moves ran one after the other, in the order of the calls, over all lanes; the lanes say
// what may overlap. `finish` derives the dependencies between lanes from that order: whatever reads or overwrites a
// chunk waits for the steps of other lanes that wrote or read it before, input and output counting as one memory, since
// every program must be right in place too.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "src/schedule/ir.h"

namespace tutti {

/// An operand as an algorithm spells it.
struct Ref {
  Place place = Place::input;
  Range range;
  std::uint32_t link = 0;
};

/// Chunks of block 0, or of a range of blocks.
inline Ref input(std::uint32_t chunk, std::uint32_t chunks = 1) {
  return {Place::input, {.chunk = chunk, .chunks = chunks}, 0};
}
inline Ref output(std::uint32_t chunk, std::uint32_t chunks = 1) {
  return {Place::output, {.chunk = chunk, .chunks = chunks}, 0};
}
inline Ref scratch(std::uint32_t chunk, std::uint32_t chunks = 1) {
  return {Place::scratch, {.chunk = chunk, .chunks = chunks}, 0};
}
inline Ref input(const Range& range) { return {Place::input, range, 0}; }
inline Ref output(const Range& range) { return {Place::output, range, 0}; }
inline Ref scratch(const Range& range) { return {Place::scratch, range, 0}; }

class LaneBuilder;

/// Collects one rank's program.
class Builder {
 public:
  Builder(const Problem& problem, const Shape& shape, int rank) : problem_(problem), shape_(shape), rank_(rank) {}

  int rank() const { return rank_; }
  int ranks() const { return problem_.ranks; }
  const Problem& problem() const { return problem_; }
  const Shape& shape() const { return shape_; }
  /// Lane `index` < shape().lanes. Its links use channel `index` unless said otherwise.
  LaneBuilder lane(std::uint32_t index);
  /// The program: lanes in order, dependencies derived. The builder is spent.
  Program finish();

 private:
  friend class LaneBuilder;
  /// Operands are operands_[first …), sources first.
  struct Draft {
    std::uint32_t lane = 0;
    std::uint32_t first = 0;
    std::uint16_t sources = 0;
    std::uint16_t destinations = 0;
    bool completes = false;
  };
  std::uint32_t link(int peer, std::uint32_t channel, bool sends);
  bool lanes_are_apart() const;
  std::vector<std::vector<Dependency>> derive_dependencies(const std::vector<std::uint32_t>& position) const;

  Problem problem_;
  Shape shape_;
  int rank_;
  std::vector<Draft> drafts_;
  std::vector<Operand> operands_;
  std::vector<Link> links_;
  std::map<std::tuple<int, std::uint32_t, bool>, std::uint32_t> link_index_;
};

/// Appends moves to one lane.
class LaneBuilder {
 public:
  LaneBuilder(Builder& builder, std::uint32_t index) : builder_(&builder), index_(index) {}

  std::uint32_t index() const { return index_; }
  /// The link to or from a peer on the lane's channel, or on another.
  Ref to(int peer) const { return to(peer, index_); }
  Ref from(int peer) const { return from(peer, index_); }
  Ref to(int peer, std::uint32_t channel) const { return {Place::link, {}, builder_->link(peer, channel, true)}; }
  Ref from(int peer, std::uint32_t channel) const { return {Place::link, {}, builder_->link(peer, channel, false)}; }

  /// One step. Links take their length from the first operand in memory; where there is none (a relay), from `sizing`.
  /// All operands cover the same chunks and the same number of blocks.
  void move(std::span<const Ref> sources, std::span<const Ref> destinations, const Ref* sizing = nullptr) const;
  void move(std::initializer_list<Ref> sources, std::initializer_list<Ref> destinations) const {
    move(std::span(sources.begin(), sources.size()), std::span(destinations.begin(), destinations.size()));
  }
  /// As move, and the fold is then complete: every rank's share is in it, and an average divides here. Each element of a
  /// reducing collective passes exactly one such step, or copies of its result.
  void complete(std::span<const Ref> sources, std::span<const Ref> destinations) const;
  void complete(std::initializer_list<Ref> sources, std::initializer_list<Ref> destinations) const {
    complete(std::span(sources.begin(), sources.size()), std::span(destinations.begin(), destinations.size()));
  }

 private:
  Builder* builder_;
  std::uint32_t index_;
};

}  // namespace tutti
