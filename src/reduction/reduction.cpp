#include "src/reduction/reduction.h"

#include "src/reduction/fold_tables.h"

namespace tutti {
namespace {

const FoldTable* folds_of(tutti_type type) {
  switch (type) {
    case TUTTI_INT8:
      return &int8_folds();
    case TUTTI_UINT8:
      return &uint8_folds();
    case TUTTI_INT32:
      return &int32_folds();
    case TUTTI_UINT32:
      return &uint32_folds();
    case TUTTI_INT64:
      return &int64_folds();
    case TUTTI_UINT64:
      return &uint64_folds();
    case TUTTI_FLOAT16:
      return &float16_folds();
    case TUTTI_BFLOAT16:
      return &bfloat16_folds();
    case TUTTI_FLOAT32:
      return &float32_folds();
    case TUTTI_FLOAT64:
      return &float64_folds();
    default:
      return nullptr;
  }
}

void copy(const FoldArguments& arguments) {
  if (arguments.count == 0) return;
  copy_bytes(arguments.sources[0].data, arguments.destinations, arguments.destination_count, arguments.count);
}

}  // namespace

FoldFunction find_fold(tutti_type type, tutti_op op) {
  const FoldTable* folds = folds_of(type);
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
  switch (type) {
    case TUTTI_INT8:
    case TUTTI_UINT8:
      return 1;
    case TUTTI_FLOAT16:
    case TUTTI_BFLOAT16:
      return format == ElementFormat::kWide ? 4 : 2;
    case TUTTI_INT32:
    case TUTTI_UINT32:
    case TUTTI_FLOAT32:
      return 4;
    case TUTTI_INT64:
    case TUTTI_UINT64:
    case TUTTI_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace tutti
