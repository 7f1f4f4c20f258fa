#include "src/communicator/failure_report.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "src/base/plural.h"
#include "src/base/printable.h"
#include "src/base/settings.h"
#include "src/control/mismatch.h"
#include "src/tables/units.h"

namespace tutti {
namespace {

/// How long ranks are asked what they do, for an error's sentence.
constexpr std::uint64_t survey_ns = 500'000'000;

/// What errors call it.
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

/// What helps where ranks are late: silent ones, or some of this process. own_ns: the call's own limit.
std::string late_remedy(bool silent, bool within, std::uint64_t own_ns) {
  const char* const other = silent ? "See whether it is stopped or cut off; raise"
                            : within
                                ? "If one thread calls for both, call between tutti_group_start and tutti_group_end; raise"
                                : "Raise";
  return fmt::format("{} {} if it is only slow.", other, limit_to_raise(own_ns));
}

}  // namespace

std::string FailureReporter::label(const CollectiveCall& call, std::uint64_t sequence) const {
  std::string named = call.name.empty() ? "" : fmt::format(" ({})", shown_name(call.name));
  if (call.user_tag != 0) named += fmt::format(" (user tag {})", call.user_tag);
  const std::string number = sequence == UINT64_MAX ? " in a capture" : fmt::format(" #{}", sequence);
  return fmt::format("{}{}{} of \"{}\"{}", call.kind(), number, named, failures_.name(),
                     call.on_device ? " on CUDA memory" : "");
}

Error FailureReporter::error_of(tutti_status status, const CollectiveCall& call, std::uint64_t sequence) const {
  Error error;
  error.status = status;
  error.operation = sequence;
  error.operation_kind = call.kind();
  return error;
}

/// The control plane usually knows more, and is given a moment to say so. What this process itself lacks is said at once:
/// peers see it as a broken link too, and wait for these words.
Status FailureReporter::report_lost(int peer, const std::string& why, const PollHook& hook) {
  if (auto own = failures_.own_shortage(peer, why)) return failures_.fail(std::move(*own));
  const Deadline moment = Deadline::in(FailureState::culprit_ns);
  PeerReport report;
  std::optional<Error> loss;
  while (failures_.first_error().ok() && !loss && !moment.passed()) {
    timespec nap{0, 2'000'000};
    nanosleep(&nap, nullptr);
    report = control_.query(peer, asking(FailureState::culprit_ns / 10, hook));
    loss = failures_.loss_of(report);
  }
  if (Status first = failures_.first_error(); !first.ok()) return first;
  if (loss) return failures_.fail(std::move(*loss));
  if (report.state == PeerReport::State::kAlive)
    return failures_.fail(failures_.cut(TUTTI_REMOTE_ERROR, failures_.guilty(report), peer, why));
  return failures_.fail(control_.death_of(report, why));
}

Status FailureReporter::report_gave_up(GaveUp why, const CollectiveCall& call, std::uint64_t sequence,
                                       const std::vector<int>& waiting, const PollHook& hook) {
  switch (why) {
    case GaveUp::deadline:
      return report_deadline(call, sequence, waiting, hook);
    case GaveUp::hook: {
      Error error = error_of(TUTTI_ABORTED, call, sequence);
      error.guilty = {failures_.guilty(control_.rank())};
      error.message = label(call, sequence) + fmt::format(": the poll hook of rank {} ended the wait", control_.rank());
      return failures_.fail(std::move(error));
    }
    default:
      return control_.first_error();
  }
}

/// How long peers are asked in the midst of an operation: the caller's hook and a failure end that, too.
WaitLimits FailureReporter::asking(std::uint64_t ns, const PollHook& hook) {
  return {Deadline::in(ns), nullptr, hook, &control_.failed()};
}

Status FailureReporter::report_deadline(const CollectiveCall& call, std::uint64_t sequence, const std::vector<int>& waiting,
                                        const PollHook& hook) {
  Error error = error_of(TUTTI_TIMEOUT, call, sequence);
  // Relaxed: a single value that orders nothing.
  error.limit_ns = call.timeout_ns != 0 ? call.timeout_ns : timeout_ns_.load(std::memory_order_relaxed);
  std::vector<int> all(static_cast<std::size_t>(control_.ranks()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::string> missing;
  std::vector<int> waiters;
  bool silent = false, within = false;
  const std::vector<PeerReport> reports = control_.survey(all, asking(survey_ns, hook));
  if (!agrees_with_peers(call, sequence, reports)) return failures_.first_error();
  for (const PeerReport& report : reports) {
    if (report.rank != control_.rank() && !is_blameless(report, sequence)) {
      missing.push_back(absence(report, sequence, error.limit_ns));
      silent = silent || report.state == PeerReport::State::kUnknown;
      within = within || control_.member(report.rank).same_process(control_.member(control_.rank()));
      error.guilty.push_back(failures_.guilty(report));
    } else if (report.activity.started == sequence && report.activity.busy()) {
      waiters.push_back(report.rank);
    }
  }
  error.remedy = late_remedy(silent, within, call.timeout_ns);
  std::string words = fmt::format("{}", fmt::join(missing, "; "));
  if (missing.empty()) {
    for (const int peer : waiting) error.guilty.push_back(failures_.guilty(peer));
    words =
        fmt::format("all ranks arrived, but it did not end within {}; rank {} waits for {}", duration_text(error.limit_ns),
                    control_.rank(), waiting.empty() ? "its own sends" : rank_list(waiting));
  } else if (!waiters.empty()) {
    words += fmt::format("; {} {}", rank_list(waiters), waiters.size() == 1 ? "waits" : "wait");
  }
  error.message = label(call, sequence) + ": " + words;
  return failures_.fail(std::move(error));
}

/// What is said of a rank to blame.
std::string FailureReporter::absence(const PeerReport& report, std::uint64_t sequence, std::uint64_t limit_ns) const {
  const std::string who = control_.member(report.rank).text();
  if (report.state == PeerReport::State::kUnknown) {
    return fmt::format("{} does not answer after {} (it is stopped, cut off or overloaded); {}", who,
                       duration_text(limit_ns), hearsay(report, sequence));
  }
  const std::string last =
      report.heard ? operation_words(report.activity.completed, report.activity.completed_kind()) : "unknown";
  const std::string what = report.state == PeerReport::State::kLeft   ? "left without completing it"
                           : report.state == PeerReport::State::kDead ? "died"
                                                                      : "did not arrive within " + duration_text(limit_ns);
  return fmt::format("{} {}; its last completed operation is {}", who, what, last);
}

/// A message of another operation has come from a peer.
Status FailureReporter::report_mismatch(int peer, const CollectiveCall& call, std::uint64_t sequence,
                                        const PollHook& hook) {
  if (Status first = failures_.first_error(); !first.ok()) return first;
  const PeerReport report = control_.query(peer, asking(survey_ns, hook));
  if (auto mismatch = failures_.mismatch_with(report, label(call, sequence))) return failures_.fail(std::move(*mismatch));
  const auto irregular = last_irregular();
  if (irregular && report.heard && reached(report, report.activity.started, sequence)) {
    return blame_blocks(
        fmt::format("{}: {} sent a message of another operation, though both ranks called this one; the "
                    "two ends of a block have different counts in {} #{}, or in one before it",
                    label(call, sequence), control_.member(peer).text(), irregular->kind, irregular->sequence),
        call, sequence, report);
  }
  // It does not answer, or is so far ahead that it has forgotten all that this rank has called.
  const Activity own = control_.board().read();
  const Called* const mine = own.called(sequence);
  const Called* const its = report.activity.called(report.activity.started);
  const Member self = control_.member(control_.rank());
  Error error = error_of(TUTTI_MISMATCH, call, sequence);
  error.guilty = {guilty_of(self, own), failures_.guilty(report)};
  error.message =
      fmt::format("{}: {} called {} as #{}, {} called something else then or before", label(call, sequence), self.text(),
                  mine != nullptr ? call_words(*mine) : call.kind(), sequence, control_.member(peer).text());
  if (its != nullptr) {
    error.message += fmt::format("; all that is known of it is {} as #{}", call_words(*its), report.activity.started);
  }
  error.remedy = kCallTheSame;
  return failures_.fail(std::move(error));
}

Status FailureReporter::report_length(int peer, const CollectiveCall& call, std::uint64_t sequence, std::uint64_t bytes,
                                      std::uint64_t expected, const PollHook& hook) {
  if (Status first = failures_.first_error(); !first.ok()) return first;
  const PeerReport report = control_.query(peer, asking(survey_ns, hook));
  if (auto mismatch = failures_.mismatch_with(report, label(call, sequence))) return failures_.fail(std::move(*mismatch));
  const std::string sender = control_.member(peer).text();
  const std::string self = control_.member(control_.rank()).text();
  const auto in_bytes = [](std::uint64_t count) { return plural(static_cast<std::int64_t>(count), "byte"); };
  // Of blocks of several windows the first is equally long.
  return blame_blocks(
      bytes == expected ? fmt::format("{}: {} and {} have different counts of a block that goes from the one to the other",
                                      label(call, sequence), sender, self)
                        : fmt::format("{}: {} sent {} of a block where {} receives {}", label(call, sequence), sender,
                                      in_bytes(bytes), self, in_bytes(expected)),
      call, sequence, report);
}

/// The two ends of a block have different counts.
Status FailureReporter::blame_blocks(std::string message, const CollectiveCall& call, std::uint64_t sequence,
                                     const PeerReport& report) {
  Error error = error_of(TUTTI_MISMATCH, call, sequence);
  error.guilty = {guilty_of(control_.member(control_.rank()), control_.board().read()), failures_.guilty(report)};
  error.message = std::move(message);
  error.remedy = "Let the sender's block have the count of the receiver's.";
  return failures_.fail(std::move(error));
}

/// In a wait that lasts. A peer that called something else may never send anything that shows it, and may be through with
/// it by now.
bool FailureReporter::agrees_with_peers(const CollectiveCall& call, std::uint64_t sequence,
                                        std::span<const PeerReport> peers) {
  for (const PeerReport& report : peers) {
    auto mismatch = failures_.mismatch_with(report, label(call, sequence));
    if (!mismatch) continue;
    static_cast<void>(failures_.fail(std::move(*mismatch)));
    return false;
  }
  return true;
}

bool FailureReporter::are_there(const CollectiveCall& call, std::uint64_t sequence, std::span<const PeerReport> peers) {
  if (!agrees_with_peers(call, sequence, peers)) return false;
  for (const PeerReport& report : peers) {
    if (report.state != PeerReport::State::kLeft || reached(report, report.activity.completed, sequence)) continue;
    static_cast<void>(failures_.fail(control_.leave_of(report)));
    return false;
  }
  return true;
}

}  // namespace tutti
