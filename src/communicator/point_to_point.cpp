// Messages travel in the slots of one link per direction and pair, each of a kind:
//
//     eager    short: tag and bytes at once, kept at the receiver until a receive matches
//     request  long: (tag, bytes) alone; the receiver answers `clear` once a receive matches; then `data` slots follow
//     taken    tells the sender how many eager bytes were consumed, which bounds what a receiver may have to keep
//
// A request for a short message carries the message's bytes, since a receiver keeps about as much for the request alone.
// Its receive then needs no answer, and `clear` ends its send. So a sender beyond the eager bound still waits for the
// receiver.
//
// Only cleared data and bounded eager bytes are ever on their way, so the receiver always empties its slots, and no
// message can block another's: transfers with crossed tags finish in any order. A send ends when its bytes have left this
// process, since nobody may make progress here from then on.
//
// The tag of an eager message, and whose bytes data are, travel in the word that links carry beside each message; what more
// there is to say of one stands behind its bytes. So these begin where a slot does, for a copy to or from an odd place
// would touch every cache line twice, and most messages are no longer than what is sent.
#include "src/communicator/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/background_thread.h"
#include "src/base/clock.h"
#include "src/base/copy.h"
#include "src/base/exception_boundary.h"
#include "src/base/no_cancellation.h"
#include "src/base/plural.h"
#include "src/communicator/by_deadline.h"
#include "src/communicator/communicator.h"
#include "src/communicator/matching.h"
#include "src/executors/host/bounded_spin.h"
#include "src/links/transport_set.h"
#include "src/links/waiter.h"
#include "src/tables/names.h"
#include "src/tables/units.h"
#include "topology/caches.h"

namespace tutti {
namespace {

enum class Kind : std::uint32_t { eager, request, clear, data, taken };

struct Trailer {
  std::uint64_t id;     ///< the sender's number of the transfer
  std::uint64_t bytes;  ///< of the whole transfer
  std::uint64_t tag;
  Kind kind;
  tutti_type type;  ///< the sender's, for errors
};
/// What a link carries beside a message. The lowest bits tell the rest: an id, or a type and above it a tag.
enum Beside : std::uint64_t { in_trailer, eager_tag, data_id };
constexpr int beside_bits = 2;
constexpr int type_bits = 8;
/// Ids, tags and types below these have room there.
constexpr std::uint64_t id_end = std::uint64_t{1} << (64 - beside_bits);
constexpr std::uint64_t tag_end = id_end >> type_bits;
constexpr std::uint64_t type_end = std::uint64_t{1} << type_bits;
constexpr bool has_room_beside(std::uint64_t tag, tutti_type type) {
  return tag < tag_end && static_cast<std::uint64_t>(type) < type_end;
}
/// What says all that is to be said of a message beside its length; in_trailer where that is too much.
constexpr std::uint64_t beside(const Trailer& trailer) {
  if (trailer.kind == Kind::eager && has_room_beside(trailer.tag, trailer.type))
    return (trailer.tag << type_bits | static_cast<std::uint64_t>(trailer.type)) << beside_bits | eager_tag;
  if (trailer.kind == Kind::data && trailer.id < id_end) return trailer.id << beside_bits | data_id;
  return in_trailer;
}

/// A message as it is in a slot.
struct Parts {
  Trailer trailer{};
  std::span<const std::byte> payload;

  /// False where it is none.
  bool read(const tutti_message& message) {
    payload = {static_cast<const std::byte*>(message.data), message.bytes};
    const std::uint64_t word = message.fingerprint >> beside_bits;
    switch (message.fingerprint - (word << beside_bits)) {
      case eager_tag:
        trailer = {0, payload.size(), word >> type_bits, Kind::eager, static_cast<tutti_type>(word & (type_end - 1))};
        return true;
      case data_id:
        trailer = {word, payload.size(), 0, Kind::data, {}};
        return true;
      case in_trailer:
        return word == 0 && read_trailer();
      default:
        return false;
    }
  }

 private:
  bool read_trailer() {
    if (payload.size() < sizeof(Trailer)) return false;
    std::memcpy(&trailer, payload.last(sizeof(Trailer)).data(), sizeof(Trailer));
    payload = payload.first(payload.size() - sizeof(Trailer));
    if (trailer.kind == Kind::eager) trailer.bytes = payload.size();
    return true;
  }
};

/// Bytes of the longest transfer that is sent before the receiver has asked for it, with so many ranks to a core: so much
/// that source, slot and target of each rank's stay in the core's own cache. Who runs ahead further finds them gone, and
/// had better wait for the receiver, even where that means to hand the core over (Zen 4, 1 MiB: 256 KiB with a rank to a
/// core, 128 with two, 64 with four). No more than a slot, and no less than what is over before the receiver's word could
/// come.
std::uint64_t longest_eager(double oversubscription) {
  const double share = static_cast<double>(cache_sizes().l2_share()) / (4 * oversubscription);
  return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(share), 32 * 1024, link_slot_bytes);
}
/// Bytes of the longest message that its request carries.
constexpr std::uint64_t longest_in_request = 64;
/// What one sender may have unconsumed at one receiver, of which each message weighs its bytes and what keeping it takes
/// there, with a tag of its own: messages of no bytes need memory too.
constexpr std::uint64_t eager_bound = 4 * 1024 * 1024;
constexpr std::uint64_t weight_of(std::uint64_t bytes) { return bytes + 256; }
/// So much of it consumed is told in one message.
constexpr std::uint64_t taken_lot = eager_bound / 4;
/// How often a wait asks its caller's hook: twice as often as promised.
constexpr std::uint64_t poll_every_ns = 500'000;
constexpr std::uint64_t look_every_ns = 1'000'000;
/// Rounds between two looks at the clock for it.
constexpr std::uint32_t look_every_rounds = 16;
/// What a peer's answer may take once a deadline has passed.
constexpr std::uint64_t grace_ns = 100'000'000;
/// So much goes out to a peer before what has come from it is taken, and the other way round: who fills all slots first
/// finds that the peer's bytes, and its own, have left the caches meanwhile.
constexpr std::uint64_t turn_bytes = link_slot_bytes;
/// Ended transfers that are kept for the next ones.
constexpr std::size_t most_kept = 64;

/// A mutex that is tried rather than waited for: it is given back by a store, which costs a short transfer less than
/// another atomic exchange.
class TriedMutex {
 public:
  bool try_lock() {
    // Relaxed: courtesy, on which nothing else depends. Acquire: pairs with unlock.
    return wanted_.load(std::memory_order_relaxed) == 0 && !held_.exchange(true, std::memory_order_acquire);
  }
  /// For whoever cannot do without. Its holder is within one turn, naps included, and nobody else gets it meanwhile.
  /// Sleeps, as the holder may be of a lower priority on the same core. No cancellation point: destructors lock it.
  void lock() {
    const NoCancellation whole;
    wanted_.fetch_add(1, std::memory_order_relaxed);
    while (held_.exchange(true, std::memory_order_acquire)) std::this_thread::sleep_for(std::chrono::microseconds(50));
    wanted_.fetch_sub(1, std::memory_order_relaxed);
  }
  void unlock() { held_.store(false, std::memory_order_release); }  // release: what the holder did is seen by the next

 private:
  std::atomic<bool> held_{false};
  std::atomic<std::uint32_t> wanted_{0};
};

/// The transfers of one blocking call, on its caller's stack.
class Batch {
 public:
  explicit Batch(std::size_t transfers) : left_(transfers) {}
  /// One has ended. Called by one thread at a time, which holds the engine's lock; with the last one the caller may be
  /// gone.
  void end(const Status& status) {
    if (!status.ok() && first_.ok()) first_ = status;
    // Relaxed: the lock orders it with what others ended. Release: what the transfer and those before it wrote is seen by
    // whoever sees that all have ended.
    left_.store(left_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  }
  bool over() const { return left_.load(std::memory_order_acquire) == 0; }  // acquire: pairs with end
  /// The first failure, once all have ended.
  const Status& result() const { return first_; }

 private:
  std::atomic<std::size_t> left_;
  Status first_;
};

/// Whether a receive can take a message of so many bytes: not too long, and whole elements. Most have just its length.
constexpr bool takes(const Transfer& receive, std::uint64_t bytes) {
  return bytes == receive.bytes || (bytes < receive.bytes && bytes % receive.element == 0);
}

/// A transfer under way, which tells its work or its batch of its end.
struct Active {
  Transfer transfer;
  std::shared_ptr<Work> work;
  Batch* batch = nullptr;
  Deadline deadline;        ///< at 0: to be counted from the first look at it
  std::uint64_t id = 0;     ///< its number, in the order of posting; receiving a request: its send's
  std::uint64_t done = 0;   ///< bytes sent or received so far
  std::uint64_t total = 0;  ///< receiving: bytes that the sender announced
  bool streams = false;     ///< receiving a long one: it is written past the caches
  std::uint64_t last = 0;   ///< the number of the last message that it sends, once that is committed
  std::uint8_t bucket = 0;  ///< this and the next are for ByDeadline
  std::list<Active>::iterator listed = {};
  LineNode<Active> node;  ///< in the line that it stands in
};

/// First come, first served. A transfer stands in one line at most, of this kind or among Lines.
class Line {
 public:
  bool empty() const { return first_ == nullptr; }
  Active& front() const { return *first_; }
  void push(Active& active) {
    active.node.next = nullptr;
    (empty() ? first_ : last_->node.next) = &active;
    last_ = &active;
  }
  Active& pop() { return *std::exchange(first_, first_->node.next); }

 private:
  Active* first_ = nullptr;
  Active* last_ = nullptr;
};

/// A message that came before its receive was posted. Its bytes follow the struct in the same allocation.
struct Unexpected {
  Trailer trailer;
  int source;
  Active* sent;         ///< instead of bytes: this rank's own, which lies in its caller's memory still
  std::uint64_t bytes;  ///< that came with it
  LineNode<Unexpected> of_source = {};
  LineNode<Unexpected> of_any = {};

  struct Free {
    void operator()(Unexpected* message) const { ::operator delete(message); }
  };
  using Owner = std::unique_ptr<Unexpected, Free>;
  static Owner make(const Trailer& trailer, int source, Active* sent, std::span<const std::byte> payload) {
    void* const room = ::operator new(sizeof(Unexpected) + payload.size());
    Owner message(new (room) Unexpected{trailer, source, sent, payload.size()});
    if (!payload.empty()) std::memcpy(message.get() + 1, payload.data(), payload.size());
    return message;
  }
  std::span<const std::byte> payload() const { return {reinterpret_cast<const std::byte*>(this + 1), bytes}; }
};
static_assert(std::is_trivially_destructible_v<Unexpected> && sizeof(Unexpected) + 64 <= weight_of(0));

struct Peer {
  HostLink* to = nullptr;
  HostLink* from = nullptr;
  Line answers;                 ///< receives that have met a request and must send its clear
  Line sends;                   ///< not announced yet
  Line sending;                 ///< data, in turn
  Line leaving;                 ///< all committed, as far as the transport has got with it
  std::uint64_t committed = 0;  ///< messages
  std::uint64_t sent = 0;       ///< bytes in them
  std::uint64_t eager_under_way = 0;
  std::uint64_t taken = 0;      ///< eager bytes consumed here, of which the peer has not been told
  std::uint64_t needed = 0;     ///< by so many transfers under way that name it
  bool gone = false;            ///< its links broke when no transfer needed it, and none has come that does
  std::uint64_t broken_ns = 0;  ///< when a link broke that a transfer needs; 0: none has
  std::uint64_t asked_ns = 0;   ///< when a reason for that was looked for last
  std::unique_ptr<ControlPlane::Inquiry> asked;  ///< about that
};

}  // namespace

class PointToPoint::Engine {
 public:
  explicit Engine(Communicator& comm)
      : comm_(comm),
        waiter_(comm.transports().endpoints(TrafficClass::point_to_point), comm.wait_policy(),
                {.shared = true, .tells = true}),
        longest_eager_(longest_eager(comm.oversubscription())),
        peers_(static_cast<std::size_t>(comm.ranks())) {}

  ~Engine() { end(); }

  void end() {
    {
      const std::lock_guard lock(inbox_mutex_);
      closing_ = true;
    }
    posted_.notify_all();
    if (thread_.joinable()) thread_.join();
    const std::lock_guard lock(mutex_);
    fresh_.splice(fresh_.end(), inbox_);
    if (under_way_.empty() && fresh_.empty()) return forget_unexpected();
    fail_all(catching([] {
      return Status(TUTTI_INVALID_USAGE, "the communicator was destroyed with transfers under way", "Wait for them first.");
    }));
  }

  void post(const Transfer& transfer, std::shared_ptr<Work> work, bool background) {
    const Status status = catching([&]() -> Status {
      if (background) {
        if (Status started = start_thread(); !started.ok()) return started;
      }
      std::list<Active> posted(1);
      Active& active = posted.front();
      active.transfer = transfer;
      active.work = work;
      active.deadline = Deadline::in(limit_of(transfer));
      work->start(0);
      const std::lock_guard lock(inbox_mutex_);
      // Relaxed: see run.
      pending_.fetch_add(1, std::memory_order_relaxed);
      post_inbox(posted);
      // Under the lock: once the transfer can have ended, the engine may be gone.
      if (background) posted_.notify_all();
      return {};
    });
    if (!status.ok()) work->complete(status);
  }

  Status exchange(std::span<const Transfer> transfers, const PollHook& hook) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      const ScopedOperation visit(comm_.operations_under_way());
      if (Status status = comm_.legal(); !visit.admitted() || !status.ok()) return status;
      return exchange_rest(transfers, {}, 0, hook, std::move(lock));
    }
    // Who closes it takes our lock before waiting (settle), so what is done within the lock needs no visit.
    if (comm_.operations_under_way().closed() || !comm_.legal_now()) [[unlikely]]
      return comm_.legal();
    Done done;
    std::size_t count = 0;
    {
      Midst midst{*this};
      const Status status = catching([&]() -> Status { return count = exchange_at_once(transfers, done), Status(); });
      midst.left = true;
      if (!status.ok()) return torn(status), status;
    }
    // Relaxed: see follow. Nothing of ours is touched after the lock is given back, as all may be freed then.
    if (count == transfers.size() && following_.load(std::memory_order_relaxed) == 0) [[likely]]
      return {};
    const ScopedOperation visit(comm_.operations_under_way(), ScopedOperation::Within());
    if (count < transfers.size()) return exchange_rest(transfers, done, count, hook, std::move(lock));
    lock.unlock();
    wake_followers();
    return {};
  }

  void settle() { const std::lock_guard lock(mutex_); }

  Status wait(const Work& work, const PollHook& hook) {
    help_until_over(work, hook, {});
    return work.test().value_or(Status());
  }

 private:
  enum class Turn { taken, idle, moved };

  /// Which of a call's transfers have been done at once.
  using Done = std::bitset<most_kept>;

  /// Where a thread is cancelled between two messages of a call. With the lock held.
  struct Midst {
    Engine& engine;
    bool left = false;
    ~Midst() {
      if (!left) engine.torn(stopped());
    }
  };

  /// Does as many of a call's transfers as need no memory of theirs: messages that fit a slot, to peers whose links are
  /// open, where nothing else is under way that they could overtake, and nothing that has to be moved. Most calls are no
  /// more than that. How many those are. With the lock held.
  std::size_t exchange_at_once(std::span<const Transfer> transfers, Done& done) {
    // Relaxed: a post that happened before this call is seen, another thread's too; whoever has taken it out of the inbox
    // since held our lock, so that it shows in fresh_ or under_way_. Of one that did not, either order will do.
    const bool alone =
        under_way_.empty() && fresh_.empty() && unexpected_.empty() && !posted_some_.load(std::memory_order_relaxed);
    // Whatever is left of the call afterwards must not fail for want of memory. Never more are kept than `done` has bits.
    if (!alone || polls_ || ended_.size() < transfers.size()) return 0;
    std::size_t count = 0;
    std::uint64_t yielding_since_ns = 0;
    for (const bool sends : {true, false}) {
      for (std::size_t i = 0; i < transfers.size(); ++i) {
        if (transfers[i].sends != sends) continue;
        // The first one that cannot be done must not be overtaken by the next of its kind.
        if (!(sends ? send_at_once(transfers[i]) : receive_at_once(transfers[i], yielding_since_ns))) return count;
        done.set(i);
        ++count;
      }
    }
    return count;
  }

  /// Whether a link is open, and moves by itself.
  static bool moves(const HostLink* link) {
    return link != nullptr && link->state.size != 0 && (link->state.capabilities & TUTTI_NEEDS_PROGRESS) == 0;
  }

  bool send_at_once(const Transfer& transfer) {
    if (transfer.peer == comm_.rank()) return false;
    Peer& p = peer(transfer.peer);
    if (!moves(p.to) || p.taken >= taken_lot || !eager(p, transfer)) return false;
    // Such a link keeps nothing back of what is committed from now on.
    if (p.to->transport->flushed(p.to->link) != TUTTI_LINK_OK) return false;
    return send_eager(p, transfer, next_id_++);
  }

  /// Waits for the message as long as one would spin for it, or look for it and pass the core to and fro, which all
  /// receives of a call do for a quarter of a millisecond together: nobody is asked meanwhile whether the call is to go on.
  bool receive_at_once(const Transfer& transfer, std::uint64_t& yielding_since_ns) {
    if (transfer.peer == TUTTI_ANY_SOURCE || transfer.peer == comm_.rank()) return false;
    Peer& p = peer(transfer.peer);
    if (!moves(p.from)) return false;
    tutti_message message;
    tutti_link_result result = TUTTI_LINK_NOT_YET;
    const auto answered = [&] {
      result = p.from->transport->view(p.from->link, &message);
      return result != TUTTI_LINK_NOT_YET;
    };
    for (std::uint32_t rounds = 0; !answered();) {
      if (waiter_.spin(++rounds, false)) continue;
      if (waiter_.shares_core() && spin_briefly(*p.from, false, answered)) break;
      if (!waiter_.yield_briefly(yielding_since_ns)) return false;
    }
    Parts parts;
    if (result != TUTTI_LINK_OK || !parts.read(message)) return false;
    const auto& [trailer, payload] = parts;
    const bool simple = trailer.kind == Kind::eager && trailer.tag == transfer.tag && takes(transfer, trailer.bytes) &&
                        p.taken + weight_of(trailer.bytes) < taken_lot;
    if (!simple) return false;  // it stays where it is
    if (!payload.empty()) copy_memory(transfer.memory, payload.data(), payload.size());
    p.taken += weight_of(trailer.bytes);
    p.from->transport->release(p.from->link);
    return true;
  }

  /// What is left of an exchange, of which `count` transfers are done. Throws std::bad_alloc, and only where none is.
  Status exchange_rest(std::span<const Transfer> transfers, const Done& done, std::size_t count, const PollHook& hook,
                       std::unique_lock<TriedMutex> turn) {
    const std::size_t left = transfers.size() - count;
    Batch batch(left);
    Recall recall{*this, batch};
    std::unique_lock lock = std::move(turn);  // given up before the recall
    {
      std::list<Active> posted;
      if (lock.owns_lock()) {
        const auto kept = static_cast<std::ptrdiff_t>(std::min(ended_.size(), left));
        posted.splice(posted.end(), ended_, ended_.begin(), std::next(ended_.begin(), kept));
      }
      posted.resize(left);
      auto active = posted.begin();
      for (std::size_t i = 0; i < transfers.size(); ++i) {
        if (i < done.size() && done[i]) continue;
        active->transfer = transfers[i];
        active->batch = &batch;
        active->deadline = {0, limit_of(active->transfer)};
        active->done = active->total = active->last = 0;
        ++active;
      }
      recall.posted = true;
      if (lock.owns_lock()) {
        begin_now(posted);
      } else {
        const std::lock_guard inbox_lock(inbox_mutex_);
        post_inbox(posted);
      }
    }
    help_until_over(batch, hook, std::move(lock));
    return batch.result();
  }

  /// Ends what a batch waits for where its call is left otherwise than by its end: by a thread that is cancelled, or by an
  /// exception of a hook's. Its stack, and the caller's memory, are others' then.
  struct Recall {
    Engine& engine;
    const Batch& batch;
    bool posted = false;
    ~Recall() {
      if (!posted || batch.over()) return;
      const std::lock_guard lock(engine.mutex_);
      {
        const std::lock_guard inbox_lock(engine.inbox_mutex_);
        engine.fresh_.splice(engine.fresh_.end(), engine.inbox_);
      }
      engine.torn(stopped());
    }
  };

  static Status stopped() {
    return catching([] { return Status(TUTTI_ABORTED, "a thread was stopped within a send or a receive"); });
  }

  std::uint64_t limit_of(const Transfer& transfer) const {
    return transfer.timeout_ns != 0 ? transfer.timeout_ns : comm_.timeout_ns();
  }

  /// With the inbox' lock held. Needs no memory.
  void post_inbox(std::list<Active>& posted) {
    inbox_.splice(inbox_.end(), posted);
    // Release: whoever sees it takes the lock and finds the transfers.
    posted_some_.store(true, std::memory_order_release);
  }

  /// Makes progress for all, in turn with others who do, until `what`, a work or a batch, has ended. lock: the first
  /// turn's, where the caller has it.
  template <typename Ends>
  void help_until_over(const Ends& what, const PollHook& hook, std::unique_lock<TriedMutex> lock) {
    std::uint64_t next_poll_ns = 0;
    bool ended = false;
    for (std::uint32_t rounds = 0; !what.over();) {
      if (!lock.owns_lock()) lock = std::unique_lock(mutex_, std::try_to_lock);
      const Turn turn = take_turn(std::move(lock), rounds);
      if (turn == Turn::taken) follow([&what] { return what.over(); });
      if (turn == Turn::moved) rounds = 0;
      if (hook.poll != nullptr && !ended && now_ns() >= next_poll_ns) {
        next_poll_ns = now_ns() + poll_every_ns;
        ended = hook.ends_wait();
        // Its transfers end with the communicator, of which the engine hears as everybody does.
        if (ended) static_cast<void>(comm_.fail_by_hook("for a transfer"));
      }
    }
    wake_followers();
  }

  /// One look at everything, by whoever gets the lock, or as many as follow each other without a break; `rounds` counts
  /// them.
  Turn take_turn(std::unique_lock<TriedMutex> lock, std::uint32_t& rounds) {
    if (!lock.owns_lock()) {
      ++rounds;
      return Turn::taken;
    }
    bool moved = false;
    const Status status = catching([&]() -> Status {
      do {
        take_inbox();
        moved = progress();
      } while (!moved && waiter_.spin(++rounds, polls_));
      if (!moved && rounds == 1 && polls_) {
        waiter_.progress();  // before it hands over the core: what came meanwhile may be there already
      } else if (!moved && !waiter_.idle(rounds, polls_)) {
        fail_all(comm_.first_error());
      }
      return {};
    });
    if (!status.ok()) torn(status);
    return moved ? Turn::moved : Turn::idle;
  }

  /// Sleeps while another thread makes progress for all: until it stops doing so, some transfer has ended, or a millisecond
  /// is over, which bounds what a wake-up that is missed costs.
  template <typename Over>
  void follow(const Over& over) {
    std::unique_lock lock(following_mutex_);
    // Relaxed: what it is not ordered with is a wake-up that is missed; see above.
    following_.fetch_add(1, std::memory_order_relaxed);
    if (!over()) leader_left_.wait_for(lock, std::chrono::milliseconds(1));
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
      // Relaxed: the mutex orders it with the posts that want this thread; completions make it smaller.
      if (pending_.load(std::memory_order_relaxed) == 0) {
        posted_.wait(lock);
        continue;
      }
      lock.unlock();
      for (std::uint32_t rounds = 0; pending_.load(std::memory_order_relaxed) != 0 && rounds < 4096;) {
        const Turn turn = take_turn(std::unique_lock(mutex_, std::try_to_lock), rounds);
        if (turn == Turn::taken) follow([] { return false; });
        if (turn == Turn::moved) rounds = 0;
      }
      lock.lock();
    }
  }

  void take_inbox() {
    // Acquire: pairs with post_inbox. Who posts a moment later looks for itself, or has the thread look.
    while (posted_some_.load(std::memory_order_acquire)) {
      {
        const std::lock_guard lock(inbox_mutex_);
        // Needs no memory: from here on they end with whatever ends all.
        fresh_.splice(fresh_.end(), inbox_);
        // Relaxed: within the lock, as each true is.
        posted_some_.store(false, std::memory_order_relaxed);
      }
      begin_fresh();
    }
  }

  /// Without the inbox, after what is in it.
  void begin_now(std::list<Active>& posted) {
    const Status status = catching([&]() -> Status {
      take_inbox();
      fresh_.splice(fresh_.end(), posted);
      begin_fresh();
      return {};
    });
    if (status.ok()) return;
    fresh_.splice(fresh_.end(), posted);
    torn(status);
  }

  void begin_fresh() {
    if (!begun_) waiter_.begin(UINT64_MAX);
    begun_ = true;
    while (!fresh_.empty()) begin(enter());
  }

  /// The first fresh one is under way from now on.
  Active& enter() {
    Active& active = under_way_.add(fresh_);
    ++needs_of(active);
    return active;
  }
  std::uint64_t& needs_of(const Active& active) {
    return active.transfer.peer == TUTTI_ANY_SOURCE ? needs_any_ : peer(active.transfer.peer).needed;
  }

  void begin(Active& active) {
    const Transfer& transfer = active.transfer;
    active.id = next_id_++;
    if (transfer.sends) {
      if (transfer.peer == comm_.rank()) return send_to_self(active);
      if (!open(transfer.peer)) return;
      return peer(transfer.peer).sends.push(active);
    }
    const bool any = transfer.peer == TUTTI_ANY_SOURCE;
    for (int p = any ? 0 : transfer.peer; p < (any ? comm_.ranks() : transfer.peer + 1); ++p) {
      if (p != comm_.rank() && !open(p)) return;
    }
    if (take_unexpected(active)) return;
    auto& receives = any ? receives_of_any_ : receives_;
    receives.make_room();
    receives.push(active, {transfer.tag, transfer.peer});
  }

  void send_to_self(Active& active) {
    const Transfer& transfer = active.transfer;
    if (Active* const to = take_receive(comm_.rank(), transfer.tag)) return receive_own(*to, active);
    keep(Unexpected::make(trailer_of(active, Kind::eager), comm_.rank(), &active, {}));
  }

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  int rank_of(const Peer& p) const { return static_cast<int>(&p - peers_.data()); }

  /// Both links with a peer; false: they cannot be had, and every transfer has ended, its caller's memory with it.
  bool open(int rank) {
    Peer& p = peer(rank);
    p.gone = false;  // if it is, that is looked at again
    if (p.to != nullptr && p.from != nullptr) return true;
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
    polls_ = false;
    for (const int rank : open_) {
      Peer& p = peer(rank);
      if (p.gone) continue;
      if (p.to != nullptr && ready(*p.to, rank)) moved |= send_some(p);
      if (p.from != nullptr && ready(*p.from, rank)) moved |= receive_some(p, rank);
    }
    if (++rounds_ % look_every_rounds == 0) look_at_deadlines();
    return moved;
  }

  /// Not every time, as it takes a look at the clock.
  void look_at_deadlines() {
    const std::uint64_t now = now_ns();
    if (now < next_look_ns_) return;
    next_look_ns_ = now + look_every_ns;
    const Active* const passed = under_way_.look(now);
    if (passed == nullptr) {
      late_asked_.reset();
    } else {
      late(*passed);
    }
  }

  bool ready(HostLink& link, int rank) {
    const bool was_ready = link.state.size != 0;  // as Transports::ready would say
    const tutti_link_result result = was_ready ? TUTTI_LINK_OK : comm_.transports().ready(link);
    if (result == TUTTI_LINK_BROKEN && !(&link == peer(rank).to && has_more(peer(rank)))) broken(link, rank);
    polls_ = polls_ || result == TUTTI_LINK_NOT_YET || (link.state.capabilities & TUTTI_NEEDS_PROGRESS) != 0;
    return result == TUTTI_LINK_OK;
  }

  /// Whether a peer that has closed its end of our link to it, as it does when it leaves, may have sent something before:
  /// that is to be taken first.
  bool has_more(const Peer& p) {
    if (p.from == nullptr) return false;
    const tutti_link_result result = comm_.transports().ready(*p.from);
    tutti_message message;
    return result == TUTTI_LINK_NOT_YET ||
           (result == TUTTI_LINK_OK && p.from->transport->view(p.from->link, &message) == TUTTI_LINK_OK);
  }

  /// A peer that left in order takes nothing from transfers among others, and one that died the control plane tells of.
  void broken(const HostLink& link, int rank) {
    Peer& p = peer(rank);
    p.gone = p.needed == 0 && needs_any_ == 0;
    if (p.gone) {
      p.broken_ns = p.asked_ns = 0;
      p.asked.reset();
      return;
    }
    char why[TUTTI_WHY_MAX] = "";
    static_cast<void>(link.transport->failure(link.link, why, sizeof why));
    if (auto own = comm_.own_shortage(rank, why)) return fail_all(comm_.fail(std::move(*own)));
    // What follows takes locks of others': not in every round.
    const std::uint64_t now = now_ns();
    if (now - p.asked_ns < look_every_ns) return;
    p.asked_ns = now;
    if (p.broken_ns == 0) p.broken_ns = now;
    if (p.asked == nullptr) p.asked = comm_.inquire(rank, Communicator::culprit_ns / 10);
    const bool over = p.asked->over();
    if (auto loss = comm_.loss_of(p.asked->reports().front())) return fail_all(comm_.fail(std::move(*loss)));
    // The control plane usually tells a moment later: it is asked again.
    if (over) p.asked.reset();
    if (now - p.broken_ns < Communicator::culprit_ns) return;
    Error error;
    error.status = TUTTI_REMOTE_ERROR;
    error.guilty = {comm_.guilty(rank)};
    error.operation_kind = "send_recv";
    error.message = fmt::format("transfers of \"{}\": rank {} was lost: {}", comm_.name(), rank, why);
    fail_all(comm_.fail(std::move(error)));
  }

  /// Its peer is asked first whether there is another reason, and the transfers go on until it has answered.
  void late(const Active& active) {
    if (const int peer = active.transfer.peer; peer >= 0) {
      if (late_asked_ == nullptr || late_peer_ != peer) late_asked_ = comm_.inquire(peer, grace_ns);
      late_peer_ = peer;
      const bool over = late_asked_->over();
      if (auto loss = comm_.loss_of(late_asked_->reports().front())) return fail_all(comm_.fail(std::move(*loss)));
      if (!over) return;
    }
    Error error;
    error.status = TUTTI_TIMEOUT;
    error.limit_ns = active.deadline.limit_ns;
    error.operation_kind = active.transfer.sends ? "send" : "recv";
    if (active.transfer.peer >= 0) error.guilty = {comm_.guilty(active.transfer.peer)};
    const bool met = active.done != 0 || active.total != 0 || active.last != 0;
    error.message = fmt::format(
        "rank {}'s {} of {} {} {} with tag {} in \"{}\" {} within {}", comm_.rank(), error.operation_kind,
        plural(static_cast<std::int64_t>(active.transfer.bytes), "byte"), active.transfer.sends ? "to" : "from",
        active.transfer.peer < 0 ? "any rank" : fmt::format("rank {}", active.transfer.peer), active.transfer.tag,
        comm_.name(), met ? "did not end" : "found no match", duration_text(active.deadline.limit_ns));
    error.remedy = met ? "Look for what holds up the peer or the network; raise TUTTI_OPERATION_TIMEOUT if it is only slow."
                       : "Check source and tag on both sides; raise TUTTI_OPERATION_TIMEOUT if it is only slow.";
    fail_all(comm_.fail(std::move(error)));
  }

  /// Sends a message; false: no credit now.
  static bool send_message(Peer& p, const Trailer& trailer, std::span<const std::byte> payload) {
    const std::uint64_t word = beside(trailer);
    const tutti_transport& transport = *p.to->transport;
    const bool in_one = word != in_trailer && !payload.empty() && payload.size() < least_streamed;
    // What breaks here is told by the peer's link to us, by the control plane, or by the deadline.
    if (in_one ? transport.send(p.to->link, payload.data(), payload.size(), word) != TUTTI_LINK_OK
               : !send_in_parts(*p.to, trailer, word, payload)) {
      return false;
    }
    ++p.committed;
    p.sent += payload.size();
    return true;
  }
  static bool send_in_parts(const HostLink& to, const Trailer& trailer, std::uint64_t word,
                            std::span<const std::byte> payload) {
    const std::uint64_t bytes = payload.size() + (word == in_trailer ? sizeof(Trailer) : 0);
    tutti_room room;
    if (to.transport->reserve(to.link, bytes, word, &room) != TUTTI_LINK_OK) return false;
    auto* const data = static_cast<std::byte*>(room.data);
    copy(data, payload, bytes >= least_streamed && (room.flags & TUTTI_ROOM_NON_TEMPORAL) != 0);
    if (word == in_trailer) std::memcpy(data + payload.size(), &trailer, sizeof(Trailer));
    static_cast<void>(to.transport->commit(to.link, bytes, word));
    return true;
  }
  /// non_temporal: past the caches.
  static void copy(std::byte* to, std::span<const std::byte> from, bool non_temporal) {
    if (from.empty()) return;
    if (!non_temporal) {
      copy_memory(to, from.data(), from.size());
      return;
    }
    const FoldSource source = {from.data()};
    const FoldDestination destination = {to, ElementFormat::kUser, true};
    find_copy()({&source, &destination, 1, 1, from.size()});
  }

  bool send_some(Peer& p) {
    const std::uint64_t before = p.committed;
    for (const std::uint64_t end = p.sent + turn_bytes; p.sent < end && send_next(p);) {
    }
    bool moved = p.committed != before;
    if (p.leaving.empty()) return moved;
    // Of a link that broke, too: what the receiver did not get it misses by itself. One that is kept busy by others has
    // never flushed all, but what it counts as reusable is gone.
    const bool all = p.to->transport->flushed(p.to->link) != TUTTI_LINK_NOT_YET;
    while (!p.leaving.empty() && (all || gone(p.leaving.front(), *p.to))) {
      complete(p.leaving.pop(), {});
      moved = true;
    }
    return moved;
  }
  static bool gone(const Active& active, const HostLink& link) {
    if (link.state.reusable == nullptr) return false;
    // Acquire, as the transport's word asks for, though nothing is read here that it orders.
    return std::atomic_ref<const std::uint64_t>(*link.state.reusable).load(std::memory_order_acquire) >= active.last;
  }
  void leave(Peer& p, Active& active) {
    active.last = p.committed;
    p.leaving.push(active);
  }

  /// One message; false: there is none, or no credit now.
  bool send_next(Peer& p) {
    if (p.taken >= taken_lot) {
      if (!send_message(p, {0, p.taken, 0, Kind::taken, {}}, {})) return false;
      p.taken = 0;
      return true;
    }
    if (!p.answers.empty()) return answer(p);
    if (!p.sends.empty()) return announce(p);
    return !p.sending.empty() && send_part(p);
  }

  /// Whether so many bytes may be sent before the receiver has asked for them.
  bool eager(const Peer& p, const Transfer& transfer) const {
    // A tag that has no room beside the message lies behind it.
    const bool beside = has_room_beside(transfer.tag, transfer.type);
    const std::uint64_t room = beside ? link_slot_bytes : link_slot_bytes - sizeof(Trailer);
    return transfer.bytes <= std::min(longest_eager_, room) && p.eager_under_way + weight_of(transfer.bytes) <= eager_bound;
  }

  /// Sends a clear; false: no credit now. Where the bytes came with the request, the receive ends once the clear has left.
  bool answer(Peer& p) {
    Active& active = p.answers.front();
    receiving_.make_room();
    if (!send_message(p, trailer_of(active, Kind::clear), {})) return false;
    p.answers.pop();
    if (active.done == active.total) {
      leave(p, active);
    } else {
      receiving_.push(active, {active.id, rank_of(p)});
    }
    return true;
  }

  static Trailer trailer_of(const Active& active, Kind kind) {
    return {active.id, active.transfer.bytes, active.transfer.tag, kind, active.transfer.type};
  }

  /// Sends all of a transfer; false: no credit now.
  bool send_eager(Peer& p, const Transfer& transfer, std::uint64_t id) {
    const Trailer trailer{id, transfer.bytes, transfer.tag, Kind::eager, transfer.type};
    if (!send_message(p, trailer, {transfer.memory, transfer.bytes})) return false;
    p.eager_under_way += weight_of(transfer.bytes);
    return true;
  }

  /// Sends the first one whole, or asks where it is long.
  bool announce(Peer& p) {
    Active& active = p.sends.front();
    const Transfer& transfer = active.transfer;
    if (eager(p, transfer)) {
      if (!send_eager(p, transfer, active.id)) return false;
      p.sends.pop();
      leave(p, active);
      return true;
    }
    announced_.make_room();
    const std::uint64_t with_it = transfer.bytes <= longest_in_request ? transfer.bytes : 0;
    if (!send_message(p, trailer_of(active, Kind::request), {transfer.memory, with_it})) return false;
    p.sends.pop();
    announced_.push(active, {active.id, transfer.peer});
    return true;
  }

  bool send_part(Peer& p) {
    Active& active = p.sending.front();
    const std::uint64_t part = std::min(link_slot_bytes, active.transfer.bytes - active.done);
    if (!send_message(p, trailer_of(active, Kind::data), {active.transfer.memory + active.done, part})) return false;
    active.done += part;
    p.sending.pop();
    if (active.done < active.transfer.bytes) {
      p.sending.push(active);
    } else {
      leave(p, active);
    }
    return true;
  }

  bool receive_some(Peer& p, int rank) {
    bool moved = false;
    std::uint64_t received = 0;
    tutti_message message;
    // What nobody waits for stays in its slot: a receive that comes for it then takes it from there, with no copy in
    // between.
    while (!under_way_.empty() && received < turn_bytes) {
      const tutti_link_result result = p.from->transport->view(p.from->link, &message);
      if (result == TUTTI_LINK_BROKEN) broken(*p.from, rank);
      if (result != TUTTI_LINK_OK) return moved;
      if (Parts parts; parts.read(message)) take(p, rank, parts.trailer, parts.payload);
      received += message.bytes;
      p.from->transport->release(p.from->link);
      moved = true;
    }
    return moved;
  }

  void take(Peer& p, int rank, const Trailer& trailer, std::span<const std::byte> payload) {
    switch (trailer.kind) {
      case Kind::eager:
      case Kind::request:
        return arrived(rank, trailer, payload);
      case Kind::taken:
        p.eager_under_way -= std::min(p.eager_under_way, trailer.bytes);
        return;
      case Kind::clear: {
        Active* const active = announced_.first({trailer.id, rank});
        if (active == nullptr) return;
        announced_.remove(*active);
        return active->transfer.bytes <= longest_in_request ? complete(*active, {}) : p.sending.push(*active);
      }
      case Kind::data: {
        Active* const found = receiving_.first({trailer.id, rank});
        if (found == nullptr) return;
        Active& active = *found;
        const std::uint64_t part = std::min<std::uint64_t>(payload.size(), active.total - active.done);
        copy(active.transfer.memory + active.done, payload.first(part), active.streams);
        active.done += part;
        if (active.done < active.total) return;
        receiving_.remove(active);
        complete(active, {});
        return;
      }
    }
  }

  void arrived(int source, const Trailer& trailer, std::span<const std::byte> payload) {
    if (Active* const active = take_receive(source, trailer.tag)) return receive(*active, source, trailer, payload);
    keep(Unexpected::make(trailer, source, nullptr, payload));
  }

  void keep(Unexpected::Owner message) {
    unexpected_.make_room();
    unexpected_of_any_.make_room();
    unexpected_.push(*message, {message->trailer.tag, message->source});
    unexpected_of_any_.push(*message, {message->trailer.tag, TUTTI_ANY_SOURCE});
    static_cast<void>(message.release());
  }

  /// The first posted receive that a message matches, or nullptr.
  Active* take_receive(int source, std::uint64_t tag) {
    Active* const named = receives_.first({tag, source});
    Active* const any = receives_of_any_.first({tag, TUTTI_ANY_SOURCE});
    const bool takes_any = named == nullptr || (any != nullptr && any->id < named->id);
    Active* const taken = takes_any ? any : named;
    if (taken != nullptr) (takes_any ? receives_of_any_ : receives_).remove(*taken);
    return taken;
  }

  /// Gives a receive the first message that came for it; false: none has.
  bool take_unexpected(Active& active) {
    const Transfer& transfer = active.transfer;
    const Match match{transfer.tag, transfer.peer};
    const bool any = transfer.peer == TUTTI_ANY_SOURCE;
    Unexpected* const found = any ? unexpected_of_any_.first(match) : unexpected_.first(match);
    if (found == nullptr) return false;
    unexpected_.remove(*found);
    unexpected_of_any_.remove(*found);
    const Unexpected::Owner message(found);
    if (message->sent != nullptr) {
      receive_own(active, *message->sent);
    } else {
      receive(active, message->source, message->trailer, message->payload());
    }
    return true;
  }

  /// A receive has met its message.
  void receive(Active& active, int source, const Trailer& trailer, std::span<const std::byte> payload) {
    if (!takes(active.transfer, trailer.bytes)) return mismatch(active, source, trailer);
    if (active.work != nullptr) active.work->set_received(source, trailer.bytes / active.transfer.element);
    Peer& p = peer(source);
    const bool whole = trailer.kind == Kind::eager || trailer.bytes <= longest_in_request;
    const std::uint64_t part = whole ? std::min<std::uint64_t>(payload.size(), trailer.bytes) : 0;
    if (part != 0) copy_memory(active.transfer.memory, payload.data(), part);
    if (trailer.kind == Kind::eager) {
      p.taken += weight_of(trailer.bytes);
      return complete(active, {});
    }
    active.id = trailer.id;
    active.total = trailer.bytes;
    active.done = whole ? active.total : 0;
    active.streams = comm_.use_non_temporal(2 * trailer.bytes);
    p.answers.push(active);
  }

  void mismatch(const Active& active, int source, const Trailer& trailer) {
    const Transfer& transfer = active.transfer;
    const bool too_long = trailer.bytes > transfer.bytes;
    Error error;
    error.status = TUTTI_MISMATCH;
    error.operation_kind = "recv";
    error.guilty = {comm_.guilty(source)};
    error.message =
        fmt::format("rank {} of \"{}\" sent {} of {} with tag {}, rank {} has posted a receive of {} of {}{}", source,
                    comm_.name(), plural(static_cast<std::int64_t>(trailer.bytes), "byte"), text_of(trailer.type),
                    trailer.tag, comm_.rank(), plural(static_cast<std::int64_t>(transfer.bytes), "byte"),
                    text_of(transfer.type), too_long ? "" : "; the message ends within an element");
    error.remedy = too_long ? "Post a receive at least as long as the send." : "Pass types of one size on both sides.";
    fail_all(comm_.fail(std::move(error)));
  }

  /// A receive has met a message of this rank's own.
  void receive_own(Active& to, Active& sent) {
    const Transfer& from = sent.transfer;
    if (!takes(to.transfer, from.bytes)) return mismatch(to, comm_.rank(), trailer_of(sent, Kind::eager));
    if (from.bytes != 0) std::memmove(to.transfer.memory, from.memory, from.bytes);
    if (to.work != nullptr) to.work->set_received(comm_.rank(), from.bytes / to.transfer.element);
    complete(sent, {});
    complete(to, {});
  }

  /// Ends one that stands in no line; it may be another transfer afterwards. Needs no memory.
  void complete(Active& active, const Status& status) {
    --needs_of(active);
    under_way_.remove(active, ended_);
    if (active.batch != nullptr) {
      std::exchange(active.batch, nullptr)->end(status);
    } else {
      std::exchange(active.work, nullptr)->complete(status);
      // Relaxed: see run.
      pending_.fetch_sub(1, std::memory_order_relaxed);
    }
    if (ended_.size() > most_kept) ended_.pop_front();
    wake_followers();
  }

  void forget_unexpected() {
    unexpected_of_any_.clear();
    unexpected_.clear([](Unexpected& message) { Unexpected::Owner{&message}; });
  }

  void fail_all(const Status& status) {
    const Status why = status.ok() ? Status(TUTTI_ABORTED, "the communicator was aborted") : status;
    for (auto* const lines : {&receives_, &receives_of_any_, &announced_, &receiving_}) lines->clear();
    forget_unexpected();
    for (Peer& p : peers_) {
      p.answers = p.sends = p.sending = p.leaving = {};
    }
    while (!fresh_.empty()) enter();
    while (!under_way_.empty()) complete(under_way_.any(), why);
  }

  Communicator& comm_;
  std::mutex inbox_mutex_;  ///< guards inbox_, closing_ and thread_
  std::condition_variable posted_;
  std::list<Active> inbox_;
  std::atomic<bool> posted_some_{false};   ///< something may be in it; written under its lock
  std::atomic<std::uint64_t> pending_{0};  ///< posted with a work, and not completed
  bool closing_ = false;
  std::thread thread_;

  std::atomic<std::uint32_t> following_{0};
  std::mutex following_mutex_;  ///< guards nothing but the sleep on leader_left_
  std::condition_variable leader_left_;

  TriedMutex mutex_;  ///< guards what follows; whoever holds it makes progress for all
  Waiter waiter_;
  bool begun_ = false;
  std::uint64_t next_id_ = 1;
  const std::uint64_t longest_eager_;
  std::vector<Peer> peers_;
  std::vector<int> open_;  ///< peers with links
  bool polls_ = false;     ///< some link opens, or moves, only when its endpoint is asked to make progress
  std::uint32_t rounds_ = 0;
  std::uint64_t next_look_ns_ = 0;
  int late_peer_ = 0;                                  ///< of the transfer whose deadline has passed
  std::unique_ptr<ControlPlane::Inquiry> late_asked_;  ///< about it
  std::list<Active> fresh_;                            ///< posted, and not begun
  ByDeadline<Active> under_way_;                       ///< from beginning to completion
  std::uint64_t needs_any_ = 0;                        ///< of those under way, so many that take from any rank
  std::list<Active> ended_;                            ///< and afterwards, for others to come
  using Actives = Lines<Active, &Active::node>;
  /// Not met by a message yet, in the order of posting.
  Actives receives_;
  Actives receives_of_any_;
  Actives announced_;  ///< sends waiting to be cleared, by id and receiver
  Actives receiving_;  ///< by the sender's id, and sender
  /// Not met by a receive yet, in the order of arrival: each stands in both.
  Lines<Unexpected, &Unexpected::of_source> unexpected_;
  Lines<Unexpected, &Unexpected::of_any> unexpected_of_any_;
};

PointToPoint::PointToPoint(Communicator& communicator) : engine_(std::make_unique<Engine>(communicator)) {}
PointToPoint::~PointToPoint() = default;
void PointToPoint::post(const Transfer& transfer, std::shared_ptr<Work> work, bool background) {
  engine_->post(transfer, std::move(work), background);
}
Status PointToPoint::exchange(std::span<const Transfer> transfers, const PollHook& hook) {
  return engine_->exchange(transfers, hook);
}
Status PointToPoint::wait(const Work& work, const PollHook& hook) { return engine_->wait(work, hook); }
void PointToPoint::settle() { engine_->settle(); }
void PointToPoint::end() { engine_->end(); }

}  // namespace tutti
