// What direct all-reduce and direct reduce share: every rank folds one chunk of everybody's operands once, and hands the
// result to those who receive it. Pure.
//
//     send (lane 0)    x_q  →  q                                      for every other rank q
//     fold (lane 1)    x^0 + x^1 + … + x^{p−1}  →  receivers          in rank order, in one sweep
//     take (lane 2)    q  →  output                                   at receivers, for every other rank q
//
// Three lanes, so that the next pass's operands travel while this one's results do.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/arithmetic.h"
#include "algorithms/operands.h"
#include "src/tables/collectives.h"

namespace tutti {

inline Shape direct_fold_shape(const Problem& problem, const View&, const Parameters& parameters) {
  return {.chunks = static_cast<std::uint32_t>(problem.ranks),
          .lanes = 3,
          .depth = or_default(parameters.depth, 2),
          .scratch_blocks = blocks_of_taken(problem),
          .message_cells = cells_of_message(problem, static_cast<std::uint32_t>(problem.ranks))};
}

inline void build_direct_fold(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder send = builder.lane(0);
  const LaneBuilder fold = builder.lane(1);
  const LaneBuilder take = builder.lane(2);
  const Problem& problem = builder.problem();
  const auto receives = [&](int rank) { return info_of(problem.collective).receives(rank, problem.root); };
  const int p = builder.ranks();
  const int rank = builder.rank();
  const std::uint32_t own = static_cast<std::uint32_t>(rank);
  std::vector<Ref> results;
  if (receives(rank)) results.push_back(output(own));
  for (int i = 1; i < p; ++i) {
    const int peer = wrap_rank(rank + i, p);
    send.move({own_operands(builder, static_cast<std::uint32_t>(peer))}, {send.to(peer)});
    if (receives(peer)) results.push_back(take.to(peer));
  }
  fold.complete(taken_operands(builder, fold, send.index(), own), results);
  if (!receives(rank)) return;
  for (int i = 1; i < p; ++i) {
    const int peer = wrap_rank(rank - i, p);
    take.move({take.from(peer)}, {output(static_cast<std::uint32_t>(peer))});
  }
}

}  // namespace tutti
