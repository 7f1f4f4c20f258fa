// Why a call failed: one sentence that names the operation, the ranks at fault and what to do.
#include "src/communicator/failure_report.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "src/base/printable.h"
#include "src/control/mismatch.h"

namespace tutti {
namespace {

/// How long ranks are asked what they do, for an error's sentence.
constexpr std::uint64_t survey_ns = 500'000'000;

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
  const std::string last = operation_words(report.activity.completed, report.activity.completed_kind());
  if (reached(report, report.activity.completed, sequence)) return "it had completed this operation when last heard of";
  if (reached(report, report.activity.started, sequence)) {
    return "it had arrived when last heard of, and its last completed operation was " + last;
  }
  return "it had not arrived when last heard of, and its last completed operation was " + last;
}

}  // namespace

std::array<std::uint64_t, 3> detail_of(const CollectiveCall& call) {
  return {static_cast<std::uint64_t>(call.type) << 32 | static_cast<std::uint32_t>(call.op),
          static_cast<std::uint64_t>(call.root), call.count};
}

std::string Communicator::label(const CollectiveCall& call, std::uint64_t sequence) const {
  const std::string named = call.name.empty() ? "" : fmt::format(" ({})", shown_name(call.name));
  return fmt::format("{} #{}{} of \"{}\"", kind_of(call), sequence, named, name());
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
  if (auto own = failures_.own_shortage(peer, why)) return fail(std::move(*own));
  const Deadline moment = Deadline::in(FailureState::culprit_ns);
  PeerReport report;
  std::optional<Error> loss;
  while (first_error().ok() && !loss && !moment.passed()) {
    timespec nap{0, 2'000'000};
    nanosleep(&nap, nullptr);
    report = membership_->control->query(peer, asking(FailureState::culprit_ns / 10));
    loss = failures_.loss_of(report);
  }
  if (Status first = first_error(); !first.ok()) return first;
  if (loss) return fail(std::move(*loss));
  if (report.state == PeerReport::State::kAlive)
    return fail(failures_.cut(TUTTI_REMOTE_ERROR, failures_.guilty(report), peer, why));
  return fail(membership_->control->death_of(report, why));
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
  switch (waiter_->gave_up()) {
    case GaveUp::deadline:
      return explain_deadline(call, sequence, waiting);
    case GaveUp::hook: {
      Error error = error_of(TUTTI_ABORTED, call, sequence);
      error.guilty = {failures_.guilty(rank())};
      error.message = label(call, sequence) + fmt::format(": the poll hook of rank {} ended the wait", rank());
      return fail(std::move(error));
    }
    default:
      return membership_->control->first_error();
  }
}

/// How long peers are asked in the midst of an operation: the caller's hook and a failure end that, too.
WaitLimits Communicator::asking(std::uint64_t ns) { return {Deadline::in(ns), nullptr, waiter_->hook(), policy_.failed}; }

Status Communicator::explain_deadline(const CollectiveCall& call, std::uint64_t sequence, const std::vector<int>& waiting) {
  Error error = error_of(TUTTI_TIMEOUT, call, sequence);
  error.limit_ns = call.timeout_ns != 0 ? call.timeout_ns : timeout_ns();
  error.remedy = "Raise TUTTI_OPERATION_TIMEOUT if it is only slow.";
  std::vector<int> all(static_cast<std::size_t>(ranks()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::string> missing;
  std::vector<int> waiters;
  bool silent = false;
  const std::vector<PeerReport> reports = membership_->control->survey(all, asking(survey_ns));
  if (!agrees_with_peers(call, sequence, reports)) return first_error();
  for (const PeerReport& report : reports) {
    if (report.rank != rank() && !is_blameless(report, sequence)) {
      missing.push_back(absence(report, error.limit_ns));
      if (report.state == PeerReport::State::kUnknown) missing.back() += hearsay(report, sequence);
      silent = silent || report.state == PeerReport::State::kUnknown;
      error.guilty.push_back(failures_.guilty(report));
    } else if (report.activity.started == sequence && report.activity.busy()) {
      waiters.push_back(report.rank);
    }
  }
  if (silent) error.remedy = "See whether it is stopped or cut off; raise TUTTI_OPERATION_TIMEOUT if it is only slow.";
  std::string words = fmt::format("{}", fmt::join(missing, "; "));
  if (missing.empty()) {
    for (const int peer : waiting) error.guilty.push_back(failures_.guilty(peer));
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
      report.heard ? operation_words(report.activity.completed, report.activity.completed_kind()) : "unknown";
  const std::string what = report.state == PeerReport::State::kLeft   ? "left without completing it"
                           : report.state == PeerReport::State::kDead ? "died"
                                                                      : "did not arrive within " + duration_text(limit_ns);
  return fmt::format("{} {}; its last completed operation is {}", who, what, last);
}

/// A message of another operation has come from a peer.
Status Communicator::explain_mismatch(int peer, const CollectiveCall& call, std::uint64_t sequence) {
  if (Status first = first_error(); !first.ok()) return first;
  const PeerReport report = membership_->control->query(peer, asking(survey_ns));
  if (auto mismatch = failures_.mismatch_with(report, label(call, sequence))) return fail(std::move(*mismatch));
  // It does not answer, or is so far ahead that it has forgotten all that this rank has called.
  const Activity own = board_.read();
  const Called* const mine = own.called(sequence);
  const Called* const its = report.activity.called(report.activity.started);
  const Member self = membership_->control->member(rank());
  Error error = error_of(TUTTI_MISMATCH, call, sequence);
  error.guilty = {guilty_of(self, own), failures_.guilty(report)};
  error.message =
      fmt::format("{}: {} called {} as #{}, {} called something else then or before", label(call, sequence), self.text(),
                  mine != nullptr ? call_words(*mine) : kind_of(call), sequence, membership_->control->member(peer).text());
  if (its != nullptr) {
    error.message += fmt::format("; all that is known of it is {} as #{}", call_words(*its), report.activity.started);
  }
  error.remedy = kCallTheSame;
  return fail(std::move(error));
}

/// In a wait that lasts: a peer that called something else may never send anything that shows it, and may be through with
/// it by now. Where one did the communicator fails.
bool Communicator::agrees_with_peers(const CollectiveCall& call, std::uint64_t sequence,
                                     std::span<const PeerReport> peers) {
  for (const PeerReport& report : peers) {
    auto mismatch = failures_.mismatch_with(report, label(call, sequence));
    if (!mismatch) continue;
    static_cast<void>(fail(std::move(*mismatch)));
    return false;
  }
  return true;
}

}  // namespace tutti
