#include "src/communicator/graph.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <list>
#include <map>

#include "src/base/clock.h"
#include "src/communicator/caller.h"
#include "src/communicator/caught.h"

namespace tutti {

namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kRefreshNs = 20 * kMs;
constexpr std::uint64_t kVerdictNs = 500 * kMs;   // beyond the deadline, for the root to say who is missing
constexpr std::uint64_t kKeyGraceNs = 500 * kMs;  // an earlier job may still hold the port for a moment
constexpr std::uint64_t kGoneNs = 300 * kMs;      // so soon a meeting that was begun anew is found
constexpr std::uint64_t kDeadNs = 1'500 * kMs;    // a peer that listened and now refuses for this long is gone
constexpr std::uint64_t kMakerNs = 500 * kMs;     // likewise an id's maker
constexpr std::uint64_t kLoopbackNs = 500 * kMs;  // a listener of this process may still come
constexpr std::uint64_t kNoticeNs = 3'000 * kMs;  // for a rank that cannot take part to say so
constexpr std::uint64_t kPartingNs = 100 * kMs;   // likewise after an abort

const char* const kKeyRemedy = "Give all ranks the same unique id, TUTTI_SECRET or TUTTI_SECRET_FILE";

std::vector<unsigned char> as_payload(const ByteWriter& out) {
  const auto* first = reinterpret_cast<const unsigned char*>(out.bytes().data());
  return {first, first + out.size()};
}

std::vector<unsigned char> ranks_payload(int from, int to) {
  ByteWriter out;
  out.i32(from);
  out.i32(to);
  return as_payload(out);
}

// What a caller sends once it has settled for one of its connections, and the answer; see Assembly.
constexpr unsigned char kSettled = 'S';
constexpr unsigned char kLinked = 'L';

// A fresh connection has room for a byte; where it is broken already, its reader will see that.
void say(const Descriptor& fd, unsigned char word) {
  static_cast<void>(::send(fd.get(), &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT));
}

// The byte that has arrived, 0 where none has yet, nothing where the connection has ended.
std::optional<unsigned char> hear(const Descriptor& fd) {
  unsigned char word = 0;
  const ssize_t n = ::recv(fd.get(), &word, 1, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  return n == 1 ? std::optional(word) : std::nullopt;
}

std::pair<int, int> read_ranks(std::span<const unsigned char> payload) {
  ByteReader in(std::as_bytes(payload));
  const int from = in.i32();
  const int to = in.i32();
  return in.complete() ? std::pair(from, to) : std::pair(-1, -1);
}

void nap(std::initializer_list<int> fds, std::uint64_t until_ns, const Patience& patience) {
  const std::uint64_t now = now_ns();
  const std::uint64_t wanted_ms = until_ns <= now ? 0 : (until_ns - now) / kMs + 1;
  const int ms = static_cast<int>(std::min<std::uint64_t>(wanted_ms, static_cast<std::uint64_t>(patience.slice_ms())));
  std::array<pollfd, 2> waits;
  std::size_t n = 0;
  for (const int fd : fds) waits[n++] = {fd, POLLIN, 0};
  ::poll(waits.data(), n, ms);
}

bool lasts(std::uint64_t since_ns, std::uint64_t long_ns) {
  return since_ns != UINT64_MAX && now_ns() >= since_ns + long_ns;
}

// Over a connection to the root, which said `payload` of itself; its process is that of `rank`.
RootLink root_link(Arrival arrival, int rank) {
  ByteReader in(std::as_bytes(std::span(arrival.payload)));
  RootLink root;
  root.channel = Channel(std::move(arrival.fd));
  const RootNumber number = in.u64();
  const int pid = in.i32();
  std::string host = in.text();
  if (!in.complete()) return root;
  root.number = number;
  root.holder.rank = rank;
  root.holder.pid = pid;
  root.holder.host = std::move(host);
  return root;
}

// One visit to the root.
class Visit {
 public:
  Visit(const Meeting& meeting, const Introduction& self, int ranks, Anteroom& anteroom, const Patience& patience)
      : meeting_(meeting), self_(self), ranks_(ranks), anteroom_(anteroom), patience_(patience) {}

  Result<Introduced> run() {
    for (;;) {
      auto arrival = reach();
      if (!arrival) {
        // Nobody there knows of this rank yet.
        if (arrival.status().code() == TUTTI_ABORTED)
          leave_notice(meeting_, self_.member, ranks_, arrival.status(), patience_);
        return arrival.status();
      }
      gone_ = {};
      RootLink root = root_link(std::move(arrival).value(), meeting_.holder);
      say_who(root.channel);
      auto result = listen(std::move(root));
      if (!result) return result;
      if (!gone_.ok()) continue;
      result->key = identity_->key;
      if (result->root.channel.open()) return result;
      if (Status status = await_next(); !status) return status;
    }
  }

  /// Instead: says why this rank cannot take part, and waits until that has been heard.
  Status leave(const Error& why) {
    for (;;) {
      auto arrival = reach();
      if (!arrival) return arrival.status();
      Channel channel(std::move(arrival->fd));
      ByteWriter out;
      pack_join(out, join_message());
      pack_error(out, why);
      channel.send(kNotice, out.bytes());
      std::uint8_t answer = 0;
      while (channel.receive([&](std::uint8_t type, std::span<const std::byte>) { return (answer = type) == 0; })) {
        channel.flush();
        if (Status status = patience_.check(); !status) return status;
        if (patience_.deadline.passed()) return unreachable();
        wait_for(channel.fd(), patience_.deadline.at_ns);
      }
      if (answer != kTooLate) return {};
      if (Status status = await_next(); !status) return status;
    }
  }

 private:
  Result<Arrival> reach();
  Status look_again();
  Status await_next();
  bool is_dead() const;
  Status wrong_key() const;
  Status starved(int shortage) const;
  Status unreachable() const;
  Status loopback_down() const;
  Status maker_gone() const;
  JoinMessage join_message() const;
  void say_who(Channel& channel) const;
  void tell(const Status& given_up, Channel& channel) const;
  // A closed channel in the result: too late for this meeting, there will be another.
  Result<Introduced> listen(RootLink root);
  void wait_for(int fd, std::uint64_t until_ns) const;

  const Meeting& meeting_;
  const Introduction& self_;
  const int ranks_;
  Anteroom& anteroom_;
  const Patience& patience_;
  std::optional<Identity> identity_;
  std::optional<Caller> caller_;
  std::uint64_t next_look_ns_ = 0;
  bool came_too_late_ = false;
  // A root whose connection closed without a word has ended: it died, or its process began the meeting anew, and there
  // is another soon.
  Status gone_;
  std::uint64_t gone_ns_ = 0;
};

// A moment until the next meeting may have begun.
Status Visit::await_next() {
  came_too_late_ = true;
  const std::uint64_t until = now_ns() + kRefreshNs;
  while (now_ns() < until) {
    if (Status status = patience_.check(); !status) return status;
    if (patience_.deadline.passed()) return unreachable();
    wait_for(-1, until);
  }
  return {};
}

void Visit::wait_for(int fd, std::uint64_t until_ns) const {
  nap({fd, anteroom_.fd()}, std::min(until_ns, anteroom_.next_ns()), patience_);
  anteroom_.step();
}

Status Visit::look_again() {
  const std::uint64_t now = now_ns();
  if (now < next_look_ns_) return {};
  next_look_ns_ = now + kRefreshNs;
  auto found = meeting_.find();
  if (!found) return found.status();
  if (!*found) return {};
  const bool same = identity_ && identity_->key == (*found)->key && identity_->addresses == (*found)->addresses;
  if (same && caller_) return {};
  if (!same) gone_ = {};
  identity_ = std::move(*found);
  caller_.emplace(identity_->addresses, identity_->key, kRootPurpose, root_name(identity_->key));
  return {};
}

Result<Arrival> Visit::reach() {
  caller_.reset();
  next_look_ns_ = 0;
  for (;;) {
    if (Status status = look_again(); !status) return status;
    if (caller_ && caller_->step()) return caller_->take();
    if (Status status = patience_.check(); !status) return status;
    if (is_dead()) return gone_;
    if (caller_ && caller_->starved() != 0) return starved(caller_->starved());
    const bool late = patience_.deadline.passed();
    const std::uint64_t refused_since = caller_ ? caller_->key_refused_since_ns() : UINT64_MAX;
    if (refused_since != UINT64_MAX && (late || now_ns() >= refused_since + kKeyGraceNs)) return wrong_key();
    if (caller_ && lasts(caller_->loopback_down_since_ns(), kLoopbackNs)) return loopback_down();
    if (meeting_.listened_first && caller_ && lasts(caller_->refused_since_ns(), kMakerNs)) return maker_gone();
    if (late && caller_ && caller_->shortage() != 0) return starved(caller_->shortage());
    if (const int shortage = late ? shortage_now() : 0; shortage != 0) return starved(shortage);
    if (late) return gone_.ok() ? unreachable() : gone_;
    wait_for(caller_ ? caller_->fd() : -1, caller_ ? std::min(caller_->next_ns(), next_look_ns_) : next_look_ns_);
  }
}

Status Visit::loopback_down() const {
  return Status(TUTTI_SYSTEM_ERROR,
                "rank " + std::to_string(self_.member.rank) + " cannot reach the rendezvous at " + meeting_.where +
                    ", which is on this machine: " + kLoopbackDown,
                kLoopbackRemedy);
}

Status Visit::maker_gone() const {
  return Status(
      TUTTI_REMOTE_ERROR,
      "rank " + std::to_string(self_.member.rank) + " came too late to " + meeting_.where +
          ": nobody answers there any more (the id was used, or its process has ended; " + caller_->explain() + ")",
      "An id serves one creation: make another (tutti_get_unique_id), for all ranks, in a process that runs until "
      "all have joined");
}

bool Visit::is_dead() const {
  return !gone_.ok() && now_ns() >= gone_ns_ + kGoneNs && (!caller_ || caller_->refused_since_ns() != UINT64_MAX);
}

Status Visit::wrong_key() const {
  return Status(TUTTI_INVALID_ARGUMENT,
                "The rendezvous at " + meeting_.where + " refused this rank: it has another key (" + caller_->explain() +
                    ")" + (meeting_.listened_first ? "; or the id was used, and the port is another's now" : ""),
                kKeyRemedy);
}

Status Visit::starved(int shortage) const {
  return system_error(
      "rank " + std::to_string(self_.member.rank) + " cannot connect to the rendezvous at " + meeting_.where, shortage);
}

Status Visit::unreachable() const {
  Error error;
  error.status = TUTTI_TIMEOUT;
  error.limit_ns = patience_.deadline.limit_ns;
  error.message = "rank " + std::to_string(self_.member.rank) + " did not reach the rendezvous at " + meeting_.where +
                  " within " + duration_text(patience_.deadline.limit_ns) + ": " +
                  (came_too_late_ ? "the creation before this one failed, and rank 0 has not begun another"
                   : caller_      ? caller_->explain()
                                  : "rank 0 has not announced it");
  if (meeting_.holder >= 0) error.guilty.emplace_back().rank = meeting_.holder;
  error.remedy = "See that rank 0 runs and its address can be reached from here; TUTTI_CONNECT_TIMEOUT gives it more time";
  if (caller_ && caller_->key_was_refused()) {
    error.message += "; somebody there has refused this rank's key";
    error.remedy = std::string("See that rank 0 runs. ") + kKeyRemedy;
  }
  return Status(std::move(error));
}

JoinMessage Visit::join_message() const {
  JoinMessage join;
  join.ranks = ranks_;
  join.left_ns = patience_.deadline.left_ns();
  join.limit_ns = patience_.deadline.limit_ns;
  join.self = self_;
  return join;
}

void Visit::say_who(Channel& channel) const {
  ByteWriter out;
  pack_join(out, join_message());
  channel.send(kJoin, out.bytes());
}

// Why this rank goes away again, for the others: without a word it would count as dead.
void Visit::tell(const Status& given_up, Channel& channel) const {
  ByteWriter out;
  pack_error(out, for_others(given_up, self_.member));
  channel.send(kCreationFailed, out.bytes());
}

Result<Introduced> Visit::listen(RootLink root) {
  Introduced result;
  Status status;
  bool over = false;
  bool good = false;
  const auto take = [&](std::uint8_t type, std::span<const std::byte> payload) {
    ByteReader in(payload);
    over = true;
    if (type == kIntroduced) {
      in.copy(result.nonce);
      const std::uint32_t count = in.u32();
      for (std::uint32_t i = 0; i < count && in.ok(); ++i) result.neighbours.push_back(unpack_introduction(in));
      good = in.complete();
    } else if (type == kCreationFailed) {
      status = Status(unpack_error(in));
    }
    return false;
  };
  const std::uint64_t until =
      patience_.deadline.at_ns > UINT64_MAX - kVerdictNs ? UINT64_MAX : patience_.deadline.at_ns + kVerdictNs;
  for (;;) {
    root.channel.flush();
    const bool goes_on = root.channel.receive(take);
    if (good) result.root = std::move(root);
    if (over && status) return result;
    if (over) return status;
    if (!goes_on) {
      gone_ = root.dead(" at " + meeting_.where);
      gone_ns_ = now_ns();
      return result;
    }
    if (Status check = patience_.check(); !check) {
      tell(check, root.channel);
      return check;
    }
    if (now_ns() >= until) return unreachable();
    wait_for(root.channel.fd(), until);
  }
}

// Connecting with the neighbours, one object for the duration.
//
// A caller may have several connections under way, one for each address, and only it knows which it takes: the door's side
// may see another one of them proved first. So it sends one byte on the one it takes, and the door's side waits for that,
// links it and answers with one. A connection that ends before the answer tells nothing of the peer's death: the peer may
// have given up before it had it, and then somebody else says why. Whoever gives up itself links what it has settled for,
// as the peer may have linked it already, and learns over it that this rank did not die.
class Assembly {
 public:
  Assembly(ControlPlane& control, Door& door, const std::vector<Introduction>& peers, const Key& key, RootLink& root,
           const Patience& patience)
      : control_(control), door_(door), key_(key), root_(root), patience_(patience) {
    for (const Introduction& peer : peers) {
      missing_.emplace(peer.member.rank, &peer);
      if (peer.member.rank > control.rank()) call(peer);
    }
    poller_.watch(door_.fd(), 0, true, false);
    if (root_.channel.open()) poller_.watch(root_.channel.fd(), 0, true, false);
  }

  Status run() {
    for (;;) {
      step_callers();
      for (Arrival& arrival : door_.step()) admit(std::move(arrival));
      hear_candidates();
      hear_settled();
      if (missing_.empty()) return {};
      if (Status status = trouble(); !status) return give_up(status);
      nap({poller_.fd()}, next_ns(), patience_);
    }
  }

 private:
  struct Proved {  // a connection whose peer knows the key
    int rank;
    Descriptor fd;
  };

  void call(const Introduction& peer);
  void link(int rank, Descriptor fd) {
    control_.add_link(std::move(fd), missing_.at(rank)->member);
    missing_.erase(rank);
  }
  void step_callers();
  void admit(Arrival arrival);
  /// Hands over, and forgets, those that have said a word (`take` gets it) or have ended (nothing).
  void hear_proved(std::list<Proved>& proved, const std::function<void(Proved&, std::optional<unsigned char>)>& take);
  void hear_candidates();
  void hear_settled();
  Status trouble();
  Status give_up(const Status& status);
  Status hear_root();
  Status starved() const;
  Status starved(int peer, int shortage) const;
  Status loopback_down(int peer) const;
  Status deadline_error() const;
  std::uint64_t next_ns() const;

  ControlPlane& control_;
  Door& door_;
  const Key& key_;
  RootLink& root_;
  const Patience& patience_;
  Poller poller_;
  std::map<int, const Introduction*> missing_;
  std::map<int, Caller> callers_;
  std::list<Proved> candidates_;  // came in by the door, not settled for yet
  std::list<Proved> settled_;     // a caller's, not answered yet
};

void Assembly::call(const Introduction& peer) {
  const int rank = peer.member.rank;
  const auto [place, inserted] =
      callers_.try_emplace(rank, peer.addresses, key_, kControlPurpose, ranks_payload(control_.rank(), rank));
  poller_.watch(place->second.fd(), 0, true, false);
}

void Assembly::step_callers() {
  for (auto i = callers_.begin(); i != callers_.end();) {
    const auto here = i++;
    if (!here->second.step()) continue;
    Arrival arrival = here->second.take();
    const int rank = here->first;
    if (read_ranks(arrival.payload).first != rank) continue;  // somebody else has that address: try on
    poller_.forget(here->second.fd());
    callers_.erase(here);
    say(arrival.fd, kSettled);
    poller_.watch(arrival.fd.get(), 0, true, false);
    settled_.push_back({rank, std::move(arrival.fd)});
  }
}

void Assembly::admit(Arrival arrival) {
  const auto [from, to] = read_ranks(arrival.payload);
  const bool expected = to == control_.rank() && from < to && missing_.count(from) != 0;
  if (!expected || !poller_.watch(arrival.fd.get(), 0, true, false)) return;
  candidates_.push_back({from, std::move(arrival.fd)});
}

void Assembly::hear_proved(std::list<Proved>& proved,
                           const std::function<void(Proved&, std::optional<unsigned char>)>& take) {
  for (auto i = proved.begin(); i != proved.end();) {
    const auto here = i++;
    const auto word = hear(here->fd);
    if (word == 0) continue;
    poller_.forget(here->fd.get());
    take(*here, word);
    proved.erase(here);
  }
}

void Assembly::hear_candidates() {
  hear_proved(candidates_, [this](Proved& candidate, std::optional<unsigned char> word) {
    if (word != kSettled || missing_.count(candidate.rank) == 0) return;
    say(candidate.fd, kLinked);
    link(candidate.rank, std::move(candidate.fd));
  });
}

void Assembly::hear_settled() {
  hear_proved(settled_, [this](Proved& settled, std::optional<unsigned char> word) {
    word == kLinked ? link(settled.rank, std::move(settled.fd)) : call(*missing_.at(settled.rank));
  });
}

// First the error, so that what ends on the way is not taken for another.
Status Assembly::give_up(const Status& status) {
  control_.report(for_others(status, this_member(control_.rank())));
  for (Proved& settled : settled_) link(settled.rank, std::move(settled.fd));
  return status;
}

Status Assembly::trouble() {
  // Acquire: first_error() belongs to it.
  if (control_.failed().load(std::memory_order_acquire)) return control_.first_error();
  if (Status status = hear_root(); !status) return status;
  if (Status status = patience_.check(); !status) return status;
  if (Status status = starved(); !status) return status;
  for (const auto& [rank, caller] : callers_) {
    if (lasts(caller.loopback_down_since_ns(), kLoopbackNs)) return loopback_down(rank);
    if (!lasts(caller.refused_since_ns(), kDeadNs)) continue;
    return Status(refused_by(*missing_.at(rank), this_member(control_.rank()), caller.explain()));
  }
  return patience_.deadline.passed() ? deadline_error() : Status();
}

Status Assembly::hear_root() {
  if (!root_.channel.open()) return {};
  Status status;
  const bool goes_on = root_.channel.receive([&](std::uint8_t type, std::span<const std::byte> payload) {
    ByteReader in(payload);
    if (type == kCreationFailed) status = Status(unpack_error(in));
    return status.ok();
  });
  if (!goes_on && status) {
    root_.channel.close();
    return root_.dead("");
  }
  return status;
}

// Of descriptors or memory on this side, so that no peer is to blame.
Status Assembly::starved() const {
  if (!poller_ || door_.fd() < 0) {
    return system_error("Opening the descriptors for the neighbours' connections failed", EMFILE);
  }
  for (const auto& [rank, caller] : callers_) {
    if (caller.starved() != 0) return starved(rank, caller.starved());
  }
  return {};
}

Status Assembly::starved(int peer, int shortage) const {
  return system_error("rank " + std::to_string(control_.rank()) + " cannot connect to " + missing_.at(peer)->member.text(),
                      shortage);
}

Status Assembly::loopback_down(int peer) const {
  return Status(TUTTI_SYSTEM_ERROR,
                "rank " + std::to_string(control_.rank()) + " cannot connect to " + missing_.at(peer)->member.text() +
                    ", which is on its machine: " + kLoopbackDown,
                kLoopbackRemedy);
}

Status Assembly::deadline_error() const {
  for (const auto& [rank, caller] : callers_) {
    if (caller.shortage() != 0) return starved(rank, caller.shortage());
  }
  if (door_.shortage() != 0) {
    return system_error("rank " + std::to_string(control_.rank()) + " cannot take its neighbours' connections",
                        door_.shortage());
  }
  Error error;
  error.status = TUTTI_TIMEOUT;
  error.limit_ns = patience_.deadline.limit_ns;
  std::string peers;
  for (const auto& [rank, peer] : missing_) {
    error.guilty.push_back(peer->member.guilty());
    peers += (peers.empty() ? "" : ", ") + peer->member.text();
    const auto caller = callers_.find(rank);
    if (caller != callers_.end()) peers += " [" + caller->second.explain() + "]";
  }
  error.message = "rank " + std::to_string(control_.rank()) + " has no connection with " + peers + " after " +
                  duration_text(patience_.deadline.limit_ns);
  error.remedy =
      "See that the ranks' machines reach each other; TUTTI_INTERFACE chooses the network, TUTTI_PORT_RANGE the ports";
  return Status(std::move(error));
}

std::uint64_t Assembly::next_ns() const {
  std::uint64_t next = std::min(door_.next_ns(), now_ns() + 50 * kMs);  // failures elsewhere are looked for this often
  for (const auto& [rank, caller] : callers_) next = std::min(next, caller.next_ns());
  return next;
}

}  // namespace

Error for_others(const Status& status, const Member& self) {
  Error error = status.error();
  if (error.status == TUTTI_ABORTED) {
    error.message = self.text() + " gave up while the communicator was being created";
    error.guilty.clear();
  }
  if (error.guilty.empty()) error.guilty.push_back(self.guilty());
  return error;
}

namespace {
// "rank 12" does not tell of rank 1.
bool tells_of(const std::string& sentence, int rank) {
  const std::string name = "rank " + std::to_string(rank);
  for (auto at = sentence.find(name); at != std::string::npos; at = sentence.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (end == sentence.size() || sentence[end] < '0' || sentence[end] > '9') return true;
  }
  return false;
}
}  // namespace

Status named(const Status& failure, const Member& self) {
  if (failure.ok() || failure.code() == TUTTI_ABORTED || tells_of(failure.error().message, self.rank)) return failure;
  Error error = failure.error();
  error.message = self.text() + " cannot join: " + error.message;
  return Status(std::move(error));
}

void Meeting::abandon(const Status& failure, const Member& self, const Patience& patience) const {
  const Status told = attempt([&]() -> Status {
    abandon_root(root, for_others(failure, self));
    if (failure.code() != TUTTI_ABORTED) await_root_told(root, patience);
    if (clean_up) clean_up();
    return {};
  });
  if (!told) stop_root(root);
}

void leave_notice(const Meeting& meeting, const Member& self, int ranks, const Status& failure, const Patience& patience) {
  if (meeting.root != 0) return meeting.abandon(failure, self, patience);
  Patience brief = patience;
  if (failure.code() == TUTTI_ABORTED) brief = {};
  const Deadline most = Deadline::in(failure.code() == TUTTI_ABORTED ? kPartingNs : kNoticeNs);
  if (most.at_ns < brief.deadline.at_ns) brief.deadline = most;
  const Status left = attempt([&] {
    Anteroom nobody{Listener{}};
    return Visit(meeting, {self, {}}, ranks, nobody, brief).leave(for_others(failure, self));
  });
  static_cast<void>(left);  // whoever cannot be told reads that this rank is missing
}

Status RootLink::dead(const std::string& where) const {
  Error error;
  error.status = TUTTI_REMOTE_ERROR;
  error.message = "The process that holds the rendezvous" + where;
  if (holder.pid != 0) error.message += " (" + holder.host + ", pid " + std::to_string(holder.pid) + ")";
  error.message += " died while ranks were joining";
  error.remedy = "Look at that process's own output";
  if (holder.rank >= 0) error.guilty = {holder};
  return Status(std::move(error));
}

Result<Introduced> introduce(const Meeting& meeting, const Introduction& self, int ranks, Anteroom& anteroom,
                             const Patience& patience) {
  return Visit(meeting, self, ranks, anteroom, patience).run();
}

Status connect_neighbours(ControlPlane& control, Door& door, const std::vector<Introduction>& peers, const Key& key,
                          RootLink& root, const Patience& patience) {
  return Assembly(control, door, peers, key, root, patience).run();
}

Error refused_by(const Introduction& peer, const Member& self, const std::string& caller) {
  const Member& member = peer.member;
  const bool loopback = std::ranges::all_of(peer.addresses, [](const SocketAddress& a) { return a.loopback(); });
  const bool leads_here = loopback && member.machine != self.machine;
  Error error;
  error.status = TUTTI_REMOTE_ERROR;
  error.message = member.text() +
                  (leads_here ? " cannot be reached: it announces loopback addresses alone, which lead to this "
                                "machine and not to its own ("
                              : " died while the communicator was being created: it listens no more (") +
                  caller + ")";
  error.remedy = leads_here ? "Let TUTTI_INTERFACE there name an interface that other machines reach, or none"
                            : "Look at that process's own output";
  error.guilty = {member.guilty()};
  return error;
}

Door control_door(Anteroom::Contents contents, const Key& key, int rank) {
  return Door(std::move(contents.listener), std::move(contents.in_process), std::move(contents.guests), key,
              kControlPurpose, ranks_payload(rank, rank));
}

}  // namespace tutti
