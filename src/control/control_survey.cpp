// Questions about what ranks do. A question goes from neighbour to neighbour, each time to the one nearest the target; the
// answer comes back the same way. Where a link on the way is gone, the next best serves; a hop count ends what would go
// round. Whoever is a neighbour of a target that left or died answers for it, and of one that does not answer tells what it
// last knew of it.
#include <algorithm>
#include <bit>
#include <chrono>

#include "src/control/control_impl.h"

namespace tutti {

namespace {

constexpr std::uint64_t longest_survey_ns = 60'000'000'000;

// Of two reports of a rank that does not answer, that which knows of more. One more than a number counts "none" as less.
void keep_later(PeerReport& known, const PeerReport& other) {
  if (!other.heard) return;
  const std::uint64_t exchanges = std::max(known.activity.exchanges, other.activity.exchanges);
  const auto progress = [](const Activity& activity) { return std::pair(activity.started + 1, activity.completed + 1); };
  if (!known.heard || progress(other.activity) > progress(known.activity)) known = other;
  known.activity.exchanges = exchanges;
}

}  // namespace

int ControlPlane::Impl::first_ttl() const { return 2 * std::bit_width(static_cast<unsigned>(options_.ranks)) + 8; }

ControlPlane::Impl::Link* ControlPlane::Impl::towards(int target, int from) {
  Link* best = nullptr;
  for (auto& [rank, link] : links_) {
    const bool leads_on = link.open() && (link.connection != nullptr || routes_ != nullptr);
    if (!leads_on || rank == from) continue;
    if (best != nullptr &&
        ring_distance(rank, target, options_.ranks) >= ring_distance(best->about.rank, target, options_.ranks)) {
      continue;
    }
    best = &link;
  }
  return best;
}

std::optional<PeerReport> ControlPlane::Impl::known_here(int target) {
  if (target == options_.rank) return PeerReport{target, PeerReport::State::kAlive, true, own_activity()};
  const auto place = links_.find(target);
  if (place == links_.end() || place->second.open()) return std::nullopt;
  return place->second.report(place->second.state == LinkState::kLeft ? PeerReport::State::kLeft
                                                                      : PeerReport::State::kDead);
}

void ControlPlane::Impl::ask(std::uint64_t id, int target, bool everybody) {
  if (const auto known = known_here(target)) return answered(id, *known);
  if (!everybody) return route_query(Frame::kQuery, id, options_.rank, target, first_ttl(), -1);
  ByteWriter out;
  out.u64(id);
  out.i32(options_.rank);
  out.i32(target);
  out.u8(static_cast<std::uint8_t>(first_ttl()));
  for (auto& [rank, link] : links_) send(link, Frame::kAround, out.bytes());
}

void ControlPlane::Impl::route_query(Frame type, std::uint64_t id, int origin, int target, int ttl, int from) {
  Link* const next = ttl > 0 ? towards(target, from) : nullptr;
  if (next == nullptr) return;
  ByteWriter out;
  out.u64(id);
  out.i32(origin);
  out.i32(target);
  out.u8(static_cast<std::uint8_t>(ttl - 1));
  send(*next, type, out.bytes());
}

void ControlPlane::Impl::take_query(int from, Frame type, std::span<const std::byte> payload) {
  ByteReader in(payload);
  const std::uint64_t id = in.u64();
  const int origin = in.i32();
  const int target = in.i32();
  const int ttl = in.u8();
  if (!in.complete() || origin == options_.rank) return;
  // What went all ways goes back by the neighbour it came from: the shortest one may have somebody on it who passes nothing
  // on.
  Link* const back = type == Frame::kAround ? &links_.at(from) : towards(origin, -1);
  if (const auto known = known_here(target)) return reply(back, id, origin, *known, first_ttl());
  if (type == Frame::kAround) {
    PeerReport hearsay;
    hearsay.rank = target;
    add_hearsay(hearsay);
    if (hearsay.heard) reply(back, id, origin, hearsay, first_ttl());
  }
  route_query(type, id, origin, target, ttl, from);
}

void ControlPlane::Impl::reply(Link* next, std::uint64_t id, int origin, const PeerReport& report, int ttl) {
  if (next == nullptr || ttl == 0) return;
  ByteWriter out;
  out.u64(id);
  out.i32(origin);
  out.u8(static_cast<std::uint8_t>(ttl - 1));
  out.i32(report.rank);
  out.u8(static_cast<std::uint8_t>(report.state));
  out.u8(report.heard ? 1 : 0);
  pack_activity(out, report.activity);
  send(*next, Frame::kReply, out.bytes());
}

void ControlPlane::Impl::take_reply(int from, std::span<const std::byte> payload) {
  ByteReader in(payload);
  const std::uint64_t id = in.u64();
  const int origin = in.i32();
  const int ttl = in.u8();
  PeerReport report;
  report.rank = in.i32();
  report.state = static_cast<PeerReport::State>(in.u8());
  report.heard = in.u8() != 0;
  report.activity = unpack_activity(in);
  if (!in.complete()) return;
  origin == options_.rank ? answered(id, report) : reply(towards(origin, from), id, origin, report, ttl);
}

void ControlPlane::Impl::answered(std::uint64_t id, const PeerReport& report) {
  const auto place = questions_.find(id);
  if (place == questions_.end()) return;  // answered before, or nobody waits any more
  const auto [asker, index] = place->second;
  if (report.state == PeerReport::State::kUnknown)
    return keep_later(asker->reports_[index], report);  // its own word may come
  asker->reports_[index] = report;
  --asker->open_;
  questions_.erase(place);
  changed_.notify_all();
}

void ControlPlane::Impl::add_hearsay(PeerReport& report) const {
  const auto place = links_.find(report.rank);
  if (place != links_.end()) keep_later(report, place->second.report(PeerReport::State::kUnknown));
}

ControlPlane::Impl::Survey::Survey(Impl& impl, std::size_t questions, Deadline deadline)
    : impl_(impl),
      deadline_(deadline),
      // Relaxed: the number alone counts.
      first_(impl.next_question_.fetch_add(questions, std::memory_order_relaxed)),
      reports_(questions) {
  const std::uint64_t left = std::min(deadline.left_ns(), longest_survey_ns);
  ask_all_ways_at_ns_ = Deadline::in(left / 2).at_ns;
}

// By way of the other constructor: where this one ends in an exception the destructor runs.
ControlPlane::Impl::Survey::Survey(Impl& impl, std::span<const int> ranks, Deadline deadline)
    : Survey(impl, ranks.size(), deadline) {
  if (impl_.in_child()) return;
  const std::lock_guard lock(impl_.mutex_);
  open_ = ranks.size();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    reports_[i].rank = ranks[i];
    impl_.questions_[first_ + i] = {this, i};
    impl_.ask(first_ + i, ranks[i], false);
  }
}

ControlPlane::Impl::Survey::~Survey() {
  if (impl_.in_child()) return;
  const std::lock_guard lock(impl_.mutex_);
  impl_.questions_.erase(impl_.questions_.lower_bound(first_), impl_.questions_.lower_bound(first_ + reports_.size()));
}

bool ControlPlane::Impl::Survey::over() {
  if (impl_.in_child()) return true;
  const std::lock_guard lock(impl_.mutex_);
  return over_locked();
}

bool ControlPlane::Impl::Survey::over_locked() {
  if (open_ == 0 || impl_.left_) return true;
  if (now_ns() >= ask_all_ways_at_ns_) {
    ask_all_ways_at_ns_ = UINT64_MAX;
    for (std::size_t i = 0; i < reports_.size(); ++i) {
      if (impl_.questions_.count(first_ + i) != 0) impl_.ask(first_ + i, reports_[i].rank, true);
    }
  }
  return open_ == 0 || deadline_.passed();
}

bool ControlPlane::Impl::Survey::wait(std::uint64_t ns) {
  std::unique_lock lock(impl_.mutex_);
  if (over_locked()) return true;
  const std::uint64_t now = now_ns();
  const std::uint64_t next = std::min(ask_all_ways_at_ns_, deadline_.at_ns);
  impl_.changed_.wait_for(lock, std::chrono::nanoseconds(std::min(ns, next - std::min(next, now))));
  return over_locked();
}

std::vector<PeerReport> ControlPlane::Impl::Survey::reports() {
  if (impl_.in_child()) return reports_;
  const std::lock_guard lock(impl_.mutex_);
  std::vector<PeerReport> told = reports_;
  for (PeerReport& report : told) {
    if (report.state != PeerReport::State::kUnknown) continue;
    impl_.add_hearsay(report);
    report = impl_.known_here(report.rank).value_or(report);  // it may have ended meanwhile
  }
  return told;
}

std::vector<PeerReport> ControlPlane::Impl::survey(std::span<const int> ranks, const WaitLimits& wait_limits) {
  const Deadline deadline = Deadline::in(std::min(wait_limits.deadline.left_ns(), longest_survey_ns));
  Survey asked(*this, ranks, deadline);
  const std::uint64_t look_every_ns = wait_limits.hook.poll != nullptr ? 1'000'000 : 10'000'000;
  if (in_child()) return asked.reports();
  while (wait_limits.check().ok() && !asked.wait(look_every_ns)) {
  }
  return asked.reports();
}

}  // namespace tutti
