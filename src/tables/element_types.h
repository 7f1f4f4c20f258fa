// The table of element types: names, sizes and properties of a type come from here, and from nowhere else.
//
// CONTRIBUTING.md, "Adding an element type", lists what else a new type needs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "include/tutti/tutti.h"

namespace tutti {

/// IEEE 754 binary16, as bits. Arithmetic happens in float32 (src/reduction/elements.h).
struct Float16 {
  std::uint16_t bits;
};

/// bfloat16, the upper half of a binary32, as bits. Arithmetic happens in float32 (src/reduction/elements.h).
struct BFloat16 {
  std::uint16_t bits;
};

/// OCP's 8-bit floats (Open Compute Project, "8-bit Floating Point Specification", 1.0, 2023), as bits. Arithmetic happens
/// in float32. E4M3 has no infinity and one NaN of each sign, and reaches 448. E5M2 is the upper half of a binary16.
struct Float8E4M3 {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};

/// A truth value: 0 is false, any other byte true.
struct Bool {
  std::uint8_t byte;
};

/// A complex number, as std::complex lays it out.
template <typename Part>
struct Complex {
  Part real;
  Part imaginary;
};

/// How an element's bits are to be read.
enum class ElementKind : std::uint8_t { signed_integer, unsigned_integer, floating, boolean, complex };

/// One row. Text is static.
struct ElementTypeInfo {
  tutti_type type = TUTTI_TYPE_LIMIT;
  const char* name = "";
  const char* alias = nullptr;  ///< nccl-tests' name where it is another, else NULL
  ElementKind kind = ElementKind::signed_integer;
  std::uint8_t size = 0;  ///< bytes
  int digits = 0;         ///< significant binary digits: each whole number below 2^digits is an element
};

/// Every element type but the opaque ones, whose sizes are in their values.
inline constexpr std::array<ElementTypeInfo, 17> element_types = {{
    {TUTTI_INT8, "int8", nullptr, ElementKind::signed_integer, 1, 7},
    {TUTTI_UINT8, "uint8", nullptr, ElementKind::unsigned_integer, 1, 8},
    {TUTTI_INT16, "int16", nullptr, ElementKind::signed_integer, 2, 15},
    {TUTTI_UINT16, "uint16", nullptr, ElementKind::unsigned_integer, 2, 16},
    {TUTTI_INT32, "int32", nullptr, ElementKind::signed_integer, 4, 31},
    {TUTTI_UINT32, "uint32", nullptr, ElementKind::unsigned_integer, 4, 32},
    {TUTTI_INT64, "int64", nullptr, ElementKind::signed_integer, 8, 63},
    {TUTTI_UINT64, "uint64", nullptr, ElementKind::unsigned_integer, 8, 64},
    {TUTTI_FLOAT8_E4M3, "float8_e4m3", "f8e4m3", ElementKind::floating, 1, 4},
    {TUTTI_FLOAT8_E5M2, "float8_e5m2", "f8e5m2", ElementKind::floating, 1, 3},
    {TUTTI_FLOAT16, "float16", "half", ElementKind::floating, 2, 11},
    {TUTTI_BFLOAT16, "bfloat16", nullptr, ElementKind::floating, 2, 8},
    {TUTTI_FLOAT32, "float32", "float", ElementKind::floating, 4, 24},
    {TUTTI_FLOAT64, "float64", "double", ElementKind::floating, 8, 53},
    {TUTTI_BOOL, "bool", nullptr, ElementKind::boolean, 1, 1},
    {TUTTI_COMPLEX64, "complex64", nullptr, ElementKind::complex, 8, 24},
    {TUTTI_COMPLEX128, "complex128", nullptr, ElementKind::complex, 16, 53},
}};

/// Calls `visitor(std::type_identity<T>())` with the C++ type T of the type's elements, and returns its answer. For opaque
/// types, and for a value that no type has, the answer is a value-initialised one: 0, nullptr.
template <typename Visitor>
constexpr auto visit_type(tutti_type type, Visitor&& visitor) {
  switch (type) {
    case TUTTI_INT8:
      return visitor(std::type_identity<std::int8_t>());
    case TUTTI_UINT8:
      return visitor(std::type_identity<std::uint8_t>());
    case TUTTI_INT16:
      return visitor(std::type_identity<std::int16_t>());
    case TUTTI_UINT16:
      return visitor(std::type_identity<std::uint16_t>());
    case TUTTI_INT32:
      return visitor(std::type_identity<std::int32_t>());
    case TUTTI_UINT32:
      return visitor(std::type_identity<std::uint32_t>());
    case TUTTI_INT64:
      return visitor(std::type_identity<std::int64_t>());
    case TUTTI_UINT64:
      return visitor(std::type_identity<std::uint64_t>());
    case TUTTI_FLOAT8_E4M3:
      return visitor(std::type_identity<Float8E4M3>());
    case TUTTI_FLOAT8_E5M2:
      return visitor(std::type_identity<Float8E5M2>());
    case TUTTI_FLOAT16:
      return visitor(std::type_identity<Float16>());
    case TUTTI_BFLOAT16:
      return visitor(std::type_identity<BFloat16>());
    case TUTTI_FLOAT32:
      return visitor(std::type_identity<float>());
    case TUTTI_FLOAT64:
      return visitor(std::type_identity<double>());
    case TUTTI_BOOL:
      return visitor(std::type_identity<Bool>());
    case TUTTI_COMPLEX64:
      return visitor(std::type_identity<Complex<float>>());
    case TUTTI_COMPLEX128:
      return visitor(std::type_identity<Complex<double>>());
    default:
      return decltype(visitor(std::type_identity<float>()))();
  }
}

static_assert(std::ranges::all_of(element_types, [](const ElementTypeInfo& row) {
  return visit_type(row.type, []<typename T>(std::type_identity<T>) { return sizeof(T); }) == row.size;
}));

/// The row of a type; one without a name for opaque types and for a value that no type has.
constexpr ElementTypeInfo element_type_info(tutti_type type) {
  const auto* const row = std::ranges::find(element_types, type, &ElementTypeInfo::type);
  return row != element_types.end() ? *row : ElementTypeInfo();
}

/// Sizes by value, for the paths of calls: one load instead of a search. 0 where there is no such type.
inline constexpr auto element_sizes = [] {
  std::array<std::uint8_t, TUTTI_OPAQUE + 1> sizes{};
  for (const ElementTypeInfo& row : element_types) sizes[static_cast<std::size_t>(row.type)] = row.size;
  return sizes;
}();

/// Bytes of one element, 0 for a type that does not exist.
constexpr std::size_t element_bytes(tutti_type type) {
  const std::size_t value = static_cast<unsigned>(type);
  if (value <= TUTTI_OPAQUE) return element_sizes[value];
  return value < TUTTI_TYPE_LIMIT ? value - TUTTI_OPAQUE : 0;  // 0: the limit, or a negative one
}

/// Whether elements of the type are bytes that nothing is known of. Problems count these bytes (Problem::opaque).
constexpr bool is_opaque(tutti_type type) { return type > TUTTI_OPAQUE && type < TUTTI_TYPE_LIMIT; }

/// How many of what a problem counts an element is.
constexpr std::uint64_t problem_elements(tutti_type type) { return is_opaque(type) ? element_bytes(type) : 1; }

}  // namespace tutti
