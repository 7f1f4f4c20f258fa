// How algorithms for powers of two take other numbers of ranks. Of the first 2e ranks, e = p − 2^k, each even one (an
// extra) hands its share to its odd neighbour and gets the result back. The others are the 2^k members. Members are in rank
// order and stand for intervals of ranks, so folds of neighbouring members stay in rank order. As in MPICH.
#pragma once

#include "algorithms/arithmetic.h"

namespace tutti {

/// One rank's part.
struct PowerMember {
  PowerMember(int rank, int p) : size(power_floor(p)) {
    const int extras = p - size;
    extra = rank < 2 * extras && rank % 2 == 0;
    helps = rank < 2 * extras && rank % 2 == 1;
    member = rank < 2 * extras ? rank / 2 : rank - extras;
    extras_ = extras;
  }
  /// The rank of a member.
  int rank_of(int of) const { return of < extras_ ? 2 * of + 1 : of + extras_; }

  int size;
  int member;  ///< number among the members; for an extra, its helper's
  bool extra;  ///< takes no part itself
  bool helps;  ///< stands for rank − 1 too
 private:
  int extras_;
};

}  // namespace tutti
