#include "src/api/fusion.h"

#include <algorithm>
#include <cstdint>
#include <set>

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
  return is_plain(one) && is_plain(other) && one.collective == other.collective && one.type == other.type &&
         one.op == other.op && one.algorithm == other.algorithm && one.custom == other.custom &&
         one.one_fold == other.one_fold;
}

/// How many all-reduces are short enough.
std::size_t fusible_sums(std::span<const CollectiveCall* const> calls) {
  std::uint64_t total = 0;
  const auto is_too_long = [&total](const CollectiveCall* call) {
    const std::uint64_t bytes = call->count * element_bytes(call->type);
    total += bytes;
    return bytes > most_fused_bytes || total > most_total_bytes;
  };
  return static_cast<std::size_t>(std::ranges::find_if(calls, is_too_long) - calls.begin());
}

/// How many broadcasts have roots of their own.
std::size_t fusible_broadcasts(std::span<const CollectiveCall* const> calls) {
  std::set<int> roots;
  const auto comes_again = [&roots](const CollectiveCall* call) { return !roots.insert(call->root).second; };
  return static_cast<std::size_t>(std::ranges::find_if(calls, comes_again) - calls.begin());
}

}  // namespace

std::size_t fusible(std::span<const CollectiveCall* const> calls) {
  const CollectiveCall& first = *calls[0];
  const auto other = std::ranges::find_if(calls, [&first](const CollectiveCall* call) { return !alike(first, *call); });
  const auto same = calls.first(static_cast<std::size_t>(other - calls.begin()));
  // A broadcast's algorithm is none of an all_gather.
  const bool gathers = first.collective == Collective::broadcast && first.algorithm.empty();
  const std::size_t n = first.collective == Collective::all_reduce ? fusible_sums(same)
                        : gathers                                  ? fusible_broadcasts(same)
                                                                   : 1;
  return std::max<std::size_t>(n, 1);
}

CollectiveCall fused(std::span<const CollectiveCall* const> calls, int rank, int ranks) {
  CollectiveCall all = *calls[0];
  all.send = all.recv = nullptr;
  all.root = 0;
  all.count = 0;
  all.user_tag = 0;  // of several
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
