// Messages travel in the slots of one link per direction and pair, each with a header:
//
//     eager    short: header and bytes at once, kept at the receiver until a receive matches
//     request  long: (tag, bytes) alone; the receiver answers `clear` once a receive matches; then `data` slots follow
//     taken    tells the sender how many eager bytes were consumed, which bounds what a receiver may have to keep
//
// Only cleared data and bounded eager bytes are ever on their way, so the receiver always empties its slots, and no
// message can block another's: transfers with crossed tags finish in any order.
#include "src/communicator/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/background_thread.h"
#include "src/base/clock.h"
#include "src/communicator/agent.h"
#include "src/communicator/caught.h"
#include "src/communicator/communicator.h"
#include "src/communicator/transports.h"

namespace tutti {
namespace {

enum class Kind : std::uint64_t { eager, request, clear, data, taken };

struct Header {
  Kind kind;
  std::uint64_t id;  ///< the sender's number of the transfer
  std::uint64_t tag;
  std::uint64_t bytes;  ///< of the whole transfer
};
static_assert(sizeof(Header) == 32);

constexpr std::uint64_t longest_eager = 16 * 1024;
/// Eager bytes that one sender may have unconsumed at one receiver.
constexpr std::uint64_t eager_bound = 4 * 1024 * 1024;
/// So many consumed bytes are told in one message.
constexpr std::uint64_t taken_lot = eager_bound / 4;
/// How often a wait asks its caller's hook: twice as often as promised.
constexpr std::uint64_t poll_every_ns = 500'000;
constexpr std::uint64_t look_every_ns = 1'000'000;
/// Rounds without any movement between two looks at the clock for it.
constexpr std::uint32_t look_every_rounds = 16;
constexpr std::uint64_t longest_data = link_slot_bytes - sizeof(Header);

/// A transfer under way.
struct Active {
  Transfer transfer;
  std::shared_ptr<Work> work;
  Deadline deadline;
  std::uint64_t id = 0;     ///< sending: its number; receiving: its place in the order of posting
  std::uint64_t done = 0;   ///< bytes sent or received so far
  std::uint64_t total = 0;  ///< receiving: bytes that the sender announced
  std::list<std::shared_ptr<Active>>::iterator listed;  ///< where it stands in the list of all; while `is_listed`
  bool is_listed = false;
};
using ActivePtr = std::shared_ptr<Active>;

/// A message that came before its receive was posted.
struct Unexpected {
  Header header;
  std::vector<std::byte> data;
  ActivePtr sent;       ///< instead of data: this rank's own, which lies in its caller's memory still
  std::uint64_t order;  ///< of arrival
};

/// What a receive and a message must have in common; of a receive from any rank, the source is TUTTI_ANY_SOURCE.
struct Match {
  std::uint64_t tag;
  int source;
  auto operator<=>(const Match&) const = default;
};

struct Peer {
  HostLink* to = nullptr;
  HostLink* from = nullptr;
  std::deque<Header> outbox;                     ///< headers without bytes, to be sent first
  std::deque<ActivePtr> sends;                   ///< not announced yet, in order
  std::map<std::uint64_t, ActivePtr> announced;  ///< waiting to be cleared, by id
  std::deque<ActivePtr> cleared;                 ///< sending data, in turn
  std::map<std::uint64_t, ActivePtr> receiving;  ///< by the sender's id
  std::uint64_t eager_under_way = 0;
  std::uint64_t taken = 0;  ///< eager bytes consumed here, of which the peer has not been told
};

}  // namespace

class PointToPoint::Engine {
 public:
  explicit Engine(Communicator& comm)
      : comm_(comm),
        agent_(comm.transports().endpoints(TrafficClass::point_to_point), comm.wait_policy(), true),
        peers_(static_cast<std::size_t>(comm.ranks())) {}

  ~Engine() {
    {
      const std::lock_guard lock(inbox_mutex_);
      closing_ = true;
    }
    posted_.notify_all();
    if (thread_.joinable()) thread_.join();
    const std::lock_guard lock(mutex_);
    all_.splice(all_.end(), inbox_);
    if (all_.empty()) return;
    fail_all(attempt([] {
      return Status(TUTTI_INVALID_USAGE, "the communicator was destroyed with transfers under way", "Wait for them first.");
    }));
  }

  void post(const Transfer& transfer, std::shared_ptr<Work> work, bool background) {
    const Status status = attempt([&]() -> Status {
      if (background) {
        if (Status started = start_thread(); !started.ok()) return started;
      }
      std::list<ActivePtr> posted(1, std::make_shared<Active>());
      Active& active = *posted.front();
      active.listed = posted.begin();  // wherever the list's element is spliced to
      active.is_listed = true;
      active.transfer = transfer;
      active.work = work;
      active.deadline = Deadline::in(transfer.timeout_ns != 0 ? transfer.timeout_ns : comm_.timeout_ns());
      work->start(0);
      const std::lock_guard lock(inbox_mutex_);
      inbox_.splice(inbox_.end(), posted);
      // Release: whoever sees it takes the lock and finds the transfer.
      posted_some_.store(true, std::memory_order_release);
      // Relaxed: a hint that the mutex publishes anyway.
      pending_.fetch_add(1, std::memory_order_relaxed);
      // Under the lock: once the transfer can have ended, the engine may be gone.
      if (background) posted_.notify_all();
      return {};
    });
    if (!status.ok()) work->complete(status);
  }

  Status wait(const Work& work, const Hook& hook) {
    std::uint64_t next_poll_ns = 0;
    bool ended = false;
    for (std::uint32_t rounds = 0;; ++rounds) {
      if (auto status = work.test()) {
        wake_followers();
        return *status;
      }
      if (hook.poll != nullptr && !ended && now_ns() >= next_poll_ns) {
        next_poll_ns = now_ns() + poll_every_ns;
        ended = hook.ends_wait();
        // Its transfers end with the communicator, of which the engine hears as everybody does.
        if (ended) static_cast<void>(comm_.fail_by_hook("for a transfer"));
      }
      const Turn turn = take_turn(rounds);
      if (turn == Turn::taken) follow(&work);
      if (turn == Turn::moved) rounds = 0;
    }
  }

 private:
  enum class Turn { taken, idle, moved };

  /// One look at everything, by whoever gets the lock.
  Turn take_turn(std::uint32_t rounds) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return Turn::taken;
    bool moved = false;
    const Status status = attempt([&]() -> Status {
      take_inbox();
      moved = progress();
      if (!moved && !agent_.idle(rounds + 1)) fail_all(comm_.first_error());
      return {};
    });
    if (!status.ok()) torn(status);
    return moved ? Turn::moved : Turn::idle;
  }

  /// Sleeps while another thread makes progress for all: until it stops doing so, some transfer has ended, or a millisecond
  /// is over, which bounds what a wake-up that is missed costs.
  void follow(const Work* work) {
    std::unique_lock lock(following_mutex_);
    // Relaxed: the mutex of the work orders it with a completion; see above for all else.
    following_.fetch_add(1, std::memory_order_relaxed);
    if (work == nullptr || !work->over()) leader_left_.wait_for(lock, std::chrono::milliseconds(1));
    following_.fetch_sub(1, std::memory_order_relaxed);
  }
  void wake_followers() {
    if (following_.load(std::memory_order_relaxed) == 0) return;  // relaxed: see follow
    const std::lock_guard lock(following_mutex_);
    leader_left_.notify_all();
  }

  /// An exception (no memory) left transfers half done, so that nothing of this communicator can be matched any more.
  void torn(const Status& status) {
    fail_all(status);
    static_cast<void>(comm_.fail(status));
  }

  Status start_thread() {
    const std::lock_guard lock(inbox_mutex_);
    if (thread_.joinable()) return {};
    auto thread = background_thread("tutti transfers", [this] { run(); });
    if (thread.ok()) thread_ = std::move(*thread);
    return thread.status();
  }

  void run() {
    std::unique_lock lock(inbox_mutex_);
    while (!closing_) {
      // Relaxed: the mutex orders it with the posts; completions only make it smaller.
      if (pending_.load(std::memory_order_relaxed) == 0) {
        posted_.wait(lock);
        continue;
      }
      lock.unlock();
      for (std::uint32_t rounds = 0; pending_.load(std::memory_order_relaxed) != 0 && rounds < 4096; ++rounds) {
        const Turn turn = take_turn(rounds);
        if (turn == Turn::taken) follow(nullptr);
        if (turn == Turn::moved) rounds = 0;
      }
      lock.lock();
    }
  }

  void take_inbox() {
    // Acquire: pairs with post. Who posts a moment later looks for itself, or has the thread look.
    while (posted_some_.load(std::memory_order_acquire)) {
      {
        const std::lock_guard lock(inbox_mutex_);
        // Relaxed: within the lock, as each true is.
        if (inbox_.empty()) return posted_some_.store(false, std::memory_order_relaxed);
        // Needs no memory: from here on it ends with whatever ends all.
        all_.splice(all_.end(), inbox_, inbox_.begin());
      }
      if (!begun_) agent_.begin(UINT64_MAX);
      begun_ = true;
      begin(all_.back());
    }
  }

  void begin(ActivePtr active) {
    const Transfer& transfer = active->transfer;
    active->id = next_id_++;
    if (transfer.sends) {
      if (transfer.peer == comm_.rank()) return send_to_self(active);
      if (!open(transfer.peer)) return;
      peer(transfer.peer).sends.push_back(std::move(active));
      return;
    }
    for (int p = 0; p < comm_.ranks(); ++p) {
      const bool wanted = p != comm_.rank() && (transfer.peer == p || transfer.peer == TUTTI_ANY_SOURCE);
      if (wanted && !open(p)) return;
    }
    if (take_unexpected(active)) return;
    receives_[{transfer.tag, transfer.peer}].push_back(std::move(active));
  }

  void send_to_self(const ActivePtr& active) {
    const Transfer& transfer = active->transfer;
    const Header header{Kind::eager, active->id, transfer.tag, transfer.bytes};
    if (const ActivePtr to = take_receive(comm_.rank(), transfer.tag)) return receive_own(to, active);
    unexpected_[{transfer.tag, comm_.rank()}].push_back({header, {}, active, next_arrival_++});
  }

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  /// Both links with a peer; false: they cannot be had, and every transfer has ended, its caller's memory with it.
  bool open(int rank) {
    Peer& p = peer(rank);
    for (const bool sends : {true, false}) {
      HostLink*& link = sends ? p.to : p.from;
      if (link != nullptr) continue;
      if (std::find(open_.begin(), open_.end(), rank) == open_.end()) open_.push_back(rank);
      auto opened = comm_.transports().link(TrafficClass::point_to_point, rank, 0, sends);
      if (!opened.ok()) {
        fail_all(comm_.fail(opened.status().error()));
        return false;
      }
      link = *opened;
    }
    return true;
  }

  bool progress() {
    bool moved = false;
    for (const int rank : open_) {
      Peer& p = peer(rank);
      if (p.to != nullptr && ready(*p.to, rank)) moved |= send_some(p);
      if (p.from != nullptr && ready(*p.from, rank)) moved |= receive_some(p, rank);
    }
    if (moved || ++still_rounds_ % look_every_rounds == 0) look_at_deadlines();
    return moved;
  }

  /// Not every time: there may be thousands.
  void look_at_deadlines() {
    const std::uint64_t now = now_ns();
    if (now < next_look_ns_) return;
    next_look_ns_ = now + look_every_ns;
    const auto passed = std::find_if(all_.begin(), all_.end(),
                                     [&](const ActivePtr& a) { return a->deadline.at_ns <= now && !a->work->over(); });
    if (passed != all_.end()) late(**passed);
  }

  bool ready(HostLink& link, int rank) {
    if (link.state.size != 0) return true;  // as Transports::ready would say
    const tutti_link_result result = comm_.transports().ready(link);
    if (result == TUTTI_LINK_BROKEN) broken(link, rank);
    return result == TUTTI_LINK_OK;
  }

  void broken(const HostLink& link, int rank) {
    if (all_.empty()) return;
    char why[256] = "";
    static_cast<void>(link.transport->failure(link.link, why, sizeof why));
    Error error;
    error.status = TUTTI_REMOTE_ERROR;
    error.guilty = {comm_.guilty(rank)};
    error.operation_kind = "send_recv";
    error.message = fmt::format("transfers of \"{}\": rank {} was lost: {}", comm_.name(), rank, why);
    fail_all(comm_.fail(std::move(error)));
  }

  void late(const Active& active) {
    Error error;
    error.status = TUTTI_TIMEOUT;
    error.limit_ns = active.deadline.limit_ns;
    error.operation_kind = active.transfer.sends ? "send" : "recv";
    if (active.transfer.peer >= 0) error.guilty = {comm_.guilty(active.transfer.peer)};
    error.message = fmt::format("{} of {} bytes {} {} with tag {} in \"{}\" found no match within {}", error.operation_kind,
                                active.transfer.bytes, active.transfer.sends ? "to" : "from",
                                active.transfer.peer < 0 ? "any rank" : fmt::format("rank {}", active.transfer.peer),
                                active.transfer.tag, comm_.name(), duration_text(active.deadline.limit_ns));
    error.remedy = "Check source and tag on both sides; raise TUTTI_OPERATION_TIMEOUT if it is only slow.";
    fail_all(comm_.fail(std::move(error)));
  }

  /// A slot of the peer's with the header in front; nullptr: no credit now.
  std::byte* slot(HostLink& link, const Header& header, std::uint64_t payload) {
    void* room = link.transport->reserve(link.link, sizeof header + payload, 0);
    if (room != nullptr) std::memcpy(room, &header, sizeof header);
    return room == nullptr ? nullptr : static_cast<std::byte*>(room) + sizeof header;
  }
  void commit(HostLink& link, std::uint64_t payload) {
    // A link that breaks here shows so at its next use.
    static_cast<void>(link.transport->commit(link.link, sizeof(Header) + payload, 0));
  }

  bool send_some(Peer& p) {
    bool moved = false;
    for (; !p.outbox.empty(); p.outbox.pop_front(), moved = true) {
      if (slot(*p.to, p.outbox.front(), 0) == nullptr) return moved;
      commit(*p.to, 0);
    }
    for (; !p.sends.empty(); p.sends.pop_front(), moved = true) {
      if (!announce(p, p.sends.front())) return moved;
    }
    while (!p.cleared.empty()) {
      ActivePtr active = p.cleared.front();
      const std::uint64_t part = std::min(longest_data, active->transfer.bytes - active->done);
      std::byte* room = slot(*p.to, {Kind::data, active->id, active->transfer.tag, active->transfer.bytes}, part);
      if (room == nullptr) return moved;
      std::memcpy(room, active->transfer.memory + active->done, part);
      commit(*p.to, part);
      moved = true;
      active->done += part;
      p.cleared.pop_front();
      if (active->done < active->transfer.bytes) {
        p.cleared.push_back(std::move(active));
      } else {
        complete(*active, {});
      }
    }
    return moved;
  }

  /// Sends a short message whole, or asks for a long one; false: no credit now.
  bool announce(Peer& p, const ActivePtr& active) {
    const Transfer& transfer = active->transfer;
    Header header{Kind::eager, active->id, transfer.tag, transfer.bytes};
    const bool eager = transfer.bytes <= longest_eager && p.eager_under_way + transfer.bytes <= eager_bound;
    if (!eager) header.kind = Kind::request;
    std::byte* room = slot(*p.to, header, eager ? transfer.bytes : 0);
    if (room == nullptr) return false;
    if (eager && transfer.bytes != 0) std::memcpy(room, transfer.memory, transfer.bytes);
    commit(*p.to, eager ? transfer.bytes : 0);
    if (eager) {
      p.eager_under_way += transfer.bytes;
      complete(*active, {});
    } else {
      p.announced.emplace(active->id, active);
    }
    return true;
  }

  bool receive_some(Peer& p, int rank) {
    bool moved = false;
    tutti_message message;
    for (;;) {
      const tutti_link_result result = p.from->transport->view(p.from->link, &message);
      if (result == TUTTI_LINK_BROKEN) broken(*p.from, rank);
      if (result != TUTTI_LINK_OK) return moved;
      Header header{};
      if (message.bytes >= sizeof header) {
        std::memcpy(&header, message.data, sizeof header);
        take(p, rank, header, {static_cast<const std::byte*>(message.data) + sizeof header, message.bytes - sizeof header});
      }
      p.from->transport->release(p.from->link);
      moved = true;
    }
  }

  void take(Peer& p, int rank, const Header& header, std::span<const std::byte> payload) {
    switch (header.kind) {
      case Kind::eager:
      case Kind::request:
        return arrived(rank, header, payload);
      case Kind::taken:
        p.eager_under_way -= std::min(p.eager_under_way, header.bytes);
        return;
      case Kind::clear: {
        const auto found = p.announced.find(header.id);
        if (found == p.announced.end()) return;
        p.cleared.push_back(found->second);
        p.announced.erase(found);
        return;
      }
      case Kind::data: {
        const auto found = p.receiving.find(header.id);
        if (found == p.receiving.end()) return;
        const ActivePtr active = found->second;
        const std::uint64_t part = std::min<std::uint64_t>(payload.size(), active->total - active->done);
        std::memcpy(active->transfer.memory + active->done, payload.data(), part);
        active->done += part;
        if (active->done < active->total) return;
        p.receiving.erase(found);
        complete(*active, {});
        return;
      }
    }
  }

  void arrived(int source, const Header& header, std::span<const std::byte> payload) {
    if (const ActivePtr active = take_receive(source, header.tag)) return receive(active, source, header, payload);
    unexpected_[{header.tag, source}].push_back({header, {payload.begin(), payload.end()}, nullptr, next_arrival_++});
  }

  /// Takes the front of a queue out of its map, which keeps no empty ones.
  template <typename Queues>
  static auto take_first(Queues& queues, typename Queues::iterator queue) {
    auto first = std::move(queue->second.front());
    queue->second.pop_front();
    if (queue->second.empty()) queues.erase(queue);
    return first;
  }

  /// The first posted receive that a message matches, or nullptr.
  ActivePtr take_receive(int source, std::uint64_t tag) {
    const auto named = receives_.find({tag, source});
    const auto any = receives_.find({tag, TUTTI_ANY_SOURCE});
    if (named == receives_.end() && any == receives_.end()) return nullptr;
    const bool takes_any =
        named == receives_.end() || (any != receives_.end() && any->second.front()->id < named->second.front()->id);
    return take_first(receives_, takes_any ? any : named);
  }

  /// Gives a receive the first message that came for it; false: none has.
  bool take_unexpected(const ActivePtr& active) {
    const Transfer& transfer = active->transfer;
    const bool any = transfer.peer == TUTTI_ANY_SOURCE;
    auto found = unexpected_.lower_bound({transfer.tag, any ? std::numeric_limits<int>::min() : transfer.peer});
    const auto matches = [&](auto at) {
      return at != unexpected_.end() && at->first.tag == transfer.tag && (any || at->first.source == transfer.peer);
    };
    if (!matches(found)) return false;
    for (auto other = std::next(found); matches(other); ++other) {
      if (other->second.front().order < found->second.front().order) found = other;
    }
    const int source = found->first.source;
    const Unexpected message = take_first(unexpected_, found);
    if (message.sent != nullptr) {
      receive_own(active, message.sent);
    } else {
      receive(active, source, message.header, message.data);
    }
    return true;
  }

  /// A receive has met its message.
  void receive(const ActivePtr& active, int source, const Header& header, std::span<const std::byte> payload) {
    active->work->set_received(source, header.bytes / active->transfer.element);
    if (header.bytes > active->transfer.bytes) return too_long(*active, source, header);
    Peer& p = peer(source);
    if (header.kind == Kind::eager) {
      const std::uint64_t part = std::min<std::uint64_t>(payload.size(), header.bytes);
      if (part != 0) std::memcpy(active->transfer.memory, payload.data(), part);
      p.taken += header.bytes;
      if (p.taken >= taken_lot) p.outbox.push_back({Kind::taken, header.id, 0, std::exchange(p.taken, 0)});
      complete(*active, {});
      return;
    }
    active->total = header.bytes;
    p.receiving.emplace(header.id, active);
    p.outbox.push_back({Kind::clear, header.id, header.tag, header.bytes});
  }

  void too_long(const Active& active, int source, const Header& header) {
    Error error;
    error.status = TUTTI_MISMATCH;
    error.operation_kind = "recv";
    error.guilty = {comm_.guilty(source)};
    error.message = fmt::format("rank {} of \"{}\" sent {} bytes with tag {}, rank {} has posted a receive of {} bytes",
                                source, comm_.name(), header.bytes, header.tag, comm_.rank(), active.transfer.bytes);
    error.remedy = "Post a receive at least as long as the send.";
    fail_all(comm_.fail(std::move(error)));
  }

  /// A receive has met a message of this rank's own.
  void receive_own(const ActivePtr& to, const ActivePtr& sent) {
    const Transfer& from = sent->transfer;
    if (from.bytes > to->transfer.bytes) return too_long(*to, comm_.rank(), {Kind::eager, 0, from.tag, from.bytes});
    if (from.bytes != 0) std::memmove(to->transfer.memory, from.memory, from.bytes);
    to->work->set_received(comm_.rank(), from.bytes / to->transfer.element);
    complete(*sent, {});
    complete(*to, {});
  }

  void complete(Active& active, const Status& status) {
    if (!active.is_listed) return;
    const std::list<ActivePtr> keeps = unlist(active);
    if (!active.work->over()) active.work->complete(status);
    // Relaxed: see run.
    pending_.fetch_sub(1, std::memory_order_relaxed);
    wake_followers();
  }

  /// Out of the list of all; needs no memory.
  std::list<ActivePtr> unlist(Active& active) {
    std::list<ActivePtr> alone;
    alone.splice(alone.end(), all_, active.listed);
    active.is_listed = false;
    return alone;
  }

  void fail_all(const Status& status) {
    const Status why = status.ok() ? Status(TUTTI_ABORTED, "the communicator was aborted") : status;
    while (!all_.empty()) complete(*all_.front(), why);
    receives_.clear();
    unexpected_.clear();
    for (Peer& p : peers_) {
      p.sends.clear();
      p.announced.clear();
      p.cleared.clear();
      p.receiving.clear();
      p.outbox.clear();
    }
  }

  Communicator& comm_;
  std::mutex inbox_mutex_;  ///< guards inbox_, closing_ and thread_
  std::condition_variable posted_;
  std::list<ActivePtr> inbox_;
  std::atomic<bool> posted_some_{false};  ///< something may be in it; written under its lock
  std::atomic<std::uint64_t> pending_{0};
  bool closing_ = false;
  std::thread thread_;

  std::atomic<std::uint32_t> following_{0};
  std::mutex following_mutex_;  ///< guards nothing but the sleep on leader_left_
  std::condition_variable leader_left_;

  std::mutex mutex_;  ///< guards what follows; whoever holds it makes progress for all
  WaitingAgent agent_;
  bool begun_ = false;
  std::uint64_t next_id_ = 1;
  std::vector<Peer> peers_;
  std::vector<int> open_;  ///< peers with links
  std::uint32_t still_rounds_ = 0;
  std::uint64_t next_arrival_ = 0;
  std::uint64_t next_look_ns_ = 0;
  std::list<ActivePtr> all_;                            ///< from post to completion
  std::map<Match, std::deque<ActivePtr>> receives_;     ///< not met by a message yet, in the order of posting
  std::map<Match, std::deque<Unexpected>> unexpected_;  ///< not met by a receive yet, in the order of arrival
};

PointToPoint::PointToPoint(Communicator& communicator) : engine_(std::make_unique<Engine>(communicator)) {}
PointToPoint::~PointToPoint() = default;
void PointToPoint::post(const Transfer& transfer, std::shared_ptr<Work> work, bool background) {
  engine_->post(transfer, std::move(work), background);
}
Status PointToPoint::wait(const Work& work, const Hook& hook) { return engine_->wait(work, hook); }

}  // namespace tutti
