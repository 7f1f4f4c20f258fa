#include "src/communicator/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/byte_codec.h"
#include "src/base/exception_boundary.h"
#include "src/base/log.h"
#include "src/base/no_cancellation.h"
#include "src/base/plural.h"
#include "src/base/printable.h"
#include "src/base/work.h"
#include "src/bootstrap/rendezvous_client.h"
#include "src/communicator/piece_cursor.h"
#include "src/communicator/rank_info.h"
#include "src/control/log_lines.h"
#include "src/links/non_temporal.h"
#include "src/point_to_point/engine.h"
#include "src/reduction/scale.h"
#include "src/reduction/user_fold.h"
#include "src/tables/element_types.h"
#include "src/tables/operators.h"
#include "topology/oversubscription.h"

namespace tutti {
namespace {

/// How long a wait for other threads sleeps before it looks at failure again; a hook makes it a millisecond.
constexpr std::uint64_t longest_sleep_ns = 10'000'000;
/// What a call in pieces packs at a time: little enough to stay in a cache until it is unpacked.
constexpr std::uint64_t packed_at_once = std::uint64_t{1} << 20;

/// In the place of a plan's hash, and added to that of the barrier which ends a communicator.
constexpr std::uint64_t split_hash = 0x9e3779b97f4a7c15;
constexpr std::uint64_t finalize_hash = 0xc2b2ae3d27d4eb4f;

/// Of a call by a plan: with the counts that all ranks must have alike.
std::uint64_t operation_hash(const Plan& plan, const CollectiveCall& call) {
  std::uint64_t counts = 0;
  for (const tutti_block& block : call.agreed()) counts = followed_by(counts, block.count + 1);
  return plan.hash + (call.finalizes ? finalize_hash : counts);
}

/// Of members and a tag.
std::uint64_t hash_of(std::span<const int> members, std::uint64_t tag) {
  std::uint64_t hash = followed_by(tag, members.size());
  for (const int member : members) hash = followed_by(hash, static_cast<std::uint64_t>(member) + 1);
  return hash;
}

/// A count that stands for those of a v-variant's blocks where an algorithm is chosen, the same on all ranks. There are few
/// of them, so that plans are made seldom.
std::uint64_t count_for_choice(const CollectiveCall& call) {
  std::uint64_t total = 0;
  const auto blocks = call.agreed();
  for (const tutti_block& block : blocks) total += block.count;
  return blocks.empty() ? 1 : std::bit_ceil(std::max<std::uint64_t>(1, total / blocks.size()));
}

/// A call that is about to be issued on the rank's device.
DeviceCall device_call(const CollectiveCall& call) {
  DeviceCall issued;
  issued.call = call;
  issued.call.on_device = true;
  return issued;
}

/// A hook that remembers that it ended a wait: an abort by another rank reads alike.
struct Asked {
  PollHook hook;
  bool ended = false;
  static int poll(void* self) {
    Asked& asked = *static_cast<Asked*>(self);
    return (asked.ended = asked.ended || asked.hook.ends_wait()) ? 1 : 0;
  }
};

}  // namespace

Result<SelectionFiles> Communicator::read_files(const Settings& settings) {
  SelectionFiles files;
  if (!settings.tuning.empty()) {
    auto read = Tuning::read(settings.tuning);
    if (!read.ok()) {
      const Error& error = read.status().error();
      return Status(read.status().code(), "TUTTI_TUNING: " + error.message, error.remedy);
    }
    files.tuning = std::move(*read);
  }
  auto msccl = MscclFiles::read(settings.msccl);
  if (!msccl.ok()) {
    return Status(TUTTI_INVALID_ARGUMENT, "TUTTI_MSCCL: " + msccl.status().error().message,
                  "Name files that `tutti-plan verify --msccl` proves, or leave it unset.");
  }
  files.msccl = std::move(*msccl);
  return files;
}

/// What this rank tells the others of itself: its place, then its transports.
std::vector<std::byte> Communicator::description(const Settings& settings, const SelectionFiles& files,
                                                 std::span<const std::byte> transports) {
  ByteWriter out;
  pack_rank_info(out, rank_info_of(settings, files.tuning, files.msccl));
  out.blob(transports);
  return out.take();
}

/// Opens the transports once the key is known.
MakeBlob Communicator::open_transports(const Settings& settings, const std::string& name,
                                       std::unique_ptr<Transports>& transports, SelectionFiles& files) {
  return [&settings, &name, &transports, &files](std::span<const unsigned char, kKeyBytes> key, int rank,
                                                 int ranks) -> Result<std::vector<std::byte>> {
    auto read = read_files(settings);
    if (!read.ok()) return read.status();
    files = std::move(*read);
    auto opened = Transports::open(settings, key, rank, ranks, name);
    if (!opened.ok()) return opened.status();
    transports = std::move(*opened);
    return description(settings, files, transports->describe());
  };
}

Result<std::unique_ptr<Communicator>> Communicator::create(JoinRequest request, const tutti_config* config) {
  std::unique_ptr<Transports> transports;
  SelectionFiles files;
  request.name = shown_name(request.name);  // sentences are all that it is for
  request.blob = open_transports(request.settings, request.name, transports, files);
  auto membership = join(request);
  if (!membership.ok()) return membership.status();
  std::unique_ptr<Communicator> self(
      new Communicator(std::make_unique<Membership>(std::move(*membership)), std::move(transports), request.settings,
                       config != nullptr ? PollHook{config->poll, config->poll_ctx} : PollHook()));
  if (Status status = self->begin(request.wait_limits, std::move(files), nullptr); !status.ok()) return status;
  if (log_enabled(Level::info)) self->log_creation(request.settings_line);
  return self;
}

/// What all communicators that are made from this one have in common. name: its own where the config has none.
Status Communicator::fill(PartRequest& request, const std::string& name, const tutti_config* config) const {
  request.settings = settings_;
  if (config != nullptr) {
    auto settings = effective_settings(config, &settings_);
    if (!settings.ok()) return settings.status();
    request.settings = std::move(*settings);
  }
  request.hook = config != nullptr && config->poll != nullptr ? PollHook{config->poll, config->poll_ctx} : hook_;
  request.name = shown_name(config != nullptr && config->name != nullptr ? config->name : name);
  return {};
}

Result<SplitRequest> Communicator::split_request(int color, int key, const tutti_config* config) const {
  SplitRequest request;
  request.color = color;
  request.key = key;
  if (Status status = fill(request, fmt::format("{}/{}", name(), color), config); !status.ok()) return status;
  return request;
}

Status Communicator::check_members(std::span<const int> members) const {
  std::vector<int> sorted(members.begin(), members.end());
  std::ranges::sort(sorted);
  for (const int member : sorted) {
    if (member >= 0 && member < ranks()) continue;
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("member {} is outside \"{}\", which has {}", member, name(), plural(ranks(), "rank")));
  }
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("rank {} is a member twice", *twice), "List each rank once.");
  }
  if (std::ranges::binary_search(sorted, rank())) return {};
  return Status(TUTTI_INVALID_ARGUMENT, fmt::format("rank {} is none of the members", rank()),
                "Only members call tutti_comm_create_members.");
}

Result<MembersRequest> Communicator::members_request(std::span<const int> members, std::uint64_t tag,
                                                     const tutti_config* config) {
  MembersRequest request;
  request.members.assign(members.begin(), members.end());
  request.tag = tag;
  if (Status status = fill(request, fmt::format("{}/{}", name(), tag), config); !status.ok()) return status;
  return request;
}

Result<std::unique_ptr<Communicator>> Communicator::split(SplitRequest request, Ticket ticket) {
  if (Status waited = await_turn(ticket, request.wait_limits.hook); !waited.ok()) return waited;
  const TurnGuard turn(ticket_lock_);
  if (Status status = legal(); !status.ok()) return status;
  Asked asked{request.wait_limits.hook};
  if (asked.hook.poll != nullptr) request.wait_limits.hook = {&Asked::poll, &asked};
  request.wait_limits.deadline = Deadline::in(request.settings.connect_timeout_ns);
  request.wait_limits.failed = policy_.failed;
  std::unique_ptr<Communicator> child;
  Status status;
  const Status thrown = catching([&]() -> Status {
    auto made = split_in_turn(request);
    if (made.ok()) child = std::move(*made);
    status = made.status();
    return {};
  });
  if (!thrown.ok()) return fail(thrown);
  if (status.ok()) return child;
  if (Status failed = first_error(); !failed.ok()) return failed;
  // Relaxed: a flag without data; whoever sees it late has not been interrupted by it.
  const bool interrupted =
      request.wait_limits.interrupted != nullptr && request.wait_limits.interrupted->load(std::memory_order_relaxed);
  if (!asked.ended && !interrupted) return status;
  Error error;
  error.status = TUTTI_ABORTED;
  error.guilty = {failures_.guilty(rank())};
  error.message =
      fmt::format("rank {} gave up splitting \"{}\"{}", rank(), name(), asked.ended ? ": its poll hook said so" : "");
  return fail(std::move(error));
}

Result<std::unique_ptr<Communicator>> Communicator::split_in_turn(SplitRequest& request) {
  share_endpoints();
  SelectionFiles files = describe(request, true);
  // It has a number among the operations, so that who calls another meanwhile learns of the difference.
  fast_path_->forget();
  const std::uint64_t sequence = begin_operation({.hash = split_hash, .kind = KindName("split")});
  request.operation = sequence;
  request.history = history_;
  auto membership = tutti::split(*membership_->control, membership_->key, request);
  if (!membership.ok()) return membership.status();
  board_.complete(sequence);
  if (*membership == nullptr) return std::unique_ptr<Communicator>();
  return part_of(std::move(*membership), request, std::move(files));
}

Result<std::unique_ptr<Communicator>> Communicator::create_members(MembersRequest request) {
  if (Status status = legal(); !status.ok()) return status;
  request.wait_limits.deadline = Deadline::in(request.settings.connect_timeout_ns);
  request.wait_limits.failed = policy_.failed;
  SelectionFiles files = describe(request, share_endpoints_now());
  {
    // Counted where the others count theirs: by who takes part in the exchange, with whatever it has to say.
    const std::lock_guard lock(made_mutex_);
    request.attempt = made_[hash_of(request.members, request.tag)]++;
  }
  auto membership = join_members(*membership_->control, membership_->key, request);
  if (membership.ok()) return part_of(std::move(*membership), request, std::move(files));
  const Status failed = first_error();
  return failed.ok() ? membership.status() : failed;
}

/// Reads the files that a part goes by, and notes what this rank tells the others.
SelectionFiles Communicator::describe(PartRequest& request, bool may_share) {
  SelectionFiles files;
  if (request.so_far.ok()) {
    auto read = read_files(request.settings);
    request.so_far = read.status();
    if (read.ok()) files = std::move(*read);
  }
  const bool shares = may_share && transports_->may_share_with(request.settings);
  request.blob = description(request.settings, files, shares ? transports_->describe_carriers() : std::vector<std::byte>());
  return files;
}

Result<std::unique_ptr<Communicator>> Communicator::part_of(std::unique_ptr<Membership> membership,
                                                            const PartRequest& request, SelectionFiles files) {
  std::unique_ptr<Communicator> part(new Communicator(std::move(membership), nullptr, request.settings, request.hook));
  if (Status status = part->begin(request.wait_limits, std::move(files), transports_.get()); !status.ok()) return status;
  if (log_enabled(Level::info)) part->log_line(Level::info, transports_line(part->transports_->carriers()));
  return part;
}

Communicator::Communicator(std::unique_ptr<Membership> membership, std::unique_ptr<Transports> transports,
                           const Settings& settings, const PollHook& hook)
    : membership_(std::move(membership)),
      transports_(std::move(transports)),
      settings_(settings),
      failures_(*membership_->control),
      hook_(hook),
      timeout_ns_(settings.operation_timeout_ns),
      board_(membership_->control->board()),
      executor_([this](std::uint64_t touched) { return use_non_temporal(touched, ranks_here_); }) {
  policy_.failed = &membership_->control->failed();
}

Communicator::~Communicator() {
  close();
  drain();
  take_leave();
}

/// From now on nothing is admitted, and all that was is counted as outstanding.
void Communicator::close() {
  operations_under_way_.close();
  if (point_to_point_ != nullptr) point_to_point_->settle();
}

/// Waits for what was admitted: peers may count on it, and it would run on freed memory.
void Communicator::drain() {
  const Deadline deadline = Deadline::in(timeout_ns());
  bool ending = false;
  while (!operations_under_way_.wait(hook_.slice_ns(longest_sleep_ns))) {
    if (ending) continue;
    if (first_error().ok()) {
      if (!deadline.passed() && !hook_.ends_wait()) continue;
      const Status aborted = catching([this]() -> Status {
        abort();
        return {};
      });
      if (!aborted.ok()) static_cast<void>(fail(aborted));
    }
    // Every operation ends at once; only the time that takes is waited for from here on. What has not begun never will.
    operations_under_way_.abandon();
    ending = true;
  }
}

/// Nothing is under way any more, nor will be.
void Communicator::take_leave() {
  const NoCancellation whole;
  if (point_to_point_ != nullptr) point_to_point_->end();
  if (device_ != nullptr) device_->end();
  // What was committed leaves with the links; peers then read that this rank left, and did not die.
  for (const TrafficClass traffic : {TrafficClass::collective, TrafficClass::point_to_point}) {
    if (transports_ == nullptr) break;  // of a part that failed while it was made
    if (first_error().ok()) transports_->flush(traffic);
    transports_->close_links(traffic);
  }
  if (fast_path_) fast_path_->forget();
  plans_.clear();
  membership_->control->leave();
}

/// Sets up. A failure is told to the peers, since these may be through with it already, and would read that this rank left.
Status Communicator::begin(const WaitLimits& wait_limits, SelectionFiles files, Transports* whole) {
  const Status status = catching([&] { return set_up(wait_limits, std::move(files), whole); });
  if (status.ok()) return status;
  const Status told = catching([&] { return fail(for_others(status, membership_->control->member(rank()))); });
  if (first_error().ok()) static_cast<void>(fail(told));  // no memory for words
  return status;
}

Status Communicator::set_up(const WaitLimits& wait_limits, SelectionFiles files, Transports* whole) {
  std::vector<RankInfo> places;
  std::vector<std::vector<std::byte>> descriptions;
  for (const Member& member : membership_->members) {
    ByteReader reader(member.blob);
    places.push_back(unpack_rank_info(reader));
    const auto description = reader.blob();
    descriptions.emplace_back(description.begin(), description.end());
  }
  if (Status status = check_settings_agree(membership_->members, places); !status.ok()) return status;
  auto overrides = Overrides::parse(settings_.algorithm);
  if (!overrides.ok()) return overrides.status();
  inputs_ = {rank(), static_cast<std::uint32_t>(settings_.lanes), view_of(membership_->members, places),
             std::move(*overrides), std::move(files)};
  View& view = inputs_.view;
  inputs_.files.tuning.apply(view);
  Status status = whole != nullptr ? share_transports(*whole, descriptions, wait_limits)
                                   : meet_by_transports(descriptions, wait_limits);
  if (!status.ok()) return status;
  ranks_here_ =
      static_cast<std::uint64_t>(std::ranges::count(view.machine, view.machine[static_cast<std::size_t>(rank())]));
  policy_.spins = settings_.spin == Spin::always ||
                  (settings_.spin == Spin::adapt && ranks_a_core(membership_->members, places, rank()) == 1);
  registrations_ = std::make_unique<Registrations>(transports_->endpoints(TrafficClass::collective));
  const WaiterOptions options = {.tells = waiters_tell(view)};
  waiter_ = std::make_unique<Waiter>(transports_->endpoints(TrafficClass::collective), policy_, options);
  ControlPlane& control = *membership_->control;
  reporter_ = std::make_unique<FailureReporter>(failures_, control, timeout_ns_);
  comparison_ = std::make_unique<HistoryComparison>(*reporter_, control, executor_, sequence_);
  device_ = std::make_unique<DeviceSide>(DeviceSideParts{.membership = *membership_,
                                                         .settings = settings_,
                                                         .plans = plans_,
                                                         .failures = failures_,
                                                         .reporter = *reporter_,
                                                         .board = board_,
                                                         .timeout_ns = timeout_ns_});
  fast_path_.emplace(executor_, *waiter_, *comparison_, board_);
  point_to_point_ = std::make_unique<TransferEngine>(TransferContext{.rank = rank(),
                                                                     .ranks = ranks(),
                                                                     .ranks_here = ranks_here_,
                                                                     .longest_eager = longest_eager(view),
                                                                     .transports = *transports_,
                                                                     .failures = failures_,
                                                                     .operations_under_way = operations_under_way_,
                                                                     .wait_policy = policy_,
                                                                     .timeout_ns = timeout_ns_});
  return {};
}

/// Settles by which transports the ranks reach each other. Collective.
/// descriptions: by rank, of its own.
Status Communicator::meet_by_transports(std::span<const std::vector<std::byte>> descriptions,
                                        const WaitLimits& wait_limits) {
  if (ranks() == 1) return {};
  auto reach = transports_->reach(descriptions, inputs_.view, inputs_.files.tuning, wait_limits);
  if (!reach.ok()) return reach.status();
  auto reaches = membership_->control->allgather(*reach, wait_limits);
  if (!reaches.ok()) return reaches.status();
  return transports_->settle(*reaches, inputs_.view);
}

/// Of one that was split off: the transports are those of `whole`, unless some rank asks for others.
/// rows: by rank, how it reaches the ranks of `whole`; empty where it asks for others.
Status Communicator::share_transports(Transports& whole, std::span<const std::vector<std::byte>> rows,
                                      const WaitLimits& wait_limits) {
  if (std::ranges::none_of(rows, [](const auto& row) { return row.empty(); })) {
    transports_ = Transports::part_of(whole, membership_->in_parent, membership_->context, name());
    return transports_->settle_part(rows, inputs_.view);
  }
  auto opened = Transports::open(settings_, membership_->key, rank(), ranks(), name());
  const Status status = opened.ok() ? Status() : named(opened.status(), membership_->control->member(rank()));
  if (!status.ok()) return status;
  transports_ = std::move(*opened);
  auto descriptions = membership_->control->allgather(transports_->describe(), wait_limits);
  if (!descriptions.ok()) return descriptions.status();
  return meet_by_transports(*descriptions, wait_limits);
}

CommState Communicator::state() const {
  if (!first_error().ok()) return CommState::failed;
  // Relaxed: a state, no data behind it.
  if (finalized_.load(std::memory_order_relaxed)) return CommState::finalized;
  return failures_.is_finalizing() ? CommState::finalizing : CommState::ready;
}

void Communicator::set_timeout(std::uint64_t ns) {
  // Relaxed, here and below: single values that order nothing.
  timeout_ns_.store(ns != 0 ? ns : settings_.operation_timeout_ns, std::memory_order_relaxed);
}
std::uint64_t Communicator::timeout_ns() const { return timeout_ns_.load(std::memory_order_relaxed); }
std::uint64_t Communicator::sequence() const { return sequence_.load(std::memory_order_relaxed); }
const char* Communicator::last_algorithm() const {
  const char* last = last_algorithm_.load(std::memory_order_relaxed);
  return ranks() == 1 || last == nullptr ? "none" : last;
}

Result<std::shared_ptr<SharedOperation>> Communicator::admit() {
  if (Status status = legal(); !status.ok()) return status;
  auto admission = operations_under_way_.admit();
  if (admission == nullptr) return legal();  // closed by finalize, after the flag: not a success any more
  return admission;
}

/// Those before have deadlines of their own, which count from their turns; so this ends without one.
Status Communicator::await_turn(Ticket& ticket, const PollHook& hook) {
  while (!ticket_lock_.is_served(ticket.number())) {
    // Nobody's turn comes any more in a failed communicator: the operation under way may leave without passing it on.
    if (Status failed = first_error(); !failed.ok()) return failed;
    if (ticket_lock_.wait(ticket.number(), hook.slice_ns(longest_sleep_ns))) break;
    if (hook.ends_wait()) return fail_by_hook("for earlier operations");
  }
  ticket.redeem();
  return {};
}

Status Communicator::run(const CollectiveCall& call, Ticket ticket, Work* work, const PollHook& hook) {
  if (Status waited = await_turn(ticket, hook); !waited.ok()) return waited;
  const TurnGuard turn(ticket_lock_);
  if (Status failed = first_error(); !failed.ok()) return failed;
  if (finalized_.load(std::memory_order_relaxed)) return legal();  // relaxed: written in a turn
  if (work == nullptr) return run_in_turn(call, hook);
  work->start(sequence());
  Status status = run_in_turn(call, hook);
  if (status.ok()) work->set_algorithm(last_algorithm());
  return status;
}

Status Communicator::run_in_turn(const CollectiveCall& call, const PollHook& hook) {
  return conclude(catching([&] { return carry_out(call, hook); }), call, hook);
}

/// What becomes of an operation that has ended in `status`.
Status Communicator::conclude(Status status, const CollectiveCall& call, const PollHook& hook) {
  if (status.ok()) return status;
  // What was refused for its arguments never began; what an exception ended (no memory) leaves peers waiting, and data in
  // the links that the next operation would take for its own.
  const bool torn = status.code() == TUTTI_SYSTEM_ERROR || status.code() == TUTTI_INTERNAL_ERROR;
  if (torn && first_error().ok()) status = fail(status);
  return first_error().ok() ? status : take_back(std::move(status), call, hook);
}

/// Before a call of a failed communicator returns: whoever still writes into the caller's memory is waited for. Where that
/// takes too long (a peer is stopped), the error says whom this memory is not safe from.
Status Communicator::take_back(Status failure, const CollectiveCall& call, const PollHook& hook) {
  const NoCancellation whole;  // what ends here has destructors
  transports_->await_quiescence(TrafficClass::collective, hook);
  const Status said = catching([&]() -> Status {
    transports_->close_links(TrafficClass::collective);
    fast_path_->forget();
    plans_.clear();
    std::string names;
    for (int peer = 0; peer < ranks(); ++peer) {
      if (!transports_->may_write(peer)) continue;
      RegisteredMemory::instance().quarantine(call.recv);
      for (const tutti_block& block : call.output) RegisteredMemory::instance().quarantine(block.ptr);
      names += (names.empty() ? "" : ", ") + membership_->control->member(peer).text();
    }
    if (names.empty()) return {};
    Error error = failure.error();
    error.message += fmt::format("; {} may still write into the recv buffer of {}, which must not be reused", names,
                                 reporter_->label(call, sequence() - 1));
    error.remedy =
        "Free that memory if tutti_memory_alloc gave it, else leave it alone while that process runs. " + error.remedy;
    failure = Status(std::move(error));
    failures_.quarantine(failure);
    return {};
  });
  // Without memory for words the failure is said alone.
  static_cast<void>(said);
  return failure;
}

/// Runs the last call again, in its turn.
inline Again Communicator::repeat(const void* send, void* recv, Status& failure) {
  const std::uint64_t sequence = sequence_.load(std::memory_order_relaxed);  // only changed in a turn
  sequence_.store(sequence + 1, std::memory_order_relaxed);
  history_ = followed_by(history_, fast_path_->hash());
  const auto run = [&] {
    fast_path_->begin(send, recv, sequence, timeout_ns());
    const EndpointTurn using_endpoints(*waiter_);
    if (!using_endpoints) [[unlikely]]
      return failure = report_no_turn(fast_path_->call(), sequence), false;
    const Outcome& outcome = fast_path_->run(executor_, history_);
    if (outcome.kind == Outcome::Kind::completed) [[likely]]
      return true;
    failure = give_up(outcome, fast_path_->call(), sequence);
    return false;
  };
  if (catching_bool(run, failure)) [[likely]] {
    board_.complete(sequence);
    return Again::done;
  }
  failure = conclude(std::move(failure), fast_path_->call(), hook_);
  return Again::failed;
}

Again Communicator::run_again(const CallShape& shape, const void* send, void* recv, Status& failure) {
  if (!ticket_lock_.try_take()) return Again::no;
  const TurnGuard turn(ticket_lock_);
  if (!fast_path_->repeats(shape, send, recv) || !legal_now() || device_->armed()) return Again::no;
  return repeat(send, recv, failure);
}

Again Communicator::run_again(const CallShape& shape, const IrregularArguments& blocks, Status& failure) {
  if (!ticket_lock_.try_take()) return Again::no;
  const TurnGuard turn(ticket_lock_);
  if (!fast_path_->repeats(shape, blocks) || !legal_now() || device_->armed()) return Again::no;
  const CollectiveCall& call = fast_path_->call();
  // Relaxed: only changed in a turn, which this is.
  if (call.agreed().empty()) reporter_->note_irregular(sequence_.load(std::memory_order_relaxed), call.kind());
  return repeat(lowest(call.input), lowest(call.output), failure);
}

Problem Communicator::problem_of(const CollectiveCall& call) const {
  Problem problem;
  problem.collective = call.collective;
  problem.type = call.type;
  problem.op = combines(call.collective) ? call.op : TUTTI_SUM;
  problem.root = rooted(call.collective) ? call.root : 0;
  problem.ranks = ranks();
  problem.count = call.irregular ? count_for_choice(call) : call.count;
  problem.irregular = call.irregular;
  problem.local_operands = call.local_operands;
  // Two operands are folded once by every algorithm, in an order that only a user-defined operator might tell.
  const bool is_any_one_fold = ranks() <= 2 && call.local_operands == 1 && call.op != user_operator;
  const bool is_reproducible =
      settings_.reproducible && reduces(call.collective) && may_depend_on_order(call.type, call.op);
  problem.one_fold = !is_any_one_fold && (call.one_fold || is_reproducible);
  if (!is_opaque(call.type) || call.op == user_operator) return problem;
  // Bytes travel by any algorithm, however long an element is.
  problem.type = TUTTI_UINT8;
  problem.opaque = static_cast<std::uint32_t>(element_bytes(call.type));
  if (!call.irregular) problem.count *= problem_elements(call.type);
  return problem;
}

Result<double> Communicator::expected_seconds(const CollectiveCall& call) const {
  if (call.count == 0) return 0.0;
  return plans_.expected_seconds(problem_of(call), call.algorithm);
}

double Communicator::expected_seconds(std::uint64_t bytes) const {
  const Terms terms = terms_of(inputs_.view);
  return terms.alpha + terms.beta * static_cast<double>(bytes);
}

/// In a turn, before what is split off uses the endpoints: from then on their users exclude each other.
void Communicator::share_endpoints() {
  // Relaxed: only set in a turn, which this is.
  if (shares_endpoints_.load(std::memory_order_relaxed)) return;
  transports_->share();
  point_to_point_->settle();
  shares_endpoints_.store(true, std::memory_order_release);  // release: see share_endpoints_now
}

/// Where no turn comes at once, calls are under way that do not exclude others yet; what is made then has endpoints of its
/// own. Whether they are shared.
bool Communicator::share_endpoints_now() {
  // Acquire: pairs with share_endpoints, behind which nobody uses them without a turn.
  if (shares_endpoints_.load(std::memory_order_acquire)) return true;
  if (!ticket_lock_.try_take()) return false;
  const TurnGuard turn(ticket_lock_);
  share_endpoints();
  return true;
}

/// Gives it its number and its place in the history, and shows it to the peers.
std::uint64_t Communicator::begin_operation(Called operation) {
  operation.sequence = sequence_.load(std::memory_order_relaxed);  // only changed in a turn
  operation.past = history_;
  sequence_.store(operation.sequence + 1, std::memory_order_relaxed);
  history_ = followed_by(history_, operation.hash);
  board_.start(operation);
  return operation.sequence;
}

Status Communicator::carry_out(const CollectiveCall& call, const PollHook& hook) {
  // Its plan may go with the plans, and the executor's layouts with it, also where this call is refused.
  fast_path_->forget();
  const auto processor = processor_of(call);
  if (!processor.ok()) return processor.status();
  if (*processor == Processor::cuda) return carry_out_on_device(call, hook);
  if (call.in_pieces) return carry_out_in_pieces(call, hook);
  if (call.custom != nullptr && call.custom->scalar_at != nullptr) {
    return Status(TUTTI_INVALID_ARGUMENT, "the operator's scalar lies in CUDA memory, and the call is of host memory",
                  "Pass CUDA memory, or make the operator of a scalar in host memory.");
  }
  auto prepared = prepare(call);
  if (!prepared.ok()) return prepared.status();
  const PreparedPlan& plan = **prepared;
  const std::uint64_t hash = operation_hash(plan.plan, call);
  const std::uint64_t sequence = begin_operation({.hash = hash,
                                                  .detail = call.detail(),
                                                  .kind = call.finalizes ? KindName("finalize") : plan.name,
                                                  .algorithm = plan.algorithm_name});
  last_algorithm_.store(plan.algorithm, std::memory_order_relaxed);
  if (call.count != 0) {
    if (Status status = execute(plan, call, hook, sequence); !status.ok()) return status;
  }
  board_.complete(sequence);
  fast_path_->remember(plan, call, hash, timeout_ns(), hook_);
  return {};
}

/// Of host memory. Packs the pieces, runs the call on that, and unpacks the result: one operation after the other where
/// there is much. Several operands of a rank lie one behind the other, so they go at once.
Status Communicator::carry_out_in_pieces(const CollectiveCall& call, const PollHook& hook) {
  const std::uint64_t element = element_bytes(call.type);
  const std::uint64_t most = call.local_operands > 1 ? call.count : std::max<std::uint64_t>(1, packed_at_once / element);
  PieceCursor in(call.input, element);
  PieceCursor out(call.output, element);
  CollectiveCall part = call;
  part.in_pieces = false;
  part.input.clear();
  part.output.clear();
  std::uint64_t left = call.count;
  do {
    part.count = std::min(left, most);
    const std::uint64_t bytes = part.count * element;
    const std::uint64_t operands = bytes * call.local_operands;
    if (packed_.size() < operands + bytes) {
      packed_.resize(operands + bytes);
      note_buffers();
    }
    part.send = packed_.data();
    part.recv = packed_.data() + (call.local_operands > 1 ? operands : 0);
    in.copy_to(packed_.data(), operands);
    if (Status status = carry_out(part, hook); !status.ok()) return status;
    out.copy_from(static_cast<const std::byte*>(part.recv), bytes);
    left -= part.count;
  } while (left != 0);
  return {};
}

/// Of a call without a CUDA stream. The driver may have been loaded since the last call; a plan that is made takes long
/// enough to look.
Result<Processor> Communicator::processor_of(const CollectiveCall& call) {
  if (call.finalizes) return Processor::cpu;
  if (!device_->armed() && plans_.find(problem_of(call), call.algorithm) == nullptr) device_->arm_if_loaded();
  return device_->armed() ? device_->processor_of(call, nullptr) : Processor::cpu;
}

/// The plan of a call that runs on the rank's device.
Result<PreparedDevicePlan*> Communicator::prepare_on_device(const CollectiveCall& call) {
  Problem problem = problem_of(call);
  problem.processor = Processor::cuda;
  problem.pre_mul = call.custom != nullptr;
  auto plan = device_->prepare(problem, call.algorithm);
  if (plan.ok() && !(*plan)->logged && log_enabled(Level::info)) {
    (*plan)->logged = true;
    log_plan((*plan)->plan, (*plan)->algorithm);
  }
  return plan;
}

/// The operation begins, and is put beside those of its team.
Status Communicator::issue(PreparedDevicePlan& plan, const CallStream* stream, const PollHook& hook, DeviceCall& out) {
  out.sequence = begin_operation({.hash = operation_hash(plan.plan, out.call),
                                  .detail = out.call.detail(),
                                  .kind = plan.name,
                                  .algorithm = plan.algorithm_name});
  if (out.call.irregular && out.call.agreed().empty()) reporter_->note_irregular(out.sequence, out.call.kind());
  last_algorithm_.store(plan.algorithm, std::memory_order_relaxed);
  Status status = catching([&] { return device_->issue(plan, history_, stream, hook, out); });
  if (status.ok()) return status;
  // Others wait for it, whatever it was that failed; and what failed because of an earlier error is that one.
  const Status first = first_error();
  return first.ok() ? fail(status) : first;
}

Status Communicator::carry_out_on_device(const CollectiveCall& call, const PollHook& hook) {
  if (Status status = device_->announce(); !status.ok()) return status;
  if (Status status = device_->ready(call, nullptr); !status.ok()) return status;
  const auto plan = prepare_on_device(call);
  if (!plan.ok()) return plan.status();
  DeviceCall issued = device_call(call);
  if (Status status = issue(**plan, nullptr, hook, issued); !status.ok()) return status;
  if (issued.meeting == nullptr) return device_->outcome(issued, JobEnd::completed, hook);
  if (Status status = device_->await_launch(issued, hook); !status.ok()) return status;
  return device_->await_end(issued, hook);
}

Status Communicator::announce_device(const CollectiveCall& call, bool on_stream) {
  if (settings_.memory == TUTTI_MEMORY_HOST) return {};  // check_stream refuses streams
  if (!on_stream) {
    if (!device_->armed() || device_->is_announced()) return {};
    const auto processor = device_->processor_of(call, nullptr);
    if (!processor.ok() || *processor == Processor::cpu) return processor.status();
  }
  return device_->announce();
}

Status Communicator::open_early(const CollectiveCall& call, bool captured) {
  Ticket ticket = enter();
  if (Status waited = await_turn(ticket, hook_); !waited.ok()) return waited;
  const TurnGuard turn(ticket_lock_);
  if (Status failed = first_error(); !failed.ok()) return failed;
  return catching([&]() -> Status {
    const auto plan = prepare_on_device(call);
    if (!plan.ok()) return plan.status();
    // Relaxed: only changed in a turn, which this is.
    Status status = device_->open_early(**plan, call, captured, sequence_.load(std::memory_order_relaxed), hook_);
    return status.ok() ? status : fail(status);
  });
}

Result<CallStream> Communicator::check_stream(const CollectiveCall& call, cuda::StreamHandle handle, bool wants_work) {
  CallStream stream{handle};
  if (const auto processor = device_->processor_of(call, &stream); !processor.ok()) return processor.status();
  if (Status status = device_->announce(); !status.ok()) return status;
  if (Status status = device_->ready(call, &stream); !status.ok()) return status;
  if (!stream.captured || !wants_work) return stream;
  return Status(TUTTI_INVALID_USAGE,
                "a call in a capture was asked for a work, and nothing runs before the graph is launched",
                "Leave call.work NULL, and wait for the graph's stream.");
}

Status Communicator::enqueue(const CollectiveCall& call, Ticket ticket, std::shared_ptr<Work> work,
                             const CallStream& stream, LaunchBatch& batch) {
  if (Status waited = await_turn(ticket, hook_); !waited.ok()) return waited;
  const TurnGuard turn(ticket_lock_);
  if (Status failed = first_error(); !failed.ok()) return failed;
  if (finalized_.load(std::memory_order_relaxed)) return legal();  // relaxed: written in a turn
  fast_path_->forget();
  return catching([&] { return enqueue_in_turn(call, std::move(work), stream, batch); });
}

Status Communicator::enqueue_in_turn(const CollectiveCall& call, std::shared_ptr<Work> work, const CallStream& stream,
                                     LaunchBatch& batch) {
  const auto plan = prepare_on_device(call);
  if (!plan.ok()) return plan.status();
  DeviceCall issued = device_call(call);
  work->set_algorithm((*plan)->algorithm);
  issued.work = std::move(work);
  if (!stream.captured) {
    if (Status status = issue(**plan, &stream, hook_, issued); !status.ok()) return status;
    batch.add(*device_, std::move(issued));
    return {};
  }
  Deposit deposit;
  if (call.count != 0) {
    auto made =
        device_->deposit_for_capture(**plan, issued.call, operation_hash((*plan)->plan, issued.call), stream, hook_);
    if (!made.ok()) return made.status();
    deposit = std::move(*made);
  }
  batch.add_captured(*device_, std::move(issued), std::move(deposit), stream.graph);
  return {};
}

Status Communicator::execute(const PreparedPlan& plan, const CollectiveCall& call, const PollHook& hook,
                             std::uint64_t sequence) {
  if (call.custom != nullptr && call.custom->kind == CustomOperator::Kind::pre_mul_sum) {
    Status status = execute(plan, scaled(plan, call), hook, sequence);
    if (status.ok()) scaled_data_.reset();  // else peers may read it until the call is taken back
    return status;
  }
  std::optional<UserFoldScope> user_fold;
  if (call.custom != nullptr) user_fold.emplace(&call.custom->fold);
  comparison_->begin(call, *plan.linked);
  waiter_->begin(call.timeout_ns != 0 ? call.timeout_ns : timeout_ns(), comparison_.get(), call.beside, hook);
  const EndpointTurn using_endpoints(*waiter_);
  if (!using_endpoints) return report_no_turn(call, sequence);
  if (!plan.linked->open) {
    if (Status status = open_links(*plan.linked); !status.ok()) {
      if (status.code() != TUTTI_IN_PROGRESS) return status;
      waiter_->leave();
      return reporter_->report_gave_up(waiter_->gave_up(), call, sequence, plan.linked->waiting, waiter_->hook());
    }
  }
  if (scratch_.size() < plan.scratch) {
    scratch_.resize(plan.scratch);
    note_buffers();
  }
  Binding binding;
  binding.scratch = scratch_.data();
  binding.fingerprint = history_;
  const HostLayouts& layouts = call.irregular ? irregular_.of(plan, call) : plan.layouts;
  if (call.irregular) {
    if (call.agreed().empty()) reporter_->note_irregular(sequence, call.kind());
    binding.input = lowest(call.input);
    binding.output = lowest(call.output);
  } else {
    binding.input = static_cast<const std::byte*>(call.send);
    binding.output = static_cast<std::byte*>(call.recv);
    binding.regions = registrations_->of(call.send, plan.layouts.bytes[0], call.recv, plan.layouts.bytes[1]);
  }
  const Outcome& outcome =
      executor_.run(plan.plan, plan.linked->lowered, layouts, binding, plan.fold, plan.linked->links, *waiter_);
  return outcome.kind == Outcome::Kind::completed ? Status() : give_up(outcome, call, sequence);
}

void Communicator::note_buffers() {
  buffer_bytes_.store(scratch_.capacity() + packed_.capacity(), std::memory_order_relaxed);  // relaxed: see there
}

tutti_memory_use Communicator::memory_use() const {
  return {.size = 0,
          .link_bytes = transports_->room_bytes(),
          .message_bytes = point_to_point_->kept_bytes(),
          .buffer_bytes = buffer_bytes_.load(std::memory_order_relaxed),
          .device_bytes = device_->memory_bytes()};
}

/// The call over its operands times its operator's scalar.
const CollectiveCall& Communicator::scaled(const PreparedPlan& plan, const CollectiveCall& call) {
  const CustomOperator& by = *call.custom;
  const std::size_t element = element_bytes(call.type);
  scaled_ = call;
  scaled_.custom = nullptr;
  std::uint64_t bytes = plan.layouts.bytes[0];
  for (const tutti_block& block : call.input) bytes += block.count * element;
  // The result's memory takes them where it is as large: it will be overwritten.
  const bool in_result = call.collective == Collective::all_reduce && call.local_operands == 1;
  scaled_data_ = in_result ? nullptr : std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::byte* to = in_result ? static_cast<std::byte*>(call.recv) : scaled_data_.get();
  if (!call.irregular) {
    scale(by.type, by.scalar.data(), call.send, to, bytes / element);
    scaled_.send = to;
  }
  for (tutti_block& block : scaled_.input) {
    scale(by.type, by.scalar.data(), block.ptr, to, block.count);
    block.ptr = to;
    to += block.count * element;
  }
  return scaled_;
}

/// Others, which share the endpoints, did not let this call begin in time.
Status Communicator::report_no_turn(const CollectiveCall& call, std::uint64_t sequence) {
  return reporter_->report_gave_up(waiter_->gave_up(), call, sequence, {}, waiter_->hook());
}

Status Communicator::give_up(const Outcome& outcome, const CollectiveCall& call, std::uint64_t sequence) {
  // At once: a peer may wait for memory of its own that this rank was about to write. The rest is done when the call ends:
  // see take_back.
  if (waiter_->in_turn()) static_cast<void>(transports_->quiesce(TrafficClass::collective));
  waiter_->leave();  // others need not wait while peers are asked
  const PollHook hook = waiter_->hook();
  switch (outcome.kind) {
    case Outcome::Kind::completed:
      return {};
    case Outcome::Kind::broken:
      return reporter_->report_lost(outcome.peer, transports_->in_own_ranks(outcome.why), hook);
    case Outcome::Kind::mismatch:
      if (call.irregular)
        return reporter_->report_length(outcome.peer, call, sequence, outcome.bytes, outcome.expected, hook);
      return reporter_->report_mismatch(outcome.peer, call, sequence, hook);
    case Outcome::Kind::interrupted:
      return reporter_->report_gave_up(waiter_->gave_up(), call, sequence, executor_.waiting_for(), hook);
  }
  return Status(TUTTI_INTERNAL_ERROR, "an operation ended for no known reason");
}

/// The plan of a call, made where it is the first of its like.
Result<const PreparedPlan*> Communicator::prepare(const CollectiveCall& call) {
  const Problem problem = problem_of(call);
  if (const PreparedPlan* const found = plans_.find(problem, call.algorithm); found != nullptr) return found;
  auto made = plans_.make(problem, call.algorithm);
  if (made.ok() && log_enabled(Level::info)) log_plan((*made)->plan, (*made)->algorithm);
  return made;
}

void Communicator::log_line(Level level, std::string_view text) const {
  log(level, log_label(name(), rank(), ranks()).append(text));
}

/// settings: their line, empty where all have their defaults.
void Communicator::log_creation(const std::string& settings) const {
  log_line(Level::info, transports_line(transports_->carriers()));
  if (!settings.empty()) log_line(Level::info, settings);
  if (rank() == 0) log_line(Level::info, hosts_line(membership_->members));
}

/// Rank 0 also tells, once for each collective, by which algorithms calls of all sizes run: all ranks choose alike.
void Communicator::log_plan(const Plan& plan, const char* algorithm) {
  const Problem& problem = plan.problem;
  const std::uint32_t bit =
      1U << (2 * static_cast<unsigned>(problem.collective) + static_cast<unsigned>(problem.processor));
  if (rank() == 0 && (logged_ & bit) == 0) {
    logged_ |= bit;
    const std::vector<AlgorithmUpTo> by_size = plans_.algorithms_by_size(problem);
    if (!by_size.empty()) log_line(Level::info, algorithms_line(problem.collective, problem.processor, by_size));
  }
  if (log_enabled(Level::debug)) log_line(Level::debug, plan_line(plan, algorithm));
}

/// Opens the links of a program, and waits until they are open. TUTTI_IN_PROGRESS: the waiter gave up.
Status Communicator::open_links(LinkedProgram& linked) {
  linked.links.clear();
  for (const Link& link : linked.lowered.program.links) {
    auto opened = transports_->link(TrafficClass::collective, link.peer, link.channel, link.sends);
    if (!opened.ok()) return fail(opened.status().error());
    linked.links.push_back(*opened);
  }
  for (std::uint32_t rounds = 1;; ++rounds) {
    linked.waiting.clear();
    for (HostLink* link : linked.links) {
      const tutti_link_result result = transports_->ready(*link);
      if (result == TUTTI_LINK_BROKEN) {
        const std::string why = transports_->why_broken(*link);
        waiter_->leave();
        return reporter_->report_lost(link->peer, why, waiter_->hook());
      }
      const bool noted = std::find(linked.waiting.begin(), linked.waiting.end(), link->peer) != linked.waiting.end();
      if (result == TUTTI_LINK_NOT_YET && !noted) linked.waiting.push_back(link->peer);
    }
    linked.open = linked.waiting.empty();
    if (linked.open) return {};
    if (!waiter_->idle(rounds, true)) return Status(TUTTI_IN_PROGRESS, "links are not open yet");
  }
}

void Communicator::set_name(std::string_view name) { membership_->control->set_name(shown_name(std::string(name))); }

void Communicator::abort() {
  if (finalized_.load(std::memory_order_relaxed)) return;  // relaxed: nothing is left to end, whoever sees it when
  Error error;
  error.status = TUTTI_ABORTED;
  error.guilty = {failures_.guilty(rank())};
  error.message = fmt::format("\"{}\" was aborted by {}", name(), membership_->control->member(rank()).text());
  membership_->control->report(std::move(error));
  if (device_ != nullptr) device_->abort();
}

Status Communicator::begin_finalize() {
  if (Status status = legal(); !status.ok()) return status;
  return failures_.begin_finalize() ? Status() : legal();
}

Status Communicator::finish_finalize(const PollHook& hook) {
  close();
  while (!operations_under_way_.wait(hook.slice_ns(longest_sleep_ns))) {
    if (Status failed = first_error(); !failed.ok()) return failed;
    if (hook.ends_wait()) return fail_by_hook("for what was enqueued");
  }
  CollectiveCall last;
  last.collective = Collective::barrier;
  last.type = TUTTI_UINT8;
  last.op = TUTTI_MAX;
  last.count = 1;
  last.finalizes = true;
  Ticket ticket = enter();
  if (Status waited = await_turn(ticket, hook); !waited.ok()) return waited;
  const TurnGuard turn(ticket_lock_);
  if (Status failed = first_error(); !failed.ok()) return failed;
  if (Status status = run_in_turn(last, hook); !status.ok()) return status;
  finalized_.store(true, std::memory_order_relaxed);  // relaxed: see state; operations read it in their turns
  take_leave();
  return {};
}

}  // namespace tutti
