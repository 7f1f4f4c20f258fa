// The engine of a communicator's transfers: it begins them, moves their messages, and ends them.
//
//     exchange ──→ at once, or ─┐            under_way_ (by deadline)
//     post ──→ inbox_ ──→ fresh_ ──→ begin ──→ matcher_, or a line of a PeerChannel ──→ complete
//
// Whoever holds mutex_ makes progress for all: threads that wait, or the engine's own thread.
#pragma once

#include <atomic>
#include <bitset>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "src/base/operation_count.h"
#include "src/base/poll_hook.h"
#include "src/base/status.h"
#include "src/base/work.h"
#include "src/control/control.h"
#include "src/links/failure_state.h"
#include "src/links/transport_set.h"
#include "src/links/waiter.h"
#include "src/point_to_point/active_transfer.h"
#include "src/point_to_point/by_deadline.h"
#include "src/point_to_point/lines.h"
#include "src/point_to_point/matcher.h"
#include "src/point_to_point/peer_channel.h"
#include "src/point_to_point/transfer.h"
#include "src/point_to_point/turns.h"

namespace tutti {

/// What transfers are told of their communicator: values, and references to what outlives them. Nothing here is virtual,
/// since each message asks for some of it.
struct TransferContext {
  int rank = 0;
  int ranks = 1;
  std::uint64_t ranks_here = 1;  ///< of this machine
  std::uint64_t longest_eager;   ///< bytes that go before the receiver has asked for them; see topology/oversubscription.h
  Transports& transports;
  FailureState& failures;
  const OperationCount& operations_under_way;
  const WaitPolicy& wait_policy;
  const std::atomic<std::uint64_t>& timeout_ns;  ///< of a transfer that has no limit of its own
};

/// The transfers of one communicator: sends and receives that match by (source, tag), progress together and may complete
/// out of order. Thread safe.
class TransferEngine : public Work::Canceller {
 public:
  explicit TransferEngine(const TransferContext& context);
  ~TransferEngine() override { end(); }
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  /// Posts a transfer; `work` completes with it. It progresses while some thread is in `wait`, and with `background` on a
  /// thread of the engine's too. Throws nothing: where it cannot begin (no memory, no thread), `work` completes with that.
  void post(const Transfer& transfer, std::shared_ptr<Work> work, bool background);
  /// Runs transfers together, in this thread, until all have ended: the first failure among theirs. Where the
  /// communicator's legal() is a failure or its OperationCount is closed, nothing begins and legal() is the answer. hook:
  /// as below. Throws std::bad_alloc, and then none has begun.
  Status exchange(std::span<const Transfer> transfers, const PollHook& hook);
  /// Helps until `work` has completed. hook: as in Communicator::run; where it ends the wait the communicator fails.
  Status wait(const Work& work, const PollHook& hook);
  /// Takes back the transfer of that work, if it was posted and has not met its match. It ends with TUTTI_ABORTED then,
  /// where its receiver was asked once that has answered, or has not for a while. Throws std::bad_alloc.
  void cancel(const Work& work) override;
  /// Bytes of messages that no receive has taken.
  std::uint64_t kept_bytes() const { return matcher_.kept_bytes(); }
  /// Once the communicator's OperationCount is closed: what `exchange` had begun before has ended then, or counts there.
  /// Waits for one turn of whoever makes progress. Likewise once the endpoints are shared: whoever used them without
  /// knowing that is through then.
  void settle() { const std::lock_guard lock(mutex_); }
  /// Ends its thread, and whatever is under way as a failure. After that it answers `exchange`, with the communicator's
  /// legal(), and nothing else: finalize does not know who may just be calling.
  void end();

 private:
  friend struct EngineTurns;  ///< of tests: they take its turns
  enum class Turn { taken, idle, moved };
  /// Ended transfers that are kept for the next ones.
  static constexpr std::size_t most_kept = 64;
  /// Which of a call's transfers have been done at once.
  using Done = std::bitset<most_kept>;
  struct Midst;
  struct Recall;

  // Of one blocking call.
  std::size_t exchange_at_once(std::span<const Transfer> transfers, Done& done);
  bool send_at_once(const Transfer& transfer);
  bool receive_at_once(const Transfer& transfer, std::uint64_t& yielding_since_ns);
  Status exchange_rest(std::span<const Transfer> transfers, const Done& done, std::size_t count, const PollHook& hook,
                       std::unique_lock<TriedMutex> turn);
  void fill(std::list<ActiveTransfer>& posted, std::span<const Transfer> transfers, const Done& done, TransferBatch& batch);
  std::uint64_t limit_of(const Transfer& transfer) const;

  // Turns.
  void post_inbox(std::list<ActiveTransfer>& posted);
  template <typename Ends>
  void help_until_over(const Ends& what, const PollHook& hook, std::unique_lock<TriedMutex> lock);
  Turn take_turn(std::unique_lock<TriedMutex> lock, std::uint32_t& rounds);
  void torn(const Status& status);
  Status start_thread();
  void run();

  // From here on with the lock held. A transfer begins and ends.
  void take_inbox();
  void begin_now(std::list<ActiveTransfer>& posted);
  void begin_fresh();
  ActiveTransfer& enter();
  std::uint64_t& needs_of(const ActiveTransfer& active);
  void begin(ActiveTransfer& active);
  void begin_receive(ActiveTransfer& active);
  void send_to_self(ActiveTransfer& active);
  void tell_end(ActiveTransfer& active, const Status& status);
  void complete(ActiveTransfer& active, const Status& status);
  void leave_behind(ActiveTransfer& active, const Status& status);
  void add_pending();
  void remove_pending(std::uint64_t count);
  void fail_all(const Status& status);

  // Links.
  PeerChannel& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  int rank_of(const PeerChannel& p) const { return static_cast<int>(&p - peers_.data()); }
  bool open(int rank);
  bool progress();
  bool ready(HostLink& link, int rank);
  bool has_more(const PeerChannel& p);
  void broken(const HostLink& link, int rank);
  void look_at_deadlines();
  void late(const ActiveTransfer& active);

  // What is taken back.
  bool cancel_posted(const Work& work);
  void take_back(ActiveTransfer& active, tutti_status as);
  void leave_line(ActiveTransfer& active);
  void expire(ActiveTransfer& active);
  void extend(ActiveTransfer& active);
  void go_on(ActiveTransfer& active);
  void forget_ghosts(int rank);
  Status outcome(const ActiveTransfer& active, tutti_status as) const;
  void notify(PeerChannel& p, const Trailer& trailer);

  // Messages.
  bool send_some(PeerChannel& p);
  bool send_next(PeerChannel& p);
  bool answer(PeerChannel& p);
  bool announce(PeerChannel& p);
  bool receive_some(PeerChannel& p, int rank);
  void take(PeerChannel& p, int rank, const Trailer& trailer, std::span<const std::byte> payload);
  void take_clear(PeerChannel& p, int rank, const Trailer& trailer);
  void take_data(int rank, const Trailer& trailer, std::span<const std::byte> payload);
  void take_withdraw(PeerChannel& p, int rank, const Trailer& trailer);
  void take_withdrawn(int rank, const Trailer& trailer);
  void take_nothing(int rank, const Trailer& trailer);
  void wait_again(ActiveTransfer& active);
  void arrived(int source, const Trailer& trailer, std::span<const std::byte> payload);
  bool take_unexpected(ActiveTransfer& active);
  void receive(ActiveTransfer& active, int source, const Trailer& trailer, std::span<const std::byte> payload);
  void receive_own(ActiveTransfer& to, ActiveTransfer& sent);
  void mismatch(const ActiveTransfer& active, int source, const Trailer& trailer);

  const TransferContext context_;
  FailureState& failures_;  ///< the context's

  std::mutex inbox_mutex_;  ///< guards inbox_ and thread_
  std::condition_variable posted_;
  std::list<ActiveTransfer> inbox_;
  std::atomic<bool> posted_some_{false};  ///< something may be in it; written under its lock
  /// What the thread makes progress for: transfers with a work, ghosts, and notices that have not left.
  std::atomic<std::uint64_t> pending_{0};
  std::atomic<bool> closing_{false};  ///< written under the lock; relaxed looks without it may be late
  std::thread thread_;

  Followers followers_;
  TriedMutex mutex_;  ///< guards what follows; whoever holds it makes progress for all
  Waiter waiter_;
  bool begun_ = false;
  std::uint64_t next_id_ = 1;
  std::vector<PeerChannel> peers_;
  std::vector<int> open_;  ///< peers with links
  bool polls_ = false;     ///< some link opens, or moves, only when its endpoint is asked to make progress
  std::uint32_t rounds_ = 0;
  std::uint64_t next_look_ns_ = 0;
  int late_peer_ = 0;                                  ///< of the transfer whose deadline has passed
  std::unique_ptr<ControlPlane::Inquiry> late_asked_;  ///< about it
  std::list<ActiveTransfer> fresh_;                    ///< posted, and not begun
  ByDeadline<ActiveTransfer> under_way_;               ///< from beginning to completion
  std::uint64_t needs_any_ = 0;                        ///< of those under way, so many that take from any rank
  std::size_t ghosts_ = 0;                             ///< among them
  std::uint64_t notices_ = 0;                          ///< of all peers, that have not left
  std::list<ActiveTransfer> ended_;                    ///< and afterwards, for others to come
  Matcher matcher_;
  Lines<ActiveTransfer, &ActiveTransfer::node> announced_;  ///< sends waiting to be cleared, by id and receiver
  Lines<ActiveTransfer, &ActiveTransfer::node> receiving_;  ///< by the sender's id, and sender
};

}  // namespace tutti
