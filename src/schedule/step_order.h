// An order of one rank's steps that its waits allow.
#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/ir.h"

namespace tutti {

/// Calls visit(lane, step) for the steps of a pass in an order that respects lanes and dependencies of distance 0, until it
/// returns false. Returns how many steps of each lane were visited: fewer than all where steps wait for themselves, too.
/// What races.h has proved of two steps that touch a chunk holds in this order. The program is well-formed.
template <typename Visit>
std::vector<std::uint32_t> visit_in_order(const Program& program, Visit visit) {
  std::vector<std::uint32_t> done(program.lanes.size());
  const auto ready = [&](std::uint32_t lane) {
    const Step& step = program.steps[program.lanes[lane].first + done[lane]];
    for (std::uint32_t d = step.dependencies; d < step.dependencies + step.dependency_count; ++d) {
      const Dependency& on = program.dependencies[d];
      if (on.distance == 0 && done[on.lane] <= on.step) return false;
    }
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t l = 0; l < done.size(); ++l) {
      for (; done[l] < program.lanes[l].count && ready(l); ++done[l], moved = true) {
        if (!visit(l, done[l])) return done;
      }
    }
  }
  return done;
}

}  // namespace tutti
