#include "src/schedule/problem.h"

namespace tutti {

std::uint32_t blocks_of(const Problem& problem, Buffer buffer, int rank) {
  const CollectiveInfo& info = info_of(problem.collective);
  if (buffer == Buffer::input)
    return info.sends(rank, problem.root) ? info.send_blocks(problem.ranks) * problem.local_operands : 0;
  return info.receives(rank, problem.root) ? info.recv_blocks(problem.ranks) : 0;
}

Alias in_place_alias(const Problem& problem, int rank) {
  const CollectiveInfo& info = info_of(problem.collective);
  if (!info.sends(rank, problem.root) || !info.receives(rank, problem.root)) return {};
  if (info.has_send_blocks() && info.has_recv_blocks()) return {true, true, 0, 0};
  const std::uint32_t own = static_cast<std::uint32_t>(rank);
  return {true, false, info.has_send_blocks() ? own : 0, info.has_recv_blocks() ? own : 0};
}

}  // namespace tutti
