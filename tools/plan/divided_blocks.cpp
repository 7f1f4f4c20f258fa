#include "tools/plan/divided_blocks.h"

#include <algorithm>

namespace tutti::plan_tool {

DividedBlocks::DividedBlocks(const Problem& problem, BlockDivision division, std::uint64_t mean)
    : division_(division), mean_(mean) {
  const CollectiveInfo& info = info_of(problem.collective);
  const DividedCall call = {&info, division, problem.ranks, mean};
  const std::uint64_t unit = std::max<std::uint32_t>(1, problem.opaque);
  const auto list_of = [&](int rank) -> const std::vector<tutti_block>& {
    std::vector<tutti_block>& list = lists_.emplace_back();
    for (std::uint64_t b = 0; b < static_cast<std::uint64_t>(problem.ranks); ++b) {
      list.push_back({nullptr, unit * (call.begin_of(rank, b + 1) - call.begin_of(rank, b))});
      longest_ = std::max(longest_, list.back().count);
    }
    return list;
  };
  const bool both = info.has_send_blocks() && info.has_recv_blocks();
  for (int rank = 0; rank < problem.ranks; ++rank) {
    // What two ranks have for each other is as long on both; other collectives have one list for all.
    const std::vector<tutti_block>& list = both || rank == 0 ? list_of(rank) : lists_.front();
    const auto blocks = [&](Buffer buffer) -> std::span<const tutti_block> {
      if (blocks_of(problem, buffer, rank) == 0) return {};
      const bool is_list = buffer == Buffer::input ? info.has_send_blocks() : info.has_recv_blocks();
      return is_list ? std::span(list) : std::span(list).subspan(static_cast<std::size_t>(rank), 1);
    };
    all_.push_back({blocks(Buffer::input), blocks(Buffer::output)});
  }
}

}  // namespace tutti::plan_tool
