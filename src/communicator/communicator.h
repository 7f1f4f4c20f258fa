// A communicator: one rank's membership, the plans it has made, the links it has opened, and how it fails.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
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
#include "src/communicator/collective_call.h"
#include "src/communicator/device_side.h"
#include "src/communicator/failure_report.h"
#include "src/communicator/fast_path.h"
#include "src/communicator/history_comparison.h"
#include "src/communicator/irregular_layouts.h"
#include "src/communicator/launch_batch.h"
#include "src/communicator/plan_cache.h"
#include "src/communicator/ticket_lock.h"
#include "src/control/control.h"
#include "src/executors/host/executor.h"
#include "src/links/failure_state.h"
#include "src/links/registered_memory.h"
#include "src/links/transport_set.h"
#include "src/links/waiter.h"

namespace tutti {

class Communicator;
class TransferEngine;
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

/// What became of a call that is to be run as the one before.
enum class Again { no, done, failed };

/// Where a communicator stands; tutti_comm_state_kind's values.
enum class CommState : int { creating = 0, ready = 1, failed = 2, finalized = 3, finalizing = 4 };

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
  std::string name() const { return failures_.name(); }
  /// What sentences call it from now on, here. Thread safe.
  void set_name(std::string_view name);
  const Settings& settings() const { return settings_; }
  CommState state() const;

  /// Runs a collective now, in this thread, once those entered before have ended. `work`, where given, is started with it.
  /// hook: the communicator's in a thread of the caller's, which waits; empty in one of the library's. Where it ends the
  /// wait the communicator fails. Without a ticket nothing is run once finalize has begun, which may go on by itself.
  Status run(const CollectiveCall& call) { return legal_now() ? run(call, enter(), nullptr, hook_) : legal(); }
  Status run(const CollectiveCall& call, Ticket ticket, Work* work, const PollHook& hook);
  /// Looks at a collective that is to run on a stream of CUDA's, and at the stream. To be called for all calls of a batch
  /// before the first of them is issued. wants_work: a work was asked for. Errors: TUTTI_INVALID_ARGUMENT,
  /// TUTTI_UNSUPPORTED, TUTTI_INVALID_USAGE (a work of a captured call); nothing has happened then.
  Result<CallStream> check_stream(const CollectiveCall& call, cuda::StreamHandle handle, bool wants_work);
  /// Whether a call may be issued onto the stream now; see LaunchBatch::admits.
  bool may_enqueue(const CallStream& stream, LaunchBatch& batch) const { return batch.admits(*device_, stream); }
  /// Issues it, in its place in the order. The batch launches it, and `work` has its outcome from then on; where this
  /// fails, it was not issued.
  Status enqueue(const CollectiveCall& call, Ticket ticket, std::shared_ptr<Work> work, const CallStream& stream,
                 LaunchBatch& batch);
  /// As DeviceSide's, in the caller's thread, where the call is of device memory or on a CUDA stream.
  Status announce_device(const CollectiveCall& call, bool on_stream);
  /// As DeviceSide's, in its place in the order: before the calls of a group are enqueued.
  Status open_early(const CollectiveCall& call, bool captured);
  /// As DeviceSide's. Costs a load where no driver was ever seen.
  Status refuse_device_memory(const void* buffer, const char* what) const {
    return device_->armed() ? device_->refuse_device_memory(buffer, what) : Status();
  }
  /// Whether a blocking call would run on the rank's device, or be refused for its memory.
  bool is_on_device(const CollectiveCall& call) const {
    if (!device_->armed()) return false;
    const auto processor = device_->processor_of(call, nullptr);
    return !processor.ok() || *processor == Processor::cuda;
  }
  /// Whether buffers have to be looked at.
  bool may_have_device_memory() const { return device_->armed(); }
  /// Runs what the last call did, over these buffers: most calls are such, and little is left to look at then. `no` where
  /// this is not one, or another thread is in the way, or the communicator may not be used: nothing has happened then.
  /// `failure` is set where it failed. For calls without options on a thread of the caller's.
  Again run_again(const CallShape& shape, const void* send, void* recv, Status& failure);
  /// Likewise a v-variant, over the same blocks.
  Again run_again(const CallShape& shape, const IrregularArguments& blocks, Status& failure);
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
  /// TUTTI_INVALID_ARGUMENT where there are not such ranks, one is there twice, or this one is not among them.
  Status check_members(std::span<const int> members) const;
  /// As split_request, for a communicator of these ranks of this one, checked before. Thread safe.
  Result<MembersRequest> members_request(std::span<const int> members, std::uint64_t tag, const tutti_config* config);
  /// Makes it together with those members, in no order with operations. This communicator stays sound whatever it comes to.
  Result<std::unique_ptr<Communicator>> create_members(MembersRequest request);
  /// What a collective is expected to take. Thread safe. Errors: as of `select`.
  Result<double> expected_seconds(const CollectiveCall& call) const;
  /// What messages of so many bytes in one direction take, each way at once. Thread safe.
  double expected_seconds(std::uint64_t bytes) const;
  /// Those that were made for it. Thread safe.
  CustomOperators& custom_operators() { return custom_operators_; }
  TransferEngine& point_to_point() { return *point_to_point_; }

  /// Fails the communicator here and on its peers; returns at once.
  void abort();
  /// From now on nothing may begin. Errors: as legal; so a second time.
  Status begin_finalize();
  /// Then: completes what was admitted or entered before, meets the others, and takes leave of them. Collective.
  /// hook: as run's.
  Status finish_finalize(const PollHook& hook);
  /// As FailureState's.
  Status first_error() const { return failures_.first_error(); }
  Status fail(Error error) { return failures_.fail(std::move(error)); }
  Status fail(const Status& status) noexcept { return failures_.fail(status); }
  Status fail_by_hook(const char* during) noexcept { return failures_.fail_by_hook(during); }

  void set_timeout(std::uint64_t ns);
  std::uint64_t timeout_ns() const;
  std::uint64_t sequence() const;
  /// What it takes of memory, but for `size`. Thread safe.
  tutti_memory_use memory_use() const;
  const char* last_algorithm() const;
  const char* transport_names() const { return transports_->names().c_str(); }
  /// The class of the dearest links between ranks; static.
  const char* link_names() const { return name_of(dearest_links(inputs_.view)); }

  /// tutti_config.poll.
  const PollHook& hook() const { return hook_; }

 private:
  Communicator(std::unique_ptr<Membership> membership, std::unique_ptr<Transports> transports, const Settings& settings,
               const PollHook& hook);
  static MakeBlob open_transports(const Settings& settings, const std::string& name,
                                  std::unique_ptr<Transports>& transports, SelectionFiles& files);
  static Result<SelectionFiles> read_files(const Settings& settings);
  static std::vector<std::byte> description(const Settings& settings, const SelectionFiles& files,
                                            std::span<const std::byte> transports);
  Status begin(const WaitLimits& wait_limits, SelectionFiles files, Transports* whole);
  Status set_up(const WaitLimits& wait_limits, SelectionFiles files, Transports* whole);
  Status meet_by_transports(std::span<const std::vector<std::byte>> descriptions, const WaitLimits& wait_limits);
  Status share_transports(Transports& whole, std::span<const std::vector<std::byte>> rows, const WaitLimits& wait_limits);
  Status fill(PartRequest& request, const std::string& name, const tutti_config* config) const;
  Result<std::unique_ptr<Communicator>> split_in_turn(SplitRequest& request);
  SelectionFiles describe(PartRequest& request, bool may_share);
  Result<std::unique_ptr<Communicator>> part_of(std::unique_ptr<Membership> membership, const PartRequest& request,
                                                SelectionFiles files);
  Result<const PreparedPlan*> prepare(const CollectiveCall& call);
  Status open_links(LinkedProgram& linked);
  void log_line(Level level, std::string_view text) const;
  void log_creation(const std::string& settings) const;
  void log_plan(const Plan& plan, const char* algorithm);
  Status await_turn(Ticket& ticket, const PollHook& hook);
  Status run_in_turn(const CollectiveCall& call, const PollHook& hook);
  Status conclude(Status status, const CollectiveCall& call, const PollHook& hook);
  Status take_back(Status failure, const CollectiveCall& call, const PollHook& hook);
  Problem problem_of(const CollectiveCall& call) const;
  Result<PreparedDevicePlan*> prepare_on_device(const CollectiveCall& call);
  Status carry_out_on_device(const CollectiveCall& call, const PollHook& hook);
  Result<Processor> processor_of(const CollectiveCall& call);
  Status issue(PreparedDevicePlan& plan, const CallStream* stream, const PollHook& hook, DeviceCall& out);
  Status enqueue_in_turn(const CollectiveCall& call, std::shared_ptr<Work> work, const CallStream& stream,
                         LaunchBatch& batch);
  Status carry_out(const CollectiveCall& call, const PollHook& hook);
  Status carry_out_in_pieces(const CollectiveCall& call, const PollHook& hook);
  std::uint64_t begin_operation(Called operation);
  Status execute(const PreparedPlan& plan, const CollectiveCall& call, const PollHook& hook, std::uint64_t sequence);
  void note_buffers();
  const CollectiveCall& scaled(const PreparedPlan& plan, const CollectiveCall& call);
  inline Again repeat(const void* send, void* recv, Status& failure);
  Status report_no_turn(const CollectiveCall& call, std::uint64_t sequence);
  Status give_up(const Outcome& outcome, const CollectiveCall& call, std::uint64_t sequence);
  void share_endpoints();
  bool share_endpoints_now();
  void close();
  void drain();
  void take_leave();

  std::unique_ptr<Membership> membership_;
  std::unique_ptr<Transports> transports_;
  Settings settings_;
  CustomOperators custom_operators_;
  FailureState failures_;
  PlanInputs inputs_;
  WaitPolicy policy_;
  PollHook hook_;
  std::atomic<std::uint64_t> timeout_ns_;
  std::atomic<bool> finalized_{false};
  std::atomic<bool> shares_endpoints_{false};
  OperationCount operations_under_way_;
  std::unique_ptr<TransferEngine> point_to_point_;  ///< refers to what stands above

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
  CollectiveCall scaled_;                       ///< the last call whose operands were scaled, over these
  std::unique_ptr<std::byte[]> scaled_data_;    ///< while it runs, or where it failed
  std::vector<std::byte> packed_;               ///< what a call in pieces runs on
  std::atomic<std::uint64_t> buffer_bytes_{0};  ///< of these. Relaxed: a figure for reports
  IrregularLayouts irregular_;
  PlanCache plans_{inputs_};
  std::uint32_t logged_ = 0;  ///< a bit for each collective and processor of which log_plan has told
  std::unique_ptr<FailureReporter> reporter_;
  std::unique_ptr<HistoryComparison> comparison_;
  std::unique_ptr<DeviceSide> device_;
  std::mutex made_mutex_;                                  ///< guards what follows
  std::unordered_map<std::uint64_t, std::uint64_t> made_;  ///< by the hash of members and tag: how many were asked for
  std::optional<FastPath> fast_path_;                      ///< of all that runs collectives; set once that is there
};

inline Ticket::~Ticket() {
  if (communicator_ != nullptr) static_cast<void>(communicator_->fail(out_of_memory()));
}

}  // namespace tutti
