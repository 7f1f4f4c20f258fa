// The engine itself, with what takes its turns: what they call is inline there.
#include "src/point_to_point/engine.cpp"
#include "tests/unit/point_to_point/model/world.h"

namespace tutti {

void EngineTurns::step(TransferEngine& engine) {
  const std::lock_guard lock(engine.mutex_);
  const Status status = catching([&]() -> Status {
    engine.take_inbox();
    engine.progress();
    engine.look_at_deadlines();
    return {};
  });
  if (!status.ok()) engine.torn(status);
}

}  // namespace tutti
