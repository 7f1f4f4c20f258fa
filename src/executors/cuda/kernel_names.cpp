#include "src/executors/cuda/kernel_names.h"

#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"

namespace tutti {

std::string kernel_name(const Problem& problem) {
  if (!combines(problem.collective)) return "copy";
  const tutti_op op = problem.op == TUTTI_AVG ? TUTTI_SUM : problem.op;
  const OperatorInfo* const row = operator_info(op);
  return std::string("fold ") + element_type_info(problem.type).name + " " + (row != nullptr ? row->name : "");
}

}  // namespace tutti
