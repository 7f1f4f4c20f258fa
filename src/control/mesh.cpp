// The thread that reads connections, notices their ends, and sends heartbeats; what frames say is their planes' business.
#include "src/control/mesh.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>

#include "src/base/background_thread.h"
#include "src/base/byte_codec.h"
#include "src/base/clock.h"
#include "src/base/exception_boundary.h"
#include "src/base/made_once.h"
#include "src/base/no_cancellation.h"
#include "src/base/per_process.h"
#include "src/tables/units.h"

namespace tutti {

namespace {

constexpr std::uint64_t kMostBeat = 1'000 * kMs;
constexpr std::uint64_t kLeaveNs = 50 * kMs;
// A process may end with its goodbye still in our socket: what is in there has this long to be read.
constexpr std::uint64_t kLastWordsNs = 100 * kMs;
constexpr std::uint32_t kRecoverUs = 10'000;  // without memory
constexpr std::uint64_t kWakeTag = UINT64_MAX;
constexpr std::size_t kMostEarly = 256;  // planes that are to come

std::uint64_t connection_tag(std::uint64_t number) { return number * 2; }
std::uint64_t process_tag(std::uint64_t number) { return number * 2 + 1; }

// The meshes of this process that are in use, for the goodbye at exit.
struct Live {
  std::mutex mutex;
  std::set<Mesh*> meshes;
};
constinit PerProcess<Live> process_live;

Live& live() { return process_live.get(); }

void take_leave_at_exit() {
  // A thread that holds the mutex may have ended with the program's exit: try, do not wait.
  const std::unique_lock lock(live().mutex, std::try_to_lock);
  if (!lock) return;
  for (Mesh* mesh : live().meshes) mesh->farewell();
}

void remember(Mesh* mesh) {
  static constinit MadeOnce<int> registered;
  registered.get([] { return std::atexit(take_leave_at_exit); });
  const std::lock_guard lock(live().mutex);
  live().meshes.insert(mesh);
}

void forget(Mesh* mesh) {
  const std::lock_guard lock(live().mutex);
  live().meshes.erase(mesh);
}

}  // namespace

Result<std::shared_ptr<Mesh>> Mesh::make(int ranks) {
  // All that may fail for want of memory comes before the thread, or within the care of our destructor, which ends it.
  std::shared_ptr<Mesh> mesh(new Mesh);
  remember(mesh.get());
  mesh->remembered_ = true;
  if (ranks == 1) return mesh;
  if (Status status = mesh->start(); !status) return status;
  return mesh;
}

Status Mesh::start() {
  if (!poller_ || !wake_ || !poller_.watch(wake_.fd(), kWakeTag, true, false)) {
    return system_error("Opening the control plane's descriptors failed", errno);
  }
  next_beat_ns_ = last_look_ns_ = now_ns();
  auto thread = background_thread("tutti-control", [this] { run(); });
  if (!thread) return thread.status();
  thread_ = std::move(thread).value();
  return {};
}

Mesh::~Mesh() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.raise();
  if (thread_.joinable()) thread_.join();
  if (remembered_) forget(this);
}

// ---- The thread.

void Mesh::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    const Status status = catching([this]() -> Status {
      look_once();
      return {};
    });
    if (status) continue;
    // There is no memory. What was read may be lost, of whatever plane; a nap, as what was not read is ready still.
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [context, plane] : planes_) plane->starved(status);
    }
    ::usleep(kRecoverUs);
  }
}

void Mesh::look_once() {
  int timeout;
  {
    const std::lock_guard lock(mutex_);
    timeout = timeout_ms();
  }
  const auto events = poller_.wait(timeout);
  const std::lock_guard lock(mutex_);
  for (const Poller::Event& event : events) handle(event);
  look(now_ns());
}

int Mesh::timeout_ms() const {
  std::uint64_t next = std::min(next_beat_ns_, next_look_ns_);
  for (const Connection& connection : connections_) {
    if (connection.open() && connection.ended_ns != 0) next = std::min(next, connection.ended_ns + kLastWordsNs);
  }
  const std::uint64_t now = now_ns();
  return next <= now ? 0 : static_cast<int>((next - now) / kMs) + 1;
}

void Mesh::handle(const Poller::Event& event) {
  if (event.tag == kWakeTag) return wake_.clear();
  const auto place = std::ranges::find_if(connections_, [&](const Connection& one) { return one.number == event.tag / 2; });
  if (place == connections_.end() || !place->open()) return;
  Connection& connection = *place;
  if (event.tag % 2 == 1) {
    connection.ended_ns = now_ns();
    poller_.forget(connection.process.get());
    return;
  }
  if (event.writable) {
    connection.channel.flush();
    if (!connection.channel.pending()) {
      poller_.watch(connection.channel.fd(), event.tag, true, false);
      if (finishing_) connection.channel.finish();
    }
  }
  if (event.readable) read_from(connection);
}

void Mesh::read_from(Connection& connection) {
  const bool goes_on = connection.channel.receive(
      [&](std::uint8_t type, std::span<const std::byte> payload) { return take(connection, type, payload); });
  if (!goes_on) over(connection, "died: its control connection closed without a goodbye");
}

bool Mesh::take(Connection& connection, std::uint8_t type, std::span<const std::byte> payload) {
  connection.heard_ns = now_ns();
  ByteReader in(payload);
  const std::uint64_t context = in.u64();
  // A newer peer's frame may be of a type that we do without.
  if (in.ok() && type != kBeat) dispatch(context, connection.rank, static_cast<Frame>(type), in.raw(in.left()));
  return true;
}

void Mesh::dispatch(std::uint64_t context, int from, Frame type, std::span<const std::byte> payload) {
  if (const auto plane = planes_.find(context); plane != planes_.end()) return plane->second->take(from, type, payload);
  const auto gone = gone_.find(context);
  if (gone == gone_.end()) return keep(context, from, type, payload);
  if (type == kGoodbye) std::erase(gone->second, from);
  if (gone->second.empty()) gone_.erase(gone);
}

/// For a plane to come. One may never come, as its creation has failed on this rank. So where too many are awaited, one is
/// forgotten that a peer has left already.
void Mesh::keep(std::uint64_t context, int from, Frame type, std::span<const std::byte> payload) {
  early_[context].push_back({from, type, {payload.begin(), payload.end()}});
  if (early_.size() <= kMostEarly) return;
  const auto is_left = [](const auto& entry) {
    return std::ranges::any_of(entry.second, [](const Early& frame) { return frame.type == kGoodbye; });
  };
  if (const auto left = std::ranges::find_if(early_, is_left); left != early_.end()) early_.erase(left);
}

/// Nothing more comes: the peer has closed it, or its process has ended. Planes that were told goodbye miss nothing.
void Mesh::over(Connection& connection, const char* how) {
  const int rank = connection.rank;
  close(connection);
  for (const auto& [context, plane] : planes_) plane->ended(rank, how);
  for (auto& [context, talking] : gone_) std::erase(talking, rank);
  std::erase_if(gone_, [](const auto& entry) { return entry.second.empty(); });
}

// Keeps the entry: planes look at it.
void Mesh::close(Connection& connection) {
  if (connection.open()) poller_.forget(connection.channel.fd());
  if (connection.process) poller_.forget(connection.process.get());
  connection.channel.close();
  connection.process.reset();
  changed_.notify_all();
}

void Mesh::look(std::uint64_t now) {
  // Where this process itself was stopped for a while, the peers' silence means nothing.
  const std::uint64_t idle_ns = least_idle_timeout_ns();
  look_for_ends(now, now - last_look_ns_ > idle_ns / 2);
  last_look_ns_ = now;
  if (now >= next_look_ns_) {
    std::uint64_t next = UINT64_MAX;
    for (const auto& [context, plane] : planes_) next = std::min(next, plane->look(now));
    next_look_ns_ = next;  // behind what may throw: it is due again then
  }
  if (now < next_beat_ns_) return;
  next_beat_ns_ = now + std::clamp(idle_ns / 4, kMs, kMostBeat);
  for (Connection& connection : connections_) send(connection, kBeat, 0, {});
  for (const auto& [context, plane] : planes_) plane->beat();
}

void Mesh::look_for_ends(std::uint64_t now, bool was_away) {
  for (Connection& connection : connections_) {
    if (!connection.open()) continue;
    if (was_away) connection.heard_ns = now;
    if (connection.ended_ns != 0 && now >= connection.ended_ns + kLastWordsNs)
      over(connection, "died: its process ended without a goodbye");
  }
}

std::uint64_t Mesh::least_idle_timeout_ns() const {
  std::uint64_t least = 4 * kMostBeat;
  for (const auto& [context, plane] : planes_) least = std::min(least, plane->idle_timeout_ns());
  return least;
}

// ---- For planes.

bool Mesh::add(std::uint64_t context, Plane& plane) {
  if (finishing_) return false;
  planes_.emplace(context, &plane);
  next_look_ns_ = 0;
  if (plane.idle_timeout_ns() / 4 < kMostBeat) {
    next_beat_ns_ = 0;
    wake_.raise();
  }
  const auto early = early_.extract(context);
  if (early.empty()) return true;
  for (const Early& frame : early.mapped()) plane.take(frame.from, frame.type, frame.payload);
  return true;
}

Mesh::Connection& Mesh::add(int rank, UniqueFd fd, UniqueFd process, const Member& about) {
  Connection& added = connections_.emplace_back();
  added.rank = rank;
  added.about = about;
  added.channel = FrameChannel(std::move(fd));
  added.process = std::move(process);
  added.heard_ns = now_ns();
  added.number = ++numbers_;
  poller_.watch(added.channel.fd(), connection_tag(added.number), true, false);
  if (added.process) poller_.watch(added.process.get(), process_tag(added.number), true, false);
  changed_.notify_all();
  return added;
}

Mesh::Connection* Mesh::connection(int rank) {
  for (Connection& connection : connections_) {
    if (connection.rank == rank && connection.open()) return &connection;
  }
  return nullptr;
}

void Mesh::send(Connection& connection, Frame type, std::uint64_t context, std::span<const std::byte> payload) {
  if (!connection.open() || finishing_) return;
  ByteWriter out;
  out.u64(context);
  out.raw(payload);
  connection.channel.send(type, out.bytes());
  if (connection.channel.pending()) poller_.watch(connection.channel.fd(), connection_tag(connection.number), true, true);
}

void Mesh::remove(std::uint64_t context, std::vector<int> talks_to) noexcept {
  {
    std::unique_lock lock(mutex_);
    const auto plane = planes_.find(context);
    if (plane == planes_.end()) return;
    if (planes_.size() > 1) {
      planes_.erase(plane);
      // Without memory for it what comes is kept until the mesh ends.
      static_cast<void>(catching([&]() -> Status {
        std::erase_if(talks_to, [this](int rank) { return connection(rank) == nullptr; });
        if (!talks_to.empty()) gone_.emplace(context, std::move(talks_to));
        return {};
      }));
      return;
    }
    // What peers say last is still read, and what they did before shown to the plane.
    finish();
    changed_.wait_for(lock, std::chrono::nanoseconds(kLeaveNs), [this] { return all_closed(); });
    stopping_ = true;
    planes_.clear();
  }
  wake_.raise();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  for (Connection& connection : connections_) close(connection);
}

void Mesh::finish() {
  finishing_ = true;
  for (Connection& connection : connections_) {
    if (connection.open() && !connection.channel.pending()) connection.channel.finish();
  }
}

bool Mesh::all_closed() const {
  return std::ranges::none_of(connections_, [](const Connection& connection) { return connection.open(); });
}

void Mesh::farewell() {
  const NoCancellation whole;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) {
      for (const auto& [context, plane] : planes_) plane->farewell();
      return finish();
    }
    ::usleep(1000);
  }
}

}  // namespace tutti
