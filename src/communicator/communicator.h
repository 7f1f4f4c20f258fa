// A communicator: one rank's membership, the plans it has made, the links it has opened, and how it fails.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/exception_boundary.h"
#include "src/base/operation_count.h"
#include "src/base/poll_hook.h"
#include "src/base/settings.h"
#include "src/base/status.h"
#include "src/bootstrap/rendezvous.h"
#include "src/communicator/ticket_lock.h"
#include "src/control/control.h"
#include "src/executors/host/executor.h"
#include "src/links/failure_state.h"
#include "src/links/registered_memory.h"
#include "src/links/transport_set.h"
#include "src/links/waiter.h"
#include "src/point_to_point/point_to_point.h"
#include "src/selection/msccl_files.h"
#include "src/selection/select.h"

namespace tutti {

class Communicator;
class Work;

/// A place in a communicator's order of entry, redeemed by one `run` or `split`. One that is lost instead fails the
/// communicator: nobody after it would ever have a turn.
class Ticket {
 public:
  Ticket() = default;
  Ticket(Communicator& communicator, std::uint64_t number) noexcept : communicator_(&communicator), number_(number) {}
  Ticket(Ticket&& from) noexcept : communicator_(std::exchange(from.communicator_, nullptr)), number_(from.number_) {}
  Ticket& operator=(Ticket&& from) noexcept {
    std::swap(communicator_, from.communicator_);
    std::swap(number_, from.number_);
    return *this;
  }
  ~Ticket();
  std::uint64_t number() const { return number_; }
  /// Its turn has come, or its communicator is gone.
  void redeem() noexcept { communicator_ = nullptr; }

 private:
  Communicator* communicator_ = nullptr;
  std::uint64_t number_ = 0;
};

/// What a collective does, whatever its buffers.
struct CallShape {
  Collective collective = Collective::all_reduce;
  std::uint64_t count = 0;
  tutti_type type = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  int root = 0;
  bool operator==(const CallShape&) const = default;
};

/// One collective, as a verb asks for it.
struct CollectiveCall : CallShape {
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t timeout_ns = 0;  ///< 0: the communicator's
  bool beside = false;           ///< runs beside its caller's computing, which may want the core
  bool finalizes = false;        ///< the barrier of finalize, which errors call by that name
  std::string name;
  std::string algorithm;
};

/// What became of a call that is to be run as the one before.
enum class Again { no, done, failed };

/// Where a communicator stands; tutti_comm_state_kind's values.
enum class CommState : int { creating = 0, ready = 1, failed = 2, finalized = 3 };

/// Thread safe: collectives are ordered by entry, point to point is not held up by them. Destruction completes what was
/// admitted, within the operation timeout; what then still runs is aborted and waited for.
class Communicator {
 public:
  /// Joins; blocking, bounded by the request's patience. request.blob is set here. config: as given by the caller, for its
  /// poll hook; may be NULL.
  static Result<std::unique_ptr<Communicator>> create(JoinRequest request, const tutti_config* config);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return membership_->rank; }
  int ranks() const { return membership_->ranks; }
  const std::string& name() const { return failures_.name(); }
  const Settings& settings() const { return settings_; }
  CommState state() const;

  /// Runs a collective now, in this thread, once those entered before have ended. `work`, where given, is started with it.
  /// hook: the communicator's in a thread of the caller's, which waits; empty in one of the library's. Where it ends the
  /// wait the communicator fails.
  Status run(const CollectiveCall& call) { return run(call, enter(), nullptr, hook_); }
  Status run(const CollectiveCall& call, Ticket ticket, Work* work, const PollHook& hook);
  /// Runs what the last call did, over these buffers: most calls are such, and little is left to look at then. `no` where
  /// this is not one, or another thread is in the way, or the communicator may not be used: nothing has happened then.
  /// `failure` is set where it failed. For calls without options on a thread of the caller's.
  Again run_again(const CallShape& shape, const void* send, void* recv, Status& failure);
  /// A place in the order of entry. Needs no memory.
  Ticket enter() noexcept { return {*this, ticket_lock_.take()}; }
  /// As FailureState's.
  Status legal() const { return failures_.legal(); }
  bool legal_now() const { return failures_.legal_now(); }
  /// As legal, and counts one operation as under way until the result is let go of: finalize and destruction wait for it.
  Result<std::shared_ptr<SharedOperation>> admit();
  /// A split as a call asks for it: the group of `color` (>= 0), or nothing (< 0). config: NULL means this one's settings.
  Result<SplitRequest> split_request(int color, int key, const tutti_config* config) const;
  /// Splits off what was asked for, once those entered before have ended. Collective. The request's patience says who may
  /// end that; the exchange among all ranks is then torn, so this communicator fails. Likewise for want of memory.
  Result<std::unique_ptr<Communicator>> split(SplitRequest request, Ticket ticket);
  PointToPoint& point_to_point() { return *point_to_point_; }

  /// Fails the communicator here and on its peers; returns at once.
  void abort();
  /// Completes what was admitted or entered before, meets the others, and takes leave of them. Collective.
  Status finalize();
  /// As FailureState's.
  Status first_error() const { return failures_.first_error(); }
  Status fail(Error error) { return failures_.fail(std::move(error)); }
  Status fail(const Status& status) noexcept { return failures_.fail(status); }
  Status fail_by_hook(const char* during) noexcept { return failures_.fail_by_hook(during); }

  void set_timeout(std::uint64_t ns);
  std::uint64_t timeout_ns() const;
  std::uint64_t sequence() const;
  const char* last_algorithm() const;
  const char* transport_names() const { return transports_->names().c_str(); }
  /// The class of the dearest links between ranks; static.
  const char* link_names() const { return name_of(dearest_links(view_)); }

  /// tutti_config.poll.
  const PollHook& hook() const { return hook_; }

 private:
  /// A program and its links: what calls of one (collective, root, algorithm, parameters) share, whatever their count.
  struct Linked {
    Lowered lowered;
    std::vector<HostLink*> links;
    bool open = false;
    std::vector<int> waiting;  ///< peers whose links are not open yet, each once
  };
  /// A plan ready to run.
  struct Prepared {
    Plan plan;
    FoldFunction fold = nullptr;
    std::shared_ptr<Linked> linked;
    Layouts layouts;
    std::uint64_t scratch = 0;
    const char* algorithm = nullptr;  ///< its name; lives as long as the communicator
    KindName name;                    ///< of the collective
    KindName algorithm_name;
  };
  /// What files of the user's say about choosing.
  struct Advice {
    Tuning tuning;
    MscclFiles msccl;
  };
  /// A plan, everybody's programs of it, and what tells these from other plans' of the same collective and root.
  struct Choice {
    Plan plan;
    const char* name = nullptr;
    ProgramOf program_of;
    std::string key;
  };
  class Comparison;
  struct ProblemHash {
    std::size_t operator()(const Problem& problem) const;
  };

  Communicator(std::unique_ptr<Membership> membership, std::unique_ptr<Transports> transports, const Settings& settings,
               const std::string& name, const PollHook& hook);
  static MakeBlob open_transports(const Settings& settings, const std::string& name,
                                  std::unique_ptr<Transports>& transports, Advice& advice);
  Status begin(const WaitLimits& wait_limits, Advice advice);
  Status set_up(const WaitLimits& wait_limits, Advice advice);
  Result<std::unique_ptr<Communicator>> split_in_turn(SplitRequest& request);
  const MscclAlgorithm* file_for(const Problem& problem, const std::string& wish) const;
  Result<Choice> choose(const Problem& problem, const std::string& wish) const;
  Result<const Prepared*> prepare(const Problem& problem, const std::string& wish);
  Status open_links(Linked& linked, Waiter& waiter);
  void log_line(Level level, std::string_view text) const;
  void log_creation(const std::string& settings) const;
  void log_plan(const Plan& plan, std::string_view algorithm);
  void log_algorithms(Problem problem) const;
  Status await_turn(Ticket& ticket, const PollHook& hook);
  Status run_in_turn(const CollectiveCall& call, const PollHook& hook);
  Status conclude(Status status, const CollectiveCall& call, const PollHook& hook);
  Status take_back(Status failure, const CollectiveCall& call, const PollHook& hook);
  Problem problem_of(const CollectiveCall& call) const;
  Status carry_out(const CollectiveCall& call, const PollHook& hook);
  std::uint64_t begin_operation(Called operation);
  Status execute(const Prepared& plan, const CollectiveCall& call, const PollHook& hook, std::uint64_t sequence);
  Status give_up(const Outcome& outcome, const CollectiveCall& call, std::uint64_t sequence);
  void remember(const Prepared& plan, const CollectiveCall& call);
  void close();
  void drain();
  void take_leave();
  Status explain(const Outcome& outcome, const CollectiveCall& call, std::uint64_t sequence);
  Status explain_gave_up(const CollectiveCall& call, std::uint64_t sequence, const std::vector<int>& waiting);
  WaitLimits asking(std::uint64_t ns);
  Status explain_deadline(const CollectiveCall& call, std::uint64_t sequence, const std::vector<int>& waiting);
  std::string absence(const PeerReport& report, std::uint64_t limit_ns) const;
  Status lost(int peer, const std::string& why);
  Status explain_mismatch(int peer, const CollectiveCall& call, std::uint64_t sequence);
  Error error_of(tutti_status status, const CollectiveCall& call, std::uint64_t sequence) const;
  bool agrees_with_peers(const CollectiveCall& call, std::uint64_t sequence, std::span<const PeerReport> peers);
  std::string label(const CollectiveCall& call, std::uint64_t sequence) const;

  std::unique_ptr<Membership> membership_;
  std::unique_ptr<Transports> transports_;
  Settings settings_;
  FailureState failures_;
  View view_;
  Advice advice_;
  Overrides overrides_;
  WaitPolicy policy_;
  PollHook hook_;
  std::unique_ptr<PointToPoint> point_to_point_;
  std::atomic<std::uint64_t> timeout_ns_;
  std::atomic<bool> finalized_{false};
  OperationCount operations_under_way_;

  TicketLock ticket_lock_;  ///< whoever's turn it is owns what follows; others read the atomics
  std::atomic<std::uint64_t> sequence_{0};
  /// Hash of all operations so far. It is the fingerprint that the messages of the last one carry: ranks that have called
  /// anything differently, however long ago, do not take each other's messages.
  std::uint64_t history_ = 0;
  std::atomic<const char*> last_algorithm_{nullptr};
  ActivityBoard& board_;          ///< the control plane's
  std::uint64_t ranks_here_ = 1;  ///< of this machine
  HostExecutor executor_;
  std::unique_ptr<Waiter> waiter_;
  std::unique_ptr<Registrations> registrations_;  ///< of the collectives' endpoints
  std::vector<std::byte> scratch_;
  std::unordered_map<Problem, Prepared, ProblemHash> plans_;
  std::map<std::string, std::shared_ptr<Linked>> linked_;
  std::uint32_t logged_ = 0;  ///< a bit for each collective of which log_plan has told
  std::string last_wish_;
  const Prepared* last_ = nullptr;  ///< the plan of the last call: a repeated shape costs one comparison
  /// The same, where run_again may run it: the executor, links, board, agent and comparison are as it left them.
  const Prepared* again_ = nullptr;
  CollectiveCall again_call_;  ///< that call
  std::unique_ptr<Comparison> comparison_;
};

inline Ticket::~Ticket() {
  if (communicator_ != nullptr) static_cast<void>(communicator_->fail(out_of_memory()));
}

}  // namespace tutti
