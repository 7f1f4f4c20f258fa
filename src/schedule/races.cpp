#include "src/schedule/races.h"

#include <algorithm>
#include <vector>

#include "src/schedule/cells.h"
#include "src/schedule/step_order.h"

namespace tutti {
namespace {

/// One step's touch of a cell: `time` is its index in the lane, from 1.
struct Touch {
  std::uint32_t lane = 0;
  std::uint32_t time = 0;
};

/// What happened to a cell so far. Whoever later proves that a receive's destination may be granted earlier than its step
/// asks the same question of the same record: every earlier touch must come before the step that grants.
struct History {
  Touch write;
  std::vector<Touch> reads;  ///< since the write, the latest per lane
};

class Races {
 public:
  Races(const Plan& plan, int rank, const Program& program)
      : program_(program),
        lanes_(program.lanes.size()),
        cells_(plan.problem, plan.shape, rank, true),
        clocks_(program.steps.size() * lanes_),
        now_(lanes_) {
    fault_.rank = rank;
    fault_.pass = 0;
  }

  /// Visits the steps in an order that respects lanes and dependencies.
  Fault check() {
    history_.resize(cells_.size());
    const std::vector<std::uint32_t> done =
        visit_in_order(program_, [&](std::uint32_t lane, std::uint32_t step) { return visit(lane, step); });
    if (fault_.any()) return fault_;
    for (std::uint32_t l = 0; l < lanes_; ++l) {
      if (done[l] < program_.lanes[l].count) return stuck(l, done[l]);
    }
    return {};
  }

 private:
  const Step& step(std::uint32_t lane, std::uint32_t index) const {
    return program_.steps[program_.lanes[lane].first + index];
  }
  std::uint32_t* clock(std::uint32_t lane, std::uint32_t index) {
    return &clocks_[(program_.lanes[lane].first + index) * lanes_];
  }

  template <typename Visit>
  void each_dependency(const Step& step, Visit visit) const {
    for (std::uint32_t d = step.dependencies; d < step.dependencies + step.dependency_count; ++d) {
      if (program_.dependencies[d].distance == 0) visit(program_.dependencies[d]);
    }
  }

  Fault stuck(std::uint32_t lane, std::uint32_t at) {
    fault_.lane = lane;
    fault_.step = at;
    fault_.what = "waits for itself by its dependencies";
    return fault_;
  }

  bool visit(std::uint32_t lane, std::uint32_t index) {
    const Step& at = step(lane, index);
    if (index == 0) {
      std::fill(now_.begin(), now_.end(), 0);
    } else {
      std::copy_n(clock(lane, index - 1), lanes_, now_.begin());
    }
    each_dependency(at, [&](const Dependency& on) {
      const std::uint32_t* other = clock(on.lane, on.step);
      for (std::size_t l = 0; l < lanes_; ++l) now_[l] = std::max(now_[l], other[l]);
    });
    fault_.lane = lane;
    fault_.step = index;
    const Touch touch{lane, index + 1};
    now_[lane] = touch.time;
    std::copy(now_.begin(), now_.end(), clock(lane, index));
    for (std::uint32_t o = at.operands; o < at.operands + at.sources; ++o) {
      if (program_.operands[o].place != Place::link) touch_all(program_.operands[o], touch, false);
    }
    for (std::uint32_t o = at.operands + at.sources; o < at.operands + at.sources + at.destinations; ++o) {
      if (program_.operands[o].place != Place::link) touch_all(program_.operands[o], touch, true);
    }
    return !fault_.any();
  }

  void touch_all(const Operand& operand, const Touch& touch, bool writes) {
    cells_.each(operand, [&](std::size_t cell) {
      History& history = history_[cell];
      ordered(history.write, touch, writes ? "overwrites" : "reads", "writes");
      if (!writes) return remember(history.reads, touch);
      for (const Touch& read : history.reads) ordered(read, touch, "overwrites", "reads");
      history.reads.clear();
      history.write = touch;
    });
  }

  static void remember(std::vector<Touch>& reads, const Touch& touch) {
    const auto same = std::find_if(reads.begin(), reads.end(), [&](const Touch& read) { return read.lane == touch.lane; });
    if (same == reads.end()) {
      reads.push_back(touch);
    } else {
      same->time = touch.time;
    }
  }

  void ordered(const Touch& before, const Touch& touch, const char* does, const char* did) {
    if (before.time == 0 || before.lane == touch.lane || now_[before.lane] >= before.time || fault_.any()) return;
    fault_.what = std::string(does) + " a chunk that lane " + std::to_string(before.lane) + ", step " +
                  std::to_string(before.time - 1) + " " + did + ", and does not wait for it";
  }

  const Program& program_;
  std::size_t lanes_;
  Cells cells_;
  std::vector<std::uint32_t> clocks_;  ///< per step: the latest step of each lane that comes before it, or is it
  std::vector<std::uint32_t> now_;
  std::vector<History> history_;
  Fault fault_;
};

}  // namespace

Fault check_races(const Plan& plan, int rank, const Program& program, const VerifyLimits& limits) {
  if (program.lanes.size() == 1) return {};  // one lane is in order
  if (program.steps.size() * program.lanes.size() > limits.clocks) {
    Fault fault;
    fault.rank = rank;
    fault.what = "has too many steps and lanes to be proved";
    return fault;
  }
  return Races(plan, rank, program).check();
}

}  // namespace tutti
