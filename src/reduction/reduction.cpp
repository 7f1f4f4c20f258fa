#include "src/reduction/reduction.h"

#include "src/reduction/elements.h"
#include "src/reduction/fold_tables.h"
#include "src/tables/operators.h"

namespace tutti {
namespace {

void copy(const FoldArguments& arguments) {
  if (arguments.count == 0) return;
  copy_bytes(arguments.sources[0].data, arguments.destinations, arguments.destination_count, arguments.count);
}

}  // namespace

FoldFunction find_fold(tutti_type type, tutti_op op) {
  const FoldKind kind = fold_kind(type, op);
  const FoldTable* folds = visit_type(kind.type, []<typename T>(std::type_identity<T>) -> const FoldTable* {
    if constexpr (std::is_same_v<T, Bool>) {
      return nullptr;
    } else {
      return &folds_of<T>();
    }
  });
  if (folds == nullptr) return nullptr;
  switch (kind.op) {
    case TUTTI_SUM:
      return folds->sum;
    case TUTTI_PROD:
      return folds->prod;
    case TUTTI_MAX:
      return folds->max;
    case TUTTI_MIN:
      return folds->min;
    case TUTTI_BITWISE_AND:
      return folds->bitwise_and;
    case TUTTI_BITWISE_OR:
      return folds->bitwise_or;
    case TUTTI_BITWISE_XOR:
      return folds->bitwise_xor;
    case TUTTI_LOGICAL_AND:
      return folds->logical_and;
    case TUTTI_LOGICAL_OR:
      return folds->logical_or;
    case TUTTI_LOGICAL_XOR:
      return folds->logical_xor;
    default:
      return nullptr;
  }
}

FoldFunction find_copy() { return &copy; }

}  // namespace tutti
