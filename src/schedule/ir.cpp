#include "src/schedule/ir.h"

#include <algorithm>
#include <string_view>

#include "src/tables/element_types.h"

namespace tutti {
namespace {

constexpr std::uint64_t grain_bytes = 128;

/// FNV-1a over what must be equal on all ranks: it only has to tell plans apart, not to resist an attacker, who is kept
/// out by the handshake.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
    byte(0);
  }
  void add(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) byte(static_cast<unsigned char>(value >> (8 * i)));
  }
  std::uint64_t value() const { return state_; }

 private:
  void byte(unsigned char b) { state_ = (state_ ^ b) * 0x100000001b3u; }
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace

const char* wrong_sizes(const Division& division) {
  constexpr std::uint32_t most_grain = 1 << 20;
  if (division.window == 0 || division.grain == 0 || division.chunks == 0) return "window, grain and chunks are at least 1";
  if (division.window > most_elements) return "window and count are at most 2^42 elements";
  return division.grain > most_grain ? "the grain is at most 2^20 elements" : nullptr;
}

const char* wrong_sizes(const Plan& plan) {
  constexpr std::uint32_t most_strands = 1 << 10;
  if (plan.problem.count > most_elements) return "window and count are at most 2^42 elements";
  if (const char* const wrong = wrong_sizes(plan.division()); wrong != nullptr) return wrong;
  if (plan.strands == 0 || plan.strands > most_strands) return "there are 1 to 1024 strands";
  return nullptr;
}

std::uint64_t longest_message(const Plan& plan) {
  const std::uint64_t cell = std::min(plan.window / plan.shape.chunks, plan.problem.count);
  return cell * plan.shape.message_cells * element_bytes(plan.problem.type);
}

void finish_plan(Plan& plan, std::uint64_t message_bytes) {
  plan.message_bytes = message_bytes;
  const std::uint64_t element = element_bytes(plan.problem.type);
  plan.grain = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, grain_bytes / element));
  const std::uint64_t cell = message_bytes / element / std::max<std::uint32_t>(1, plan.shape.message_cells);
  plan.window = std::max<std::uint64_t>(1, cell / plan.grain) * plan.grain * plan.shape.chunks;
  Hash hash;
  const Problem& p = plan.problem;
  for (const std::uint64_t value :
       {static_cast<std::uint64_t>(p.collective) | (p.irregular ? std::uint64_t{1} << 32 : 0) |
            (p.pre_mul ? std::uint64_t{1} << 31 : 0) | (p.one_fold ? std::uint64_t{1} << 33 : 0) |
            (std::uint64_t{p.local_operands - 1} << 34),
        static_cast<std::uint64_t>(p.type) | std::uint64_t{p.opaque} << 32, static_cast<std::uint64_t>(p.op),
        static_cast<std::uint64_t>(p.root), static_cast<std::uint64_t>(p.ranks), p.count, std::uint64_t{plan.shape.chunks},
        std::uint64_t{plan.shape.lanes}, std::uint64_t{plan.shape.depth}, std::uint64_t{plan.shape.credit},
        std::uint64_t{plan.shape.scratch_blocks}, plan.window, std::uint64_t{plan.grain},
        static_cast<std::uint64_t>(p.processor), std::uint64_t{plan.strands}, static_cast<std::uint64_t>(plan.protocol),
        message_bytes}) {
    hash.add(value);
  }
  hash.add(plan.algorithm);
  plan.hash = hash.value();
}

}  // namespace tutti
