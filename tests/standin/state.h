// The stand-in's state: devices, contexts, streams and what they have to do. One lock guards all of it.
//
// Entry points hold the lock, and the driver's threads while they choose what to do next. Nobody holds it while an
// operation, a kernel or a callback runs. One condition variable tells of every change: simple, and fast enough for tests.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "src/cuda/driver_types.h"
#include "tests/standin/kernels.h"

namespace standin {

using namespace tutti::cuda;  // NOLINT: the driver's types are the subject here

using Lock = std::unique_lock<std::mutex>;

/// What the STANDIN_ variables and standin_set say.
struct Configuration {
  int devices = 1;
  int sms = 4;
  int blocks_per_sm = 2;
  int queues = 8;       ///< hardware queues of a device, over which streams are dealt out
  int threads = 3;      ///< most that a block may have
  int version = 12040;  ///< of the API, as cuDriverGetVersion writes it: 12.4 is the first with cuFuncLoad
  std::uint64_t seed = 1;
  std::string links = "all";  ///< "all", "none", or pairs as "0-1,1-2": devices that reach each other
};

struct Context;
struct Capture;
struct Launch;

/// Something that a queue does once those before it have ended.
struct Operation {
  std::shared_ptr<Context> context;
  std::vector<std::shared_ptr<Operation>> after;  ///< emptied as it ends, so that no chain of the past is kept
  std::function<DriverResult()> work;             ///< run without the lock; empty: nothing to do
  std::shared_ptr<const Launch> launch;           ///< or a kernel
  bool done = false;
  std::uint64_t ended_ns = 0;
};
using OperationPtr = std::shared_ptr<Operation>;

struct Event {
  std::shared_ptr<Context> context;
  unsigned flags = 0;
  OperationPtr recorded;             ///< behind which it fires; nullptr: never recorded
  std::shared_ptr<Capture> capture;  ///< where its last record was captured
  std::vector<std::size_t> nodes;    ///< of that capture
};

/// What a stream is asked to do, also as a node of a graph, from which each replay makes an operation.
struct Command {
  std::function<DriverResult()> work;
  std::shared_ptr<const Launch> launch;
  std::shared_ptr<Event> record;    ///< this event fires with it
  std::shared_ptr<Event> wait_for;  ///< external wait of a graph: what is recorded when the graph is launched
};

struct Stream {
  std::shared_ptr<Context> context;
  unsigned flags = 0;
  int priority = 0;
  bool legacy = false;
  std::size_t queue = 0;
  std::uint64_t id = 0;                    ///< of no other stream ever; 0: nobody has asked
  OperationPtr last;                       ///< enqueued; nullptr: none yet
  std::shared_ptr<Capture> capture;        ///< under way or invalidated
  std::vector<std::size_t> capture_nodes;  ///< which its next node depends on

  bool blocking() const { return !legacy && (flags & kStreamNonBlocking) == 0; }
};

struct Device;

struct Context {
  Device* device = nullptr;
  unsigned flags = 0;
  std::uint64_t id = 0;
  bool primary = false;
  bool destroyed = false;
  DriverResult error = DriverResult::success;  ///< sticky
  /// The same for who polls without the lock, which would order kernels that nothing else orders, and so hide their races.
  /// Relaxed: who sees it leaves, and concludes nothing else.
  std::atomic<bool> lost{false};
  std::set<int> peers;  ///< devices whose memory it may reach
  std::shared_ptr<Stream> legacy;
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread;
  std::set<std::shared_ptr<Stream>> streams;  ///< created ones that live
};

/// One launch of a kernel with its parameters, as they were when it was made.
struct Launch {
  const Kernel* kernel = nullptr;
  std::vector<std::vector<unsigned char>> parameters;
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;
  std::uint32_t dynamic_shared_bytes = 0;
};

/// A launch under way.
struct Run {
  OperationPtr operation;
  std::shared_ptr<const Launch> launch;
  std::vector<std::uint32_t> order;  ///< shuffled, in which blocks start
  std::size_t started = 0;
  std::size_t ended = 0;
};

struct HardwareQueue {
  std::deque<OperationPtr> operations;
  std::condition_variable filled;  ///< of its own: what happens elsewhere wakes nobody who has nothing to do
};

struct Device {
  int ordinal = 0;
  std::shared_ptr<Context> primary;
  unsigned retained = 0;
  std::deque<HardwareQueue> queues;       ///< which do not move
  std::deque<std::shared_ptr<Run>> runs;  ///< with blocks that have not started, in order of issue
  int resident = 0;
  int most_resident = 0;
  std::uint64_t used_bytes = 0;
};

/// Handles that are alive. A handle is the object's address, told apart from what is none by looking it up.
template <typename T, typename Handle>
class HandleTable {
 public:
  Handle add(std::shared_ptr<T> object) {
    const auto handle = reinterpret_cast<Handle>(object.get());
    live_[handle] = std::move(object);
    return handle;
  }
  std::shared_ptr<T> find(Handle handle) const {
    const auto found = live_.find(handle);
    return found == live_.end() ? nullptr : found->second;
  }
  bool remove(Handle handle) { return live_.erase(handle) != 0; }
  std::size_t size() const { return live_.size(); }
  const std::map<Handle, std::shared_ptr<T>>& all() const { return live_; }

 private:
  std::map<Handle, std::shared_ptr<T>> live_;
};

struct State {
  std::mutex lock;
  std::condition_variable changed;
  Configuration configuration;
  std::mt19937_64 random;
  bool initialised = false;
  bool ending = false;  ///< main has returned
  /// This is a child of the process that initialised. Relaxed: written by the only thread that a child begins with.
  std::atomic<bool> forked{false};
  std::vector<std::unique_ptr<Device>> devices;
  std::uint64_t next_id = 1;
  std::uint64_t threads = 0;  ///< started ones that stay
  HandleTable<Context, ContextHandle> contexts;
  HandleTable<Stream, StreamHandle> streams;
  HandleTable<Event, EventHandle> events;
};

/// The process's state, never destroyed: the driver's threads run until the process ends.
State& state();

/// The device of this number; nullptr where there is none. With the lock.
Device* find_device(DeviceOrdinal ordinal);

/// Loses a context: every later call in it answers `error`, and its kernels end. With the lock.
void lose(Context& context, DriverResult error);

/// A number below `limit`, by the seed. With the lock.
std::uint64_t draw(std::uint64_t limit);

/// Nanoseconds of CLOCK_MONOTONIC.
std::uint64_t now_ns();

}  // namespace standin
