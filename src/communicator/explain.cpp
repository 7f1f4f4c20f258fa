// Why a call failed: one sentence that names the operation, the ranks at fault and what to do.
#include "src/communicator/explain.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "src/base/plain_text.h"
#include "src/communicator/known_transports.h"

namespace tutti {
namespace {

/// How long a failed call looks for the culprit: the control plane hears of a death at about the same time as the links.
constexpr std::uint64_t culprit_ns = 300'000'000;
/// How long ranks are asked what they do, for an error's sentence.
constexpr std::uint64_t survey_ns = 500'000'000;

const char* type_name(std::uint64_t type) {
  constexpr std::array names = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                "uint64", "float16", "float32", "float64", "bfloat16"};
  return type < names.size() ? names[type] : "opaque";
}

const char* op_name(std::uint64_t op) {
  constexpr std::array names = {"sum", "prod", "max", "min", "avg"};
  return op < names.size() ? names[op] : "an operator";
}

/// What is called like a collective and is none, in the place of the collective's number.
constexpr std::uint64_t finalize_call = collective_count;
constexpr std::uint64_t split_call = collective_count + 1;

std::string words_of(const Called& called) {
  const auto& d = called.detail;
  if (d[0] == finalize_call) return "tutti_comm_finalize";
  if (d[0] == split_call) return "tutti_comm_split";
  const Collective collective = static_cast<Collective>(d[0]);
  if (d[0] >= collective_count) return "something else";
  if (collective == Collective::barrier) return "barrier";
  std::string text = fmt::format("{} of {} {}", name_of(collective), d[3], type_name(d[1] >> 32));
  if (reduces(collective)) text += fmt::format(" ({})", op_name(d[1] & 0xffffffffu));
  if (rooted(collective)) text += fmt::format(" with root {}", d[2]);
  return text;
}

/// What errors call it.
const char* kind_of(const CollectiveCall& call) { return call.finalizes ? "finalize" : name_of(call.collective); }

std::string operation_words(std::uint64_t number, const KindName& kind) {
  return number == UINT64_MAX ? std::string("none") : fmt::format("#{} {}", number, kind.text());
}

/// Whether a rank is known to have got so far: `number` is that of the last operation that it has begun, or completed.
bool reached(const PeerReport& report, std::uint64_t number, std::uint64_t sequence) {
  return report.heard && number != UINT64_MAX && number >= sequence;
}

/// Whether nothing is to be said of a rank where an operation does not end: it has arrived and answers, or is through.
bool is_blameless(const PeerReport& report, std::uint64_t sequence) {
  if (report.state == PeerReport::State::kAlive) return reached(report, report.activity.started, sequence);
  return report.state == PeerReport::State::kLeft && reached(report, report.activity.completed, sequence);
}

/// What is known of a rank that does not answer. Not having arrived is no more than the last that was heard of it.
std::string hearsay(const PeerReport& report, std::uint64_t sequence) {
  if (!report.heard) return "what it did last is unknown";
  const std::string last = operation_words(report.activity.completed, report.activity.completed_kind);
  if (reached(report, report.activity.completed, sequence)) return "it had completed this operation when last heard of";
  if (reached(report, report.activity.started, sequence)) {
    return "it had arrived when last heard of, and its last completed operation was " + last;
  }
  return "it had not arrived when last heard of, and its last completed operation was " + last;
}

/// Where two ranks parted.
struct Difference {
  const Called* mine = nullptr;
  const Called* its = nullptr;
};

/// The earliest operation up to `sequence` that both remember and called differently: what shows at a later one began
/// there. Nothing where there is none, as far as anybody knows.
std::optional<Difference> first_difference(const Activity& own, const Activity& peer, std::uint64_t sequence) {
  const std::uint64_t from = sequence - std::min<std::uint64_t>(sequence, Activity::kRecent - 1);
  for (std::uint64_t n = from; n <= sequence; ++n) {
    const Called* mine = own.called(n);
    const Called* its = peer.called(n);
    if (mine != nullptr && its != nullptr && mine->hash != its->hash) return Difference{mine, its};
  }
  return std::nullopt;
}

}  // namespace

std::array<std::uint64_t, 4> pack_call(const CollectiveCall& call) {
  const std::uint64_t what = call.finalizes ? finalize_call : static_cast<std::uint64_t>(call.collective);
  return {what, static_cast<std::uint64_t>(call.type) << 32 | static_cast<std::uint32_t>(call.op),
          static_cast<std::uint64_t>(call.root), call.count};
}

std::array<std::uint64_t, 4> pack_split() { return {split_call, 0, 0, 0}; }

std::string Communicator::label(const CollectiveCall& call, std::uint64_t sequence) const {
  const std::string named = call.name.empty() ? "" : fmt::format(" ({})", shown_name(call.name));
  return fmt::format("{} #{}{} of \"{}\"", kind_of(call), sequence, named, name_);
}

Error Communicator::error_of(tutti_status status, const CollectiveCall& call, std::uint64_t sequence) const {
  Error error;
  error.status = status;
  error.operation = sequence;
  error.operation_kind = kind_of(call);
  return error;
}

/// A peer's link broke. The control plane usually knows more; it is given a moment to say so, except of what this process
/// itself lacks: peers see that as a broken link too, and wait for these words.
Status Communicator::lost(int peer, const std::string& why) {
  if (auto own = own_shortage(peer, why)) return fail(std::move(*own));
  const Deadline moment = Deadline::in(culprit_ns);
  PeerReport report;
  while (first_error().ok() && report.state != PeerReport::State::kLeft && !moment.passed()) {
    timespec nap{0, 2'000'000};
    nanosleep(&nap, nullptr);
    report = membership_->control->query(peer, asking(culprit_ns / 10));
  }
  if (Status first = first_error(); !first.ok()) return first;
  if (report.state == PeerReport::State::kLeft) return fail(membership_->control->leave_of(peer));
  if (report.state == PeerReport::State::kAlive) return fail(cut(TUTTI_REMOTE_ERROR, guilty(report), peer, why));
  return fail(membership_->control->loss_of(peer, why));
}

std::optional<Error> Communicator::own_shortage(int peer, std::string_view why) const {
  if (!read_why(why).own) return std::nullopt;
  return cut(TUTTI_SYSTEM_ERROR, guilty(rank(), membership_->control->board().read()), peer, why);
}

/// The error of a link that broke between ranks that live.
Error Communicator::cut(tutti_status status, Guilty to_blame, int peer, std::string_view why) const {
  const Member& self = membership_->control->member(rank());
  const TransportWhy said = read_why(why);
  Error error;
  error.status = status;
  error.message = fmt::format("the link between {} and {} of \"{}\" broke: {}", self.text(),
                              membership_->control->member(peer).text(), name_, said.told_of(self.text()));
  error.remedy = !said.remedy.empty()
                     ? said.remedy
                     : fmt::format("See what rank {} says, and the limits of its process (`ulimit -n`)", to_blame.rank);
  error.guilty.push_back(std::move(to_blame));
  return error;
}

Status Communicator::explain(const Outcome& outcome, const CollectiveCall& call, std::uint64_t sequence) {
  switch (outcome.kind) {
    case Outcome::Kind::completed:
      return {};
    case Outcome::Kind::broken:
      return lost(outcome.peer, outcome.why);
    case Outcome::Kind::mismatch:
      return explain_mismatch(outcome.peer, call, sequence);
    case Outcome::Kind::interrupted:
      return explain_gave_up(call, sequence, executor_.waiting_for());
  }
  return Status(TUTTI_INTERNAL_ERROR, "an operation ended for no known reason");
}

Status Communicator::explain_gave_up(const CollectiveCall& call, std::uint64_t sequence, const std::vector<int>& waiting) {
  switch (agent_->gave_up()) {
    case GaveUp::deadline:
      return explain_deadline(call, sequence, waiting);
    case GaveUp::hook: {
      Error error = error_of(TUTTI_ABORTED, call, sequence);
      error.guilty = {guilty(rank())};
      error.message = label(call, sequence) + fmt::format(": the poll hook of rank {} ended the wait", rank());
      return fail(std::move(error));
    }
    default:
      return membership_->control->first_error();
  }
}

/// How long peers are asked in the midst of an operation: the caller's hook and a failure end that, too.
Patience Communicator::asking(std::uint64_t ns) { return {Deadline::in(ns), nullptr, agent_->hook(), policy_.failed}; }

Status Communicator::explain_deadline(const CollectiveCall& call, std::uint64_t sequence, const std::vector<int>& waiting) {
  Error error = error_of(TUTTI_TIMEOUT, call, sequence);
  error.limit_ns = call.timeout_ns != 0 ? call.timeout_ns : timeout_ns();
  error.remedy = "Raise TUTTI_OPERATION_TIMEOUT if it is only slow.";
  std::vector<int> all(static_cast<std::size_t>(ranks()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::string> missing;
  std::vector<int> waiters;
  bool silent = false;
  const Activity own = membership_->control->board().read();
  for (const PeerReport& report : membership_->control->survey(all, asking(survey_ns))) {
    if (first_difference(own, report.activity, sequence)) return explain_mismatch(report, call, sequence);
    if (report.rank != rank() && !is_blameless(report, sequence)) {
      missing.push_back(absence(report, error.limit_ns));
      if (report.state == PeerReport::State::kUnknown) missing.back() += hearsay(report, sequence);
      silent = silent || report.state == PeerReport::State::kUnknown;
      error.guilty.push_back(guilty(report));
    } else if (report.activity.started == sequence && report.activity.busy()) {
      waiters.push_back(report.rank);
    }
  }
  if (silent) error.remedy = "See whether it is stopped or cut off; raise TUTTI_OPERATION_TIMEOUT if it is only slow.";
  std::string words = fmt::format("{}", fmt::join(missing, "; "));
  if (missing.empty()) {
    for (const int peer : waiting) error.guilty.push_back(guilty(peer));
    words = fmt::format("all ranks arrived, but it did not end within {}; rank {} waits for {}",
                        duration_text(error.limit_ns), rank(), waiting.empty() ? "its own sends" : rank_list(waiting));
  } else if (!waiters.empty()) {
    words += fmt::format("; {} {}", rank_list(waiters), waiters.size() == 1 ? "waits" : "wait");
  }
  error.message = label(call, sequence) + ": " + words;
  return fail(std::move(error));
}

/// Of a rank that does not answer the beginning: `hearsay` goes on.
std::string Communicator::absence(const PeerReport& report, std::uint64_t limit_ns) const {
  const std::string who = membership_->control->member(report.rank).text();
  if (report.state == PeerReport::State::kUnknown) {
    return fmt::format("{} does not answer after {} (it is stopped, cut off or overloaded); ", who,
                       duration_text(limit_ns));
  }
  const std::string last =
      report.heard ? operation_words(report.activity.completed, report.activity.completed_kind) : "unknown";
  const std::string what = report.state == PeerReport::State::kLeft   ? "left without completing it"
                           : report.state == PeerReport::State::kDead ? "died"
                                                                      : "did not arrive within " + duration_text(limit_ns);
  return fmt::format("{} {}; its last completed operation is {}", who, what, last);
}

Guilty Communicator::guilty(int rank, const Activity& activity) const {
  Guilty guilty = this->guilty(rank);
  guilty.last_operation = activity.completed;
  guilty.last_operation_kind = activity.completed_kind.text();
  return guilty;
}

Status Communicator::explain_mismatch(int peer, const CollectiveCall& call, std::uint64_t sequence) {
  if (Status first = first_error(); !first.ok()) return first;
  return explain_mismatch(membership_->control->query(peer, asking(survey_ns)), call, sequence);
}

Status Communicator::explain_mismatch(const PeerReport& peer, const CollectiveCall& call, std::uint64_t sequence) {
  const Activity own = membership_->control->board().read();
  // Where their calls agree, as far as both remember them: what the peer does now.
  const Difference difference =
      first_difference(own, peer.activity, sequence)
          .value_or(Difference{own.called(sequence), peer.activity.called(peer.activity.started)});
  std::string my_words = difference.mine != nullptr ? words_of(*difference.mine) : name_of(call.collective);
  std::string its_words = difference.its != nullptr ? words_of(*difference.its) : "something else";
  if (difference.mine != nullptr && difference.its != nullptr && my_words == its_words) {
    my_words += fmt::format(" by the algorithm {}", difference.mine->algorithm.text());
    its_words += fmt::format(" by the algorithm {}", difference.its->algorithm.text());
  }
  Error error = error_of(TUTTI_MISMATCH, call, sequence);
  error.guilty = {guilty(rank(), own), guilty(peer)};
  error.message = fmt::format("{}: {} called {} as #{}, {} called {}", label(call, sequence),
                              membership_->control->member(rank()).text(), my_words,
                              difference.mine != nullptr ? difference.mine->sequence : sequence,
                              membership_->control->member(peer.rank).text(), its_words);
  if (difference.its != nullptr) error.message += fmt::format(" as #{}", difference.its->sequence);
  error.remedy = "Make all ranks call the same operations, in the same order, with the same arguments.";
  return fail(std::move(error));
}

/// In a wait that lasts: a peer that called something else may never send anything that shows it, and may be through with
/// it by now.
bool Communicator::agrees_with_peers(const CollectiveCall& call, std::uint64_t sequence,
                                     std::span<const PeerReport> peers) {
  const Activity own = membership_->control->board().read();
  for (const PeerReport& report : peers) {
    if (!first_difference(own, report.activity, sequence)) continue;
    static_cast<void>(explain_mismatch(report, call, sequence));
    return false;
  }
  return true;
}

}  // namespace tutti
