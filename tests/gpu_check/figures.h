// What gpu_figures can measure. Each figure is one JSON object; microseconds end in _us, 10^9 bytes a second in _GBps.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/gpu_check/gpu.h"

namespace tutti::gpu_check {

/// What all figures take. All throw Failure, and Lacking where something is not there.
struct Asked {
  std::size_t bytes = 0;         ///< of a buffer
  int rounds = 1;                ///< that count
  std::string type = "float32";  ///< of folds
  int inputs = 2;                ///< likewise
};

/// What device and driver are, and how many devices there are.
nlohmann::json describe(const Gpu& gpu);
/// A copy within the device: what bounds every collective on one. Bytes read and written both count.
nlohmann::json measure_copy(const Gpu& gpu, const Asked& asked);
/// A fold of several inputs within the device, by the library's kernel as the library launches it. The best of several ways
/// to cut it into tasks and passes.
nlohmann::json measure_fold(const Gpu& gpu, const Asked& asked);
/// A kernel that does nothing, an event behind it, and the wait for that: the least that an operation can take.
nlohmann::json measure_launch(const Gpu& gpu, const Asked& asked);
/// How soon a spinning kernel sees a store of the host's, and the host its end.
nlohmann::json measure_release(const Gpu& gpu, const Asked& asked);
/// An all_reduce of two ranks on one device, waited for by an event behind it: from two threads, and in one thread's group.
nlohmann::json measure_latency(const Gpu& gpu, const Asked& asked);
/// The same operation on the device's clock, launched and as a graph's replay.
nlohmann::json measure_replay(const Gpu& gpu, const Asked& asked);
/// From tutti_comm_abort to the end of a kernel that waits for a peer. The peer is on another device, or in another context
/// where there is one device. Ranks of one context share a launch, which does not begin without all of them.
nlohmann::json measure_abort(const Gpu& gpu, const Asked& asked);

}  // namespace tutti::gpu_check
