// The table of element types against the C++ types that it names.
#include "src/tables/element_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <limits>
#include <set>
#include <string>

#include "src/tables/names.h"
#include "src/tables/operators.h"

namespace tutti {
namespace {

TEST(ElementTypes, HaveTheDigitsAndTheKindOfTheirCppType) {
  for (const ElementTypeInfo& row : element_types) {
    visit_type(row.type, [&]<typename T>(std::type_identity<T>) {
      if constexpr (std::is_arithmetic_v<T>) {
        EXPECT_EQ(row.digits, std::numeric_limits<T>::digits) << row.name;
        EXPECT_EQ(row.kind == ElementKind::floating, std::is_floating_point_v<T>) << row.name;
        EXPECT_EQ(row.kind == ElementKind::unsigned_integer, std::is_unsigned_v<T>) << row.name;
      }
    });
  }
}

TEST(ElementTypes, AreFoundByNameAndByValue) {
  std::set<std::string> names;
  for (const ElementTypeInfo& row : element_types) {
    EXPECT_EQ(type_of(row.name), row.type);
    EXPECT_EQ(text_of(row.type), row.name);
    EXPECT_EQ(element_bytes(row.type), row.size);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.alias == nullptr || names.insert(row.alias).second) << row.alias;
  }
  EXPECT_EQ(text_of(static_cast<tutti_type>(99)), "type99");
  for (const int none : {99, -1, INT_MIN, INT_MAX}) {
    EXPECT_EQ(element_bytes(static_cast<tutti_type>(none)), 0u) << none;
    EXPECT_FALSE(is_opaque(static_cast<tutti_type>(none))) << none;
  }
  EXPECT_EQ(element_bytes(TUTTI_OPAQUE), 0u);
  EXPECT_EQ(element_bytes(static_cast<tutti_type>(TUTTI_OPAQUE + 5)), 5u);
  EXPECT_TRUE(is_opaque(static_cast<tutti_type>(TUTTI_OPAQUE + 5)));
  EXPECT_EQ(type_of("opaque5"), static_cast<tutti_type>(TUTTI_OPAQUE + 5));
  EXPECT_FALSE(type_of("float7"));
}

TEST(Operators, AreFoundByName) {
  for (const OperatorInfo& row : operators) EXPECT_EQ(op_of(row.name), row.op);
  EXPECT_EQ(operator_info(TUTTI_OP_LIMIT), nullptr);
  EXPECT_EQ(operator_info(static_cast<tutti_op>(0x1000000)), nullptr);
  EXPECT_EQ(text_of(static_cast<tutti_op>(9)), "op9");
  EXPECT_FALSE(op_of("middle"));
}

TEST(Operators, ApplyToWhatTheirDocumentationSays) {
  const auto names = [](tutti_type type) { return listing(op_names_of(type)); };
  const std::string all =
      "sum, prod, max, min, avg, bitwise_and, bitwise_or, bitwise_xor, logical_and, logical_or and logical_xor";
  for (const tutti_type type : {TUTTI_INT8, TUTTI_UINT16, TUTTI_INT64}) EXPECT_EQ(names(type), all);
  for (const tutti_type type : {TUTTI_FLOAT8_E4M3, TUTTI_FLOAT16, TUTTI_FLOAT64})
    EXPECT_EQ(names(type), "sum, prod, max, min and avg");
  EXPECT_EQ(names(TUTTI_BOOL),
            "sum, prod, max, min, bitwise_and, bitwise_or, bitwise_xor, logical_and, logical_or and logical_xor");
  EXPECT_EQ(names(TUTTI_COMPLEX64), "sum, prod and avg");
  EXPECT_EQ(names(static_cast<tutti_type>(TUTTI_OPAQUE + 4)), "");
  EXPECT_FALSE(applies_to(TUTTI_OP_LIMIT, TUTTI_INT32));
  EXPECT_FALSE(applies_to(TUTTI_SUM, static_cast<tutti_type>(99)));
}

TEST(Operators, ShareFoldsWhereTheyDoTheSame) {
  using Kind = FoldKind;
  EXPECT_EQ(fold_kind(TUTTI_FLOAT32, TUTTI_AVG), (Kind{TUTTI_FLOAT32, TUTTI_SUM}));
  EXPECT_EQ(fold_kind(TUTTI_COMPLEX64, TUTTI_SUM), (Kind{TUTTI_FLOAT32, TUTTI_SUM}));
  EXPECT_EQ(fold_kind(TUTTI_COMPLEX128, TUTTI_AVG), (Kind{TUTTI_FLOAT64, TUTTI_SUM}));
  EXPECT_EQ(fold_kind(TUTTI_COMPLEX128, TUTTI_PROD), (Kind{TUTTI_COMPLEX128, TUTTI_PROD}));
  EXPECT_EQ(fold_kind(TUTTI_INT64, TUTTI_BITWISE_XOR), (Kind{TUTTI_UINT8, TUTTI_BITWISE_XOR}));
  EXPECT_EQ(fold_kind(TUTTI_INT16, TUTTI_LOGICAL_AND), (Kind{TUTTI_UINT16, TUTTI_LOGICAL_AND}));
  for (const tutti_op op : {TUTTI_SUM, TUTTI_MAX, TUTTI_BITWISE_OR, TUTTI_LOGICAL_OR})
    EXPECT_EQ(fold_kind(TUTTI_BOOL, op), (Kind{TUTTI_UINT8, TUTTI_LOGICAL_OR})) << op;
  for (const tutti_op op : {TUTTI_PROD, TUTTI_MIN, TUTTI_BITWISE_AND, TUTTI_LOGICAL_AND})
    EXPECT_EQ(fold_kind(TUTTI_BOOL, op), (Kind{TUTTI_UINT8, TUTTI_LOGICAL_AND})) << op;
  for (const tutti_op op : {TUTTI_BITWISE_XOR, TUTTI_LOGICAL_XOR})
    EXPECT_EQ(fold_kind(TUTTI_BOOL, op), (Kind{TUTTI_UINT8, TUTTI_LOGICAL_XOR})) << op;
  EXPECT_EQ(fold_kind(TUTTI_BOOL, TUTTI_AVG), Kind());
}

}  // namespace
}  // namespace tutti
