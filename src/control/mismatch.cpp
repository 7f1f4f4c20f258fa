#include "src/control/mismatch.h"

#include <fmt/format.h>

#include "src/tables/names.h"

namespace tutti {
namespace {

/// Detail's second word is the root, and options above it (CollectiveCall::detail). They say whether the memory is a
/// device's, whether all is folded at once, whether a kernel scales the operands, and how many of them a rank has.
bool on_device(const Called& called) { return (called.detail[1] >> 32 & 1u) != 0; }
std::string fold_words(const Called& called) {
  const std::uint64_t local_operands = called.detail[1] >> 35;
  if (local_operands > 1) return fmt::format(" with {} operands a rank", local_operands);
  return (called.detail[1] >> 33 & 1u) != 0
             ? " in one fold (reproducible, accumulate, canonical, or an operator that does not commute)"
             : "";
}

/// What two ranks called as the same operation.
std::string both_calls(const Difference& difference, const std::string& one, const std::string& other) {
  std::string its = call_words(*difference.mine);
  std::string others = call_words(*difference.its);
  if (its == others) {
    its += fmt::format(" by the algorithm {}", difference.mine->algorithm.text());
    others += fmt::format(" by the algorithm {}", difference.its->algorithm.text());
  }
  std::string text = fmt::format("{} called {} as #{}, {} called {} as #{}", one, its, difference.sequence, other, others,
                                 difference.sequence);
  if (its == others && collective_of_v_variant(difference.mine->kind.text())) text += ", with other counts of its blocks";
  return text;
}

}  // namespace

std::string call_words(const Called& called) {
  const std::string kind = called.kind.text();
  const auto v_variant = collective_of_v_variant(kind);
  const auto collective = v_variant ? v_variant : collective_of(kind);
  if (!collective) return "tutti_comm_" + kind;  // a finalize or a split
  const char* const memory = on_device(called) ? " on CUDA memory" : "";
  if (*collective == Collective::barrier) return kind + memory;
  const auto& [type_and_op, root_and_memory, count] = called.detail;
  // Ranks need not have the same counts of others' v-variants.
  const std::string counted = v_variant && !info_of(*v_variant).knows_all_counts() ? "" : fmt::format("{} ", count);
  std::string text = fmt::format("{} of {}{}", kind, counted, text_of(static_cast<tutti_type>(type_and_op >> 32)));
  if (reduces(*collective))
    text += fmt::format(" ({}{})", (called.detail[1] >> 34 & 1u) != 0 ? "pre-multiplied " : "",
                        text_of(static_cast<tutti_op>(type_and_op & 0xffffffffu))) +
            fold_words(called);
  if (rooted(*collective)) text += fmt::format(" with root {}", root_and_memory & 0xffffffffu);
  return text + memory;
}

Guilty guilty_of(const Member& member, const Activity& activity) {
  Guilty guilty = member.guilty();
  guilty.last_operation = activity.completed;
  guilty.last_operation_kind = activity.completed_kind().text();
  return guilty;
}

std::optional<Error> mismatch_between(const std::string& where, const Side& one, const Side& other,
                                      const std::string& since) {
  const auto difference = first_difference(one.activity, other.activity);
  if (!difference) return std::nullopt;
  const std::string first = one.member.text();
  const std::string second = other.member.text();
  Error error;
  error.status = TUTTI_MISMATCH;
  error.remedy = kCallTheSame;
  error.guilty = {guilty_of(one.member, one.activity), guilty_of(other.member, other.activity)};
  if (difference->mine != nullptr) {
    error.operation = difference->sequence;
    error.operation_kind = difference->mine->kind.text();
    error.message = where + ": " + both_calls(*difference, first, second);
    if (on_device(*difference->mine) != on_device(*difference->its))
      error.remedy = "Pass the same kind of memory on all ranks; config.memory says which it is.";
  } else {
    error.message = fmt::format("{}: {} and {} called different operations before #{}, too long ago to tell which", where,
                                first, second, difference->sequence);
  }
  if (!since.empty()) error.message += fmt::format("; later rank {} {}", other.member.rank, since);
  return error;
}

}  // namespace tutti
