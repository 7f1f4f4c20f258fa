#include "src/point_to_point/engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/base/background_thread.h"
#include "src/base/clock.h"
#include "src/base/copy.h"
#include "src/base/exception_boundary.h"
#include "src/executors/host/bounded_spin.h"
#include "src/links/non_temporal.h"
#include "src/point_to_point/transfer_errors.h"

namespace tutti {
namespace {

/// How often a wait asks its caller's hook: twice as often as promised.
constexpr std::uint64_t poll_every_ns = 500'000;
constexpr std::uint64_t look_every_ns = 1'000'000;
/// Rounds between two looks at the clock for it.
constexpr std::uint32_t look_every_rounds = 16;
/// What a peer's answer may take once a deadline has passed, or a send is to be taken back.
constexpr std::uint64_t grace_ns = 100'000'000;
/// So much goes out to a peer before what has come from it is taken, and the other way round. A rank that fills all slots
/// first finds that the peer's bytes, and its own, have left the caches meanwhile.
constexpr std::uint64_t turn_bytes = link_slot_bytes;

Status stopped() {
  return catching([] { return Status(TUTTI_ABORTED, "a thread was stopped within a send or a receive"); });
}

}  // namespace

/// Where a thread is cancelled between two messages of a call. With the lock held.
struct TransferEngine::Midst {
  TransferEngine& engine;
  bool left = false;
  ~Midst() {
    if (!left) engine.torn(stopped());
  }
};

/// Ends what a batch waits for where its call is left otherwise than by its end. A thread may be cancelled, or a hook
/// throw. Its stack, and the caller's memory, are others' then.
struct TransferEngine::Recall {
  TransferEngine& engine;
  const TransferBatch& batch;
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

TransferEngine::TransferEngine(const TransferContext& context)
    : context_(context),
      failures_(context.failures),
      waiter_(context.transports.endpoints(TrafficClass::point_to_point), context.wait_policy,
              {.shared = true, .tells = true}),
      peers_(static_cast<std::size_t>(context.ranks)) {}

void TransferEngine::end() {
  {
    const std::lock_guard lock(inbox_mutex_);
    closing_.store(true, std::memory_order_relaxed);  // relaxed: the lock orders it
  }
  posted_.notify_all();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  fresh_.splice(fresh_.end(), inbox_);
  const bool is_used = under_way_.size() != ghosts_ || !fresh_.empty();
  fail_all(catching([is_used] {
    return is_used ? Status(TUTTI_INVALID_USAGE, "the communicator was destroyed with transfers under way",
                            "Wait for them first.")
                   : Status(TUTTI_ABORTED, "the communicator was destroyed");
  }));
}

void TransferEngine::post(const Transfer& transfer, std::shared_ptr<Work> work, bool background) {
  const Status status = catching([&]() -> Status {
    if (background) {
      if (Status started = start_thread(); !started.ok()) return started;
    }
    std::list<ActiveTransfer> posted(1);
    ActiveTransfer& active = posted.front();
    active.transfer = transfer;
    active.work = work;
    active.deadline = Deadline::in(limit_of(transfer));
    work->start(0);
    const std::lock_guard lock(inbox_mutex_);
    // In the lock: a cancel comes before it and is seen, or behind it and finds the transfer.
    if (work->is_cancelled()) return Status(cancelled(failures_, context_.rank, transfer));
    // Relaxed: see run.
    pending_.fetch_add(1, std::memory_order_relaxed);
    post_inbox(posted);
    // Under the lock: once the transfer can have ended, the engine may be gone.
    if (background) posted_.notify_all();
    return {};
  });
  if (!status.ok()) work->complete(status);
}

Status TransferEngine::exchange(std::span<const Transfer> transfers, const PollHook& hook) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    const ScopedOperation visit(context_.operations_under_way);
    if (Status status = failures_.legal(); !visit.admitted() || !status.ok()) return status;
    return exchange_rest(transfers, {}, 0, hook, std::move(lock));
  }
  // Who closes it takes our lock before waiting (settle), so what is done within the lock needs no visit.
  if (context_.operations_under_way.closed() || !failures_.legal_now()) [[unlikely]]
    return failures_.legal();
  Done done;
  std::size_t count = 0;
  if (const EndpointTurn using_endpoints(waiter_, 0); using_endpoints) [[likely]] {
    Midst midst{*this};
    const Status status = catching([&]() -> Status { return count = exchange_at_once(transfers, done), Status(); });
    midst.left = true;
    if (!status.ok()) return torn(status), status;
  }
  // Nothing of ours is touched after the lock is given back, as all may be freed then.
  if (count == transfers.size() && !followers_.any()) [[likely]]
    return {};
  const ScopedOperation visit(context_.operations_under_way, ScopedOperation::Within());
  if (count < transfers.size()) return exchange_rest(transfers, done, count, hook, std::move(lock));
  lock.unlock();
  followers_.wake();
  return {};
}

Status TransferEngine::wait(const Work& work, const PollHook& hook) {
  help_until_over(work, hook, {});
  return work.test().value_or(Status());
}

/// Does as many of a call's transfers as need no memory of theirs, and says how many. These are messages that fit a slot,
/// over links that are open and move by themselves. Nothing else is under way that they could overtake. Most calls are no
/// more than that. With the lock held.
inline std::size_t TransferEngine::exchange_at_once(std::span<const Transfer> transfers, Done& done) {
  // Relaxed: a post that happened before this call is seen, another thread's too. A thread that has taken it out of the
  // inbox since held our lock, so it shows in fresh_ or under_way_. Of a post that did not, either order will do.
  // Ghosts are overtaken by design; what is said of them is not.
  const bool alone = under_way_.size() == ghosts_ && notices_ == 0 && fresh_.empty() && !matcher_.has_messages() &&
                     !posted_some_.load(std::memory_order_relaxed);
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

inline bool TransferEngine::send_at_once(const Transfer& transfer) {
  if (transfer.peer == context_.rank) return false;
  PeerChannel& p = peer(transfer.peer);
  if (!moves_by_itself(p.to) || p.taken >= taken_lot || !p.may_send_eagerly(transfer, context_.longest_eager)) return false;
  // Such a link keeps nothing back of what is committed from now on.
  if (p.to->transport->flushed(p.to->link) != TUTTI_LINK_OK) return false;
  return p.send_eagerly(transfer, next_id_++);
}

/// Waits for the message as long as one would spin for it. Where ranks share cores it looks for the message and passes the
/// core to and fro, for at most a quarter of a millisecond of all receives of a call together. Nobody is asked meanwhile
/// whether the call is to go on.
inline bool TransferEngine::receive_at_once(const Transfer& transfer, std::uint64_t& yielding_since_ns) {
  if (transfer.peer == TUTTI_ANY_SOURCE || transfer.peer == context_.rank) return false;
  PeerChannel& p = peer(transfer.peer);
  if (!moves_by_itself(p.from)) return false;
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
  WireMessage received;
  if (result != TUTTI_LINK_OK || !received.read(message)) return false;
  const auto& [trailer, payload] = received;
  const bool simple = trailer.kind == MessageKind::eager && trailer.tag == transfer.tag && takes(transfer, trailer.bytes) &&
                      p.taken + weight_of(trailer.bytes) < taken_lot;
  if (!simple) return false;  // it stays where it is
  if (!payload.empty()) copy_memory(transfer.memory, payload.data(), payload.size());
  p.taken += weight_of(trailer.bytes);
  p.from->transport->release(p.from->link);
  return true;
}

/// What is left of an exchange, of which `count` transfers are done. Throws std::bad_alloc, and only where none is.
Status TransferEngine::exchange_rest(std::span<const Transfer> transfers, const Done& done, std::size_t count,
                                     const PollHook& hook, std::unique_lock<TriedMutex> turn) {
  const std::size_t left = transfers.size() - count;
  TransferBatch batch(left);
  Recall recall{*this, batch};
  std::unique_lock lock = std::move(turn);  // given up before the recall
  {
    std::list<ActiveTransfer> posted;
    if (lock.owns_lock()) {
      const auto kept = static_cast<std::ptrdiff_t>(std::min(ended_.size(), left));
      posted.splice(posted.end(), ended_, ended_.begin(), std::next(ended_.begin(), kept));
    }
    posted.resize(left);
    fill(posted, transfers, done, batch);
    recall.posted = true;
    if (lock.owns_lock() && !context_.transports.endpoints(TrafficClass::point_to_point).is_shared()) {
      begin_now(posted);
    } else {
      const std::lock_guard inbox_lock(inbox_mutex_);
      post_inbox(posted);
    }
  }
  help_until_over(batch, hook, std::move(lock));
  return batch.result();
}

/// Makes `posted` the transfers of a call that are not done. As many stand in it.
inline void TransferEngine::fill(std::list<ActiveTransfer>& posted, std::span<const Transfer> transfers, const Done& done,
                                 TransferBatch& batch) {
  auto active = posted.begin();
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    if (i < done.size() && done[i]) continue;
    active->transfer = transfers[i];
    active->batch = &batch;
    active->deadline = {0, limit_of(active->transfer)};
    active->done = active->total = active->last = 0;
    ++active;
  }
}

inline std::uint64_t TransferEngine::limit_of(const Transfer& transfer) const {
  // Relaxed: a single value that orders nothing.
  return transfer.timeout_ns != 0 ? transfer.timeout_ns : context_.timeout_ns.load(std::memory_order_relaxed);
}

/// With the inbox' lock held. Needs no memory.
inline void TransferEngine::post_inbox(std::list<ActiveTransfer>& posted) {
  inbox_.splice(inbox_.end(), posted);
  // Release: whoever sees it takes the lock and finds the transfers.
  posted_some_.store(true, std::memory_order_release);
}

/// Makes progress for all, in turn with others who do, until a work or a batch has ended.
/// lock: the first turn's, where the caller has it.
template <typename Ends>
void TransferEngine::help_until_over(const Ends& what, const PollHook& hook, std::unique_lock<TriedMutex> lock) {
  std::uint64_t next_poll_ns = 0;
  bool ended = false;
  for (std::uint32_t rounds = 0; !what.over();) {
    if (!lock.owns_lock()) lock = std::unique_lock(mutex_, std::try_to_lock);
    const Turn turn = take_turn(std::move(lock), rounds);
    if (turn == Turn::taken) followers_.follow([&what] { return what.over(); });
    if (turn == Turn::moved) rounds = 0;
    if (hook.poll != nullptr && !ended && now_ns() >= next_poll_ns) {
      next_poll_ns = now_ns() + poll_every_ns;
      ended = hook.ends_wait();
      // Its transfers end with the communicator, of which the engine hears as everybody does.
      if (ended) static_cast<void>(failures_.fail_by_hook("for a transfer"));
    }
  }
  followers_.wake();
}

/// One look at everything, by whoever gets the lock, or as many as follow each other without a break; `rounds` counts
/// them.
inline TransferEngine::Turn TransferEngine::take_turn(std::unique_lock<TriedMutex> lock, std::uint32_t& rounds) {
  if (!lock.owns_lock()) {
    ++rounds;
    return Turn::taken;
  }
  // Whoever calls asks its hook meanwhile.
  const EndpointTurn using_endpoints(waiter_, poll_every_ns);
  if (!using_endpoints) return Turn::idle;
  bool moved = false;
  const Status status = catching([&]() -> Status {
    do {
      take_inbox();
      moved = progress();
    } while (!moved && waiter_.spin(++rounds, polls_));
    if (!moved && rounds == 1 && polls_) {
      waiter_.progress();  // before it hands over the core: what came meanwhile may be there already
    } else if (!moved && !waiter_.idle(rounds, polls_)) {
      fail_all(failures_.first_error());
    }
    return {};
  });
  if (!status.ok()) torn(status);
  return moved ? Turn::moved : Turn::idle;
}

/// An exception (no memory) left transfers half done, so that nothing of this communicator can be matched any more.
void TransferEngine::torn(const Status& status) {
  fail_all(status);
  static_cast<void>(failures_.fail(status));
}

Status TransferEngine::start_thread() {
  const std::lock_guard lock(inbox_mutex_);
  if (closing_.load(std::memory_order_relaxed) || thread_.joinable()) return {};
  auto thread = background_thread("tutti transfers", [this] { run(); });
  if (thread.ok()) thread_ = std::move(*thread);
  return thread.status();
}

void TransferEngine::run() {
  std::unique_lock lock(inbox_mutex_);
  while (!closing_.load(std::memory_order_relaxed)) {
    // Relaxed: the mutex orders it with the posts that want this thread; completions make it smaller.
    if (pending_.load(std::memory_order_relaxed) == 0) {
      posted_.wait(lock);
      continue;
    }
    lock.unlock();
    const auto goes_on = [this] {
      return pending_.load(std::memory_order_relaxed) != 0 && !closing_.load(std::memory_order_relaxed);
    };
    for (std::uint32_t rounds = 0; goes_on() && rounds < 4096;) {
      const Turn turn = take_turn(std::unique_lock(mutex_, std::try_to_lock), rounds);
      if (turn == Turn::taken) followers_.follow([] { return false; });
      if (turn == Turn::moved) rounds = 0;
    }
    lock.lock();
  }
}

inline void TransferEngine::take_inbox() {
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
inline void TransferEngine::begin_now(std::list<ActiveTransfer>& posted) {
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

inline void TransferEngine::begin_fresh() {
  if (!begun_) waiter_.begin(UINT64_MAX);
  begun_ = true;
  while (!fresh_.empty()) begin(enter());
}

/// The first fresh one is under way from now on.
inline ActiveTransfer& TransferEngine::enter() {
  ActiveTransfer& active = under_way_.add(fresh_);
  ++needs_of(active);
  return active;
}
inline std::uint64_t& TransferEngine::needs_of(const ActiveTransfer& active) {
  return active.transfer.peer == TUTTI_ANY_SOURCE ? needs_any_ : peer(active.transfer.peer).needed;
}

inline void TransferEngine::begin(ActiveTransfer& active) {
  const Transfer& transfer = active.transfer;
  active.id = active.message = next_id_++;
  active.stage = Stage::waiting;
  active.extended = false;
  active.taken_back = TUTTI_SUCCESS;
  active.last = 0;
  if (!transfer.sends) return begin_receive(active);
  if (transfer.peer == context_.rank) return send_to_self(active);
  if (open(transfer.peer)) peer(transfer.peer).sends.push(active);
}

inline void TransferEngine::begin_receive(ActiveTransfer& active) {
  const int named = active.transfer.peer;
  const bool any = named == TUTTI_ANY_SOURCE;
  for (int p = any ? 0 : named; p < (any ? context_.ranks : named + 1); ++p) {
    if (p != context_.rank && !open(p)) return;
  }
  if (!take_unexpected(active)) matcher_.post(active);
}

void TransferEngine::send_to_self(ActiveTransfer& active) {
  const int rank = context_.rank;
  if (ActiveTransfer* const to = matcher_.take_receive(rank, active.transfer.tag)) return receive_own(*to, active);
  matcher_.keep(UnexpectedMessage::make(active.trailer(MessageKind::eager), rank, &active, {}));
}

/// Tells whoever asked for it, and may be gone afterwards.
inline void TransferEngine::tell_end(ActiveTransfer& active, const Status& status) {
  --needs_of(active);
  if (active.batch != nullptr) {
    std::exchange(active.batch, nullptr)->end(status);
  } else {
    std::exchange(active.work, nullptr)->complete(status);
    remove_pending(1);
  }
  followers_.wake();
}

/// Ends one that stands in no line; it may be another transfer afterwards. Needs no memory.
inline void TransferEngine::complete(ActiveTransfer& active, const Status& status) {
  if (active.is_ghost()) {
    --ghosts_;
    remove_pending(1);
  } else {
    tell_end(active, status);
  }
  under_way_.remove(active, ended_);
  if (ended_.size() > most_kept) ended_.pop_front();
}

/// Tells the end of one that the peer's answer, or the transport, is still to come for, however late. The thread sees to
/// that: nobody else may make progress here from then on.
void TransferEngine::leave_behind(ActiveTransfer& active, const Status& status) {
  static_cast<void>(start_thread());
  under_way_.postpone(active, {UINT64_MAX, active.deadline.limit_ns});
  ++ghosts_;
  add_pending();
  tell_end(active, status);
}

/// The thread makes progress for one thing more.
void TransferEngine::add_pending() {
  {
    // In the lock: the thread, which looks there before it sleeps, is not missed.
    const std::lock_guard lock(inbox_mutex_);
    pending_.fetch_add(1, std::memory_order_relaxed);  // relaxed: see run
  }
  posted_.notify_all();
}
inline void TransferEngine::remove_pending(std::uint64_t count) {
  pending_.fetch_sub(count, std::memory_order_relaxed);  // relaxed: see run
}

void TransferEngine::fail_all(const Status& status) {
  const Status why = status.ok() ? Status(TUTTI_ABORTED, "the communicator was aborted") : status;
  matcher_.forget_receives();
  matcher_.forget_messages();
  announced_.clear();
  receiving_.clear();
  for (PeerChannel& p : peers_) {
    p.answers = p.sends = p.sending = p.leaving = {};
    p.notices.clear();
    p.notices_leaving = 0;
  }
  remove_pending(std::exchange(notices_, 0));
  while (!fresh_.empty()) enter();
  while (!under_way_.empty()) complete(under_way_.any(), why);
}

/// Both links with a peer; false: they cannot be had, and every transfer has ended, its caller's memory with it.
inline bool TransferEngine::open(int rank) {
  PeerChannel& p = peer(rank);
  p.gone = false;  // if it is, that is looked at again
  if (p.to != nullptr && p.from != nullptr) return true;
  for (const bool sends : {true, false}) {
    HostLink*& link = sends ? p.to : p.from;
    if (link != nullptr) continue;
    if (std::find(open_.begin(), open_.end(), rank) == open_.end()) open_.push_back(rank);
    auto opened = context_.transports.link(TrafficClass::point_to_point, rank, 0, sends);
    if (!opened.ok()) {
      fail_all(failures_.fail(opened.status().error()));
      return false;
    }
    link = *opened;
  }
  return true;
}

inline bool TransferEngine::progress() {
  bool moved = false;
  polls_ = false;
  for (const int rank : open_) {
    PeerChannel& p = peer(rank);
    if (p.gone) continue;
    if (p.to != nullptr && ready(*p.to, rank)) moved |= send_some(p);
    if (p.from != nullptr && ready(*p.from, rank)) moved |= receive_some(p, rank);
  }
  if (++rounds_ % look_every_rounds == 0) look_at_deadlines();
  return moved;
}

inline bool TransferEngine::ready(HostLink& link, int rank) {
  const bool was_ready = link.state.size != 0;  // as Transports::ready would say
  const tutti_link_result result = was_ready ? TUTTI_LINK_OK : context_.transports.ready(link);
  if (result == TUTTI_LINK_BROKEN && !(&link == peer(rank).to && has_more(peer(rank)))) broken(link, rank);
  polls_ = polls_ || result == TUTTI_LINK_NOT_YET || (link.state.capabilities & TUTTI_NEEDS_PROGRESS) != 0;
  return result == TUTTI_LINK_OK;
}

/// Whether a peer that has closed its end of our link to it may have sent something before. A peer that leaves closes it,
/// and what it sent is to be taken first.
bool TransferEngine::has_more(const PeerChannel& p) {
  if (p.from == nullptr) return false;
  const tutti_link_result result = context_.transports.ready(*p.from);
  tutti_message message;
  return result == TUTTI_LINK_NOT_YET ||
         (result == TUTTI_LINK_OK && p.from->transport->view(p.from->link, &message) == TUTTI_LINK_OK);
}

/// A peer that left in order takes nothing from transfers among others, and one that died the control plane tells of.
void TransferEngine::broken(const HostLink& link, int rank) {
  PeerChannel& p = peer(rank);
  p.gone = p.needed == 0 && needs_any_ == 0;
  if (p.gone) {
    p.broken_ns = p.asked_ns = 0;
    p.asked.reset();
    return forget_ghosts(rank);
  }
  const std::string why = context_.transports.why_broken(link);
  if (auto own = failures_.own_shortage(rank, why)) return fail_all(failures_.fail(std::move(*own)));
  // What follows takes locks of others': not in every round.
  const std::uint64_t now = now_ns();
  if (now - p.asked_ns < look_every_ns) return;
  p.asked_ns = now;
  if (p.broken_ns == 0) p.broken_ns = now;
  if (p.asked == nullptr) p.asked = failures_.inquire(rank, FailureState::culprit_ns / 10);
  const bool over = p.asked->over();
  if (auto loss = failures_.loss_of(p.asked->reports().front())) return fail_all(failures_.fail(std::move(*loss)));
  // The control plane usually tells a moment later: it is asked again.
  if (over) p.asked.reset();
  if (now - p.broken_ns >= FailureState::culprit_ns) fail_all(failures_.fail(lost_peer(failures_, rank, why)));
}

/// Not every time, as it takes a look at the clock.
void TransferEngine::look_at_deadlines() {
  const std::uint64_t now = now_ns();
  if (now < next_look_ns_) return;
  next_look_ns_ = now + look_every_ns;
  under_way_.each_passed(now, [this](ActiveTransfer& each) {
    if (each.expires()) expire(each);
  });
  const ActiveTransfer* const passed = under_way_.look(now);
  if (passed == nullptr) {
    late_asked_.reset();
  } else {
    late(*passed);
  }
}

/// Its peer, or all that it may be, are asked first whether there is another reason. The transfers go on meanwhile.
void TransferEngine::late(const ActiveTransfer& active) {
  const int peer = active.transfer.peer;
  if (late_asked_ == nullptr || late_peer_ != peer) late_asked_ = failures_.inquire(peer, grace_ns);
  late_peer_ = peer;
  const bool over = late_asked_->over();
  for (const PeerReport& report : late_asked_->reports()) {
    // That one of many left is no reason: another may send.
    auto loss = peer >= 0 ? failures_.loss_of(report) : failures_.mismatch_with(report);
    if (loss) return fail_all(failures_.fail(std::move(*loss)));
  }
  if (over) fail_all(failures_.fail(missed_deadline(failures_, context_.rank, active)));
}

void TransferEngine::cancel(const Work& work) {
  const std::lock_guard lock(mutex_);
  if (cancel_posted(work)) return;
  ActiveTransfer* const active = under_way_.find([&work](const ActiveTransfer& each) { return each.work.get() == &work; });
  if (active != nullptr) take_back(*active, TUTTI_ABORTED);
}

/// Ends the transfer of a work where it is still in the inbox; whether it was.
bool TransferEngine::cancel_posted(const Work& work) {
  Status status;
  {
    const std::lock_guard inbox_lock(inbox_mutex_);
    const auto posted =
        std::ranges::find_if(inbox_, [&work](const ActiveTransfer& each) { return each.work.get() == &work; });
    if (posted == inbox_.end()) return false;
    status = Status(cancelled(failures_, context_.rank, posted->transfer));
    fresh_.splice(fresh_.begin(), inbox_, posted);
  }
  complete(enter(), status);
  return true;
}

/// Ends it where no match has met it, once that is certain. as: its outcome. Where it throws nothing has happened.
void TransferEngine::take_back(ActiveTransfer& active, tutti_status as) {
  if (active.stage == Stage::met || active.taken_back != TUTTI_SUCCESS) return;
  if (active.stage == Stage::asked) {
    notify(peer(active.transfer.peer), active.trailer(MessageKind::withdraw));
    active.taken_back = as;
    active.own_deadline = active.deadline;
    return under_way_.postpone(active, {now_ns() + grace_ns, active.deadline.limit_ns});
  }
  const Status status = outcome(active, as);
  leave_line(active);
  complete(active, status);
}

/// Takes out one that waits.
void TransferEngine::leave_line(ActiveTransfer& active) {
  const Transfer& transfer = active.transfer;
  if (!transfer.sends) return matcher_.remove(active);
  if (transfer.peer != context_.rank) return peer(transfer.peer).sends.remove(active);
  static_cast<void>(matcher_.take_message({transfer.tag, transfer.peer},
                                          [&active](const UnexpectedMessage& each) { return each.sent == &active; }));
}

/// The limit of one that expires has passed.
void TransferEngine::expire(ActiveTransfer& active) {
  if (active.taken_back == TUTTI_SUCCESS) {
    if (active.stage != Stage::met) return take_back(active, TUTTI_TIMEOUT);
    // With its last message committed, its memory is the caller's again.
    return active.last != 0 ? leave_behind(active, {}) : extend(active);
  }
  const Status status = outcome(active, active.taken_back);
  // The receiver's process makes no progress for transfers. Its answer may come at any time, or never. Without a thread to
  // take it this one waits, as long as it may.
  if (!start_thread().ok()) return extend(active);
  leave_behind(active, status);
}

/// It goes on as long as a transfer without a limit may.
void TransferEngine::extend(ActiveTransfer& active) {
  active.extended = true;
  // Relaxed: a single value that orders nothing.
  under_way_.postpone(active, Deadline::in(context_.timeout_ns.load(std::memory_order_relaxed)));
}

/// A peer has left: nothing comes for them any more. None but ghosts are under way with it.
void TransferEngine::forget_ghosts(int rank) {
  PeerChannel& p = peer(rank);
  const std::uint64_t notices = p.notices.size() + std::exchange(p.notices_leaving, 0);
  p.notices.clear();
  notices_ -= notices;
  remove_pending(notices);
  p.leaving = {};
  const auto is_of_peer = [rank](const ActiveTransfer& each) { return each.is_ghost() && each.transfer.peer == rank; };
  while (ActiveTransfer* const ghost = ghosts_ == 0 ? nullptr : under_way_.find(is_of_peer)) {
    if (ghost->stage == Stage::asked) announced_.remove(*ghost);
    complete(*ghost, {});
  }
}

Status TransferEngine::outcome(const ActiveTransfer& active, tutti_status as) const {
  return Status(as == TUTTI_TIMEOUT ? missed_deadline(failures_, context_.rank, active)
                                    : cancelled(failures_, context_.rank, active.transfer));
}

/// Tells the peer of what was taken back. Until that has left, the thread makes progress, where there can be one. Throws
/// std::bad_alloc, and then nothing has happened.
void TransferEngine::notify(PeerChannel& p, const Trailer& trailer) {
  static_cast<void>(start_thread());
  p.notices.push_back(trailer);
  ++notices_;
  add_pending();
}

inline bool TransferEngine::send_some(PeerChannel& p) {
  const std::uint64_t before = p.committed;
  for (const std::uint64_t end = p.sent + turn_bytes; p.sent < end && send_next(p);) {
  }
  bool moved = p.committed != before;
  if (p.leaving.empty() && p.notices_leaving == 0) return moved;
  // Of a link that broke, too: what the receiver did not get it misses by itself. One that is kept busy by others has
  // never flushed all, but what it counts as reusable is gone.
  const bool all = p.to->transport->flushed(p.to->link) != TUTTI_LINK_NOT_YET;
  while (!p.leaving.empty() && (all || p.has_left(p.leaving.front()))) {
    complete(p.leaving.pop(), {});
    moved = true;
  }
  if (all && p.notices_leaving != 0) {
    notices_ -= p.notices_leaving;
    remove_pending(std::exchange(p.notices_leaving, 0));
  }
  return moved;
}

/// One message; false: there is none, or no credit now.
inline bool TransferEngine::send_next(PeerChannel& p) {
  if (p.taken >= taken_lot) return p.send_taken();
  if (!p.notices.empty()) [[unlikely]]
    return p.send_notice();
  if (!p.answers.empty()) return answer(p);
  if (!p.sends.empty()) return announce(p);
  return !p.sending.empty() && p.send_part();
}

/// Sends a clear; false: no credit now. Where the bytes came with the request, the receive ends once the clear has left.
inline bool TransferEngine::answer(PeerChannel& p) {
  ActiveTransfer& active = p.answers.front();
  receiving_.make_room();
  if (!p.send(active.trailer(MessageKind::clear), {})) return false;
  p.answers.pop();
  if (active.done == active.total) {
    p.leave(active);
  } else {
    receiving_.push(active, {active.message, rank_of(p)});
  }
  return true;
}

/// Sends the first one whole, or asks where it is long.
inline bool TransferEngine::announce(PeerChannel& p) {
  ActiveTransfer& active = p.sends.front();
  const Transfer& transfer = active.transfer;
  if (p.may_send_eagerly(transfer, context_.longest_eager)) {
    if (!p.send_eagerly(transfer, active.id)) return false;
    active.stage = Stage::met;
    p.sends.pop();
    p.leave(active);
    return true;
  }
  announced_.make_room();
  const std::uint64_t with_it = transfer.bytes <= longest_in_request ? transfer.bytes : 0;
  if (!p.send(active.trailer(MessageKind::request), {transfer.memory, with_it})) return false;
  active.stage = Stage::asked;
  p.sends.pop();
  announced_.push(active, {active.id, transfer.peer});
  return true;
}

inline bool TransferEngine::receive_some(PeerChannel& p, int rank) {
  bool moved = false;
  std::uint64_t received = 0;
  tutti_message message;
  // What nobody waits for stays in its slot: a receive that comes for it then takes it from there, with no copy in
  // between.
  while (!under_way_.empty() && received < turn_bytes) {
    const tutti_link_result result = p.from->transport->view(p.from->link, &message);
    if (result == TUTTI_LINK_BROKEN) broken(*p.from, rank);
    if (result != TUTTI_LINK_OK) return moved;
    if (WireMessage parts; parts.read(message)) take(p, rank, parts.trailer, parts.payload);
    received += message.bytes;
    p.from->transport->release(p.from->link);
    moved = true;
  }
  return moved;
}

inline void TransferEngine::take(PeerChannel& p, int rank, const Trailer& trailer, std::span<const std::byte> payload) {
  switch (trailer.kind) {
    case MessageKind::eager:
    case MessageKind::request:
      return arrived(rank, trailer, payload);
    case MessageKind::taken:
      p.eager_under_way -= std::min(p.eager_under_way, trailer.bytes);
      return;
    case MessageKind::clear:
      return take_clear(p, rank, trailer);
    case MessageKind::data:
      return take_data(rank, trailer, payload);
    case MessageKind::withdraw:
      return take_withdraw(p, rank, trailer);
    case MessageKind::withdrawn:
      return take_withdrawn(rank, trailer);
    case MessageKind::nothing:
      return take_nothing(rank, trailer);
  }
}

inline void TransferEngine::take_clear(PeerChannel& p, int rank, const Trailer& trailer) {
  ActiveTransfer* const active = announced_.first({trailer.id, rank});
  if (active == nullptr) return;
  announced_.remove(*active);
  active->stage = Stage::met;
  const bool is_sent = active->transfer.bytes <= longest_in_request;
  if (is_sent) return complete(*active, {});
  if (active->is_ghost()) {
    notify(p, active->trailer(MessageKind::nothing));
    return complete(*active, {});
  }
  if (active->taken_back != TUTTI_SUCCESS) go_on(*active);
  p.sending.push(*active);
}

/// It was taken back too late: it ends as if it had not been.
void TransferEngine::go_on(ActiveTransfer& active) {
  if (std::exchange(active.taken_back, TUTTI_SUCCESS) == TUTTI_TIMEOUT) return extend(active);
  active.extended = false;
  under_way_.postpone(active, active.own_deadline);
}

/// A sender takes back what it asked for. Where a receive has met that, the clear is the answer: what comes behind it may
/// have met other receives, so that this one must not go on to those.
void TransferEngine::take_withdraw(PeerChannel& p, int rank, const Trailer& trailer) {
  const auto is_it = [&trailer](const UnexpectedMessage& each) {
    return each.trailer.kind == MessageKind::request && each.trailer.id == trailer.id;
  };
  if (matcher_.take_message({trailer.tag, rank}, is_it) == nullptr) return;
  notify(p, {trailer.id, trailer.bytes, trailer.tag, MessageKind::withdrawn, trailer.type});
}

void TransferEngine::take_withdrawn(int rank, const Trailer& trailer) {
  ActiveTransfer* const active = announced_.first({trailer.id, rank});
  if (active == nullptr) return;
  const Status status = active->is_ghost() ? Status() : outcome(*active, active->taken_back);
  announced_.remove(*active);
  complete(*active, status);
}

void TransferEngine::take_nothing(int rank, const Trailer& trailer) {
  ActiveTransfer* const active = receiving_.first({trailer.id, rank});
  if (active == nullptr) return;
  receiving_.remove(*active);
  wait_again(*active);
}

/// A receive has met what its sender had taken back: it waits for the next message.
void TransferEngine::wait_again(ActiveTransfer& active) {
  active.done = active.total = 0;
  active.stage = Stage::waiting;
  if (active.work != nullptr) active.work->set_received(-1, 0);
  if (std::exchange(active.extended, false)) under_way_.postpone(active, {now_ns(), limit_of(active.transfer)});
  if (!take_unexpected(active)) matcher_.post_again(active);
}

inline void TransferEngine::take_data(int rank, const Trailer& trailer, std::span<const std::byte> payload) {
  ActiveTransfer* const active = receiving_.first({trailer.id, rank});
  if (active == nullptr) return;
  if (!takes(active->transfer, active->total)) {
    return mismatch(*active, rank, {trailer.id, active->total, active->transfer.tag, MessageKind::request, active->type});
  }
  const std::uint64_t part = std::min<std::uint64_t>(payload.size(), active->total - active->done);
  copy_payload(active->transfer.memory + active->done, payload.first(part), active->streams);
  active->done += part;
  if (active->done < active->total) return;
  receiving_.remove(*active);
  complete(*active, {});
}

inline void TransferEngine::arrived(int source, const Trailer& trailer, std::span<const std::byte> payload) {
  if (ActiveTransfer* const active = matcher_.take_receive(source, trailer.tag))
    return receive(*active, source, trailer, payload);
  matcher_.keep(UnexpectedMessage::make(trailer, source, nullptr, payload));
}

/// Gives a receive the first message that came for it; false: none has.
inline bool TransferEngine::take_unexpected(ActiveTransfer& active) {
  const UnexpectedMessage::Owner message = matcher_.take_message(active.transfer);
  if (message == nullptr) return false;
  if (message->sent != nullptr) {
    receive_own(active, *message->sent);
  } else {
    receive(active, message->source, message->trailer, message->payload());
  }
  return true;
}

/// A receive has met its message.
inline void TransferEngine::receive(ActiveTransfer& active, int source, const Trailer& trailer,
                                    std::span<const std::byte> payload) {
  const bool whole = trailer.kind == MessageKind::eager || trailer.bytes <= longest_in_request;
  // What was only asked for may have been taken back: the answer to the clear tells.
  if (whole && !takes(active.transfer, trailer.bytes)) return mismatch(active, source, trailer);
  active.stage = Stage::met;
  if (active.work != nullptr) active.work->set_received(source, trailer.bytes / active.transfer.element);
  PeerChannel& p = peer(source);
  const std::uint64_t part = whole ? std::min<std::uint64_t>(payload.size(), trailer.bytes) : 0;
  if (part != 0) copy_memory(active.transfer.memory, payload.data(), part);
  if (trailer.kind == MessageKind::eager) {
    p.taken += weight_of(trailer.bytes);
    return complete(active, {});
  }
  active.message = trailer.id;
  active.total = trailer.bytes;
  active.type = trailer.type;
  active.done = whole ? active.total : 0;
  active.streams = use_non_temporal(2 * trailer.bytes, context_.ranks_here);
  p.answers.push(active);
}

/// A receive has met a message of this rank's own.
void TransferEngine::receive_own(ActiveTransfer& to, ActiveTransfer& sent) {
  const Transfer& from = sent.transfer;
  if (!takes(to.transfer, from.bytes)) return mismatch(to, context_.rank, sent.trailer(MessageKind::eager));
  if (from.bytes != 0) std::memmove(to.transfer.memory, from.memory, from.bytes);
  if (to.work != nullptr) to.work->set_received(context_.rank, from.bytes / to.transfer.element);
  complete(sent, {});
  complete(to, {});
}

void TransferEngine::mismatch(const ActiveTransfer& active, int source, const Trailer& trailer) {
  fail_all(failures_.fail(unfit_message(failures_, context_.rank, active.transfer, source, trailer)));
}

}  // namespace tutti
