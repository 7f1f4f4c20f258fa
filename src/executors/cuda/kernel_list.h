// All kernels of the device executor: kernels.cu defines them, and whoever lists them (the module, the stand-in driver)
// goes by this.
#pragma once

/// Calls X(element type, type's name, operator, operator's name) for each fold; sorted by "type operator".
#define TUTTI_FOLDS_OF(X, T, type) \
  X(T, type, Max, max)             \
  X(T, type, Min, min)             \
  X(T, type, Prod, prod)           \
  X(T, type, Sum, sum)
#define TUTTI_FOLDS(X)                     \
  TUTTI_FOLDS_OF(X, BFloat16, bfloat16)    \
  TUTTI_FOLDS_OF(X, Float16, float16)      \
  TUTTI_FOLDS_OF(X, float, float32)        \
  TUTTI_FOLDS_OF(X, double, float64)       \
  TUTTI_FOLDS_OF(X, std::int32_t, int32)   \
  TUTTI_FOLDS_OF(X, std::int64_t, int64)   \
  TUTTI_FOLDS_OF(X, std::int8_t, int8)     \
  TUTTI_FOLDS_OF(X, std::uint32_t, uint32) \
  TUTTI_FOLDS_OF(X, std::uint64_t, uint64) \
  TUTTI_FOLDS_OF(X, std::uint8_t, uint8)

/// A fold's name in the module, as find_kernel takes it; its symbol is tutti_<type>_<operator>. What folds nothing is
/// "copy", tutti_copy, before all of them.
#define TUTTI_FOLD_NAME(type, op) "fold " #type " " #op
