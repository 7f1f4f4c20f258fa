#include "src/api/fusion.h"

#include <algorithm>
#include <cstdint>

#include "src/tables/element_types.h"

namespace tutti {
namespace {

/// What is no longer costs little more than its latency.
constexpr std::uint64_t most_fused_bytes = 16 * 1024;
constexpr std::uint64_t most_total_bytes = 64 * 1024;

bool is_plain(const CollectiveCall& call) {
  return !call.irregular && !call.in_pieces && call.local_operands == 1 && call.count != 0;
}

/// Whether two calls differ in nothing but buffers, counts, roots, and what may differ between ranks.
bool alike(const CollectiveCall& one, const CollectiveCall& other) {
  return one.collective == other.collective && one.type == other.type && one.op == other.op &&
         one.algorithm == other.algorithm && one.custom == other.custom && one.one_fold == other.one_fold;
}

std::uint64_t bytes_of(const CollectiveCall& call) { return call.count * element_bytes(call.type); }

bool may_join(std::span<const CollectiveCall* const> joined, const CollectiveCall& next) {
  return is_plain(next) && alike(*joined[0], next);
}

std::size_t fusible_sums(std::span<const CollectiveCall* const> calls) {
  std::uint64_t total = 0;
  std::size_t n = 0;
  for (; n < calls.size(); ++n) {
    const std::uint64_t bytes = bytes_of(*calls[n]);
    if (bytes > most_fused_bytes || total + bytes > most_total_bytes) break;
    if (n != 0 && !may_join(calls.first(n), *calls[n])) break;
    total += bytes;
  }
  return std::max<std::size_t>(n, 1);
}

std::size_t fusible_broadcasts(std::span<const CollectiveCall* const> calls, int ranks) {
  std::vector<bool> has_root(static_cast<std::size_t>(ranks));
  std::size_t n = 0;
  for (; n < calls.size(); ++n) {
    const auto root = static_cast<std::size_t>(calls[n]->root);
    if (has_root[root] || (n != 0 && !may_join(calls.first(n), *calls[n]))) break;
    has_root[root] = true;
  }
  return n;
}

}  // namespace

std::size_t fusible(std::span<const CollectiveCall* const> calls, int ranks) {
  const CollectiveCall& first = *calls[0];
  if (!is_plain(first) || calls.size() == 1) return 1;
  if (first.collective == Collective::all_reduce) return fusible_sums(calls);
  // A broadcast's algorithm is none of an all_gather.
  const bool gathers = first.collective == Collective::broadcast && first.algorithm.empty();
  return gathers ? fusible_broadcasts(calls, ranks) : 1;
}

CollectiveCall fused(std::span<const CollectiveCall* const> calls, int rank, int ranks) {
  CollectiveCall all = *calls[0];
  all.send = all.recv = nullptr;
  all.root = 0;
  all.count = 0;
  for (const CollectiveCall* call : calls) {
    if (call->timeout_ns != 0)
      all.timeout_ns = all.timeout_ns == 0 ? call->timeout_ns : std::min(all.timeout_ns, call->timeout_ns);
  }
  if (all.collective == Collective::all_reduce) {
    all.in_pieces = true;
    for (const CollectiveCall* call : calls) {
      all.input.push_back({const_cast<void*>(call->send), call->count});  // which is only read
      all.output.push_back({call->recv, call->count});
      all.count += call->count;
    }
    return all;
  }
  all.collective = Collective::all_gather;
  all.irregular = true;
  all.input.resize(1);
  all.output.resize(static_cast<std::size_t>(ranks));
  for (const CollectiveCall* call : calls) {
    const std::uint64_t count = call->count * call->problem_units();
    all.output[static_cast<std::size_t>(call->root)] = {call->recv, count};
    if (call->root == rank) all.input[0] = {const_cast<void*>(call->send), count};
    all.count += call->count;
  }
  return all;
}

}  // namespace tutti
