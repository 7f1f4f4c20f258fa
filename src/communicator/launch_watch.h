// The thread that looks for the ends of launches that no call waits for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/communicator/device_side.h"

namespace tutti {

/// Of one communicator. Thread safe.
class LaunchWatch {
 public:
  explicit LaunchWatch(DeviceSide& side) : side_(side) {}
  /// Everything that was launched has ended by then. What was captured is not looked at any more.
  ~LaunchWatch();
  LaunchWatch(const LaunchWatch&) = delete;
  LaunchWatch& operator=(const LaunchWatch&) = delete;

  /// Completes the call's work when its launch has ended. A captured one is watched until its graph is gone. Errors:
  /// TUTTI_SYSTEM_ERROR where the system has no thread left; then it is not watched.
  Status add(DeviceCall call);
  /// Whether graphs that may be replayed hold launches of this communicator.
  bool holds_graphs();

 private:
  struct Watched {
    DeviceCall call;
    bool started = false;
    bool stopped = false;  ///< it was seen to be aborted
    PeerInquiry inquiry;
    std::thread::id caller;
    bool is_captured() const { return call.sequence == UINT64_MAX; }
    /// Its stream. Each thread has one of its own by the name of cuda::kPerThreadStream.
    std::pair<cuda::StreamHandle, std::thread::id> stream() const {
      const bool is_of_thread = reinterpret_cast<std::uintptr_t>(call.stream) == cuda::kPerThreadStream;
      return {call.stream, is_of_thread ? caller : std::thread::id()};
    }
  };
  void run();
  bool look(Watched& watched, std::uint64_t now);
  bool is_next(const Watched& watched) const;
  bool look_at_captured(Watched& watched);
  void finish(Watched& watched, Status status);

  DeviceSide& side_;
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::list<Watched> new_;
  bool closing_ = false;
  std::size_t graphs_ = 0;
  std::thread thread_;
  std::list<Watched> watched_;  ///< the thread's
  std::uint64_t failed_since_ns_ = 0;
  std::uint64_t next_health_ns_ = 0;
};

}  // namespace tutti
