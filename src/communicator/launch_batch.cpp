#include "src/communicator/launch_batch.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>

#include "src/base/exception_boundary.h"

namespace tutti {

Status LaunchBatch::end(const PollHook& hook) {
  std::set<Team*> refused;
  Status first = launch_captured(refused);
  // All before any is waited for: others wait for these. What this meets is met again below.
  static_cast<void>(catching([this]() -> Status {
    for (const Issued& each : issued_) each.side->try_launch(each.call);
    return {};
  }));
  for (Issued& each : issued_) {
    const std::shared_ptr<Work> work = each.call.work;
    // Others of its team were to be in a capture: they will not come.
    if (each.call.meeting != nullptr && refused.contains(&each.side->team())) static_cast<void>(each.side->fail(first));
    Status status = catching([&]() -> Status {
      if (each.call.meeting == nullptr) {  // of no elements
        work->start(each.call.sequence);
        Status done = each.side->outcome(each.call, JobEnd::completed, hook);
        work->complete(done);
        return done;
      }
      if (Status failed = each.side->await_launch(each.call, hook); !failed.ok()) return failed;
      Status watched = each.side->watch(each.call);
      return watched.ok() ? watched : each.side->fail(watched);
    });
    if (!status.ok()) work->complete(status);
    if (first.ok()) first = std::move(status);
  }
  issued_.clear();
  return first;
}

bool LaunchBatch::admits(const DeviceSide& side, const CallStream& stream) {
  const auto is_ordered = [&](const DeviceSide& other, cuda::StreamHandle handle) {
    return side.is_ordered_with(other, handle == stream.handle);
  };
  const bool behind = std::any_of(held_.begin(), held_.end(), [&](const Held& each) {
    return each.side == &side || is_ordered(*each.side, each.stream);
  });
  std::size_t by = SIZE_MAX;
  if (!behind) {
    const auto last = std::find_if(issued_.rbegin(), issued_.rend(),
                                   [&](const Issued& each) { return is_ordered(*each.side, each.call.stream); });
    if (last == issued_.rend() || last->side->is_of_communicator(side) || last->side->try_launch(last->call)) return true;
    by = static_cast<std::size_t>(issued_.rend() - last) - 1;
  }
  held_.push_back({&side, stream.handle, by});
  return false;
}

Status LaunchBatch::await_progress(const PollHook& hook) {
  const auto held = std::find_if(held_.begin(), held_.end(), [](const Held& each) { return each.by != SIZE_MAX; });
  if (held == held_.end()) return {};
  return issued_[held->by].side->wait_a_little(issued_[held->by].call, hook);
}

/// The operations of teams, in an order that is that of every stream. Those that follow each other share a launch where
/// their team allows it.
Status LaunchBatch::launch_captured(std::set<Team*>& refused) {
  std::vector<Captured*> left, launch;
  for (Captured& each : captured_) {
    if (each.call.call.count != 0) {
      left.push_back(&each);
    } else {
      each.call.work->complete({});
    }
  }
  Status first;
  while (!left.empty() || !launch.empty()) {
    const std::vector<Captured*> operation = next_operation(left);
    const auto is_taken = [&](Captured* each) {
      return std::find(operation.begin(), operation.end(), each) != operation.end();
    };
    left.erase(std::remove_if(left.begin(), left.end(), is_taken), left.end());
    if (can_join(launch, operation)) {
      launch.insert(launch.end(), operation.begin(), operation.end());
      continue;
    }
    if (Status status = capture_together(launch); !status.ok()) {
      refused.insert(&launch[0]->side->team());
      if (first.ok()) first = std::move(status);
    }
    launch = operation;
  }
  captured_.clear();
  return first;
}

/// The first that all ranks of a team have, and that comes first on all its streams. Where there is none, what the first
/// call's team has of its operation, for the error.
std::vector<LaunchBatch::Captured*> LaunchBatch::next_operation(const std::vector<Captured*>& left) {
  const auto of = [&](Team& team) {
    std::map<int, Captured*> by_rank;
    for (Captured* const each : left) {
      if (&each->side->team() == &team) by_rank.try_emplace(each->deposit.rank, each);
    }
    std::vector<Captured*> calls;
    for (const auto& [rank, call] : by_rank) calls.push_back(call);
    return calls;
  };
  const auto is_first = [&](const Captured* call) {
    const auto found = std::find_if(left.begin(), left.end(), [&](const Captured* each) {
      return each->side->is_ordered_with(*call->side, each->deposit.stream == call->deposit.stream) &&
             !each->side->is_of_communicator(*call->side);
    });
    const auto own = std::find(left.begin(), left.end(), call);
    return found >= own;
  };
  for (const Captured* const each : left) {
    Team& team = each->side->team();
    std::vector<Captured*> calls = of(team);
    if (calls.size() == team.ranks().size() && std::all_of(calls.begin(), calls.end(), is_first)) return calls;
  }
  return left.empty() ? std::vector<Captured*>() : of(left[0]->side->team());
}

std::vector<Deposit> LaunchBatch::deposits_of(const std::vector<Captured*>& calls) {
  std::vector<Deposit> deposits;
  for (const Captured* each : calls) deposits.push_back(each->deposit);
  return deposits;
}

bool LaunchBatch::can_join(const std::vector<Captured*>& launch, const std::vector<Captured*>& operation) {
  if (launch.empty() || operation.empty()) return false;
  Team& team = launch[0]->side->team();
  const auto is_alike = [&](const Captured* each) {
    return each->graph == launch[0]->graph && &each->side->team() == &team;
  };
  return std::all_of(launch.begin(), launch.end(), is_alike) && std::all_of(operation.begin(), operation.end(), is_alike) &&
         team.can_join(deposits_of(launch), deposits_of(operation));
}

/// Their works are complete then: nothing of them has run, and whatever becomes of the graph is the graph's.
Status LaunchBatch::capture_together(const std::vector<Captured*>& calls) {
  if (calls.empty()) return {};
  const Status status = catching([&]() -> Status {
    if (std::any_of(calls.begin(), calls.end(), [&](const Captured* each) { return each->graph != calls[0]->graph; })) {
      return Status(TUTTI_UNSUPPORTED, "ranks that share a device are in different captures",
                    "Capture their calls on streams of one capture, within one group.");
    }
    auto flight = calls[0]->side->team().capture(deposits_of(calls), calls[0]->graph);
    if (!flight.ok()) return flight.status();
    for (std::size_t c = 0; c < calls.size(); ++c) {
      DeviceCall watched;
      watched.call = calls[c]->call.call;
      watched.flight = *flight;
      watched.job = static_cast<std::uint32_t>(c);
      if (Status watching = calls[c]->side->watch(std::move(watched)); !watching.ok()) return watching;
    }
    return {};
  });
  for (const Captured* each : calls) each->call.work->complete(status);
  return status;
}

}  // namespace tutti
