#include "src/bootstrap/rendezvous_server.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/background_thread.h"
#include "src/base/clock.h"
#include "src/base/exception_boundary.h"
#include "src/base/made_once.h"
#include "src/base/per_process.h"
#include "src/base/plural.h"
#include "src/base/random.h"
#include "src/tables/units.h"

namespace tutti {

namespace {

constexpr std::uint64_t kJoinNs = 5 * kSecond;           // an authenticated client says within this time who it is
constexpr std::uint64_t kTellNs = kSecond;               // after a failure, for ranks on their way to come and hear why
constexpr std::uint64_t kShortageNs = 3 * kSecond;       // without a descriptor for who comes; some may be given back
constexpr std::uint64_t kHearNs = 3 * kSecond / 2;       // for those who were kept out by that
constexpr std::uint64_t kLingerNs = 10 * kSecond;        // after a failure, to tell late ranks why
constexpr std::uint64_t kPartingNs = kSecond / 2;        // a client that has its answer closes within this time
constexpr std::uint64_t kFinishNs = kSecond;             // the last words of a creation that has succeeded take far less
constexpr std::uint64_t kAwaitToldNs = 5 * kSecond / 2;  // in that time ranks notice a dead neighbour by themselves, too
constexpr std::size_t kMostUsed = 1024;                  // ids whose use is told of in all words
constexpr std::size_t kMostUsedNames = 65'536;           // ids that are known to have been used
constexpr std::size_t kMostShared = 4;                   // listening sockets of ids

// Unlike any other's, anywhere.
ServerId new_number() { return random_u64() | 1; }

std::vector<unsigned char> server_payload(ServerId number) {
  ByteWriter out;
  out.u64(number);
  out.i32(::getpid());
  out.text(host_name().substr(0, 48));
  return handshake_payload(out);
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

std::vector<unsigned char> key_name(const Key& key) {
  const Key name = derive_key(key, "rendezvous name");
  return {name.begin(), name.begin() + 16};
}

RendezvousServer::~RendezvousServer() {
  if (!failure_.ok() && !told_) {
    static_cast<void>(catching([&]() -> Status {
      tell_last();
      return {};
    }));
  }
  conclude();
  close_acceptor();
  while (!clients_.empty()) dismiss(clients_.begin()->first);
}

bool RendezvousServer::open_acceptor(Listener listener, const Key& key, std::vector<unsigned char> payload) {
  own_acceptor_.emplace(std::move(listener), key, kRendezvousPurpose, std::move(payload));
  return own_acceptor_->fd() >= 0 && poller_.watch(own_acceptor_->fd(), next_tag_++, true, false);
}

// A forked child's copy of the descriptor would keep it in the poller otherwise.
void RendezvousServer::close_acceptor() {
  if (own_acceptor_) poller_.forget(own_acceptor_->fd());
  own_acceptor_.reset();
}

void RendezvousServer::conclude() {
  if (const auto conclusion = std::exchange(on_conclusion_, {})) {
    static_cast<void>(catching([&]() -> Status {
      conclusion();
      return {};
    }));
  }
}

void RendezvousServer::end_without_memory(const Status& status) noexcept {
  if (failure_.ok()) {
    failure_ = status;
    failed_ns_ = now_ns();
  }
  told_ = true;
  own_told_ns_ = 0;
  conclude();
  close_acceptor();
  while (!clients_.empty()) dismiss(clients_.begin()->first);
}

void RendezvousServer::step() {
  if (now_ns() >= told_from_ns_) told_from_ns_ = 0;
  if (own_acceptor_) {
    for (AuthenticatedConnection& accepted : own_acceptor_->step()) take_client(std::move(accepted));
  }
  dismiss_silent_clients();
  fail_in_time();
  if (!failure_.ok() && own_told_ns_ != 0 && (now_ns() >= own_told_ns_ || all_heard())) tell_last();
}

void RendezvousServer::dismiss_silent_clients() {
  const std::uint64_t now = now_ns();
  std::vector<std::uint64_t> silent;
  for (const auto& [id, client] : clients_) {
    if (now >= client.until_ns) silent.push_back(id);
  }
  for (const std::uint64_t id : silent) dismiss(id);
}

void RendezvousServer::fail_in_time() {
  const std::uint64_t now = now_ns();
  if (introduced_ || !failure_.ok()) return;
  if (now >= shut_ns()) {
    // This process's own give back what they hold, with which the others can be told.
    fail(shortage_error({}));
    tell_last();
    told_from_ns_ = now + kHearNs;
    return;
  }
  if (now < deadline_ns()) return;
  fail(deadline_error());
  expired_ = true;
  own_told_ns_ = now;  // who is missing now has had all the time there was
}

bool RendezvousServer::over() const {
  if (!failure_.ok()) {
    return told() && clients_.empty() && (reuse_policy_ != ReusePolicy::kPossible || now_ns() >= failed_ns_ + kLingerNs);
  }
  if (!introduced_) return false;
  return std::all_of(clients_.begin(), clients_.end(), [](const auto& entry) { return entry.second.ready; });
}

std::uint64_t RendezvousServer::next_ns() const {
  std::uint64_t next = std::min({own_acceptor_ ? own_acceptor_->next_ns() : UINT64_MAX, deadline_ns(), shut_ns()});
  for (const auto& [id, client] : clients_) next = std::min(next, client.until_ns);
  if (failure_.ok()) return next;
  if (own_told_ns_ != 0) next = std::min(next, own_told_ns_);
  if (told_from_ns_ != 0) next = std::min(next, told_from_ns_);
  return reuse_policy_ == ReusePolicy::kPossible ? std::min(next, failed_ns_ + kLingerNs) : next;
}

std::uint64_t RendezvousServer::deadline_ns() const {
  std::uint64_t deadline = UINT64_MAX;
  if (introduced_ || !failure_.ok()) return deadline;
  for (const auto& [id, client] : clients_) {
    if (client.join) deadline = std::min(deadline, client.join->left_ns);  // made absolute when it came
  }
  return deadline;
}

// When it has been without a descriptor for too long.
std::uint64_t RendezvousServer::shut_ns() const {
  if (introduced_ || !failure_.ok() || clients_.empty() || acceptor() == nullptr) return UINT64_MAX;
  const std::uint64_t since = acceptor()->shut_since_ns();
  return since == UINT64_MAX ? since : since + kShortageNs;
}

void RendezvousServer::handle(const Poller::Event& event) {
  const auto place = clients_.find(event.tag);
  if (place == clients_.end()) return;  // another server's client, or an acceptor, which is looked at anyway
  if (event.writable && place->second.channel.flush() && !place->second.channel.pending()) {
    poller_.watch(place->second.channel.fd(), event.tag, true, false);
  }
  if (event.readable) read_from(event.tag);
}

void RendezvousServer::take_client(AuthenticatedConnection accepted) {
  const std::uint64_t id = next_tag_++;
  Client client;
  client.channel = FrameChannel(std::move(accepted.fd));
  client.until_ns = now_ns() + kJoinNs;
  poller_.watch(client.channel.fd(), id, true, false);
  clients_.emplace(id, std::move(client));
  read_from(id);
}

void RendezvousServer::read_from(std::uint64_t id) {
  const auto place = clients_.find(id);
  Client& client = place->second;
  const bool goes_on = client.channel.receive(
      [&](std::uint8_t type, std::span<const std::byte> payload) { return take(id, client, type, payload); });
  if (!goes_on) gone(id);
}

bool RendezvousServer::take(std::uint64_t id, Client& client, std::uint8_t type, std::span<const std::byte> payload) {
  ByteReader in(payload);
  switch (type) {
    case kJoin: {
      JoinMessage join = unpack_join(in);
      if (in.complete()) take_join(id, client, std::move(join), std::nullopt);
      return true;
    }
    case kNotice: {
      JoinMessage join = unpack_join(in);
      Error error = unpack_error(in);
      const int rank = join.self.member.rank;  // none of the group, perhaps, which is what it has to say
      if (!in.complete() || join.ranks < 1 || join.ranks > kMostRanks || rank < 0 || rank > kMostRanks) return false;
      take_join(id, client, std::move(join), std::move(error));
      return true;
    }
    case kReady:
      client.ready = true;
      client.until_ns = now_ns() + kPartingNs;
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

// notice: why the client cannot take part.
void RendezvousServer::take_join(std::uint64_t id, Client& client, JoinMessage join, std::optional<Error> notice) {
  if (client.join || client.ready) return;
  if (introduced_ && reuse_policy_ != ReusePolicy::kPossible) {
    ByteWriter out;
    pack_error(out, late_error());
    return send_last(id, client, kCreationFailed, out.bytes());
  }
  if (introduced_ || means_the_next(join.self.member)) return send_last(id, client, kTooLate, {});
  client.until_ns = UINT64_MAX;
  // A rank that has not been here belongs to the creation that failed, unless that has waited for it long enough.
  client.late = !failure_.ok() && (expired_ || heard_.count(join.self.member.rank) != 0);
  std::optional<Error> error = std::move(notice);
  if (!failure_.ok()) error = failure_.error();
  if (!error) error = objection(join);
  if (ranks_ == 0) ranks_ = join.ranks;
  const std::uint64_t now = now_ns();
  join.left_ns = join.left_ns > UINT64_MAX - now ? UINT64_MAX : now + join.left_ns;
  if (join.self.member.rank < ranks_) heard_.insert(join.self.member.rank);
  client.join = std::move(join);
  client_of_rank_.try_emplace(client.join->self.member.rank, id);
  if (error) return fail(std::move(*error));
  if (all_heard()) introduce_all();
}

std::optional<Error> RendezvousServer::objection(const JoinMessage& join) const {
  const Member& member = join.self.member;
  if (join.ranks < 1 || join.ranks > kMostRanks || member.rank < 0 || member.rank >= join.ranks) {
    Error error = error_of(TUTTI_INVALID_ARGUMENT, member.text() + " is outside a group of " + std::to_string(join.ranks),
                           "Ranks count from 0 to the number of ranks less 1");
    error.guilty.push_back(member.guilty());
    return error;
  }
  if (client_of_rank_.empty()) return std::nullopt;
  if (join.ranks != ranks_) {  // in which all who have joined agree, or it would have failed
    const auto first = std::ranges::find_if(clients_, [](const auto& entry) { return entry.second.join.has_value(); });
    const JoinMessage& earlier = *first->second.join;
    const Member& other = earlier.self.member;
    Error error = error_of(TUTTI_INVALID_ARGUMENT,
                           other.text() + " joins a group of " + std::to_string(earlier.ranks) + " ranks, " +
                               member.text() + " one of " + std::to_string(join.ranks),
                           "Give every rank the same number of ranks");
    error.guilty = {other.guilty(), member.guilty()};
    return error;
  }
  const auto same = client_of_rank_.find(member.rank);
  if (same == client_of_rank_.end()) return std::nullopt;
  const Member& other = clients_.at(same->second).join->self.member;
  Error error =
      error_of(TUTTI_INVALID_ARGUMENT, "Two processes join as the same rank: " + other.text() + " and " + member.text(),
               "Give every process a rank of its own; two jobs with one secret need different addresses");
  error.guilty = {other.guilty(), member.guilty()};
  return error;
}

// A copy of the descriptor, in a forked child, would keep it in the poller.
void RendezvousServer::dismiss(std::uint64_t id) {
  const auto client = clients_.find(id);
  poller_.forget(client->second.channel.fd());
  if (client->second.join) {
    const auto joined = client_of_rank_.find(client->second.join->self.member.rank);
    if (joined != client_of_rank_.end() && joined->second == id) client_of_rank_.erase(joined);
  }
  clients_.erase(client);
}

void RendezvousServer::gone(std::uint64_t id) {
  const Client& client = clients_.at(id);
  const auto join = client.join;
  const bool expected = !join || client.ready || !failure_.ok();
  dismiss(id);
  if (expected) return;
  const Member& member = join->self.member;
  Error error = error_of(TUTTI_REMOTE_ERROR, member.text() + " died or gave up while the communicator was being created",
                         "Look at that process's own output");
  error.guilty.push_back(member.guilty());
  fail(std::move(error));
}

void RendezvousServer::introduce_all() {
  std::vector<const Introduction*> by_rank(static_cast<std::size_t>(ranks_));
  for (const auto& [id, client] : clients_) {
    if (client.join) by_rank[static_cast<std::size_t>(client.join->self.member.rank)] = &client.join->self;
  }
  introduced_ = true;
  // Before anybody is told: a fast rank may come back at once, to create its next communicator at the same place, and
  // must find neither this acceptor nor the file.
  close_acceptor();
  conclude();
  std::array<unsigned char, kNonceBytes> nonce;
  random_bytes(nonce);
  for (auto& [id, client] : clients_) introduce(id, client, nonce, by_rank);
}

void RendezvousServer::introduce(std::uint64_t id, Client& client, std::span<const unsigned char> nonce,
                                 std::span<const Introduction* const> by_rank) {
  if (!client.join) {
    return send_last(id, client, kTooLate, {});
  }
  const auto near = neighbours(client.join->self.member.rank, ranks_);
  ByteWriter out;
  out.raw(nonce);
  out.u32(static_cast<std::uint32_t>(near.size()));
  for (const int rank : near) pack_introduction(out, *by_rank[static_cast<std::size_t>(rank)]);
  send(id, client, kIntroduced, out.bytes());
}

void RendezvousServer::fail(Error error) {
  if (failure_.ok()) {
    failure_ = Status(std::move(error));
    failed_ns_ = now_ns();
    own_told_ns_ = failed_ns_ + kTellNs;
  }
  tell(false);
}

bool RendezvousServer::is_own(const Client& client) const {
  const Member& member = client.join->self.member;
  return member.same_process(self_);
}

// Tells those who have not been told: the others, or this process's own clients too.
void RendezvousServer::tell(bool own) {
  ByteWriter in_time;
  ByteWriter late;
  pack_error(in_time, failure_.error());
  pack_error(late, late_error());
  for (auto& [id, client] : clients_) {
    if (!client.join || client.ready || (is_own(client) && !own && own_told_ns_ != 0)) continue;
    send_last(id, client, kCreationFailed, (client.late ? late : in_time).bytes());
    told_members_.push_back(client.join->self.member);
  }
  told_ = told_ || own;
}

namespace {
const char* const kAnotherId = "An id serves one creation: make another (tutti_get_unique_id), for all ranks";

// Of an id that has made a communicator of so many ranks; 0: nobody knows any more.
Error used_error(int ranks) {
  return error_of(TUTTI_INVALID_USAGE,
                  ranks == 0 ? "The unique id was used for an earlier creation"
                             : "The unique id has made its communicator already, of " + plural(ranks, "rank"),
                  kAnotherId);
}
}  // namespace

// What ranks read that come after the creation: late ones, and those that would try again with the same id.
Error RendezvousServer::late_error() const {
  if (failure_.ok()) return used_error(ranks_);
  Error error = failure_.error();
  if (reuse_policy_ != ReusePolicy::kNewId) return error;
  error.message = "The creation with this unique id has failed already: " + error.message;
  error.remedy = kAnotherId + (error.remedy.empty() ? "" : ". " + error.remedy);
  return error;
}

Status RendezvousServer::use_up() {
  if (introduced_ || !failure_.ok()) return Status(late_error());
  introduced_ = true;
  ranks_ = 1;
  ByteWriter out;
  pack_error(out, late_error());
  for (auto& [id, client] : clients_) send_last(id, client, kCreationFailed, out.bytes());
  return {};
}

void RendezvousServer::tell_last() {
  own_told_ns_ = 0;
  conclude();
  tell(true);
}

bool RendezvousServer::means_the_next(const Member& member) const {
  return reuse_policy_ == ReusePolicy::kPossible &&
         std::any_of(told_members_.begin(), told_members_.end(),
                     [&](const Member& told) { return told.rank == member.rank && told.same_process(member); });
}

void RendezvousServer::send(std::uint64_t id, Client& client, RendezvousFrame type, std::span<const std::byte> payload) {
  client.channel.send(type, payload);
  if (client.channel.pending()) poller_.watch(client.channel.fd(), id, true, true);
}

// It has its answer, and its going away is no news. It closes when it has read that, or else we do.
void RendezvousServer::send_last(std::uint64_t id, Client& client, RendezvousFrame type,
                                 std::span<const std::byte> payload) {
  send(id, client, type, payload);
  client.ready = true;
  client.until_ns = now_ns() + kPartingNs;
}

// Nobody can come in. What is to be said until then is in `so_far`.
Error RendezvousServer::shortage_error(Error so_far) const {
  const int shortage = acceptor()->shortage();
  Error error;
  error.status = TUTTI_SYSTEM_ERROR;
  error.system_error = shortage;
  error.message = so_far.message + (so_far.message.empty() ? "T" : ", and t") + "he rendezvous's process (" + host_name() +
                  ", pid " + std::to_string(::getpid()) +
                  ") cannot take connections: " + std::generic_category().message(shortage);
  error.remedy = kShortageRemedy;
  return error;
}

Error RendezvousServer::deadline_error() const {
  std::vector<bool> there(static_cast<std::size_t>(ranks_), false);
  std::uint64_t limit = 0;
  std::uint64_t first = UINT64_MAX;
  for (const auto& [id, client] : clients_) {
    if (!client.join) continue;
    there[static_cast<std::size_t>(client.join->self.member.rank)] = true;
    if (client.join->left_ns < first) limit = client.join->limit_ns;
    first = std::min(first, client.join->left_ns);
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
  const std::uint64_t wrong =
      own_acceptor_ ? own_acceptor_->wrong_keys() : 0;  // where several are found, it is of any of them
  if (wrong != 0) {
    error.message += ", and " + std::to_string(wrong) + " connections were refused as they have another key";
  }
  if (acceptor() != nullptr && acceptor()->shortage() != 0) {
    // They may well have come, and then it is no fault of theirs.
    return shortage_error(std::move(error));
  }
  error.remedy = wrong != 0 ? "Give all ranks the same unique id, TUTTI_SECRET or TUTTI_SECRET_FILE"
                            : "Raise TUTTI_CONNECT_TIMEOUT if they are only slow to start";
  return error;
}

namespace {

// The servers of this process, which one thread serves; a fork of it has servers of its own. The thread ends, and closes
// what it waits by and the sockets that ids share, once no server is left, every id has been used and late ranks have heard
// of the failures. Who comes with a used id after that finds nobody, and says so by itself.
class RendezvousServers {
 public:
  Result<ServerId> start(Listener listener, const Key& key, ReusePolicy reuse_policy, std::function<void()> concluded,
                         const std::string& file);
  Result<IdServer> start_id(const std::string& interfaces, const PortRange& ports, ReusePolicy reuse_policy);
  ServerId of_id(const Key& key);
  Status use_up(const Key& key);
  Status refusal_of(const Key& key);
  void stop(ServerId number);
  void abandon(ServerId number, const Error& error);
  template <typename Is>
  void stop_abandoned(Is is);
  void finish(ServerId number, const WaitLimits& wait_limits);
  void await_told(ServerId number, const WaitLimits& wait_limits);
  void stop_all();
  void before_fork();
  void after_fork() { mutex_.unlock(); }
  /// As after_fork, in the child, of its parent's.
  void leave_to_parent();

 private:
  // What the thread waits by.
  struct Service {
    Poller poller;
    WakeUp wake;
  };
  // A listening socket that ids share.
  struct Shared {
    Shared(Listener listener, Handshake::Recognize recognize)
        : acceptor(std::move(listener), std::move(recognize), kRendezvousPurpose) {}
    std::string interfaces;
    PortRange ports;
    std::vector<SocketAddress> hosts;  // its addresses with port 0
    Acceptor acceptor;
  };
  struct Running;
  struct Id;
  using Name = std::array<unsigned char, 16>;
  using ByName = std::map<Name, Id>;
  // What there is of an id that nobody has come to, or that was used long ago: about two hundred bytes.
  struct Id {
    Key key;
    ServerId number;
    ReusePolicy reuse_policy;
    Shared* shared;                   // null: closed since
    std::list<ByName::iterator> age;  // one, itself; it goes to used_names_ when it is used, which needs no memory
    Running* running = nullptr;
    bool used = false;
    int ranks = 0;  // of the communicator that it made; 0: none, or unknown
  };
  struct Running {
    Running(ServerId its_number, ReusePolicy reuse_policy, Service& service, std::uint64_t& next_tag,
            std::function<void()> concluded)
        : number(its_number), server(reuse_policy, service.poller, next_tag, std::move(concluded)) {}

    const ServerId number;
    std::vector<SocketAddress> addresses;   // of its own acceptor
    std::string file;                       // that leads to it
    std::optional<ByName::iterator> named;  // else: its id
    bool abandoned = false;
    std::uint64_t answers_until_ns = 0;  // to ranks that come late to an id that failed
    RendezvousServer server;
  };
  using List = std::list<Running>;

  Result<Service*> service(std::unique_ptr<Service>& fresh);
  Status serve(std::unique_ptr<Service>& fresh);
  void run();
  void turn();
  bool idle() const { return resting() && now_ns() >= answers_until_ns(); }
  /// Nobody is expected: no server, no id that was not used.
  bool resting() const { return running_.empty() && by_name_.size() == used_names_.size(); }
  std::uint64_t answers_until_ns() const;
  void close();
  void join_ended();
  void retire();
  int timeout_ms();
  Result<std::list<Shared>> listen(const std::string& interfaces, const PortRange& ports);
  Shared* shared_at(const std::string& interfaces, const PortRange& ports, const std::vector<SocketAddress>& hosts);
  void close_unused_shared();
  std::optional<Handshake::Known> recognize(std::span<const unsigned char> name);
  template <typename Body>
  void attend(Running& running, const Body& body);
  void await(std::uint64_t most_ns, const WaitLimits& wait_limits, const std::function<bool(const Running&)>& pending);
  ByName::iterator find(std::span<const unsigned char> name);
  Running* find(ServerId number);
  Running& root_of(ByName::iterator named);

  std::mutex mutex_;  // guards all below, except for what the thread waits by
  std::condition_variable changed_;
  std::unique_ptr<Service> service_;
  std::thread thread_;
  bool stopping_ = false;
  std::uint64_t next_tag_ = 1;  // 0: the wake-up
  std::list<Shared> shared_;
  List running_;
  List used_;                               // over, and there to say so; the oldest first
  ByName by_name_;                          // all ids
  std::list<ByName::iterator> used_names_;  // those that were used, the first of them first
};

// What the thread waits by, or will: `fresh` where it does not run yet.
Result<RendezvousServers::Service*> RendezvousServers::service(std::unique_ptr<Service>& fresh) {
  if (service_) return service_.get();
  fresh = std::make_unique<Service>();
  if (!fresh->poller || !fresh->wake || !fresh->poller.watch(fresh->wake.fd(), 0, true, false)) {
    return system_error("Opening the rendezvous's descriptors failed", EMFILE);
  }
  return fresh.get();
}

// Starts the thread, unless it runs. The last that may fail: what is added next keeps it running.
Status RendezvousServers::serve(std::unique_ptr<Service>& fresh) {
  if (service_) {
    service_->wake.raise();
    return {};
  }
  join_ended();
  auto thread = background_thread("tutti-meeting", [this] { run(); });  // which waits for our lock first
  if (!thread) return thread.status();
  thread_ = std::move(thread).value();
  service_ = std::move(fresh);
  return {};
}

void RendezvousServers::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const int ms = timeout_ms();
    lock.unlock();
    const auto events = service_->poller.wait(ms);
    lock.lock();
    for (const Poller::Event& event : events) {
      if (event.tag == 0) service_->wake.clear();
      for (List* list : {&running_, &used_}) {
        for (Running& running : *list) attend(running, [&] { running.server.handle(event); });
      }
    }
    turn();
    changed_.notify_all();
    // Under the lock under which the last server went: who waits for that finds the descriptors closed.
    if (!idle()) continue;
    close();
    changed_.notify_all();
    return;
  }
}

// With the lock held, which the thread needs no more once it has closed all.
void RendezvousServers::join_ended() {
  if (!service_ && thread_.joinable()) thread_.join();
}

std::uint64_t RendezvousServers::answers_until_ns() const {
  std::uint64_t until = 0;
  for (const Running& used : used_) until = std::max(until, used.answers_until_ns);
  return until;
}

// All ids were used. What is remembered of them needs no descriptor.
void RendezvousServers::close() {
  used_.clear();
  for (auto& [name, id] : by_name_) {
    id.shared = nullptr;
    id.running = nullptr;
  }
  shared_.clear();
  service_.reset();
}

// One whose own work lacks memory ends; the others go on.
template <typename Body>
void RendezvousServers::attend(Running& running, const Body& body) {
  const Status status = catching([&]() -> Status {
    body();
    return {};
  });
  if (!status) running.server.end_without_memory(status);
}

void RendezvousServers::turn() {
  for (Shared& shared : shared_) {
    // Without memory those who connect are dropped, and try again.
    static_cast<void>(catching([&]() -> Status {
      for (AuthenticatedConnection& accepted : shared.acceptor.step()) {
        const auto there = find(accepted.payload);
        if (there == by_name_.end()) continue;
        Running& running = root_of(there);
        attend(running, [&] { running.server.take_client(std::move(accepted)); });
      }
      return {};
    }));
  }
  for (List* list : {&running_, &used_}) {
    for (Running& running : *list) attend(running, [&] { running.server.step(); });
  }
  retire();
}

// Those that are over go, or answer from now on for their ids.
void RendezvousServers::retire() {
  for (auto i = running_.begin(); i != running_.end();) {
    const auto here = i++;
    if (!here->server.over()) continue;
    if (!here->named) {
      running_.erase(here);
      continue;
    }
    Id& id = (*here->named)->second;
    if (here->server.failed()) here->answers_until_ns = now_ns() + kLingerNs;
    id.used = true;
    id.ranks = here->server.ranks_made();
    used_names_.splice(used_names_.end(), id.age);  // nothing, where it is there already
    used_.splice(used_.end(), running_, here);
  }
  while (used_.size() > kMostUsed) {
    (*used_.front().named)->second.running = nullptr;
    used_.pop_front();
  }
  while (used_names_.size() > kMostUsedNames && used_names_.front()->second.running == nullptr) {
    by_name_.erase(used_names_.front());
    used_names_.pop_front();
  }
}

int RendezvousServers::timeout_ms() {
  std::uint64_t next = UINT64_MAX;
  for (const Shared& shared : shared_) next = std::min(next, shared.acceptor.next_ns());
  for (const Running& running : running_) next = std::min(next, running.server.next_ns());
  for (const Running& running : used_) {
    if (running.server.busy()) next = std::min(next, running.server.next_ns());
  }
  if (resting()) next = std::min(next, answers_until_ns());
  if (next == UINT64_MAX) return 60'000;
  const std::uint64_t now = now_ns();
  return next <= now ? 0 : static_cast<int>(std::min<std::uint64_t>((next - now) / 1'000'000, 60'000)) + 1;
}

Result<ServerId> RendezvousServers::start(Listener listener, const Key& key, ReusePolicy reuse_policy,
                                          std::function<void()> concluded, const std::string& file) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Service> fresh;
  auto waits = service(fresh);
  if (!waits) return waits.status();
  List made;  // joins those running by itself: nothing may fail once it is seen
  Running& running = made.emplace_back(new_number(), reuse_policy, **waits, next_tag_, std::move(concluded));
  running.addresses = listener.addresses;
  running.file = file;
  if (!running.server.open_acceptor(std::move(listener), key, server_payload(running.number))) {
    return system_error("Opening the rendezvous's descriptors failed", EMFILE);
  }
  if (Status served = serve(fresh); !served) return served;
  running_.splice(running_.end(), made);
  return running.number;
}

std::vector<SocketAddress> without_ports(std::vector<SocketAddress> addresses) {
  for (SocketAddress& address : addresses) address.set_port(0);
  return addresses;
}

Result<std::list<RendezvousServers::Shared>> RendezvousServers::listen(const std::string& interfaces,
                                                                       const PortRange& ports) {
  auto listener = listen_on(interfaces, ports.low, ports.high);
  if (!listener) return listener.status();
  std::list<Shared> fresh;
  Shared& shared = fresh.emplace_back(std::move(listener).value(), [this](auto name) { return recognize(name); });
  shared.interfaces = interfaces;
  shared.ports = ports;
  shared.hosts = without_ports(shared.acceptor.addresses());
  if (shared.acceptor.fd() < 0) return system_error("Opening the rendezvous's descriptors failed", EMFILE);
  return fresh;
}

RendezvousServers::Shared* RendezvousServers::shared_at(const std::string& interfaces, const PortRange& ports,
                                                        const std::vector<SocketAddress>& hosts) {
  for (Shared& shared : shared_) {
    const bool same = shared.interfaces == interfaces && shared.ports.low == ports.low && shared.ports.high == ports.high;
    if (same && std::ranges::all_of(shared.hosts, [&](const SocketAddress& host) {
          return std::ranges::find(hosts, host) != hosts.end();
        })) {
      return &shared;
    }
  }
  return nullptr;
}

// A process whose networks change, or that asks for others every time, keeps a few.
void RendezvousServers::close_unused_shared() {
  for (auto i = shared_.begin(); i != shared_.end() && shared_.size() > kMostShared;) {
    const auto here = i++;
    const auto led_here = [&](const Running& one) { return one.named && (*one.named)->second.shared == &*here; };
    const auto awaited = [&](const auto& entry) { return entry.second.shared == &*here && !entry.second.used; };
    if (std::ranges::any_of(running_, led_here) || std::ranges::any_of(by_name_, awaited)) continue;
    used_.remove_if(led_here);
    for (auto& [name, id] : by_name_) {
      if (id.shared != &*here) continue;
      id.shared = nullptr;
      id.running = nullptr;
    }
    service_->poller.forget(here->acceptor.fd());
    shared_.erase(here);
  }
}

Result<IdServer> RendezvousServers::start_id(const std::string& interfaces, const PortRange& ports,
                                             ReusePolicy reuse_policy) {
  auto locals = addresses_to_announce(interfaces);
  if (!locals) return locals.status();
  std::vector<SocketAddress> hosts;
  for (const InterfaceAddress& local : *locals) hosts.push_back(local.address);

  const std::lock_guard lock(mutex_);
  std::unique_ptr<Service> fresh;
  auto waits = service(fresh);
  if (!waits) return waits.status();
  std::list<Shared> opened;
  Shared* shared = shared_at(interfaces, ports, hosts);
  if (shared == nullptr) {
    auto listened = listen(interfaces, ports);
    if (!listened) return listened.status();
    opened = std::move(listened).value();
    shared = &opened.front();
    if (!(*waits)->poller.watch(shared->acceptor.fd(), next_tag_++, true, false)) {
      return system_error("Opening the rendezvous's descriptors failed", errno);
    }
  }
  const Key key = random_key();
  const IdServer server{new_number(), pack_unique_id({key, shared->acceptor.addresses()})};
  Name name{};
  std::ranges::copy(key_name(key), name.begin());
  std::list<ByName::iterator> age(1);
  const auto named = by_name_.emplace(name, Id{key, server.number, reuse_policy, shared, std::move(age)}).first;
  named->second.age.front() = named;
  if (Status served = catching([&] { return serve(fresh); }); !served) {
    by_name_.erase(named);
    return served;
  }
  shared_.splice(shared_.end(), opened);
  close_unused_shared();
  return server;
}

std::optional<Handshake::Known> RendezvousServers::recognize(std::span<const unsigned char> name) {
  const auto there = find(name);
  if (there == by_name_.end()) return std::nullopt;
  return Handshake::Known{there->second.key, server_payload(there->second.number)};
}

ServerId RendezvousServers::of_id(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto there = find(key_name(key));
  return there != by_name_.end() ? there->second.number : 0;
}

Status RendezvousServers::use_up(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto there = find(key_name(key));
  if (there == by_name_.end()) return {};
  if (!service_) return Status(used_error(there->second.ranks));
  service_->wake.raise();
  return root_of(there).server.use_up();
}

Status RendezvousServers::refusal_of(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto there = find(key_name(key));
  if (there == by_name_.end() || there->second.shared != nullptr) return {};
  return Status(used_error(there->second.ranks));  // or its socket would be there
}

RendezvousServers::ByName::iterator RendezvousServers::find(std::span<const unsigned char> name) {
  Name sought{};
  if (name.size() != sought.size()) return by_name_.end();
  std::ranges::copy(name, sought.begin());
  return by_name_.find(sought);
}

// Makes it, where nobody has come to the id yet, or it was used long ago.
RendezvousServers::Running& RendezvousServers::root_of(ByName::iterator named) {
  Id& id = named->second;
  if (id.running != nullptr) return *id.running;
  List made;
  Running& running = made.emplace_back(id.number, id.reuse_policy, *service_, next_tag_, nullptr);
  running.named = named;
  if (id.shared != nullptr) running.server.use_shared_acceptor(id.shared->acceptor);
  if (id.used) running.server.mark_used(id.ranks);
  running_.splice(running_.end(), made);
  id.running = &running;
  return running;
}

RendezvousServers::Running* RendezvousServers::find(ServerId number) {
  for (List* list : {&running_, &used_}) {
    for (Running& running : *list) {
      if (running.number == number) return &running;
    }
  }
  const auto unused = [&](const auto& entry) { return entry.second.number == number && !entry.second.used; };
  const auto named = std::ranges::find_if(by_name_, unused);
  return named != by_name_.end() ? &root_of(named) : nullptr;
}

void RendezvousServers::stop(ServerId number) {
  std::unique_lock lock(mutex_);
  for (List* list : {&running_, &used_}) {
    list->remove_if([&](const Running& running) { return running.number == number; });
  }
  used_names_.remove_if([&](ByName::iterator named) { return named->second.number == number; });
  std::erase_if(by_name_, [&](const auto& entry) { return entry.second.number == number; });
  if (!service_) return;
  service_->wake.raise();  // it may have been the last that was awaited
  if (!idle()) return;
  changed_.wait_for(lock, std::chrono::seconds(1), [this] { return !service_ || !idle(); });
  join_ended();
}

void RendezvousServers::abandon(ServerId number, const Error& error) {
  const std::lock_guard lock(mutex_);
  Running* const running = find(number);
  if (running == nullptr) return;
  running->abandoned = true;
  attend(*running, [&] {
    running->server.fail(error);
    running->server.step();
  });
  service_->wake.raise();
}

template <typename Is>
void RendezvousServers::stop_abandoned(Is is) {
  const std::lock_guard lock(mutex_);
  running_.remove_if([&](const Running& running) { return running.abandoned && is(running.addresses, running.file); });
  if (service_) service_->wake.raise();
}

void RendezvousServers::finish(ServerId number, const WaitLimits& wait_limits) {
  await(kFinishNs, wait_limits, [&](const Running& running) { return running.number == number; });
}

void RendezvousServers::await_told(ServerId number, const WaitLimits& wait_limits) {
  await(kAwaitToldNs, wait_limits,
        [&](const Running& running) { return running.number == number && !running.server.told(); });
}

// Until none of those running is pending, or for `most_ns`, or until the caller has had enough.
void RendezvousServers::await(std::uint64_t most_ns, const WaitLimits& wait_limits,
                              const std::function<bool(const Running&)>& pending) {
  const Deadline deadline = Deadline::in(most_ns);
  std::unique_lock lock(mutex_);
  while (std::any_of(running_.begin(), running_.end(), pending) && !deadline.passed()) {
    lock.unlock();  // the caller's hook runs without our lock
    if (!wait_limits.check()) return;
    lock.lock();
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
  join_ended();
}

void RendezvousServers::stop_all() {
  std::thread ending;  // whoever else looks for an ended one finds none
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (service_) service_->wake.raise();
    ending = std::move(thread_);
  }
  if (ending.joinable()) ending.join();
  const std::lock_guard lock(mutex_);
  running_.clear();
  used_.clear();
  used_names_.clear();
  by_name_.clear();
  shared_.clear();
}

void RendezvousServers::before_fork() {
  mutex_.lock();
  join_ended();
}

// A listening socket that the child had a copy of would take connections for as long as the child lives, and nobody would
// answer them; and where its port was given, no other rendezvous could begin there.
void RendezvousServers::leave_to_parent() {
  for (Running& running : running_) running.server.leave_listening_to_parent();
  for (Shared& shared : shared_) shared.acceptor.leave_listening_to_parent();
  after_fork();
}

constinit PerProcess<RendezvousServers> process_servers;

// A thread that forks holds their lock meanwhile, so that its child finds them whole.
thread_local RendezvousServers* forking = nullptr;
void before_fork() {
  forking = process_servers.made();
  if (forking != nullptr) forking->before_fork();
}
void after_fork_in_parent() {
  if (forking != nullptr) forking->after_fork();
}
void after_fork_in_child() {
  if (forking != nullptr) forking->leave_to_parent();
}

// When the library is loaded: no fork falls into it.
[[maybe_unused]] const int told_of_forks = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

// Ends the servers with the process. A forked child has none of its parent's.
void stop_at_exit() {
  if (RendezvousServers* const servers = process_servers.made(); servers != nullptr) servers->stop_all();
}

// Registered with the first server: what the program made before it, and destroys after it, may still need them.
RendezvousServers& rendezvous_servers() {
  static constinit MadeOnce<int> registered;
  registered.get([] { return std::atexit(stop_at_exit); });
  return process_servers.get();
}

}  // namespace

Result<ServerId> start_server(Listener listener, const Key& key, ReusePolicy reuse_policy, std::function<void()> concluded,
                              const std::string& file) {
  return rendezvous_servers().start(std::move(listener), key, reuse_policy, std::move(concluded), file);
}

Result<IdServer> start_id_server(const std::string& interfaces, const PortRange& ports, ReusePolicy reuse_policy) {
  return rendezvous_servers().start_id(interfaces, ports, reuse_policy);
}

ServerId server_of_id(const Key& key) { return rendezvous_servers().of_id(key); }

Status use_up_id(const Key& key) { return rendezvous_servers().use_up(key); }

Status refusal_of_id(const Key& key) { return rendezvous_servers().refusal_of(key); }

void stop_server(ServerId server) {
  if (server != 0) rendezvous_servers().stop(server);  // where there is one, so is that list: no memory is needed
}

void abandon_server(ServerId server, const Error& error) { rendezvous_servers().abandon(server, error); }

void stop_abandoned_servers(std::span<const SocketAddress> addresses) {
  rendezvous_servers().stop_abandoned([&](const std::vector<SocketAddress>& its, const std::string&) {
    return std::find_first_of(its.begin(), its.end(), addresses.begin(), addresses.end()) != its.end();
  });
}

void stop_abandoned_servers(const std::string& file) {
  rendezvous_servers().stop_abandoned(
      [&](const std::vector<SocketAddress>&, const std::string& its) { return its == file; });
}

void finish_server(ServerId server, const WaitLimits& wait_limits) { rendezvous_servers().finish(server, wait_limits); }

void await_failure_told(ServerId server, const WaitLimits& wait_limits) {
  rendezvous_servers().await_told(server, wait_limits);
}

}  // namespace tutti
