// Every algorithm is one line here.
#include <array>
#include <string_view>

#include "algorithms/algorithms.h"
#include "algorithms/operands.h"
#include "src/schedule/fusion.h"
#include "topology/view.h"

namespace tutti {
namespace {

constexpr std::array registry = {
    &flat_all_reduce,
    &recursive_doubling_all_reduce,
    &direct_all_reduce,
    &halving_doubling_all_reduce,
    &ring_all_reduce,
    &double_tree_all_reduce,
    &tree_all_reduce,
    &hierarchical_all_reduce,
    &leaders_all_reduce,
    &torus_all_reduce,
    &swing_all_reduce,
    &transpose_all_reduce,
    &central_all_reduce,
    &binomial_broadcast,
    &chain_broadcast,
    &scatter_all_gather_broadcast,
    &leaders_broadcast,
    &binomial_reduce,
    &chain_reduce,
    &reduce_scatter_gather_reduce,
    &leaders_reduce,
    &direct_reduce,
    &central_reduce,
    &direct_all_gather,
    &bruck_all_gather,
    &ring_all_gather,
    &hierarchical_all_gather,
    &torus_all_gather,
    &direct_reduce_scatter,
    &bruck_reduce_scatter,
    &ring_reduce_scatter,
    &hierarchical_reduce_scatter,
    &torus_reduce_scatter,
    &pairwise_all_to_all,
    &bruck_all_to_all,
    &direct_gather,
    &binomial_gather,
    &direct_scatter,
    &binomial_scatter,
    &dissemination_barrier,
};

}  // namespace

std::span<const Algorithm* const> all_algorithms() { return registry; }

const Algorithm* find_algorithm(Collective collective, const char* name) {
  for (const Algorithm* algorithm : registry) {
    if (algorithm->collective == collective && std::string_view(algorithm->name) == name) return algorithm;
  }
  return nullptr;
}

Plan make_plan(const Algorithm& algorithm, const Problem& problem, const View& view, const Parameters& parameters,
               std::uint64_t message_bytes) {
  Plan plan;
  plan.problem = problem;
  plan.algorithm = algorithm.name;
  plan.parameters = parameters;
  plan.strands = std::max(1u, parameters.strands);
  plan.protocol = parameters.protocol;
  plan.shape = problem.ranks > 1 ? algorithm.shape(problem, view, parameters) : Shape{};
  if (problem.ranks == 1 && problem.collective == Collective::barrier) plan.shape.scratch_blocks = 1;
  finish_plan(plan, message_bytes);
  plan.hash = hash_with_order(plan.hash, view);
  return plan;
}

Program make_program(const Algorithm& algorithm, const Plan& plan, const View& view, int rank) {
  Builder builder(plan.problem, plan.shape, rank);
  if (plan.problem.ranks > 1) {
    algorithm.build(builder, view, plan.parameters);
  } else if (reduces(plan.problem.collective)) {
    builder.lane(0).complete(taken_operands(builder, builder.lane(0), 0, 0), std::vector{output(0)});
  } else if (plan.problem.collective != Collective::barrier) {
    builder.lane(0).move({input(0)}, {output(0)});
  }
  return fuse(plan, rank, builder.finish());
}

}  // namespace tutti
