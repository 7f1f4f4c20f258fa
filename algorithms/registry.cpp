// Every algorithm is one line here.
#include <array>
#include <string_view>

#include "algorithms/algorithms.h"

namespace tutti {
namespace {

constexpr std::array registry = {
    &flat_all_reduce,
    &ring_all_reduce,
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
               std::uint64_t slot_bytes) {
  Plan plan;
  plan.problem = problem;
  plan.algorithm = algorithm.name;
  plan.parameters = parameters;
  plan.shape = problem.ranks > 1 ? algorithm.shape(problem, view, parameters) : Shape{};
  finish_plan(plan, slot_bytes);
  return plan;
}

Program make_program(const Algorithm& algorithm, const Plan& plan, const View& view, int rank) {
  Builder builder(plan.problem, plan.shape, rank);
  if (plan.problem.ranks > 1) {
    algorithm.build(builder, view, plan.parameters);
  } else if (plan.problem.collective != Collective::barrier) {
    builder.lane(0).complete({input(0)}, {output(0)});
  }
  return builder.finish();
}

}  // namespace tutti
