#include "src/communicator/root.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <utility>

#include "src/base/background_thread.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/communicator/caught.h"
#include "src/communicator/per_process.h"

namespace tutti {

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kJoinNs = 5 * kSecond;           // an authenticated guest says within this time who it is
constexpr std::uint64_t kTellNs = kSecond;               // after a failure, for ranks on their way to come and hear why
constexpr std::uint64_t kLingerNs = 10 * kSecond;        // after a failure, to tell late ranks why
constexpr std::uint64_t kFinishNs = kSecond;             // the last words of a creation that has succeeded take far less
constexpr std::uint64_t kAwaitToldNs = 5 * kSecond / 2;  // in that time ranks notice a dead neighbour by themselves, too
constexpr std::uint64_t kDoorTag = 0;
constexpr std::uint64_t kWakeTag = 1;
constexpr std::uint64_t kFirstGuest = 2;
constexpr int kMostRanks = 1 << 20;

std::vector<unsigned char> root_payload(RootNumber number) {
  ByteWriter out;
  out.u64(number);
  out.i32(::getpid());
  out.text(host_name().substr(0, 48));
  const auto bytes = out.bytes();
  const auto* first = reinterpret_cast<const unsigned char*>(bytes.data());
  return {first, first + bytes.size()};
}

Error error_of(tutti_status status, std::string message, std::string remedy) {
  Error error;
  error.status = status;
  error.message = std::move(message);
  error.remedy = std::move(remedy);
  return error;
}

}  // namespace

void pack_join(ByteWriter& out, const JoinMessage& message) {
  out.i32(message.ranks);
  out.u64(message.left_ns);
  out.u64(message.limit_ns);
  pack_introduction(out, message.self);
}

JoinMessage unpack_join(ByteReader& in) {
  JoinMessage message;
  message.ranks = in.i32();
  message.left_ns = in.u64();
  message.limit_ns = in.u64();
  message.self = unpack_introduction(in);
  return message;
}

Root::Root(Listener listener, const Key& key, RootNumber number, Renewal renewal, std::function<void()> concluded)
    : renewal_(renewal), on_conclusion_(std::move(concluded)), next_id_(kFirstGuest) {
  door_.emplace(std::move(listener), key, kRootPurpose, root_payload(number));
}

void Root::conclude() {
  if (const auto conclusion = std::exchange(on_conclusion_, {})) {
    static_cast<void>(attempt([&]() -> Status {
      conclusion();
      return {};
    }));
  }
}

void Root::serve(const WakeUp& wake, const std::atomic<bool>& stop) {
  const Status served = attempt([&]() -> Status {
    serve_all(wake, stop);
    return {};
  });
  if (!served) {
    // There is no memory. Perhaps there is enough to say so; otherwise connections that close tell.
    static_cast<void>(attempt([&]() -> Status {
      fail(served.error());
      tell_last();
      return {};
    }));
  }
  // Nobody answers from here on, so nobody shall be kept waiting, nor the port from another.
  guests_.clear();
  door_.reset();
}

void Root::serve_all(const WakeUp& wake, const std::atomic<bool>& stop) {
  poller_.watch(wake.fd(), kWakeTag, true, false);
  poller_.watch(door_->fd(), kDoorTag, true, false);
  // Acquire pairs with the release of whoever stops us; the wake-up comes after it.
  while (!stop.load(std::memory_order_acquire) && !done()) {
    for (const Poller::Event& event : poller_.wait(timeout_ms())) {
      event.tag == kWakeTag ? wake.clear() : handle(event);
    }
    hear_giving_up();
    dismiss_silent();
    hear_door();
    fail_in_time();
    if (failure_ && own_told_ns_ != 0 && (now_ns() >= own_told_ns_ || all_heard())) tell_last();
  }
  hear_giving_up();
  if (failure_ && own_told_ns_ != 0) tell_last();
}

void Root::hear_door() {
  if (!door_) return;
  for (Arrival& arrival : door_->step()) welcome(std::move(arrival));
}

void Root::dismiss_silent() {
  const std::uint64_t now = now_ns();
  std::vector<std::uint64_t> silent;
  for (const auto& [id, guest] : guests_) {
    if (now >= guest.until_ns) silent.push_back(id);
  }
  for (const std::uint64_t id : silent) dismiss(id);
}

void Root::fail_in_time() {
  const std::uint64_t now = now_ns();
  if (introduced_ || failure_ || now < deadline_ns()) return;
  fail(deadline_error());
  own_told_ns_ = now;  // who is missing now has had all the time there was
}

void Root::give_up(Error error) {
  const std::lock_guard lock(giving_up_);
  if (!given_up_) given_up_ = std::move(error);
}

void Root::hear_giving_up() {
  std::optional<Error> heard;
  {
    const std::lock_guard lock(giving_up_);
    heard.swap(given_up_);
  }
  if (heard && !failure_) fail(std::move(*heard));
}

bool Root::done() const {
  if (failure_) return now_ns() >= failed_ns_ + kLingerNs;
  if (!introduced_) return false;
  return std::all_of(guests_.begin(), guests_.end(), [](const auto& entry) { return entry.second.ready; });
}

int Root::timeout_ms() const {
  std::uint64_t next = std::min(door_ ? door_->next_ns() : UINT64_MAX, failure_ ? failed_ns_ + kLingerNs : deadline_ns());
  for (const auto& [id, guest] : guests_) next = std::min(next, guest.until_ns);
  if (failure_ && own_told_ns_ != 0) next = std::min(next, own_told_ns_);
  if (next == UINT64_MAX) return 60'000;
  const std::uint64_t now = now_ns();
  return next <= now ? 0 : static_cast<int>(std::min<std::uint64_t>((next - now) / 1'000'000, 60'000)) + 1;
}

std::uint64_t Root::deadline_ns() const {
  std::uint64_t deadline = UINT64_MAX;
  if (introduced_) return deadline;
  for (const auto& [id, guest] : guests_) {
    if (guest.join) deadline = std::min(deadline, guest.join->left_ns);  // made absolute when it came
  }
  return deadline;
}

void Root::handle(const Poller::Event& event) {
  const auto place = guests_.find(event.tag);
  if (place == guests_.end()) return;  // the door or the wake-up, which serve() looks at anyway
  if (event.writable && place->second.channel.flush() && !place->second.channel.pending()) {
    poller_.watch(place->second.channel.fd(), event.tag, true, false);
  }
  if (event.readable) read_from(event.tag);
}

void Root::welcome(Arrival arrival) {
  const std::uint64_t id = next_id_++;
  Guest guest;
  guest.channel = Channel(std::move(arrival.fd));
  guest.until_ns = now_ns() + kJoinNs;
  poller_.watch(guest.channel.fd(), id, true, false);
  guests_.emplace(id, std::move(guest));
  read_from(id);
}

void Root::read_from(std::uint64_t id) {
  const auto place = guests_.find(id);
  Guest& guest = place->second;
  const bool goes_on = guest.channel.receive(
      [&](std::uint8_t type, std::span<const std::byte> payload) { return take(id, guest, type, payload); });
  if (!goes_on) gone(id);
}

bool Root::take(std::uint64_t id, Guest& guest, std::uint8_t type, std::span<const std::byte> payload) {
  ByteReader in(payload);
  switch (type) {
    case kJoin:
      take_join(id, guest, payload);
      return true;
    case kReady:
      guest.ready = true;
      return true;
    case kCreationFailed: {
      Error error = unpack_error(in);
      if (!in.complete()) return false;
      fail(std::move(error));
      return true;
    }
    default:
      return false;
  }
}

void Root::take_join(std::uint64_t id, Guest& guest, std::span<const std::byte> payload) {
  ByteReader in(payload);
  JoinMessage join = unpack_join(in);
  if (!in.complete() || guest.join || introduced_) return;
  if (means_the_next(join.self.member)) return send(id, guest, kTooLate, {});
  guest.until_ns = UINT64_MAX;
  guest.late = failure_.has_value();
  auto error = failure_ ? failure_ : objection(join);
  if (ranks_ == 0) ranks_ = join.ranks;
  const std::uint64_t now = now_ns();
  join.left_ns = join.left_ns > UINT64_MAX - now ? UINT64_MAX : now + join.left_ns;
  heard_.insert(join.self.member.rank);
  guest.join = std::move(join);
  if (error) {
    fail(std::move(*error));
    return;
  }
  if (all_heard()) introduce_all();
}

std::optional<Error> Root::objection(const JoinMessage& join) const {
  const Member& member = join.self.member;
  if (join.ranks < 1 || join.ranks > kMostRanks || member.rank < 0 || member.rank >= join.ranks) {
    Error error = error_of(TUTTI_INVALID_ARGUMENT, member.text() + " is outside a group of " + std::to_string(join.ranks),
                           "Ranks count from 0 to the number of ranks less 1");
    error.guilty.push_back(member.guilty());
    return error;
  }
  for (const auto& [id, guest] : guests_) {
    if (!guest.join) continue;
    const Member& other = guest.join->self.member;
    if (guest.join->ranks != join.ranks) {
      Error error = error_of(TUTTI_INVALID_ARGUMENT,
                             other.text() + " joins a group of " + std::to_string(guest.join->ranks) + " ranks, " +
                                 member.text() + " one of " + std::to_string(join.ranks),
                             "Give every rank the same number of ranks");
      error.guilty = {other.guilty(), member.guilty()};
      return error;
    }
    if (other.rank == member.rank) {
      Error error =
          error_of(TUTTI_INVALID_ARGUMENT, "Two processes join as the same rank: " + other.text() + " and " + member.text(),
                   "Give every process a rank of its own; two jobs with one secret need different addresses");
      error.guilty = {other.guilty(), member.guilty()};
      return error;
    }
  }
  return std::nullopt;
}

// A copy of the descriptor, in a forked child, would keep it in the poller.
void Root::dismiss(std::uint64_t id) {
  const auto guest = guests_.find(id);
  poller_.forget(guest->second.channel.fd());
  guests_.erase(guest);
}

void Root::gone(std::uint64_t id) {
  const Guest& guest = guests_.at(id);
  const auto join = guest.join;
  const bool expected = !join || guest.ready || failure_;
  dismiss(id);
  if (expected) return;
  const Member& member = join->self.member;
  Error error = error_of(TUTTI_REMOTE_ERROR, member.text() + " died or gave up while the communicator was being created",
                         "Look at that process's own output");
  error.guilty.push_back(member.guilty());
  fail(std::move(error));
}

void Root::introduce_all() {
  std::vector<const Introduction*> by_rank(static_cast<std::size_t>(ranks_));
  for (const auto& [id, guest] : guests_) {
    if (guest.join) by_rank[static_cast<std::size_t>(guest.join->self.member.rank)] = &guest.join->self;
  }
  introduced_ = true;
  // Before anybody is told: a fast rank may come back at once, to create its next communicator at the same place, and
  // must find neither this door nor the file.
  poller_.forget(door_->fd());
  door_.reset();
  conclude();
  std::array<unsigned char, kNonceBytes> nonce;
  random_bytes(nonce);
  for (auto& [id, guest] : guests_) introduce(id, guest, nonce, by_rank);
}

void Root::introduce(std::uint64_t id, Guest& guest, std::span<const unsigned char> nonce,
                     std::span<const Introduction* const> by_rank) {
  if (!guest.join) {
    guest.ready = true;
    return send(id, guest, kTooLate, {});
  }
  const auto near = neighbours(guest.join->self.member.rank, ranks_);
  ByteWriter out;
  out.raw(nonce);
  out.u32(static_cast<std::uint32_t>(near.size()));
  for (const int rank : near) pack_introduction(out, *by_rank[static_cast<std::size_t>(rank)]);
  send(id, guest, kIntroduced, out.bytes());
}

void Root::fail(Error error) {
  if (!failure_) {
    failure_ = std::move(error);
    failed_ns_ = now_ns();
    own_told_ns_ = failed_ns_ + kTellNs;
  }
  tell(false);
}

bool Root::is_own(const Guest& guest) const {
  const Member& member = guest.join->self.member;
  return member.pid == self_.pid && member.same_pids(self_);
}

// Tells those who have not been told: the others, or this process's own guests too.
void Root::tell(bool own) {
  ByteWriter in_time;
  ByteWriter late;
  pack_error(in_time, *failure_);
  pack_error(late, late_error());
  for (auto& [id, guest] : guests_) {
    if (!guest.join || guest.ready || (is_own(guest) && !own && own_told_ns_ != 0)) continue;
    send(id, guest, kCreationFailed, (guest.late ? late : in_time).bytes());
    guest.ready = true;  // it has its answer, and its going away is no news
    told_members_.push_back(guest.join->self.member);
  }
  // Release: the messages are with the system before anybody knows that they are.
  if (own) told_.store(true, std::memory_order_release);
}

// What ranks read that come after the creation has failed: late ones, and those that would try again with the same id.
Error Root::late_error() const {
  Error error = *failure_;
  if (renewal_ != Renewal::kNewId) return error;
  error.message = "The creation with this unique id has failed already: " + error.message;
  error.remedy =
      "An id serves one creation: make another, for all ranks" + (error.remedy.empty() ? "" : ". " + error.remedy);
  return error;
}

void Root::tell_last() {
  own_told_ns_ = 0;
  conclude();
  tell(true);
}

bool Root::means_the_next(const Member& member) const {
  return renewal_ == Renewal::kPossible && std::any_of(told_members_.begin(), told_members_.end(), [&](const Member& told) {
           return told.rank == member.rank && told.pid == member.pid && told.same_pids(member);
         });
}

void Root::send(std::uint64_t id, Guest& guest, RootFrame type, std::span<const std::byte> payload) {
  guest.channel.send(type, payload);
  if (guest.channel.pending()) poller_.watch(guest.channel.fd(), id, true, true);
}

Error Root::deadline_error() const {
  std::vector<bool> there(static_cast<std::size_t>(ranks_), false);
  std::uint64_t limit = 0;
  std::uint64_t first = UINT64_MAX;
  for (const auto& [id, guest] : guests_) {
    if (!guest.join) continue;
    there[static_cast<std::size_t>(guest.join->self.member.rank)] = true;
    if (guest.join->left_ns < first) limit = guest.join->limit_ns;
    first = std::min(first, guest.join->left_ns);
  }
  std::vector<int> missing;
  Error error;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (there[static_cast<std::size_t>(rank)]) continue;
    missing.push_back(rank);
    Guilty guilty;
    guilty.rank = rank;
    error.guilty.push_back(std::move(guilty));
  }
  error.status = TUTTI_TIMEOUT;
  error.limit_ns = limit;
  error.message = rank_list(missing) + " of " + std::to_string(ranks_) + " did not join within " + duration_text(limit);
  if (const auto wrong = door_->wrong_keys(); wrong != 0) {
    error.message += ", and " + std::to_string(wrong) + " connections were refused as they have another key";
  }
  if (const int shortage = door_->shortage(); shortage != 0) {
    // They may well have come, and then it is no fault of theirs.
    error.status = TUTTI_SYSTEM_ERROR;
    error.system_error = shortage;
    error.guilty.clear();
    error.message += ", and the rendezvous's process (" + self_.host + ", pid " + std::to_string(self_.pid) +
                     ") cannot take connections: " + std::generic_category().message(shortage);
    error.remedy = kShortageRemedy;
    return error;
  }
  error.remedy = door_->wrong_keys() != 0 ? "Give all ranks the same unique id, TUTTI_SECRET or TUTTI_SECRET_FILE"
                                          : "Raise TUTTI_CONNECT_TIMEOUT if they are only slow to start";
  return error;
}

namespace {

// The roots of this process; a fork of it has roots of its own. A root's thread ends when its creation has succeeded, and
// is joined by the ranks of this process then, or else when the next root is started or the process ends.
class Roots {
 public:
  Result<RootNumber> start(Listener listener, const Key& key, Renewal renewal, std::function<void()> concluded);
  RootNumber of_id(const Key& key);
  void stop(RootNumber number);
  void abandon(RootNumber number, const Error& error);
  void stop_abandoned(std::span<const SocketAddress> addresses);
  void finish(RootNumber number, const Patience& patience);
  void await_told(RootNumber number, const Patience& patience);
  void stop_all();

 private:
  struct Running {
    Running(Listener listener, const Key& its_key, Renewal its_renewal, std::function<void()> concluded)
        : key(its_key),
          renewal(its_renewal),
          addresses(listener.addresses),
          root(std::move(listener), its_key, number, its_renewal, std::move(concluded)) {}
    // Not with Roots::mutex_ held, which the thread takes at its end.
    ~Running() {
      end();
      if (thread.joinable()) thread.join();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    void end() {
      stop.store(true, std::memory_order_release);  // release: seen by whoever the wake-up wakes
      wake.raise();
    }

    const RootNumber number = random_u64() | 1;  // unlike any other's, anywhere
    const Key key;
    const Renewal renewal;
    const std::vector<SocketAddress> addresses;
    Root root;
    WakeUp wake;
    std::atomic<bool> stop{false};
    bool ended = false;      // under Roots::mutex_
    bool abandoned = false;  // likewise
    std::thread thread;
  };
  using List = std::list<Running>;
  Status serve(Running& running);
  void await(std::uint64_t most_ns, const Patience& patience, const std::function<bool(const Running&)>& pending);
  List take(const std::function<bool(const Running&)>& wanted);
  static void end(List list);

  std::mutex mutex_;
  std::condition_variable one_ended_;
  List running_;
};

Result<RootNumber> Roots::start(Listener listener, const Key& key, Renewal renewal, std::function<void()> concluded) {
  List fresh;  // joins those running by itself: nothing may fail between the start of the thread and that
  Running& running = fresh.emplace_back(std::move(listener), key, renewal, std::move(concluded));
  if (!running.root.ready() || !running.wake) {
    return system_error("Opening the rendezvous's descriptors failed", EMFILE);
  }
  List ended;
  const std::lock_guard lock(mutex_);
  ended = take([](const Running& r) { return r.ended; });
  if (Status started = serve(running); !started) return started;
  running_.splice(running_.end(), fresh);
  return running.number;
}

Status Roots::serve(Running& running) {
  auto thread = background_thread("tutti-meeting", [this, self = &running] {
    self->root.serve(self->wake, self->stop);
    const std::lock_guard ending(mutex_);
    self->ended = true;
    one_ended_.notify_all();
  });
  if (thread) running.thread = std::move(thread).value();
  return thread.status();
}

RootNumber Roots::of_id(const Key& key) {
  const std::lock_guard lock(mutex_);
  for (const Running& running : running_) {
    if (running.renewal != Renewal::kPossible && running.key == key) return running.number;
  }
  return 0;
}

void Roots::stop(RootNumber number) {
  List ended;
  {
    const std::lock_guard lock(mutex_);
    ended = take([&](const Running& r) { return r.number == number; });
  }
  end(std::move(ended));
}

void Roots::abandon(RootNumber number, const Error& error) {
  const std::lock_guard lock(mutex_);
  for (Running& running : running_) {
    if (running.number != number) continue;
    running.abandoned = true;
    running.root.give_up(error);
    running.wake.raise();
  }
}

void Roots::stop_abandoned(std::span<const SocketAddress> addresses) {
  List ended;
  {
    const std::lock_guard lock(mutex_);
    ended = take([&](const Running& r) {
      return r.abandoned && std::find_first_of(r.addresses.begin(), r.addresses.end(), addresses.begin(),
                                               addresses.end()) != r.addresses.end();
    });
  }
  end(std::move(ended));
}

void Roots::finish(RootNumber number, const Patience& patience) {
  await(kFinishNs, patience, [&](const Running& r) { return r.number == number && !r.ended; });
  List ended;
  {
    const std::lock_guard lock(mutex_);
    ended = take([&](const Running& r) { return r.ended && r.number == number; });
  }
  end(std::move(ended));
}

void Roots::await_told(RootNumber number, const Patience& patience) {
  await(kAwaitToldNs, patience, [&](const Running& r) { return r.number == number && !r.ended && !r.root.told(); });
}

// Until none of them is pending, or for `most_ns`, or until the caller has had enough.
void Roots::await(std::uint64_t most_ns, const Patience& patience, const std::function<bool(const Running&)>& pending) {
  const Deadline deadline = Deadline::in(most_ns);
  std::unique_lock lock(mutex_);
  while (std::any_of(running_.begin(), running_.end(), pending) && !deadline.passed()) {
    lock.unlock();  // the caller's hook runs without our lock
    if (!patience.check()) return;
    lock.lock();
    one_ended_.wait_for(lock, std::chrono::milliseconds(1));  // that a root has told all raises no event
  }
}

// Removes those from the running ones. With the lock held.
Roots::List Roots::take(const std::function<bool(const Running&)>& wanted) {
  List taken;
  for (auto i = running_.begin(); i != running_.end();) {
    const auto here = i++;
    if (wanted(*here)) taken.splice(taken.end(), running_, here);
  }
  return taken;
}

// All at once, and then waits for each.
void Roots::end(List list) {
  for (Running& running : list) running.end();
}

void Roots::stop_all() {
  List all;
  {
    const std::lock_guard lock(mutex_);
    all = take([](const Running&) { return true; });
  }
  end(std::move(all));
}

constinit PerProcess<Roots> process_roots;

// Ends the roots with the process. A forked child has none of its parent's.
struct StopAtExit {
  ~StopAtExit() { process_roots.get().stop_all(); }
};

Roots& roots() {
  static const StopAtExit at_exit;
  return process_roots.get();
}

}  // namespace

Result<RootNumber> start_root(Listener listener, const Key& key, Renewal renewal, std::function<void()> concluded) {
  return roots().start(std::move(listener), key, renewal, std::move(concluded));
}

RootNumber root_of_id(const Key& key) { return roots().of_id(key); }

void stop_root(RootNumber root) {
  if (root != 0) roots().stop(root);  // where there is one, so is that list: no memory is needed
}

void abandon_root(RootNumber root, const Error& error) { roots().abandon(root, error); }

void stop_abandoned_roots(std::span<const SocketAddress> addresses) { roots().stop_abandoned(addresses); }

void finish_root(RootNumber root, const Patience& patience) { roots().finish(root, patience); }

void await_root_told(RootNumber root, const Patience& patience) { roots().await_told(root, patience); }

}  // namespace tutti
