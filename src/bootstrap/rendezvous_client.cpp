#include "src/bootstrap/rendezvous_client.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <list>
#include <map>

#include "src/base/authenticated_connector.h"
#include "src/base/clock.h"
#include "src/base/exception_boundary.h"
#include "src/tables/units.h"

namespace tutti {

namespace {

constexpr std::uint64_t kRefreshNs = 20 * kMs;
constexpr std::uint64_t kVerdictNs = 500 * kMs;      // beyond the deadline, for the server to say who is missing
constexpr std::uint64_t kKeyGraceNs = 500 * kMs;     // an earlier job may still hold the port for a moment
constexpr std::uint64_t kGoneNs = 300 * kMs;         // so soon a rendezvous that was begun anew is found
constexpr std::uint64_t kDeadNs = 1'500 * kMs;       // a peer that listened and now refuses for this long is gone
constexpr std::uint64_t kMakerNs = 500 * kMs;        // likewise an id's maker
constexpr std::uint64_t kLoopbackNs = 500 * kMs;     // a listener of this process may still come
constexpr std::uint64_t kNoticeNs = 3'000 * kMs;     // for a rank that cannot take part to say so
constexpr std::uint64_t kAbortNoticeNs = 100 * kMs;  // likewise after an abort

const char* const kKeyRemedy = "Give all ranks the same unique id, TUTTI_SECRET or TUTTI_SECRET_FILE";

std::vector<unsigned char> ranks_payload(int from, int to) {
  ByteWriter out;
  out.i32(from);
  out.i32(to);
  return handshake_payload(out);
}

// What a connector sends once it has settled for one of its connections, and the answer; see NeighborConnector.
constexpr unsigned char kSettled = 'S';
constexpr unsigned char kLinked = 'L';

// A fresh connection has room for a byte; where it is broken already, its reader will see that.
void say(const UniqueFd& fd, unsigned char word) {
  static_cast<void>(::send(fd.get(), &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT));
}

// The byte that has arrived, 0 where none has yet, nothing where the connection has ended.
std::optional<unsigned char> hear(const UniqueFd& fd) {
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

void nap(std::initializer_list<int> fds, std::uint64_t until_ns, const WaitLimits& wait_limits) {
  const std::uint64_t now = now_ns();
  const std::uint64_t wanted_ms = until_ns <= now ? 0 : (until_ns - now) / kMs + 1;
  const int ms = static_cast<int>(std::min<std::uint64_t>(wanted_ms, static_cast<std::uint64_t>(wait_limits.slice_ms())));
  std::array<pollfd, 2> waits;
  std::size_t n = 0;
  for (const int fd : fds) waits[n++] = {fd, POLLIN, 0};
  ::poll(waits.data(), n, ms);
}

bool lasts(std::uint64_t since_ns, std::uint64_t long_ns) {
  return since_ns != UINT64_MAX && now_ns() >= since_ns + long_ns;
}

// Over a connection to the server, which said `payload` of itself; its process is that of `rank`.
ServerLink server_link(AuthenticatedConnection accepted, int rank) {
  ByteReader in(std::as_bytes(std::span(accepted.payload)));
  ServerLink server;
  server.channel = FrameChannel(std::move(accepted.fd));
  const ServerId number = in.u64();
  const int pid = in.i32();
  std::string host = in.text();
  if (!in.complete()) return server;
  server.number = number;
  server.holder.rank = rank;
  server.holder.pid = pid;
  server.holder.host = std::move(host);
  return server;
}

// A rank's conversation with the server.
class RendezvousClient {
 public:
  RendezvousClient(const RendezvousPoint& point, const Introduction& self, int ranks, Acceptor& acceptor,
                   const WaitLimits& wait_limits)
      : point_(point), self_(self), ranks_(ranks), acceptor_(acceptor), wait_limits_(wait_limits) {}

  Result<Introduced> run() {
    for (;;) {
      auto accepted = reach();
      if (!accepted) {
        // Nobody there knows of this rank yet.
        if (accepted.status().code() == TUTTI_ABORTED)
          leave_notice(point_, self_.member, ranks_, accepted.status(), wait_limits_);
        return accepted.status();
      }
      gone_ = {};
      ServerLink server = server_link(std::move(accepted).value(), point_.holder);
      say_who(server.channel);
      auto result = listen(std::move(server));
      if (!result) return result;
      if (!gone_.ok()) continue;
      result->key = contents_->key;
      if (result->server.channel.open()) return result;
      if (Status status = await_next(); !status) return status;
    }
  }

  /// Instead: says why this rank cannot take part, and waits until that has been heard.
  Status leave(const Error& why) {
    for (;;) {
      auto accepted = reach();
      if (!accepted) return accepted.status();
      FrameChannel channel(std::move(accepted->fd));
      ByteWriter out;
      pack_join(out, join_message());
      pack_error(out, why);
      channel.send(kNotice, out.bytes());
      std::uint8_t answer = 0;
      while (channel.receive([&](std::uint8_t type, std::span<const std::byte>) { return (answer = type) == 0; })) {
        channel.flush();
        if (Status status = wait_limits_.check(); !status) return status;
        if (wait_limits_.deadline.passed()) return unreachable();
        wait_for(channel.fd(), wait_limits_.deadline.at_ns);
      }
      if (answer != kTooLate) return {};
      if (Status status = await_next(); !status) return status;
    }
  }

 private:
  Result<AuthenticatedConnection> reach();
  Status look_again();
  Status trouble();
  Status connector_trouble(bool late) const;
  Status await_next();
  bool is_dead() const;
  Status wrong_key() const;
  Status starved(int shortage) const;
  Status unreachable() const;
  Status loopback_down() const;
  Status maker_gone() const;
  JoinMessage join_message() const;
  void say_who(FrameChannel& channel) const;
  void tell(const Status& given_up, FrameChannel& channel) const;
  // A closed channel in the result: too late for this rendezvous, there will be another.
  Result<Introduced> listen(ServerLink server);
  void wait_for(int fd, std::uint64_t until_ns) const;

  const RendezvousPoint& point_;
  const Introduction& self_;
  const int ranks_;
  Acceptor& acceptor_;  // has no key yet
  const WaitLimits& wait_limits_;
  std::optional<UniqueIdContents> contents_;
  std::optional<Connector> connector_;
  std::uint64_t next_look_ns_ = 0;
  bool came_too_late_ = false;
  // A server whose connection closed without a word has ended: it died, or its process began the rendezvous anew, and there
  // is another soon.
  Status gone_;
  std::uint64_t gone_ns_ = 0;
};

// A moment until the next rendezvous may have begun.
Status RendezvousClient::await_next() {
  came_too_late_ = true;
  const std::uint64_t until = now_ns() + kRefreshNs;
  while (now_ns() < until) {
    if (Status status = wait_limits_.check(); !status) return status;
    if (wait_limits_.deadline.passed()) return unreachable();
    wait_for(-1, until);
  }
  return {};
}

void RendezvousClient::wait_for(int fd, std::uint64_t until_ns) const {
  nap({fd, acceptor_.fd()}, std::min(until_ns, acceptor_.next_ns()), wait_limits_);
  acceptor_.step();
}

Status RendezvousClient::look_again() {
  const std::uint64_t now = now_ns();
  if (now < next_look_ns_) return {};
  next_look_ns_ = now + kRefreshNs;
  auto found = point_.find();
  if (!found) return found.status();
  if (!*found) return {};
  const bool same = contents_ && contents_->key == (*found)->key && contents_->addresses == (*found)->addresses;
  if (same && connector_) return {};
  if (!same) gone_ = {};
  contents_ = std::move(*found);
  connector_.emplace(contents_->addresses, contents_->key, kRendezvousPurpose, key_name(contents_->key));
  return {};
}

Result<AuthenticatedConnection> RendezvousClient::reach() {
  connector_.reset();
  next_look_ns_ = 0;
  for (;;) {
    if (Status status = look_again(); !status) return status;
    if (connector_ && connector_->step()) return connector_->take();
    if (Status status = trouble(); !status) return status;
    wait_for(connector_ ? connector_->fd() : -1,
             connector_ ? std::min(connector_->next_ns(), next_look_ns_) : next_look_ns_);
  }
}

// Why there is no use in trying on.
Status RendezvousClient::trouble() {
  if (Status status = wait_limits_.check(); !status) return status;
  if (is_dead()) return gone_;
  const bool late = wait_limits_.deadline.passed();
  if (Status status = connector_ ? connector_trouble(late) : Status(); !status) return status;
  if (!late) return {};
  if (const int shortage = shortage_now(); shortage != 0) return starved(shortage);
  return gone_.ok() ? unreachable() : gone_;
}

Status RendezvousClient::connector_trouble(bool late) const {
  if (connector_->starved() != 0) return starved(connector_->starved());
  const std::uint64_t key_refused_ns = connector_->key_refused_since_ns();
  if (lasts(key_refused_ns, kKeyGraceNs) || (late && key_refused_ns != UINT64_MAX)) return wrong_key();
  if (lasts(connector_->loopback_down_since_ns(), kLoopbackNs)) return loopback_down();
  if (point_.listened_first && lasts(connector_->refused_since_ns(), kMakerNs)) return maker_gone();
  return late && connector_->shortage() != 0 ? starved(connector_->shortage()) : Status();
}

Status RendezvousClient::loopback_down() const {
  return Status(TUTTI_SYSTEM_ERROR,
                "rank " + std::to_string(self_.member.rank) + " cannot reach the rendezvous at " + point_.where +
                    ", which is on this machine: " + kLoopbackDown,
                kLoopbackRemedy);
}

Status RendezvousClient::maker_gone() const {
  return Status(
      TUTTI_REMOTE_ERROR,
      "rank " + std::to_string(self_.member.rank) + " came too late to " + point_.where +
          ": nobody answers there any more (the id was used, or its process has ended; " + connector_->explain() + ")",
      "An id serves one creation: make another (tutti_get_unique_id), for all ranks, in a process that runs until "
      "all have joined");
}

bool RendezvousClient::is_dead() const {
  return !gone_.ok() && now_ns() >= gone_ns_ + kGoneNs && (!connector_ || connector_->refused_since_ns() != UINT64_MAX);
}

Status RendezvousClient::wrong_key() const {
  return Status(TUTTI_INVALID_ARGUMENT,
                "The rendezvous at " + point_.where + " refused this rank: it has another key (" + connector_->explain() +
                    ")" + (point_.listened_first ? "; or the id was used, and the port is another's now" : ""),
                kKeyRemedy);
}

Status RendezvousClient::starved(int shortage) const {
  return system_error("rank " + std::to_string(self_.member.rank) + " cannot connect to the rendezvous at " + point_.where,
                      shortage);
}

Status RendezvousClient::unreachable() const {
  Error error;
  error.status = TUTTI_TIMEOUT;
  error.limit_ns = wait_limits_.deadline.limit_ns;
  error.message = "rank " + std::to_string(self_.member.rank) + " did not reach the rendezvous at " + point_.where +
                  " within " + duration_text(wait_limits_.deadline.limit_ns) + ": " +
                  (came_too_late_ ? "the creation before this one failed, and rank 0 has not begun another"
                   : connector_   ? connector_->explain()
                                  : "rank 0 has not announced it");
  if (point_.holder >= 0) error.guilty.emplace_back().rank = point_.holder;
  error.remedy =
      point_.holder == self_.member.rank
          ? "Give an address of this machine, or see that connections to the given one are passed on to here"
          : "See that rank 0 runs and its address can be reached from here; TUTTI_CONNECT_TIMEOUT gives it more time";
  if (connector_ && connector_->key_was_refused()) {
    error.message += "; somebody there has refused this rank's key";
    error.remedy = std::string("See that rank 0 runs. ") + kKeyRemedy;
  }
  return Status(std::move(error));
}

JoinMessage RendezvousClient::join_message() const {
  JoinMessage join;
  join.ranks = ranks_;
  join.left_ns = wait_limits_.deadline.left_ns();
  join.limit_ns = wait_limits_.deadline.limit_ns;
  join.self = self_;
  return join;
}

void RendezvousClient::say_who(FrameChannel& channel) const {
  ByteWriter out;
  pack_join(out, join_message());
  channel.send(kJoin, out.bytes());
}

// Why this rank goes away again, for the others: without a word it would count as dead.
void RendezvousClient::tell(const Status& given_up, FrameChannel& channel) const {
  ByteWriter out;
  pack_error(out, for_others(given_up, self_.member));
  channel.send(kCreationFailed, out.bytes());
}

Result<Introduced> RendezvousClient::listen(ServerLink server) {
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
      wait_limits_.deadline.at_ns > UINT64_MAX - kVerdictNs ? UINT64_MAX : wait_limits_.deadline.at_ns + kVerdictNs;
  for (;;) {
    server.channel.flush();
    const bool goes_on = server.channel.receive(take);
    if (good) result.server = std::move(server);
    if (over && status) return result;
    if (over) return status;
    if (!goes_on) {
      gone_ = server.dead(" at " + point_.where);
      gone_ns_ = now_ns();
      return result;
    }
    if (Status check = wait_limits_.check(); !check) {
      tell(check, server.channel);
      return check;
    }
    if (now_ns() >= until) return unreachable();
    wait_for(server.channel.fd(), until);
  }
}

// Connecting with the neighbours, one object for the duration.
//
// A connector may have several connections under way, one for each address, and only it knows which it takes: the
// acceptor's side may see another one of them proved first. So it sends one byte on the one it takes, and the acceptor's
// side waits for that, links it and answers with one. A connection that ends before the answer tells nothing of the peer's
// death: the peer may have given up before it had it, and then somebody else says why. Whoever gives up itself links what
// it has settled for, as the peer may have linked it already, and learns over it that this rank did not die.
class NeighborConnector {
 public:
  NeighborConnector(ControlPlane& control, Acceptor& acceptor, const std::vector<Introduction>& peers, const Key& key,
                    ServerLink& server, const WaitLimits& wait_limits)
      : control_(control), acceptor_(acceptor), key_(key), server_(server), wait_limits_(wait_limits) {
    for (const Introduction& peer : peers) {
      missing_.emplace(peer.member.rank, &peer);
      if (peer.member.rank > control.rank()) call(peer);
    }
    poller_.watch(acceptor_.fd(), 0, true, false);
    if (server_.channel.open()) poller_.watch(server_.channel.fd(), 0, true, false);
  }

  Status run() {
    for (;;) {
      step_connectors();
      for (AuthenticatedConnection& accepted : acceptor_.step()) admit(std::move(accepted));
      hear_candidates();
      hear_settled();
      if (missing_.empty()) return {};
      if (Status status = trouble(); !status) return give_up(status);
      nap({poller_.fd()}, next_ns(), wait_limits_);
    }
  }

 private:
  struct Proved {  // a connection whose peer knows the key
    int rank;
    UniqueFd fd;
  };

  void call(const Introduction& peer);
  void link(int rank, UniqueFd fd) {
    control_.add_link(std::move(fd), missing_.at(rank)->member);
    missing_.erase(rank);
  }
  void step_connectors();
  void admit(AuthenticatedConnection accepted);
  /// Hands over, and forgets, those that have said a word (`take` gets it) or have ended (nothing).
  void hear_proved(std::list<Proved>& proved, const std::function<void(Proved&, std::optional<unsigned char>)>& take);
  void hear_candidates();
  void hear_settled();
  Status trouble();
  Status give_up(const Status& status);
  Status hear_server();
  Status starved() const;
  Status starved(int peer, int shortage) const;
  Status loopback_down(int peer) const;
  Status deadline_error() const;
  std::uint64_t next_ns() const;

  ControlPlane& control_;
  Acceptor& acceptor_;
  const Key& key_;
  ServerLink& server_;
  const WaitLimits& wait_limits_;
  Poller poller_;
  std::map<int, const Introduction*> missing_;
  std::map<int, Connector> connectors_;
  std::list<Proved> candidates_;  // came in by the acceptor, not settled for yet
  std::list<Proved> settled_;     // a connector's, not answered yet
};

void NeighborConnector::call(const Introduction& peer) {
  const int rank = peer.member.rank;
  ConnectorOptions options;
  options.is_meant = [rank](std::span<const unsigned char> payload) { return read_ranks(payload).first == rank; };
  const auto [place, inserted] = connectors_.try_emplace(rank, peer.addresses, key_, kControlPurpose,
                                                         ranks_payload(control_.rank(), rank), std::move(options));
  poller_.watch(place->second.fd(), 0, true, false);
}

void NeighborConnector::step_connectors() {
  for (auto i = connectors_.begin(); i != connectors_.end();) {
    const auto here = i++;
    if (!here->second.step()) continue;
    AuthenticatedConnection accepted = here->second.take();
    const int rank = here->first;
    poller_.forget(here->second.fd());
    connectors_.erase(here);
    say(accepted.fd, kSettled);
    poller_.watch(accepted.fd.get(), 0, true, false);
    settled_.push_back({rank, std::move(accepted.fd)});
  }
}

void NeighborConnector::admit(AuthenticatedConnection accepted) {
  const auto [from, to] = read_ranks(accepted.payload);
  const bool expected = to == control_.rank() && from < to && missing_.count(from) != 0;
  if (!expected || !poller_.watch(accepted.fd.get(), 0, true, false)) return;
  candidates_.push_back({from, std::move(accepted.fd)});
}

void NeighborConnector::hear_proved(std::list<Proved>& proved,
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

void NeighborConnector::hear_candidates() {
  hear_proved(candidates_, [this](Proved& candidate, std::optional<unsigned char> word) {
    if (word != kSettled || missing_.count(candidate.rank) == 0) return;
    say(candidate.fd, kLinked);
    link(candidate.rank, std::move(candidate.fd));
  });
}

void NeighborConnector::hear_settled() {
  hear_proved(settled_, [this](Proved& settled, std::optional<unsigned char> word) {
    word == kLinked ? link(settled.rank, std::move(settled.fd)) : call(*missing_.at(settled.rank));
  });
}

// First the error, so that what ends on the way is not taken for another.
Status NeighborConnector::give_up(const Status& status) {
  control_.report(for_others(status, this_member(control_.rank())));
  for (Proved& settled : settled_) link(settled.rank, std::move(settled.fd));
  return status;
}

Status NeighborConnector::trouble() {
  // Acquire: first_error() belongs to it.
  if (control_.failed().load(std::memory_order_acquire)) return control_.first_error();
  if (Status status = hear_server(); !status) return status;
  if (Status status = wait_limits_.check(); !status) return status;
  if (Status status = starved(); !status) return status;
  for (const auto& [rank, connector] : connectors_) {
    if (lasts(connector.loopback_down_since_ns(), kLoopbackNs)) return loopback_down(rank);
    if (!lasts(connector.refused_since_ns(), kDeadNs)) continue;
    return Status(refused_by(*missing_.at(rank), this_member(control_.rank()), connector.explain()));
  }
  return wait_limits_.deadline.passed() ? deadline_error() : Status();
}

Status NeighborConnector::hear_server() {
  if (!server_.channel.open()) return {};
  Status status;
  const bool goes_on = server_.channel.receive([&](std::uint8_t type, std::span<const std::byte> payload) {
    ByteReader in(payload);
    if (type == kCreationFailed) status = Status(unpack_error(in));
    return status.ok();
  });
  if (!goes_on && status) {
    server_.channel.close();
    return server_.dead("");
  }
  return status;
}

// Of descriptors or memory on this side, so that no peer is to blame.
Status NeighborConnector::starved() const {
  if (!poller_ || acceptor_.fd() < 0) {
    return system_error("Opening the descriptors for the neighbours' connections failed", EMFILE);
  }
  for (const auto& [rank, connector] : connectors_) {
    if (connector.starved() != 0) return starved(rank, connector.starved());
  }
  return {};
}

Status NeighborConnector::starved(int peer, int shortage) const {
  return system_error("rank " + std::to_string(control_.rank()) + " cannot connect to " + missing_.at(peer)->member.text(),
                      shortage);
}

Status NeighborConnector::loopback_down(int peer) const {
  return Status(TUTTI_SYSTEM_ERROR,
                "rank " + std::to_string(control_.rank()) + " cannot connect to " + missing_.at(peer)->member.text() +
                    ", which is on its machine: " + kLoopbackDown,
                kLoopbackRemedy);
}

Status NeighborConnector::deadline_error() const {
  for (const auto& [rank, connector] : connectors_) {
    if (connector.shortage() != 0) return starved(rank, connector.shortage());
  }
  if (acceptor_.shortage() != 0) {
    return system_error("rank " + std::to_string(control_.rank()) + " cannot take its neighbours' connections",
                        acceptor_.shortage());
  }
  Error error;
  error.status = TUTTI_TIMEOUT;
  error.limit_ns = wait_limits_.deadline.limit_ns;
  std::string peers;
  for (const auto& [rank, peer] : missing_) {
    error.guilty.push_back(peer->member.guilty());
    peers += (peers.empty() ? "" : ", ") + peer->member.text();
    const auto connector = connectors_.find(rank);
    if (connector != connectors_.end()) peers += " [" + connector->second.explain() + "]";
  }
  error.message = "rank " + std::to_string(control_.rank()) + " has no connection with " + peers + " after " +
                  duration_text(wait_limits_.deadline.limit_ns);
  error.remedy =
      "See that the ranks' machines reach each other; TUTTI_INTERFACE chooses the network, TUTTI_PORT_RANGE the ports";
  return Status(std::move(error));
}

std::uint64_t NeighborConnector::next_ns() const {
  std::uint64_t next = std::min(acceptor_.next_ns(), now_ns() + 50 * kMs);  // failures elsewhere are looked for this often
  for (const auto& [rank, connector] : connectors_) next = std::min(next, connector.next_ns());
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

void RendezvousPoint::abandon(const Status& failure, const Member& self, const WaitLimits& wait_limits) const {
  const Status told = catching([&]() -> Status {
    abandon_server(server, for_others(failure, self));
    if (failure.code() != TUTTI_ABORTED) await_failure_told(server, wait_limits);
    if (clean_up) clean_up();
    return {};
  });
  if (!told) stop_server(server);
}

void leave_notice(const RendezvousPoint& point, const Member& self, int ranks, const Status& failure,
                  const WaitLimits& wait_limits) {
  if (point.server != 0) return point.abandon(failure, self, wait_limits);
  WaitLimits brief = wait_limits;
  if (failure.code() == TUTTI_ABORTED) brief = {};
  const Deadline most = Deadline::in(failure.code() == TUTTI_ABORTED ? kAbortNoticeNs : kNoticeNs);
  if (most.at_ns < brief.deadline.at_ns) brief.deadline = most;
  const Status left = catching([&] {
    Acceptor nobody{Listener{}};
    return RendezvousClient(point, {self, {}}, ranks, nobody, brief).leave(for_others(failure, self));
  });
  static_cast<void>(left);  // whoever cannot be told reads that this rank is missing
}

Status ServerLink::dead(const std::string& where) const {
  Error error;
  error.status = TUTTI_REMOTE_ERROR;
  error.message = "The process that holds the rendezvous" + where;
  if (holder.pid != 0) error.message += " (" + holder.host + ", pid " + std::to_string(holder.pid) + ")";
  error.message += " died while ranks were joining";
  error.remedy = "Look at that process's own output";
  if (holder.rank >= 0) error.guilty = {holder};
  return Status(std::move(error));
}

Result<Introduced> introduce(const RendezvousPoint& point, const Introduction& self, int ranks, Acceptor& acceptor,
                             const WaitLimits& wait_limits) {
  return RendezvousClient(point, self, ranks, acceptor, wait_limits).run();
}

Status connect_neighbours(ControlPlane& control, Acceptor& acceptor, const std::vector<Introduction>& peers, const Key& key,
                          ServerLink& server, const WaitLimits& wait_limits) {
  acceptor.set_key(key, kControlPurpose, ranks_payload(control.rank(), control.rank()));
  return NeighborConnector(control, acceptor, peers, key, server, wait_limits).run();
}

Error refused_by(const Introduction& peer, const Member& self, const std::string& connector) {
  const Member& member = peer.member;
  const bool loopback = std::ranges::all_of(peer.addresses, [](const SocketAddress& a) { return a.loopback(); });
  const bool leads_here = loopback && member.machine != self.machine;
  Error error;
  error.status = TUTTI_REMOTE_ERROR;
  error.message = member.text() +
                  (leads_here ? " cannot be reached: it announces loopback addresses alone, which lead to this "
                                "machine and not to its own ("
                              : " died while the communicator was being created: it listens no more (") +
                  connector + ")";
  error.remedy = leads_here ? "Let TUTTI_INTERFACE there name an interface that other machines reach, or none"
                            : "Look at that process's own output";
  error.guilty = {member.guilty()};
  return error;
}

}  // namespace tutti
