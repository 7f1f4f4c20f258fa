#include "src/reduction/reduction.h"

#include "src/reduction/elements.h"
#include "src/reduction/fold_tables.h"

namespace tutti {
namespace {

void copy(const FoldArguments& arguments) {
  if (arguments.count == 0) return;
  copy_bytes(arguments.sources[0].data, arguments.destinations, arguments.destination_count, arguments.count);
}

}  // namespace

FoldFunction find_fold(tutti_type type, tutti_op op) {
  const FoldTable* folds = visit_type(type, []<typename T>(std::type_identity<T>) { return &folds_of<T>(); });
  if (folds == nullptr) return nullptr;
  switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVG:
      return folds->sum;
    case TUTTI_PROD:
      return folds->prod;
    case TUTTI_MAX:
      return folds->max;
    case TUTTI_MIN:
      return folds->min;
    default:
      return nullptr;
  }
}

FoldFunction find_copy() { return &copy; }

std::size_t element_size(tutti_type type, ElementFormat format) {
  return visit_type(type, [&]<typename T>(std::type_identity<T>) {
    return format == ElementFormat::kWide ? sizeof(Wide<T>) : sizeof(T);
  });
}

}  // namespace tutti
