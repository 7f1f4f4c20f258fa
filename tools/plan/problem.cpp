#include "tools/plan/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "src/reduction/reduction.h"
#include "src/schedule/ir.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"

namespace tutti::plan_tool {
namespace {

/// What calls bring with them: plans only know that they do.
constexpr std::string_view user_word = "user_defined";
/// A sum, whose operands the host multiplies before.
constexpr std::string_view scaled_sum_word = "pre_mul_sum";
/// Bytes of an element that a user-defined operator combines.
constexpr std::size_t most_user_bytes = 1024;

/// Ranks each of which may have a block for each other: as many blocks as programs of such ranks have steps.
constexpr int most_ranks_of_pairs = 4096;

Status refused(std::string sentence) { return {TUTTI_INVALID_ARGUMENT, std::move(sentence)}; }

Status unknown(const char* what, const std::string& name, const std::vector<std::string>& known) {
  return refused(fmt::format("there is no {} \"{}\"; choose from {}", what, name, listing(known)));
}

/// What the type has instead of the operator, or else who has the operator.
Status no_fold(const ProblemWords& words, tutti_type type, tutti_op op) {
  std::vector<std::string> names = op_names_of(type);
  const bool of_type = !names.empty();
  for (const std::string& name : type_names()) {
    if (!of_type && applies_to(op, *type_of(name))) names.push_back(name);
  }
  return refused(fmt::format("there is no {} of {}; {} has {}", words.op, words.type, of_type ? words.type : words.op,
                             listing(names)));
}

/// The operator of that name, of elements of the type.
Result<tutti_op> operator_of(const ProblemWords& words, tutti_type type) {
  if (words.op == user_word) {
    if (element_bytes(type) <= most_user_bytes) return user_operator;
    return refused(
        fmt::format("a user-defined operator combines elements of up to {} bytes, and {} has {}; give another --type",
                    most_user_bytes, words.type, element_bytes(type)));
  }
  const bool scales = words.op == scaled_sum_word;
  const tutti_op op = scales ? TUTTI_SUM : op_of(words.op).value_or(TUTTI_OP_LIMIT);
  const bool can_be_scaled = !is_opaque(type) && element_type_info(type).kind != ElementKind::boolean;
  if (scales && !can_be_scaled) {
    return refused(
        fmt::format("{} cannot be multiplied before it is summed; give a --type of integers, floats or complex "
                    "numbers",
                    words.type));
  }
  if (find_fold(type, op) == nullptr) return no_fold(words, type, op);
  return op;
}

/// Whether the collective may be asked for one fold, and the ranks have so many operands.
Status check_fold(const ProblemWords& words, Collective collective) {
  const auto folds_nothing = [&](const char* option) {
    return refused(fmt::format("{} folds nothing; leave {} out, or give another --collective", words.collective, option));
  };
  if (words.one_fold && !reduces(collective)) return folds_nothing("--one-fold");
  if (!words.accumulate.empty() && !reduces(collective)) return folds_nothing("--accumulate");
  if (words.local_operands == 1) return {};
  if (!takes_several_operands(collective)) {
    return refused(
        fmt::format("{} has no more than one operand a rank; leave --local-operands out, or give all_reduce or reduce",
                    words.collective));
  }
  if (words.local_operands * words.ranks <= most_total_operands) return {};
  return refused(fmt::format("--local-operands {} of {} ranks are more than {} operands; give fewer", words.local_operands,
                             words.ranks, most_total_operands));
}

/// Whether sums and their like are folded at once, since they are rounded once.
Result<bool> accumulates(const ProblemWords& words, tutti_type type, tutti_op op) {
  if (words.accumulate.empty()) return false;
  const ElementTypeInfo info = element_type_info(type);
  if (!is_arithmetic(op)) {
    return refused(fmt::format("{} rounds nothing; leave --accumulate out, or give sum, prod or avg by --op", words.op));
  }
  if (words.accumulate != "float32" || info.kind != ElementKind::floating || info.size > sizeof(float)) {
    return refused(
        fmt::format("{} cannot be accumulated in {}; accumulate floats of up to 32 bits in float32, or leave "
                    "--accumulate out",
                    words.type, words.accumulate));
  }
  return info.size < sizeof(float);
}

/// Elements of `element` bytes in a block, or why the bytes are none.
Result<std::uint64_t> count_of(const ProblemWords& words, const std::string& type, std::uint64_t element) {
  const std::uint64_t count = words.bytes / element;
  if (words.bytes % element != 0) {
    const std::uint64_t below = count * element;
    return refused(
        fmt::format("--bytes {} is no whole number of elements of {}, {} bytes each; give {}{}, or another --type",
                    words.bytes, type, element, below == 0 ? "" : fmt::format("{} or ", below), below + element));
  }
  if (count <= most_elements) return count;
  return refused(fmt::format("--bytes {} are {} elements of {}, and a schedule takes up to 2^42; give fewer", words.bytes,
                             count, type));
}

/// Bytes of what calls count.
std::uint64_t bytes_of_element(const Problem& problem) {
  return problem.opaque != 0 ? problem.opaque : element_bytes(problem.type);
}

/// What ranks of a v-variant choose by: where all know all counts, a power of two near their mean.
std::uint64_t count_for_choice(const CollectiveInfo& info, std::uint64_t mean) {
  return info.knows_all_counts() ? std::bit_ceil(std::max<std::uint64_t>(1, mean)) : 1;
}

/// The collective, or the one whose v-variant it is.
std::optional<Collective> collective_named(const std::string& name) {
  const auto of_v_variant = collective_of_v_variant(name);
  return of_v_variant ? of_v_variant : collective_of(name);
}

Problem barrier_of(int ranks) {
  Problem problem;
  problem.collective = Collective::barrier;
  problem.type = TUTTI_UINT8;
  problem.op = TUTTI_MAX;
  problem.ranks = ranks;
  problem.count = 1;
  return problem;
}

/// What the words say of a fold.
Status take_fold(const ProblemWords& words, tutti_type type, Problem& problem) {
  const auto op = operator_of(words, type);
  if (!op.ok()) return op.status();
  const auto widens = accumulates(words, type, *op);
  if (!widens.ok()) return widens.status();
  problem.op = *op;
  problem.one_fold = words.one_fold || *widens || words.local_operands > 1;
  problem.local_operands = static_cast<std::uint32_t>(words.local_operands);
  return {};
}

}  // namespace

std::vector<std::string> all_collective_names() {
  std::vector<std::string> names = collective_names();
  for (const CollectiveRow& row : collectives) {
    if (row.info.v_variant != nullptr) names.emplace_back(row.info.v_variant);
  }
  return names;
}

std::vector<std::string> all_op_names() {
  std::vector<std::string> names = op_names();
  for (const std::string_view more : {scaled_sum_word, user_word}) names.emplace_back(more);
  return names;
}

Result<Problem> problem_of(const ProblemWords& words) {
  const auto collective = collective_named(words.collective);
  const auto type = type_of(words.type);
  if (!collective) return unknown("collective", words.collective, all_collective_names());
  if (!type || element_bytes(*type) == 0) {
    return refused(fmt::format("there is no element type \"{}\"; choose from {}, or opaqueN for N bytes", words.type,
                               fmt::join(type_names(), ", ")));
  }
  const auto ops = all_op_names();
  if (std::find(ops.begin(), ops.end(), words.op) == ops.end()) return unknown("operator", words.op, ops);
  if (Status status = check_fold(words, *collective); !status.ok()) return status;
  if (words.root >= words.ranks) {
    return refused(fmt::format("root {} is outside {} ranks; choose 0 to {}", words.root, words.ranks, words.ranks - 1));
  }
  if (*collective == Collective::barrier) return barrier_of(static_cast<int>(words.ranks));
  Problem problem;
  problem.collective = *collective;
  problem.irregular = collective_of_v_variant(words.collective).has_value();
  problem.type = *type;
  problem.root = rooted(*collective) ? static_cast<std::int32_t>(words.root) : 0;
  problem.ranks = static_cast<std::int32_t>(words.ranks);
  if (Status status = reduces(*collective) ? take_fold(words, *type, problem) : Status(); !status.ok()) return status;
  if (is_opaque(*type) && problem.op != user_operator) {  // bytes travel by any algorithm, however long an element is
    problem.type = TUTTI_UINT8;
    problem.opaque = static_cast<std::uint32_t>(element_bytes(*type));
  }
  auto count = count_of(words, words.type, bytes_of_element(problem));
  if (count.ok() && problem.opaque != 0) count = count_of(words, "bytes", 1);
  if (!count.ok()) return count.status();
  problem.count = problem.irregular ? count_for_choice(info_of(*collective), *count) : *count;
  return problem;
}

Result<DividedBlocks> blocks_of_call(const ProblemWords& words, const Problem& problem, BlockDivision division) {
  if (!problem.irregular) return DividedBlocks();
  const std::string type = problem.opaque != 0 ? fmt::format("opaque{}", problem.opaque) : text_of(problem.type);
  const auto mean = count_of(words, type, bytes_of_element(problem));
  if (!mean.ok()) return mean.status();
  if (words.bytes > most_elements / static_cast<std::uint64_t>(problem.ranks)) {
    return refused(
        fmt::format("--bytes {} a block of {} ranks are more than 2^42 together, which one block may have; give "
                    "fewer",
                    words.bytes, problem.ranks));
  }
  const CollectiveInfo& info = info_of(problem.collective);
  if (info.has_send_blocks() && info.has_recv_blocks() && problem.ranks > most_ranks_of_pairs) {
    return refused(fmt::format("{} of {} ranks has more blocks than are simulated; take up to {} ranks", kind_of(problem),
                               problem.ranks, most_ranks_of_pairs));
  }
  return DividedBlocks(problem, division, *mean);
}

}  // namespace tutti::plan_tool
