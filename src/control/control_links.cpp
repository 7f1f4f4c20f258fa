// What befalls a plane's neighbours, and what becomes of it: frames, deaths, the first error and its flood, leaving.
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "src/base/clock.h"
#include "src/base/exception_boundary.h"
#include "src/base/log.h"
#include "src/base/no_cancellation.h"
#include "src/control/control_impl.h"
#include "src/tables/units.h"

namespace tutti {

namespace {

// A rank that is behind one that died has not called what may tell the two apart. Those that are not behind go first.
constexpr std::uint64_t kOthersFirstNs = 100 * kMs;
constexpr std::uint64_t kRecoverNs = 10 * kMs;  // without memory
// A neighbour may be that late with its plane. Beats that say that its process lives come each second.
constexpr std::uint64_t kFirstWordNs = 3 * kSecond;

constexpr const char* kLookAtIt = "Look at that process's own output, and for the kernel's out-of-memory killer";
constexpr const char* kSeeWhetherStopped =
    "See whether it is stopped or cut off; raise TUTTI_IDLE_TIMEOUT if its machine is only slow";
constexpr const char* kClosed = "died: its control connection closed without a goodbye";

// pidfd_open has this number on every architecture; older C libraries do not name it. An older kernel refuses it, and
// then connections and heartbeats alone tell.
UniqueFd open_process(int pid) {
  constexpr long kPidfdOpen = 434;
  return UniqueFd(static_cast<int>(::syscall(kPidfdOpen, pid, 0)));
}

}  // namespace

ControlPlane::Impl::Impl(std::shared_ptr<Mesh> mesh, const Options& options, std::vector<int> in_mesh,
                         std::uint64_t context, std::unique_ptr<ActivityBoard> board)
    : mesh_(std::move(mesh)),
      options_(options),
      in_mesh_(std::move(in_mesh)),
      context_(context),
      pid_(::getpid()),
      board_(std::move(board)),
      mutex_(mesh_->mutex()),
      changed_(mesh_->changed()),
      name_(options.name) {}

void ControlPlane::Impl::route_by(Impl& whole, std::span<const int> members) {
  const std::lock_guard lock(mutex_);
  routes_ = &whole;
  in_routes_.assign(members.begin(), members.end());
  for (const int member : members) {
    members_.push_back(whole.member_locked(member));
    Member& known = members_.back();
    if (known.global < 0) known.global = member;
    known.rank = static_cast<int>(members_.size()) - 1;
  }
}

// A neighbour that has a connection already may have sent something on it, or have died since.
Status ControlPlane::Impl::start() {
  const std::lock_guard lock(mutex_);
  for (const int near : neighbours(options_.rank, options_.ranks)) {
    const int in_mesh = in_mesh_[static_cast<std::size_t>(near)];
    Link& link = links_[near];
    link.connection = mesh_->connection(in_mesh);  // null: it is added later
    link.in_mesh = in_mesh;
    link.made_ns = now_ns();
    if (routes_ != nullptr) link.about = members_[static_cast<std::size_t>(near)];
    if (routes_ == nullptr && link.connection != nullptr) link.about = link.connection->about;
    link.about.rank = near;
  }
  if (!mesh_->add(context_, *this)) {
    return Status(TUTTI_INVALID_USAGE, "\"" + name_ + "\" was made from a communicator that takes leave");
  }
  return {};
}

void ControlPlane::Impl::add_link(UniqueFd fd, const Member& about) {
  const Member self = this_member(options_.rank);
  UniqueFd process;
  if (about.same_pids(self) && about.pid != pid_) process = open_process(about.pid);
  const std::lock_guard lock(mutex_);
  Link& link = links_[about.rank];
  link.in_mesh = in_mesh_[static_cast<std::size_t>(about.rank)];
  link.about = about;
  link.connection = &mesh_->add(link.in_mesh, std::move(fd), std::move(process), about);
  link.made_ns = now_ns();
  mesh_->look_at(0);
  if (first_error_.ok()) return;
  ByteWriter out;  // the flood has passed already
  pack_error(out, first_error_.error());
  send(link, Frame::kFailure, out.bytes());
}

std::vector<int> ControlPlane::Impl::connected() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (mesh_->connection(in_mesh_[static_cast<std::size_t>(rank)]) != nullptr) ranks.push_back(rank);
  }
  return ranks;
}

Status ControlPlane::Impl::await_connections(std::span<const int> ranks, const WaitLimits& wait_limits) {
  std::unique_lock lock(mutex_);
  for (const int rank : ranks) {
    const int in_mesh = in_mesh_[static_cast<std::size_t>(rank)];
    while (mesh_->connection(in_mesh) == nullptr) {
      if (!first_error_.ok()) return first_error_;
      if (links_[rank].state != LinkState::kOpen) return left_early(rank);
      lock.unlock();  // the caller's hook runs without our lock
      const Status status = wait_limits.check();
      lock.lock();
      if (!status) return status;
      if (wait_limits.deadline.passed()) {
        return Status(TUTTI_TIMEOUT, "rank " + std::to_string(options_.rank) + " has no connection with " +
                                         member_locked(rank).text() + " of \"" + name_ + "\" yet");
      }
      changed_.wait_for(lock, std::chrono::milliseconds(wait_limits.slice_ms(10)));
    }
    Link& link = links_[rank];
    if (link.connection != nullptr) continue;
    link.connection = mesh_->connection(in_mesh);
    link.about = link.connection->about;
    link.about.rank = rank;
    link.made_ns = now_ns();
  }
  return {};
}

/// Of a neighbour that has left, or died, while this rank waited for it.
Status ControlPlane::Impl::left_early(int rank) const {
  const auto link = links_.find(rank);
  const Activity activity = link != links_.end() ? link->second.activity() : Activity();
  return Status(error_of(member_locked(rank), activity, "left while this rank waited for it", ""));
}

void ControlPlane::Impl::set_members(std::vector<Member> members) {
  const Member self = this_member(options_.rank);
  std::map<int, std::unique_ptr<ActivityBoard>> boards;  // opened before the lock is taken
  for (const int near : neighbours(options_.rank, options_.ranks)) {
    const Member& member = members[static_cast<std::size_t>(near)];
    if (!member.same_pids(self) || member.activity_fd < 0) continue;
    boards[near] = std::make_unique<ActivityBoard>(member.pid, member.activity_fd, member.activity_inode);
  }
  const std::lock_guard lock(mutex_);
  members_ = std::move(members);
  routes_ = nullptr;
  is_set_up_ = true;
  for (auto& [rank, link] : links_) {
    if (const auto board = boards.find(rank); board != boards.end()) link.board = std::move(board->second);
    link.about = members_[static_cast<std::size_t>(rank)];
    link.about.blob.clear();
  }
  mesh_->look_at(0);
  mesh_->wake();
}

Member ControlPlane::Impl::member_locked(int rank) const {
  if (rank >= 0 && static_cast<std::size_t>(rank) < members_.size()) return members_[static_cast<std::size_t>(rank)];
  const auto place = links_.find(rank);
  if (place != links_.end()) return place->second.about;
  Member unknown;
  unknown.rank = rank;
  return unknown;
}

// ---- What comes.

ControlPlane::Impl::Link* ControlPlane::Impl::link_of(int in_mesh) {
  for (auto& [rank, link] : links_) {
    if (link.in_mesh == in_mesh) return &link;
  }
  return nullptr;
}

void ControlPlane::Impl::take(int from, Frame type, std::span<const std::byte> payload) {
  Link* const link = link_of(from);
  if (link == nullptr || !link->open()) return;
  link->has_spoken = true;
  ByteReader in(payload);
  switch (type) {
    case Frame::kGoodbye:
      link->last = unpack_activity(in);
      link->state = LinkState::kLeft;
      changed_.notify_all();
      return;
    case Frame::kHeartbeat:
      link->last = unpack_activity(in);
      return;
    case Frame::kFailure: {
      Error error = unpack_error(in);
      if (in.ok()) fail(Status(std::move(error)), link->about.rank);
      return;
    }
    case Frame::kGather: {
      const std::uint64_t sequence = in.u64();
      const std::uint32_t round = in.u32();
      const std::uint64_t history = in.u64();
      const auto blobs = in.raw(in.left());
      rounds_[{sequence, round}] = {history, {blobs.begin(), blobs.end()}};
      changed_.notify_all();
      return;
    }
    case Frame::kQuery:
    case Frame::kAround:
      return take_query(link->about.rank, type, payload);
    case Frame::kReply:
      return take_reply(link->about.rank, payload);
    case Frame::kRouted:
      return take_routed(payload);
    case Frame::kBeat:
      return;
  }
}

void ControlPlane::Impl::route(int origin, int target, int ttl, std::uint64_t context, Frame type,
                               std::span<const std::byte> payload) {
  if (target == options_.rank) return mesh_->dispatch(context, in_mesh_[static_cast<std::size_t>(origin)], type, payload);
  Link* const next = ttl > 0 ? towards(target, -1) : nullptr;
  if (next == nullptr) return;
  ByteWriter out;
  out.i32(origin);
  out.i32(target);
  out.u8(static_cast<std::uint8_t>(ttl - 1));
  out.u64(context);
  out.u8(type);
  out.raw(payload);
  send(*next, Frame::kRouted, out.bytes());
}

void ControlPlane::Impl::take_routed(std::span<const std::byte> payload) {
  ByteReader in(payload);
  const int origin = in.i32();
  const int target = in.i32();
  const int ttl = in.u8();
  const std::uint64_t context = in.u64();
  const auto type = static_cast<Frame>(in.u8());
  const auto inside = [this](int rank) { return rank >= 0 && rank < options_.ranks; };
  if (in.ok() && inside(origin) && inside(target)) route(origin, target, ttl, context, type, in.raw(in.left()));
}

void ControlPlane::Impl::ended(int rank, const char* how) noexcept {
  Link* const link = link_of(rank);
  if (link != nullptr && link->open() && !leaving_) lost(*link, how);
}

void ControlPlane::Impl::lost(Link& link, const char* how) noexcept {
  link.state = LinkState::kDead;
  link.how = how;
  link.told_ns = now_ns();
  mesh_->look_at(link.told_ns);
  changed_.notify_all();
}

std::uint64_t ControlPlane::Impl::look(std::uint64_t now) {
  std::uint64_t next = UINT64_MAX;
  for (auto& [rank, link] : links_) {
    if (link.open() && !leaving_) next = std::min(next, look_for_end(link, now));
    if (link.told_ns != 0) next = std::min(next, tell_loss(rank, link, now));
  }
  flood();
  return flood_due_ ? std::min(next, now + kRecoverNs) : next;
}

/// Whether an open link's rank is lost; when to look again. Silence is noticed when it has lasted long enough, not at the
/// beat after that.
std::uint64_t ControlPlane::Impl::look_for_end(Link& link, std::uint64_t now) {
  if (link.connection == nullptr && !is_set_up_) return UINT64_MAX;  // it comes
  if (link.connection == nullptr || !link.connection->open()) {      // it ended before this plane was there
    lost(link, kClosed);
    return UINT64_MAX;
  }
  const std::uint64_t ends_ns = silence_ends_ns(link);
  if (ends_ns > now) return ends_ns;
  lost(link, nullptr);
  return UINT64_MAX;
}

/// Makes a loss the communicator's failure, as soon as it is due; when to look again.
std::uint64_t ControlPlane::Impl::tell_loss(int rank, Link& link, std::uint64_t now) {
  if (now >= link.told_ns && !std::exchange(link.others_first, true)) {
    // One more than a number counts "none" as less.
    if (own_activity().started + 1 < link.activity().started + 1) link.told_ns = now + kOthersFirstNs;
  }
  if (now < link.told_ns) return link.told_ns;
  const bool was_silent = link.how == nullptr;
  const Status loss(error_of(link.about, link.activity(), what_befell(link), was_silent ? kSeeWhetherStopped : kLookAtIt));
  link.told_ns = 0;
  fail(loss, was_silent ? -1 : rank);  // who was silent is told, too
  return UINT64_MAX;
}

/// When a neighbour has been silent for too long, if nothing is heard of it. Before its plane is there it says no more than
/// the mesh asks for.
std::uint64_t ControlPlane::Impl::silence_ends_ns(const Link& link) const {
  const std::uint64_t idle_ns =
      link.has_spoken ? options_.idle_timeout_ns : std::max(options_.idle_timeout_ns, kFirstWordNs);
  return std::max(link.connection->heard_ns, link.made_ns) + idle_ns;
}

std::string ControlPlane::Impl::what_befell(const Link& link) const {
  return link.how != nullptr ? link.how : "was silent for " + duration_text(options_.idle_timeout_ns);
}

// ---- What goes.

void ControlPlane::Impl::beat() {
  const Activity own = own_activity();
  const std::array news = {own.started, own.completed, own.exchanges};
  if (news == told_) return;
  ByteWriter out;
  pack_activity(out, own, Activity::kBrief);
  for (auto& [rank, link] : links_) send(link, Frame::kHeartbeat, out.bytes());
  told_ = news;
}

Activity ControlPlane::Impl::own_activity() const {
  Activity own = board_->read();
  own.exchanges = gathers_;
  return own;
}

void ControlPlane::Impl::send(Link& link, Frame type, std::span<const std::byte> payload) {
  // One that was silent lives, perhaps, and is told why this rank does without it.
  const bool parts = type == Frame::kFailure || type == Frame::kGoodbye;
  if (leaving_ || link.state == LinkState::kLeft || (link.state == LinkState::kDead && !parts)) return;
  if (link.connection != nullptr) return mesh_->send(*link.connection, type, context_, payload);
  if (routes_ == nullptr) return;
  const auto in_routes = [this](int rank) { return in_routes_[static_cast<std::size_t>(rank)]; };
  routes_->route(in_routes(options_.rank), in_routes(link.about.rank), routes_->first_ttl(), context_, type, payload);
}

// The first error wins: it is kept, waits are woken, and it goes on to everybody but its sender. Later ones stop here,
// which is what ends the flood. Nothing runs any more where leave has begun; after a farewell at exit other threads may be
// in operations still, which must learn of it, although nobody else is told.
void ControlPlane::Impl::fail(const Status& failure, int from) noexcept {
  if (!first_error_.ok() || left_) return;
  first_error_ = failure;
  // Release: whoever sees the flag by an acquire load may read first_error_ (which the mutex guards anyway).
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
  flood_due_ = true;
  flood_from_ = from;
  flood();
}

// Without memory it stays due until the mesh's thread looks again.
void ControlPlane::Impl::flood() {
  if (!flood_due_) return;
  const Status told = catching([this]() -> Status {
    ByteWriter out;
    pack_error(out, first_error_.error());
    for (auto& [rank, link] : links_) {
      if (rank != flood_from_) send(link, Frame::kFailure, out.bytes());
    }
    return {};
  });
  flood_due_ = !told.ok();
  if (flood_due_) mesh_->look_at(now_ns() + kRecoverNs);
}

// What two ranks called differently is why one of them is lost to the other, or why it was needed at all.
Error ControlPlane::Impl::error_of(const Member& member, const Activity& activity, const std::string& what,
                                   const char* remedy) const {
  if (auto mismatch = mismatch_with(member, activity, what)) return std::move(*mismatch);
  Error error;
  error.status = TUTTI_REMOTE_ERROR;
  error.guilty = {guilty_of(member, activity)};
  error.message = member.text() + " of \"" + name_ + "\" " + what;
  if (activity.completed != UINT64_MAX) {
    error.message += "; its last completed operation is #" + std::to_string(activity.completed) + " " +
                     error.guilty.front().last_operation_kind;
  }
  error.remedy = remedy;
  return error;
}

std::optional<Error> ControlPlane::Impl::mismatch_with(const Member& member, const Activity& activity,
                                                       const std::string& since) const {
  const Member self = member_locked(options_.rank);
  return mismatch_between("\"" + name_ + "\"", {self, own_activity()}, {member, activity}, since);
}

Error ControlPlane::Impl::death_of(const PeerReport& peer, const std::string& how) const {
  if (in_child()) return child_error().error();
  const std::lock_guard lock(mutex_);
  return error_of(member_locked(peer.rank), peer.activity, "died: " + how, kLookAtIt);
}

Error ControlPlane::Impl::leave_of(const PeerReport& peer) const {
  if (in_child()) return child_error().error();
  const std::lock_guard lock(mutex_);
  return error_of(member_locked(peer.rank), peer.activity, "left while others still needed it",
                  "Let every rank end what all have begun before one of them destroys its communicator or exits");
}

void ControlPlane::Impl::report(const Status& failure) noexcept {
  const NoCancellation whole;
  {
    const std::lock_guard lock(mutex_);
    fail(failure, -1);
  }
  mesh_->wake();
}

// ---- Leaving.

// Where every rank is through with its calls nobody waits for anybody, and nothing else would show it.
void ControlPlane::Impl::warn_of_mismatch() const {
  if (!first_error_.ok()) return;
  for (const auto& [rank, link] : links_) {
    const auto mismatch = mismatch_with(link.about, link.activity(), "");
    if (mismatch) return log(Level::warn, mismatch->message + ". " + mismatch->remedy);
  }
}

void ControlPlane::Impl::leave() noexcept {
  const NoCancellation whole;
  std::vector<int> talks_to;
  {
    const std::lock_guard lock(mutex_);
    if (left_) return;
    left_ = true;
    // Without memory for a goodbye the peers read that this rank died: it stops all the same.
    static_cast<void>(catching([&]() -> Status {
      farewell();
      for (const auto& [rank, link] : links_) {
        if (link.open()) talks_to.push_back(link.in_mesh);
      }
      return {};
    }));
    leaving_ = true;
    changed_.notify_all();
  }
  mesh_->remove(context_, std::move(talks_to));
  const std::lock_guard lock(mutex_);
  static_cast<void>(catching([this]() -> Status {
    warn_of_mismatch();
    return {};
  }));
}

void ControlPlane::Impl::farewell() {
  if (leaving_) return;
  ByteWriter out;
  pack_activity(out, own_activity());
  for (auto& [rank, link] : links_) send(link, Frame::kGoodbye, out.bytes());
  leaving_ = true;
}

}  // namespace tutti
