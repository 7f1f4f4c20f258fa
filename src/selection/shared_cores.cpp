#include "src/selection/shared_cores.h"

#include <algorithm>

#include "src/base/saturating.h"
#include "src/schedule/problem.h"

namespace tutti {
namespace {

/// Whether all ranks share the cores of one machine. Then messages and bytes of all ranks count, not only those that a rank
/// waits for. On several machines what one rank sends is no other's time.
bool all_share(const View& view) { return view.oversubscription > 1 && view.machines() == 1; }

/// Has a ring, where ranks have more than their caches hold, spare what stays there (View::ring_share).
void spare_rings(Cost& cost, const Problem& problem, const View& view) {
  using enum CommunicationPattern;
  constexpr double cached = 8 << 20;  // of all ranks, where they are a few on each core
  const std::uint32_t blocks = std::max(blocks_of(problem, Buffer::input, 0), blocks_of(problem, Buffer::output, 0));
  const double bytes = blocks * static_cast<double>(bytes_of(problem.count, problem.type));
  if (!view.through_memory || bytes * problem.ranks < cached || (cost.pattern != ring && cost.pattern != chain)) return;
  cost.sent *= view.ring_share;
  const bool overlapped = cost.pattern == chain && problem.ranks == 2;  // and so spared already
  if (!overlapped) cost.betas *= view.ring_share;
  for (std::size_t c = 0; c < static_cast<std::size_t>(LinkClass::other_machine); ++c) cost.on[c].betas *= view.ring_share;
}

/// What all ranks of a core move through memory, or what one moves after the other, while the others have nothing to do.
void move_through_memory(Cost& cost, double ranks_a_core) {
  using enum CommunicationPattern;
  if (cost.pattern == central) {
    // Of what the one reads and writes the others do half; beside it, its core does that for those who share it. Folds are
    // the one's alone.
    cost.betas = cost.betas / 2 + ranks_a_core - 1;
    cost.gammas /= ranks_a_core;
  }
  // Measured beside chains, 3, 4 and 8 ranks on 2 cores. What goes round waits for the turn of every rank of a core:
  // .9, 1.3 and 2.1 times as long. Ever fewer gather while the others wait: 1.4, 1.7 and 2.7 times as long.
  if (cost.pattern == scatter_then_ring) cost.sent *= std::max(1.0, 0.6 * ranks_a_core);
  if (cost.pattern == ring_then_gather) cost.sent = cost.betas;
  cost.betas = std::max(cost.sent, cost.betas / ranks_a_core);
}

/// What ranks pass to sockets. Where all send to one rank, the kernel keeps short blocks until that rank comes to them; of
/// longer ones its port is the limit. (4 ranks on 2 cores over the loopback: 32 KiB 45 to 56 us, 128 KiB 116 to 284, 512
/// KiB 440 to 940.)
void move_through_sockets(Cost& cost, const Problem& problem) {
  constexpr std::uint64_t at_once = 64 * 1024;
  const bool port = cost.pattern == CommunicationPattern::central && bytes_of(problem.count, problem.type) > at_once;
  if (!port) cost.betas = cost.sent;
}

}  // namespace

Terms on_shared_cores(const Terms& alone, const View& view, LinkClass on) {
  const double ranks_a_core = view.oversubscription;
  if (ranks_a_core <= 1) return alone;
  // The bytes of a network are the wire's, however many ranks share the cores behind it. What ranks of one core pass to
  // each other stays in its caches.
  constexpr double in_cache = 0.375;
  const bool wire = on >= LinkClass::other_machine;
  const double beta = alone.beta * (wire ? 1 : view.through_memory ? in_cache * ranks_a_core : ranks_a_core);
  const double gamma = alone.gamma * ranks_a_core;
  const double wait = std::max(alone.alpha, view.yield_seconds * ranks_a_core);
  if (!all_share(view)) return {wait, beta, gamma};
  constexpr double posted = 0.2;  // View::yield_seconds
  if (view.through_memory) return {wait, beta, gamma, posted * view.yield_seconds * ranks_a_core};
  // Whoever waits leaves the core to others, who have messages to pass, so waits are mostly hidden. (3 to 8 ranks on 2
  // cores over the loopback, 8 B and 2 KiB: 4 to 6 us for each message of any rank, and 2 to 4 us for each wait.)
  constexpr double seen_of_waits = 0.4;
  return {seen_of_waits * alone.alpha, beta, gamma, alone.alpha * ranks_a_core};
}

Cost on_shared_cores(Cost cost, const Problem& problem, const View& view) {
  if (view.oversubscription <= 1) return cost;
  spare_rings(cost, problem, view);
  if (!all_share(view)) return cost;
  cost.posted = 0;  // it is among the messages
  if (cost.messages == 0) cost.messages = cost.alphas;
  if (cost.sent == 0) cost.sent = cost.betas;
  if (view.through_memory) {
    move_through_memory(cost, view.oversubscription);
  } else {
    move_through_sockets(cost, problem);
  }
  return cost;
}

}  // namespace tutti
