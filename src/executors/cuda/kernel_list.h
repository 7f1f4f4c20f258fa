// All kernels of the device executor: kernels.cu defines them, and whoever lists them (the module, the stand-in driver)
// goes by this.
#pragma once

/// Calls X(element type, type's name, operator, operator's name) for each fold that fold_kind (src/tables/operators.h) asks
/// for; sorted by "type operator".
#define TUTTI_LOGICAL_FOLDS_OF(X, T, type) \
  X(T, type, LogicalAnd, logical_and)      \
  X(T, type, LogicalOr, logical_or)        \
  X(T, type, LogicalXor, logical_xor)
#define TUTTI_FOLDS_OF(X, T, type) \
  X(T, type, Max, max)             \
  X(T, type, Min, min)             \
  X(T, type, Prod, prod)           \
  X(T, type, Sum, sum)
#define TUTTI_SCALING_FOLDS_OF(X, T, type) \
  X(T, type, Max, max)                     \
  X(T, type, Min, min)                     \
  X(T, type, PreMulSum, pre_mul_sum)       \
  X(T, type, Prod, prod)                   \
  X(T, type, Sum, sum)
#define TUTTI_UNSIGNED_FOLDS_OF(X, T, type) \
  TUTTI_LOGICAL_FOLDS_OF(X, T, type)        \
  TUTTI_SCALING_FOLDS_OF(X, T, type)
#define TUTTI_COMPLEX_FOLDS_OF(X, T, type) \
  X(T, type, PreMulSum, pre_mul_sum)       \
  X(T, type, Prod, prod)
#define TUTTI_FOLDS(X)                                   \
  TUTTI_SCALING_FOLDS_OF(X, BFloat16, bfloat16)          \
  TUTTI_COMPLEX_FOLDS_OF(X, Complex<double>, complex128) \
  TUTTI_COMPLEX_FOLDS_OF(X, Complex<float>, complex64)   \
  TUTTI_SCALING_FOLDS_OF(X, Float16, float16)            \
  TUTTI_SCALING_FOLDS_OF(X, float, float32)              \
  TUTTI_SCALING_FOLDS_OF(X, double, float64)             \
  TUTTI_SCALING_FOLDS_OF(X, Float8E4M3, float8_e4m3)     \
  TUTTI_SCALING_FOLDS_OF(X, Float8E5M2, float8_e5m2)     \
  TUTTI_FOLDS_OF(X, std::int16_t, int16)                 \
  TUTTI_FOLDS_OF(X, std::int32_t, int32)                 \
  TUTTI_FOLDS_OF(X, std::int64_t, int64)                 \
  TUTTI_FOLDS_OF(X, std::int8_t, int8)                   \
  TUTTI_UNSIGNED_FOLDS_OF(X, std::uint16_t, uint16)      \
  TUTTI_UNSIGNED_FOLDS_OF(X, std::uint32_t, uint32)      \
  TUTTI_UNSIGNED_FOLDS_OF(X, std::uint64_t, uint64)      \
  X(std::uint8_t, uint8, BitwiseAnd, bitwise_and)        \
  X(std::uint8_t, uint8, BitwiseOr, bitwise_or)          \
  X(std::uint8_t, uint8, BitwiseXor, bitwise_xor)        \
  TUTTI_UNSIGNED_FOLDS_OF(X, std::uint8_t, uint8)

/// A fold's name in the module, as find_kernel takes it; its symbol is tutti_<type>_<operator>. What folds nothing is
/// "copy", tutti_copy, before all of them.
#define TUTTI_FOLD_NAME(type, op) "fold " #type " " #op
