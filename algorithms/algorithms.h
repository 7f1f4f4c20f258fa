// The algorithms of this folder, one declaration each; registry.cpp lists them.
#pragma once

#include "algorithms/algorithm.h"

namespace tutti {

/// For algorithms that take any problem of their collective.
inline bool always_fits(const Problem&, const View&) { return true; }

/// Algorithm::symmetry of those in which every rank does the same on a ring of all.
inline std::vector<int> around_a_ring(const Problem& problem, const View&) { return {problem.ranks}; }
/// Of those in which partners differ in one bit of their numbers; only for powers of two.
inline std::vector<int> hypercube_symmetry(const Problem& problem, const View&) {
  std::vector<int> twos;
  for (int p = problem.ranks; p > 1 && p % 2 == 0; p /= 2) twos.push_back(2);
  const bool power = (problem.ranks & (problem.ranks - 1)) == 0;
  return power ? twos : std::vector<int>{};
}

extern const Algorithm flat_all_reduce;
extern const Algorithm recursive_doubling_all_reduce;
extern const Algorithm direct_all_reduce;
extern const Algorithm halving_doubling_all_reduce;
extern const Algorithm ring_all_reduce;
extern const Algorithm double_tree_all_reduce;
extern const Algorithm tree_all_reduce;
extern const Algorithm hierarchical_all_reduce;
extern const Algorithm leaders_all_reduce;
extern const Algorithm torus_all_reduce;
extern const Algorithm swing_all_reduce;
extern const Algorithm transpose_all_reduce;
extern const Algorithm central_all_reduce;
extern const Algorithm binomial_broadcast;
extern const Algorithm chain_broadcast;
extern const Algorithm scatter_all_gather_broadcast;
extern const Algorithm leaders_broadcast;
extern const Algorithm binomial_reduce;
extern const Algorithm chain_reduce;
extern const Algorithm reduce_scatter_gather_reduce;
extern const Algorithm leaders_reduce;
extern const Algorithm direct_reduce;
extern const Algorithm central_reduce;
extern const Algorithm direct_all_gather;
extern const Algorithm bruck_all_gather;
extern const Algorithm ring_all_gather;
extern const Algorithm hierarchical_all_gather;
extern const Algorithm torus_all_gather;
extern const Algorithm direct_reduce_scatter;
extern const Algorithm bruck_reduce_scatter;
extern const Algorithm ring_reduce_scatter;
extern const Algorithm hierarchical_reduce_scatter;
extern const Algorithm torus_reduce_scatter;
extern const Algorithm pairwise_all_to_all;
extern const Algorithm bruck_all_to_all;
extern const Algorithm direct_gather;
extern const Algorithm binomial_gather;
extern const Algorithm direct_scatter;
extern const Algorithm binomial_scatter;
extern const Algorithm dissemination_barrier;

}  // namespace tutti
