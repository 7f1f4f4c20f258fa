#include "src/executors/cuda/kernel_names.h"

#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"

namespace tutti {

std::string kernel_name(const Problem& problem) {
  if (!combines(problem.collective)) return "copy";
  if (problem.pre_mul) return std::string("fold ") + element_type_info(scaled_type(problem.type)).name + " pre_mul_sum";
  const FoldKind kind = fold_kind(problem.type, problem.op);
  const OperatorInfo* const row = operator_info(kind.op);
  return std::string("fold ") + element_type_info(kind.type).name + " " + (row != nullptr ? row->name : "");
}

}  // namespace tutti
