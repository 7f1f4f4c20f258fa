// The out-of-band all-gather: Bruck's, over the control graph.
//
//     round k: send the first min(2^k, n - 2^k) blobs that I hold to rank r - 2^k, get as many from rank r + 2^k
//
// so that after round k a rank holds the blobs of itself and the 2^(k+1) - 1 ranks that follow.
#include <algorithm>

#include "src/base/exception_boundary.h"
#include "src/control/control_impl.h"
#include "src/tables/units.h"

namespace tutti {

namespace {

/// How long ranks are asked what they do, for an error's sentence.
constexpr std::uint64_t kAskNs = 500'000'000;

std::string words_of(const Purpose& purpose) {
  if (*purpose.kind == '\0') return "an exchange";
  if (purpose.operation == UINT64_MAX) return "a " + std::string(purpose.kind);
  return purpose.kind + (" #" + std::to_string(purpose.operation));
}

}  // namespace

Result<std::vector<std::vector<std::byte>>> ControlPlane::Impl::allgather(std::span<const std::byte> mine,
                                                                          const WaitLimits& wait_limits,
                                                                          const Purpose& purpose) {
  // Creations and splits promise to ask the caller's hook at least once. All of them come through here, alone ones too,
  // and the rounds below ask only where a peer is late.
  if (Status status = wait_limits.check(); !status) return status;
  std::unique_lock lock(mutex_);
  while (gathering_) {  // another thread's turn
    lock.unlock();      // the caller's hook runs without our lock
    const Status status = wait_limits.check();
    if (!status) return status;
    if (wait_limits.deadline.passed()) return Status(TUTTI_TIMEOUT, "Another thread's exchange did not end in time");
    lock.lock();
    if (gathering_) changed_.wait_for(lock, std::chrono::milliseconds(wait_limits.slice_ms()));
  }
  std::vector<std::vector<std::byte>> all;
  const Status status = gather_in_turn(lock, mine, wait_limits, purpose, all);
  if (status) return all;
  if (status.code() != TUTTI_ABORTED) report(status);
  return status;
}

// Whatever ends it, no memory included, the next one has its turn. Returns without the lock.
Status ControlPlane::Impl::gather_in_turn(std::unique_lock<std::mutex>& lock, std::span<const std::byte> mine,
                                          const WaitLimits& wait_limits, const Purpose& purpose,
                                          std::vector<std::vector<std::byte>>& all) {
  struct InTurn {
    Impl& impl;
    std::unique_lock<std::mutex>& lock;
    InTurn(Impl& its, std::unique_lock<std::mutex>& its_lock) : impl(its), lock(its_lock) { impl.gathering_ = true; }
    ~InTurn() {
      if (!lock.owns_lock()) lock.lock();
      impl.gathering_ = false;
      impl.changed_.notify_all();
      lock.unlock();
    }
  };
  const InTurn turn(*this, lock);
  return catching([&]() -> Status {
    ++gathers_;
    auto gathered = gather_rounds(lock, mine, wait_limits, purpose);
    if (gathered) all = std::move(gathered).value();
    return gathered.status();
  });
}

Result<std::vector<std::vector<std::byte>>> ControlPlane::Impl::gather_rounds(std::unique_lock<std::mutex>& lock,
                                                                              std::span<const std::byte> mine,
                                                                              const WaitLimits& wait_limits,
                                                                              const Purpose& purpose) {
  const int n = options_.ranks;
  const int rank = options_.rank;
  const std::uint64_t sequence = gathers_;
  std::vector<std::vector<std::byte>> held;
  held.emplace_back(mine.begin(), mine.end());
  std::uint32_t round = 0;
  for (int distance = 1; distance < n; distance *= 2, ++round) {
    const int count = std::min(distance, n - distance);
    ByteWriter out;
    out.u64(sequence);
    out.u32(round);
    out.u64(purpose.history);
    for (int i = 0; i < count; ++i) out.blob(held[static_cast<std::size_t>(i)]);
    const auto to = links_.find((rank - distance + n) % n);
    if (to != links_.end()) send(to->second, Frame::kGather, out.bytes());

    const int from = (rank + distance) % n;
    if (Status status = await_round(lock, from, {sequence, round}, wait_limits, purpose); !status) return status;
    const auto arrived = rounds_.extract({sequence, round});
    if (arrived.mapped().history != purpose.history) return Status(gather_mismatch(lock, from, wait_limits, purpose));
    ByteReader in(arrived.mapped().blobs);
    for (int i = 0; i < count; ++i) {
      const auto blob = in.blob();
      held.emplace_back(blob.begin(), blob.end());
    }
    if (in.complete()) continue;
    return Status(TUTTI_INTERNAL_ERROR, member_locked(from).text() + " sent a malformed exchange");
  }
  std::vector<std::vector<std::byte>> by_rank(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i)
    by_rank[static_cast<std::size_t>((rank + i) % n)] = std::move(held[static_cast<std::size_t>(i)]);
  return by_rank;
}

/// Whether one that is to join has left the communicator by whose ways it is asked, or died, as far as this rank knows.
bool ControlPlane::Impl::has_left_routes(int rank) const {
  if (routes_ == nullptr) return false;
  const auto link = routes_->links_.find(in_routes_[static_cast<std::size_t>(rank)]);
  return link != routes_->links_.end() && !link->second.open();
}

Status ControlPlane::Impl::await_round(std::unique_lock<std::mutex>& lock, int peer,
                                       std::pair<std::uint64_t, std::uint32_t> round, const WaitLimits& wait_limits,
                                       const Purpose& purpose) {
  while (rounds_.count(round) == 0) {
    if (!first_error_.ok()) return first_error_;
    if (left_) return Status(TUTTI_INVALID_USAGE, "This rank has left \"" + name_ + "\"");
    const auto link = links_.find(peer);
    // Of one that died the mesh tells.
    if (link == links_.end() || link->second.state == LinkState::kLeft || has_left_routes(peer)) return left_early(peer);
    lock.unlock();  // the caller's hook runs without our lock
    const Status status = wait_limits.check();
    lock.lock();
    if (!status) return status;
    if (wait_limits.deadline.passed()) return Status(gather_timeout(lock, peer, wait_limits, purpose));
    if (rounds_.count(round) == 0) changed_.wait_for(lock, std::chrono::milliseconds(wait_limits.slice_ms()));
  }
  return {};
}

// Its sender has called something else. It is asked what, since the exchange itself does not tell.
Error ControlPlane::Impl::gather_mismatch(std::unique_lock<std::mutex>& lock, int peer, const WaitLimits& wait_limits,
                                          const Purpose& purpose) {
  lock.unlock();
  WaitLimits brief = wait_limits;
  brief.deadline = Deadline::in(kAskNs);
  const PeerReport report = survey(std::span(&peer, 1), brief).front();
  lock.lock();
  const Member about = member_locked(peer);
  if (auto mismatch = mismatch_with(about, report.activity, "")) return std::move(*mismatch);
  Error error;
  error.status = TUTTI_MISMATCH;
  error.operation = purpose.operation;
  error.operation_kind = purpose.kind;
  error.guilty = {member_locked(options_.rank).guilty(), about.guilty()};
  error.message = about.text() + " of \"" + name_ + "\" called something else before or as " + words_of(purpose);
  error.remedy = kCallTheSame;
  return error;
}

// Names the ranks that take no part, and those that do not answer, of which that is not known.
// peer: whose blobs this rank waits for.
Error ControlPlane::Impl::gather_timeout(std::unique_lock<std::mutex>& lock, int peer, const WaitLimits& wait_limits,
                                         const Purpose& purpose) {
  std::vector<int> all;
  for (int r = 0; r < std::min(options_.ranks, 1024); ++r) all.push_back(r);
  lock.unlock();
  WaitLimits brief = wait_limits;
  brief.deadline = Deadline::in(kAskNs);
  const auto reports = survey(all, brief);
  lock.lock();
  for (const PeerReport& report : reports) {
    const char* const since = report.state == PeerReport::State::kLeft ? "left" : "";
    if (auto mismatch = mismatch_with(member_locked(report.rank), report.activity, since)) return std::move(*mismatch);
  }
  Error error;
  error.status = TUTTI_TIMEOUT;
  error.limit_ns = wait_limits.deadline.limit_ns;
  error.operation = purpose.operation;
  error.operation_kind = purpose.kind;
  error.remedy = "Raise TUTTI_CONNECT_TIMEOUT if they are only slow";
  std::vector<int> late;
  std::vector<int> silent;
  for (const PeerReport& report : reports) {
    // Of a part that is being made a rank that has not called knows nothing yet, and so answers nothing.
    const bool answers = report.state != PeerReport::State::kUnknown || routes_ != nullptr;
    if (answers && report.heard && report.activity.exchanges >= gathers_) continue;
    (answers ? late : silent).push_back(report.rank);
    error.guilty.push_back(guilty_of(member_locked(report.rank), report.activity));
  }
  const std::string what = words_of(purpose);
  const std::string limit = duration_text(wait_limits.deadline.limit_ns);
  if (late.empty() && silent.empty()) {  // the last of them came a moment ago, or a connection is stuck
    error.guilty.push_back(member_locked(peer).guilty());
    error.message = member_locked(peer).text() + " of \"" + name_ + "\" passed nothing on in " + what + " within " + limit +
                    ", in which all ranks take part now";
    return error;
  }
  const auto names = [this](const std::vector<int>& ranks) {
    return (ranks.size() == 1 ? member_locked(ranks.front()).text() : rank_list(ranks)) + " of \"" + name_ + "\"";
  };
  if (!late.empty()) error.message = names(late) + " did not take part in " + what + " within " + limit;
  if (silent.empty()) return error;
  error.message += (late.empty() ? "" : "; ") + names(silent) + (silent.size() == 1 ? " does" : " do") + " not answer in " +
                   what + " after " + limit + " (stopped, cut off or overloaded)";
  return error;
}

}  // namespace tutti
