#include "src/device/flight.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "src/base/made_once.h"
#include "src/device/device_binding.h"
#include "src/device/device_plan.h"

namespace tutti {
namespace {

/// What waits for release_flights.
struct Kept {
  std::mutex mutex;
  std::vector<LaunchRemains> given_up;
  std::vector<std::shared_ptr<Flight>> of_graphs;
};
Kept& kept() {
  static constinit MadeOnce<Kept> all;
  return all.get();
}

constexpr std::uint32_t rooms_at_a_time = 32;
/// Launches do not share a line of a cache.
constexpr std::size_t words_alignment = 128;

}  // namespace

LaunchRooms::~LaunchRooms() {
  for (cuda::PinnedMemory& each : pinned_) arena_->runtime().give_back(std::move(each));
}

/// With the lock.
Status LaunchRooms::grow() {
  const std::size_t words_stride = (words_bytes() + words_alignment - 1) / words_alignment * words_alignment;
  const std::size_t room_bytes = (sizeof(JobRecord) + sizeof(Job)) * most_jobs_;
  auto words = arena_->allocate(words_stride * rooms_at_a_time);
  if (!words.ok()) return words.status();
  auto pinned = arena_->runtime().take_pinned(room_bytes * rooms_at_a_time);
  if (!pinned.ok()) return pinned.status();
  free_.reserve((words_.size() + 1) * rooms_at_a_time);  // for their return, which may not fail
  words_.reserve(words_.size() + 1);
  pinned_.reserve(pinned_.size() + 1);
  auto* const base = static_cast<std::byte*>(pinned->data());
  for (std::uint32_t r = 0; r < rooms_at_a_time; ++r) {
    auto room = std::make_unique<LaunchRoom>();
    room->words = words->address() + r * words_stride;
    room->records = reinterpret_cast<JobRecord*>(base + r * room_bytes);
    room->jobs = reinterpret_cast<Job*>(room->records + most_jobs_);
    free_.push_back(std::move(room));
  }
  words_.push_back(std::move(*words));
  pinned_.push_back(std::move(*pinned));
  return {};
}

Status LaunchRooms::prepare() {
  const std::lock_guard lock(mutex_);
  return free_.empty() ? grow() : Status();
}

Result<std::unique_ptr<LaunchRoom>> LaunchRooms::take() {
  std::unique_ptr<LaunchRoom> room;
  {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      if (Status status = grow(); !status.ok()) return status;
    }
    room = std::move(free_.back());
    free_.pop_back();
  }
  std::fill(room->records, room->records + most_jobs_, JobRecord{});
  return room;
}

void LaunchRooms::give_back(std::unique_ptr<LaunchRoom> room) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(room));
}

bool LaunchRemains::over() const {
  for (std::uint32_t job = 0; job < plans.size(); ++job) {
    // Acquire: as Flight::end.
    if (static_cast<JobEnd>(std::atomic_ref(room->records[job].end).load(std::memory_order_acquire)) == JobEnd::under_way)
      return false;
  }
  return true;
}

Flight::~Flight() {
  uses_.runtime->release(blocks_);
  if (is_idle() || uses_.over()) {
    uses_.rooms->give_back(std::move(uses_.room));
    return;
  }
  // The kernel may still run, for all that is known.
  Kept& all = kept();
  const std::lock_guard lock(all.mutex);
  all.given_up.push_back(std::move(uses_));
}

JobEnd Flight::end(std::uint32_t job) const {
  // Acquire: pairs with the last block's release.
  return static_cast<JobEnd>(std::atomic_ref(uses_.room->records[job].end).load(std::memory_order_acquire));
}

bool Flight::begun(std::uint32_t job) const {
  // Relaxed: nothing is concluded from it but that it is so.
  return std::atomic_ref(uses_.room->records[job].begun).load(std::memory_order_relaxed) != 0;
}

void release_flights() {
  std::vector<std::shared_ptr<Flight>> gone;
  std::vector<LaunchRemains> over;
  Kept& all = kept();
  {
    const std::lock_guard lock(all.mutex);
    // Copied, not swapped: what is reserved is for those to come.
    gone = all.of_graphs;
    all.of_graphs.clear();
    const auto ended = std::stable_partition(all.given_up.begin(), all.given_up.end(),
                                             [](const LaunchRemains& each) { return !each.over(); });
    std::move(ended, all.given_up.end(), std::back_inserter(over));
    all.given_up.erase(ended, all.given_up.end());
  }
  // Their ends, which may give up something in turn, come without the lock.
  for (LaunchRemains& each : over) each.rooms->give_back(std::move(each.room));
}

Status give_to_graph(const DeviceRuntime& runtime, std::shared_ptr<Flight> flight, cuda::GraphHandle graph) {
  const cuda::Driver& driver = runtime.driver();
  {
    Kept& all = kept();
    const std::lock_guard lock(all.mutex);
    all.of_graphs.reserve(all.of_graphs.size() + all.of_graphs.capacity() + 1);  // for its return, which may not fail
  }
  auto held = std::make_unique<std::shared_ptr<Flight>>(std::move(flight));
  cuda::UserObjectHandle object = nullptr;
  Status status = driver.call(
      driver.api().cuUserObjectCreate, runtime.device(), "making a graph own a launch's memory", &object, held.get(),
      [](void* data) {
        const std::unique_ptr<std::shared_ptr<Flight>> gone(static_cast<std::shared_ptr<Flight>*>(data));
        (*gone)->will_not_run();
        Kept& all = kept();
        const std::lock_guard lock(all.mutex);
        if (all.of_graphs.size() < all.of_graphs.capacity()) all.of_graphs.push_back(std::move(*gone));
      },
      1u, cuda::kUserObjectNoDestructorSync);
  if (!status.ok()) return status;
  static_cast<void>(held.release());
  status = driver.call(driver.api().cuGraphRetainUserObject, runtime.device(), "making a graph own a launch's memory",
                       graph, object, 1u, cuda::kGraphUserObjectMove);
  if (!status.ok()) driver.api().cuUserObjectRelease(object, 1);
  return status;
}

}  // namespace tutti
