// Questions about what ranks do. A question goes from neighbour to neighbour, each time to the one nearest the target; the
// answer comes back the same way. Where a link on the way is gone, the next best serves; a hop count ends what would go
// round. Whoever is a neighbour of a target that left or died answers for it, and of one that does not answer tells what it
// last knew of it.
#include <algorithm>
#include <bit>

#include "src/communicator/control_impl.h"

namespace tutti {

namespace {

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
    if (!link.open() || rank == from) continue;
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
  if (!everybody) return route_query(kQuery, id, options_.rank, target, first_ttl(), -1);
  ByteWriter out;
  out.u64(id);
  out.i32(options_.rank);
  out.i32(target);
  out.u8(static_cast<std::uint8_t>(first_ttl()));
  for (auto& [rank, link] : links_) send(link, kAround, out.bytes());
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
  Link* const back = type == kAround ? &links_.at(from) : towards(origin, -1);
  if (const auto known = known_here(target)) return reply(back, id, origin, *known, first_ttl());
  if (type == kAround) {
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
  send(*next, kReply, out.bytes());
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
    return keep_later(asker->reports[index], report);  // its own word may come
  asker->reports[index] = report;
  --asker->open;
  questions_.erase(place);
  changed_.notify_all();
}

// What this rank knows of one whose link to it is open and that does not answer.
void ControlPlane::Impl::add_hearsay(PeerReport& report) const {
  const auto place = links_.find(report.rank);
  if (place != links_.end()) keep_later(report, place->second.report(PeerReport::State::kUnknown));
}

std::vector<PeerReport> ControlPlane::Impl::survey(std::span<const int> ranks, Deadline deadline,
                                                   const Patience* patience) {
  Survey asked;
  asked.reports.resize(ranks.size());
  asked.open = ranks.size();
  std::unique_lock lock(mutex_);
  const std::uint64_t first = next_question_;
  next_question_ += ranks.size();
  struct Withdrawal {  // an answer must not find a call that has ended, by an exception at that
    Impl& impl;
    std::unique_lock<std::mutex>& lock;
    const std::uint64_t first;
    const std::size_t count;
    ~Withdrawal() {
      if (!lock.owns_lock()) lock.lock();
      impl.questions_.erase(impl.questions_.lower_bound(first), impl.questions_.lower_bound(first + count));
    }
  };
  const Withdrawal withdrawal{*this, lock, first, ranks.size()};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    asked.reports[i].rank = ranks[i];
    questions_[first + i] = {&asked, i};
    ask(first + i, ranks[i], false);
  }
  // What has no answer after half of the time is asked again by all ways at once: somebody on the way may be stopped.
  const std::uint64_t left = std::min<std::uint64_t>(deadline.left_ns(), 60'000'000'000);
  if (!await_answers(lock, asked, Deadline::in(left / 2), patience)) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (questions_.count(first + i) != 0) ask(first + i, ranks[i], true);
    }
    await_answers(lock, asked, Deadline::in(left - left / 2), patience);
  }
  for (PeerReport& report : asked.reports) {
    if (report.state != PeerReport::State::kUnknown) continue;
    add_hearsay(report);
    report = known_here(report.rank).value_or(report);  // it may have ended meanwhile
  }
  return asked.reports;
}

// Whether there is nothing more to wait for.
bool ControlPlane::Impl::await_answers(std::unique_lock<std::mutex>& lock, const Survey& asked, Deadline deadline,
                                       const Patience* patience) {
  while (asked.open != 0 && !left_) {
    lock.unlock();  // the caller's hook runs without our lock
    const bool enough = patience != nullptr && !patience->check();
    lock.lock();
    if (enough) return true;
    if (deadline.passed()) return asked.open == 0 || left_;
    const std::uint64_t most = patience == nullptr ? UINT64_MAX : patience->hook.poll != nullptr ? 1'000'000 : 10'000'000;
    if (asked.open != 0) changed_.wait_for(lock, std::chrono::nanoseconds(std::min(most, deadline.left_ns())));
  }
  return true;
}

}  // namespace tutti
