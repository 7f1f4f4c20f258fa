// The table of collectives: a collective's name and its meaning as data, from which shapes, proofs and checks follow.
//
// A collective is told by who sends, who receives, and where each block of a result comes from:
//
//     input of a rank        output of rank r, block b
//     ┌───┬───┬───┬───┐      ┌───┬───┬───┬───┐
//     │ 0 │ 1 │ 2 │ 3 │ ───► │   │   │ b │   │  = block `index` of the rank(s) that `source` names
//     └───┴───┴───┴───┘      └───┴───┴───┴───┘
//
// The input has a block for each rank where receivers take their own. The output has a block for each rank where each rank
// gives one. The API counts elements of one block. CONTRIBUTING.md, "Adding a collective", lists what else a new one needs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "include/tutti/tutti.h"

namespace tutti {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  barrier,
};

/// The ranks that have an input, or an output.
enum class Role : std::uint8_t { nobody, root, all };

/// The rank whose input a block of the result comes from.
enum class BlockSource : std::uint8_t {
  none,      ///< there is no result
  fold,      ///< every rank's, folded by the operator
  root,      ///< the root's
  each,      ///< block b: rank b's
  previous,  ///< around a ring, the one of the rank before
  self,      ///< the receiver's own
};

/// Which block of that rank's input it is.
enum class BlockIndex : std::uint8_t {
  first,  ///< inputs have one block
  own,    ///< inputs have a block for each rank, of which each receiver takes its own
};

/// What nccl-tests multiplies bytes over time by, of n ranks: 1, (n - 1) / n, 2 (n - 1) / n. See its PERFORMANCE.md.
enum class BusFactor : std::uint8_t { once, others, twice_others };

/// Where one block of a result comes from. `rank` counts only where nothing is folded.
struct BlockOrigin {
  bool fold = false;
  int rank = 0;
  std::uint32_t block = 0;
};

/// One row. Text is static.
struct CollectiveInfo {
  const char* name = "";
  const char* alias = nullptr;      ///< nccl-tests' name where it is another, else NULL
  const char* v_variant = nullptr;  ///< the name of its v-variant, NULL where it has none
  Role senders = Role::nobody;
  Role receivers = Role::nobody;
  BlockSource source = BlockSource::none;
  BlockIndex index = BlockIndex::first;
  BusFactor bus = BusFactor::once;

  /// Whether elements are folded.
  constexpr bool reduces() const { return source == BlockSource::fold; }
  constexpr bool rooted() const { return senders == Role::root || receivers == Role::root; }
  /// Whether a rank has an input, or an output.
  constexpr bool sends(int rank, int root) const { return senders == Role::all || (senders == Role::root && rank == root); }
  constexpr bool receives(int rank, int root) const {
    return receivers == Role::all || (receivers == Role::root && rank == root);
  }
  /// Whether inputs, or outputs, have a block for each rank.
  constexpr bool has_send_blocks() const { return index == BlockIndex::own; }
  constexpr bool has_recv_blocks() const { return source == BlockSource::each; }
  /// Blocks of an input and of an output, on ranks that have one.
  constexpr std::uint32_t send_blocks(int ranks) const { return has_send_blocks() ? static_cast<std::uint32_t>(ranks) : 1; }
  constexpr std::uint32_t recv_blocks(int ranks) const { return has_recv_blocks() ? static_cast<std::uint32_t>(ranks) : 1; }
  /// Blocks of the larger of the two.
  constexpr std::uint32_t largest_blocks(int ranks) const {
    return has_send_blocks() || has_recv_blocks() ? static_cast<std::uint32_t>(ranks) : 1;
  }
  /// Where block `block` of the result of `rank` comes from.
  constexpr BlockOrigin origin(int rank, int ranks, int root, std::uint32_t block) const {
    BlockOrigin from = {reduces(), rank, index == BlockIndex::own ? static_cast<std::uint32_t>(rank) : 0};
    if (source == BlockSource::root) from.rank = root;
    if (source == BlockSource::each) from.rank = static_cast<int>(block);
    if (source == BlockSource::previous) from.rank = (rank + ranks - 1) % ranks;
    return from;
  }
  /// Whether every rank knows the counts of all blocks of the v-variant: those are equal on all ranks.
  constexpr bool knows_all_counts() const {
    return senders == Role::all && receivers == Role::all && has_send_blocks() != has_recv_blocks();
  }
  constexpr double bus_factor(int ranks) const {
    const double others = static_cast<double>(ranks - 1) / ranks;
    return bus == BusFactor::once ? 1 : bus == BusFactor::others ? others : 2 * others;
  }
};

struct CollectiveRow {
  Collective collective;
  CollectiveInfo info;
};

/// Every collective, in the enumeration's order.
inline constexpr auto collectives = [] {
  using enum BlockIndex;
  using enum BusFactor;
  constexpr Role all = Role::all;
  constexpr Role root = Role::root;
  return std::to_array<CollectiveRow>({
      {Collective::all_reduce, {"all_reduce", nullptr, nullptr, all, all, BlockSource::fold, first, twice_others}},
      {Collective::reduce, {"reduce", nullptr, nullptr, all, root, BlockSource::fold, first, once}},
      {Collective::broadcast, {"broadcast", nullptr, nullptr, root, all, BlockSource::root, first, once}},
      {Collective::all_gather, {"all_gather", nullptr, "all_gather_v", all, all, BlockSource::each, first, others}},
      {Collective::reduce_scatter,
       {"reduce_scatter", nullptr, "reduce_scatter_v", all, all, BlockSource::fold, own, others}},
      {Collective::all_to_all, {"all_to_all", "alltoall", "all_to_all_v", all, all, BlockSource::each, own, others}},
      {Collective::gather, {"gather", nullptr, "gather_v", all, root, BlockSource::each, first, others}},
      {Collective::scatter, {"scatter", nullptr, "scatter_v", root, all, BlockSource::root, own, others}},
      {Collective::barrier, {"barrier", nullptr, nullptr, Role::nobody, Role::nobody, BlockSource::none, first, once}},
  });
}();
inline constexpr int collective_count = static_cast<int>(collectives.size());

static_assert([] {
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    if (static_cast<std::size_t>(collectives[i].collective) != i) return false;
  }
  return true;
}());

constexpr const CollectiveInfo& info_of(Collective collective) {
  return collectives[static_cast<std::size_t>(collective)].info;
}
/// "all_reduce", …; static.
constexpr const char* name_of(Collective collective) { return info_of(collective).name; }
/// Whether elements are folded.
constexpr bool reduces(Collective collective) { return info_of(collective).reduces(); }
/// Whether what arrives is combined by the operator and not copied: a barrier's token is, too.
constexpr bool combines(Collective collective) { return reduces(collective) || collective == Collective::barrier; }
/// Whether the problem has a root.
constexpr bool rooted(Collective collective) { return info_of(collective).rooted(); }

/// The arguments of any collective's verb; those that it does not take are ignored.
struct VerbArguments {
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  tutti_type type = TUTTI_INT8;
  tutti_op op = TUTTI_SUM;
  int root = 0;
  tutti_comm* comm = nullptr;
  tutti_stream stream = {TUTTI_STREAM_BLOCKING, nullptr};
  const tutti_call* call = nullptr;
};

/// Calls the public verb of a collective: for programs and tests that go through all of them.
inline tutti_status call_verb(Collective collective, const VerbArguments& a) {
  switch (collective) {
    case Collective::all_reduce:
      return tutti_all_reduce(a.send, a.recv, a.count, a.type, a.op, a.comm, a.stream, a.call);
    case Collective::reduce:
      return tutti_reduce(a.send, a.recv, a.count, a.type, a.op, a.root, a.comm, a.stream, a.call);
    case Collective::broadcast:
      return tutti_broadcast(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream, a.call);
    case Collective::all_gather:
      return tutti_all_gather(a.send, a.recv, a.count, a.type, a.comm, a.stream, a.call);
    case Collective::reduce_scatter:
      return tutti_reduce_scatter(a.send, a.recv, a.count, a.type, a.op, a.comm, a.stream, a.call);
    case Collective::all_to_all:
      return tutti_all_to_all(a.send, a.recv, a.count, a.type, a.comm, a.stream, a.call);
    case Collective::gather:
      return tutti_gather(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream, a.call);
    case Collective::scatter:
      return tutti_scatter(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream, a.call);
    case Collective::barrier:
      return tutti_barrier(a.comm, a.stream, a.call);
  }
  return TUTTI_INVALID_ARGUMENT;
}

}  // namespace tutti
