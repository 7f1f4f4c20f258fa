// The watcher thread: reads links, notices deaths, floods the first error, sends heartbeats.
#include <unistd.h>

#include <algorithm>

#include "src/base/background_thread.h"
#include "src/base/clock.h"
#include "src/base/exception_boundary.h"
#include "src/base/log.h"
#include "src/base/no_cancellation.h"
#include "src/control/control_impl.h"
#include "src/tables/units.h"

namespace tutti {

namespace {

constexpr std::uint64_t kMostBeat = 1'000 * kMs;
constexpr std::uint64_t kLeaveNs = 50 * kMs;
// A process may end with its goodbye still in our socket: what is in there has this long to be read.
constexpr std::uint64_t kLastWordsNs = 100 * kMs;
// A rank that is behind one that died has not called what may tell the two apart. Those that are not behind go first.
constexpr std::uint64_t kOthersFirstNs = 100 * kMs;
constexpr std::uint32_t kRecoverUs = 10'000;  // without memory
constexpr std::uint64_t kWakeTag = UINT64_MAX;

constexpr const char* kLookAtIt = "Look at that process's own output, and for the kernel's out-of-memory killer";

std::uint64_t link_tag(int rank) { return static_cast<std::uint64_t>(rank) * 2; }
std::uint64_t process_tag(int rank) { return link_tag(rank) + 1; }

// pidfd_open has this number on every architecture; older C libraries do not name it. An older kernel refuses it, and
// then connections and heartbeats alone tell.
UniqueFd open_process(int pid) {
  constexpr long kPidfdOpen = 434;
  return UniqueFd(static_cast<int>(::syscall(kPidfdOpen, pid, 0)));
}

}  // namespace

ControlPlane::Impl::Impl(const Options& options) : options_(options), pid_(::getpid()) {
  last_tick_ns_ = now_ns();
  next_beat_ns_ = last_tick_ns_;
}

Status ControlPlane::Impl::start() {
  if (options_.ranks == 1) return {};
  if (!poller_ || !wake_ || !poller_.watch(wake_.fd(), kWakeTag, true, false)) {
    return system_error("Opening the control plane's descriptors failed", errno);
  }
  auto thread = background_thread("tutti-control", [this] { run(); });
  if (!thread) return thread.status();
  watcher_ = std::move(thread).value();
  return {};
}

void ControlPlane::Impl::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    const Status status = catching([this]() -> Status {
      watch_once();
      return {};
    });
    if (status) continue;
    // There is no memory. What was read may be lost, so the communicator fails; a nap, as what was not read is ready still.
    report(status);
    ::usleep(kRecoverUs);
  }
}

void ControlPlane::Impl::watch_once() {
  int timeout;
  {
    const std::lock_guard lock(mutex_);
    timeout = timeout_ms();
  }
  const auto events = poller_.wait(timeout);
  {
    const std::lock_guard lock(mutex_);
    for (const Poller::Event& event : events) handle(event);
    tick();
  }
  tell_failure();
}

int ControlPlane::Impl::timeout_ms() {
  std::uint64_t next = next_beat_ns_;
  if (flood_due_) next = std::min(next, now_ns() + kRecoverUs * 1000);
  for (const auto& [rank, link] : links_) {
    if (link.told_ns != 0) next = std::min(next, link.told_ns);
    if (!link.open()) continue;
    if (link.ended_ns != 0) next = std::min(next, link.ended_ns + kLastWordsNs);
    // Silence is noticed when it has lasted long enough, not at the beat after that.
    if (!leaving_) next = std::min(next, link.heard_ns + options_.idle_timeout_ns);
  }
  const std::uint64_t now = now_ns();
  return next <= now ? 0 : static_cast<int>((next - now) / kMs) + 1;
}

void ControlPlane::Impl::handle(const Poller::Event& event) {
  if (event.tag == kWakeTag) return wake_.clear();
  const auto place = links_.find(static_cast<int>(event.tag / 2));
  if (place == links_.end() || !place->second.open()) return;
  Link& link = place->second;
  if (event.tag % 2 == 1) {
    link.ended_ns = now_ns();
    poller_.forget(link.process.get());
    return;
  }
  if (event.writable) {
    link.channel.flush();
    if (!link.channel.pending()) {
      poller_.watch(link.channel.fd(), event.tag, true, false);
      if (leaving_) link.channel.finish();
    }
  }
  if (event.readable) read_from(link);
}

void ControlPlane::Impl::read_from(Link& link) {
  const bool goes_on = link.channel.receive(
      [&](std::uint8_t type, std::span<const std::byte> payload) { return take(link, type, payload); });
  if (!goes_on) ended(link);
}

bool ControlPlane::Impl::take(Link& link, std::uint8_t type, std::span<const std::byte> payload) {
  link.heard_ns = now_ns();
  ByteReader in(payload);
  switch (type) {
    case kGoodbye: {
      link.last = unpack_activity(in);
      link.state = LinkState::kLeft;
      return false;
    }
    case kHeartbeat: {
      link.last = unpack_activity(in);
      return true;
    }
    case kFailure: {
      Error error = unpack_error(in);
      if (in.ok()) fail(Status(std::move(error)), link.about.rank);
      return true;
    }
    case kGather: {
      const std::uint64_t sequence = in.u64();
      const std::uint32_t round = in.u32();
      const std::uint64_t history = in.u64();
      const auto blobs = in.raw(in.left());
      rounds_[{sequence, round}] = {history, {blobs.begin(), blobs.end()}};
      changed_.notify_all();
      return true;
    }
    case kQuery:
      take_query(link.about.rank, kQuery, payload);
      return true;
    case kAround:
      take_query(link.about.rank, kAround, payload);
      return true;
    case kReply:
      take_reply(link.about.rank, payload);
      return true;
    default:
      return true;  // a newer peer's; it does without us
  }
}

void ControlPlane::Impl::ended(Link& link) {
  if (link.state == LinkState::kLeft || leaving_) return close(link);
  lost(link, {"died: its control connection closed without a goodbye", kLookAtIt});
}

void ControlPlane::Impl::lost(Link& link, Loss loss) {
  link.state = LinkState::kDead;
  link.loss = std::move(loss);
  link.told_ns = now_ns();  // before what needs memory
  close(link);
  // One more than a number counts "none" as less.
  const bool behind = own_activity().started + 1 < link.activity().started + 1;
  if (behind) link.told_ns += kOthersFirstNs;
}

// Keeps the link's entry, which remembers how it ended and what its rank did last.
void ControlPlane::Impl::close(Link& link) {
  if (link.open()) link.state = LinkState::kLeft;
  if (link.channel.open()) poller_.forget(link.channel.fd());
  if (link.process) poller_.forget(link.process.get());
  link.channel.close();
  link.process.reset();
  changed_.notify_all();
}

void ControlPlane::Impl::tick() {
  const std::uint64_t now = now_ns();
  const std::uint64_t beat_ns = std::min(kMostBeat, options_.idle_timeout_ns / 4);
  // Where this process itself was stopped for a while, the peers' silence means nothing.
  const bool was_away = now - last_tick_ns_ > options_.idle_timeout_ns / 2;
  last_tick_ns_ = now;
  for (auto& [rank, link] : links_) {
    if (link.open()) look_after(link, now, was_away);
    if (link.told_ns == 0 || now < link.told_ns) continue;
    const Status loss(error_of(link.about, link.activity(), link.loss));
    link.told_ns = 0;
    fail(loss, rank);
  }
  flood();
  if (now < next_beat_ns_) return;
  next_beat_ns_ = now + std::max(beat_ns, kMs);
  beat();
}

// Whether an open link's rank still lives.
void ControlPlane::Impl::look_after(Link& link, std::uint64_t now, bool was_away) {
  if (was_away) link.heard_ns = now;
  if (link.ended_ns != 0 && now >= link.ended_ns + kLastWordsNs) {
    leaving_ ? close(link) : lost(link, {"died: its process ended without a goodbye", kLookAtIt});
  } else if (now - link.heard_ns > options_.idle_timeout_ns && !leaving_) {
    lost(link, {"was silent for " + duration_text(options_.idle_timeout_ns),
                "See whether it is stopped or cut off; raise TUTTI_IDLE_TIMEOUT if its machine is only slow"});
  }
}

void ControlPlane::Impl::beat() {
  ByteWriter out;
  pack_activity(out, own_activity(), Activity::kBrief);
  for (auto& [rank, link] : links_) send(link, kHeartbeat, out.bytes());
}

Activity ControlPlane::Impl::own_activity() const {
  Activity own = board_.read();
  own.exchanges = gathers_;
  return own;
}

void ControlPlane::Impl::tell_failure() {
  const std::lock_guard calling(calling_);
  OnFailure callback;
  Status first;
  {
    const std::lock_guard lock(mutex_);
    if (!callback_due_ || !callback_) return;
    callback = callback_;
    callback_due_ = false;  // after what may throw
    first = first_error_;
  }
  callback(first);
}

void ControlPlane::Impl::send(Link& link, Frame type, std::span<const std::byte> payload) {
  if (!link.open() || leaving_) return;
  link.channel.send(type, payload);
  if (link.channel.pending()) poller_.watch(link.channel.fd(), link_tag(link.about.rank), true, true);
}

// The first error wins: it is kept, waits are woken, and it goes on to everybody but its sender. Later ones stop here,
// which is what ends the flood. Nothing runs any more where leave has begun; after a farewell at exit other threads may be
// in operations still, which must learn of it, although nobody else is told.
void ControlPlane::Impl::fail(const Status& failure, int from) noexcept {
  if (!first_error_.ok() || left_) return;
  first_error_ = failure;
  // Release: whoever sees the flag by an acquire load may read first_error_ (which the mutex guards anyway).
  failed_.store(true, std::memory_order_release);
  callback_due_ = true;
  changed_.notify_all();
  flood_due_ = true;
  flood_from_ = from;
  flood();
}

// Without memory it stays due until a later tick of the watcher.
void ControlPlane::Impl::flood() {
  if (!flood_due_) return;
  const Status told = catching([this]() -> Status {
    ByteWriter out;
    pack_error(out, first_error_.error());
    for (auto& [rank, link] : links_) {
      if (rank != flood_from_) send(link, kFailure, out.bytes());
    }
    return {};
  });
  flood_due_ = !told.ok();
}

// What two ranks called differently is why one of them is lost to the other, or why it was needed at all.
Error ControlPlane::Impl::error_of(const Member& member, const Activity& activity, const Loss& loss) const {
  if (auto mismatch = mismatch_with(member, activity, loss.what)) return std::move(*mismatch);
  Error error;
  error.status = TUTTI_REMOTE_ERROR;
  error.guilty = {guilty_of(member, activity)};
  error.message = member.text() + " of \"" + options_.name + "\" " + loss.what;
  if (activity.completed != UINT64_MAX) {
    error.message += "; its last completed operation is #" + std::to_string(activity.completed) + " " +
                     error.guilty.front().last_operation_kind;
  }
  error.remedy = loss.remedy;
  return error;
}

std::optional<Error> ControlPlane::Impl::mismatch_with(const Member& member, const Activity& activity,
                                                       const std::string& since) const {
  const Member self = member_locked(options_.rank);
  return mismatch_between("\"" + options_.name + "\"", {self, own_activity()}, {member, activity}, since);
}

Error ControlPlane::Impl::death_of(const PeerReport& peer, const std::string& how) const {
  if (in_child()) return child_error().error();
  const std::lock_guard lock(mutex_);
  return error_of(member_locked(peer.rank), peer.activity, {"died: " + how, kLookAtIt});
}

Error ControlPlane::Impl::leave_of(const PeerReport& peer) const {
  if (in_child()) return child_error().error();
  const std::lock_guard lock(mutex_);
  return error_of(member_locked(peer.rank), peer.activity,
                  {"left while others still needed it",
                   "Let every rank end what all have begun before one of them destroys its communicator or exits"});
}

// Where every rank is through with its calls nobody waits for anybody, and nothing else would show it.
void ControlPlane::Impl::warn_of_mismatch() const {
  if (!first_error_.ok()) return;
  for (const auto& [rank, link] : links_) {
    const auto mismatch = mismatch_with(link.about, link.activity(), "");
    if (mismatch) return log(Level::warn, mismatch->message + ". " + mismatch->remedy);
  }
}

Member ControlPlane::Impl::member_locked(int rank) const {
  if (rank >= 0 && static_cast<std::size_t>(rank) < members_.size()) return members_[static_cast<std::size_t>(rank)];
  const auto place = links_.find(rank);
  if (place != links_.end()) return place->second.about;
  Member unknown;
  unknown.rank = rank;
  return unknown;
}

void ControlPlane::Impl::add_link(UniqueFd fd, const Member& about) {
  const Member self = this_member(options_.rank);
  const bool pids_known = about.same_pids(self);
  Link link;
  link.channel = FrameChannel(std::move(fd));
  link.about = about;
  link.heard_ns = now_ns();
  if (pids_known && about.pid != pid_) link.process = open_process(about.pid);
  const std::lock_guard lock(mutex_);
  const auto [place, inserted] = links_.insert_or_assign(about.rank, std::move(link));
  Link& kept = place->second;
  poller_.watch(kept.channel.fd(), link_tag(about.rank), true, false);
  if (kept.process) poller_.watch(kept.process.get(), process_tag(about.rank), true, false);
  if (first_error_.ok()) return;
  ByteWriter out;  // the flood has passed already
  pack_error(out, first_error_.error());
  send(kept, kFailure, out.bytes());
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
  for (auto& [rank, board] : boards) {
    const auto link = links_.find(rank);
    if (link != links_.end()) link->second.board = std::move(board);
  }
}

void ControlPlane::Impl::report(const Status& failure) noexcept {
  const NoCancellation whole;
  {
    const std::lock_guard lock(mutex_);
    fail(failure, -1);
  }
  if (options_.ranks != 1) return wake_.raise();
  static_cast<void>(catching([this]() -> Status {
    tell_failure();
    return {};
  }));
}

void ControlPlane::Impl::set_callback(OnFailure callback) {
  {
    const std::lock_guard calling(calling_);
    const std::lock_guard lock(mutex_);
    callback_ = std::move(callback);
    callback_due_ = callback_ && !first_error_.ok();
  }
  options_.ranks == 1 ? tell_failure() : wake_.raise();
}

void ControlPlane::Impl::leave() noexcept {
  const NoCancellation whole;
  {
    std::unique_lock lock(mutex_);
    if (left_) return;
    left_ = true;
    if (options_.ranks == 1) return;
    // Without memory for a goodbye the peers read that this rank died: it stops all the same.
    static_cast<void>(catching([this]() -> Status {
      farewell_locked();
      return {};
    }));
    leaving_ = true;
    const auto all_closed = [this] {
      return std::none_of(links_.begin(), links_.end(), [](const auto& entry) { return entry.second.channel.open(); });
    };
    changed_.wait_for(lock, std::chrono::nanoseconds(kLeaveNs), all_closed);
    stopping_ = true;
    changed_.notify_all();
  }
  wake_.raise();
  if (watcher_.joinable()) watcher_.join();
  const std::lock_guard lock(mutex_);
  static_cast<void>(catching([this]() -> Status {
    warn_of_mismatch();
    return {};
  }));
  for (auto& [rank, link] : links_) close(link);
}

void ControlPlane::Impl::farewell_locked() {
  ByteWriter out;
  pack_activity(out, own_activity());
  for (auto& [rank, link] : links_) {
    send(link, kGoodbye, out.bytes());
    if (link.open() && !link.channel.pending()) link.channel.finish();
  }
  leaving_ = true;
}

void ControlPlane::Impl::farewell() {
  if (in_child()) return;
  const NoCancellation whole;
  for (int catching = 0; catching < 20; ++catching) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) {
      if (!leaving_) farewell_locked();
      return;
    }
    ::usleep(1000);
  }
}

}  // namespace tutti
