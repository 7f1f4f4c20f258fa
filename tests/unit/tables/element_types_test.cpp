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
  for (const ElementTypeInfo& row : supported_types) {
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
    EXPECT_EQ(is_supported(row.type), row.supported);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.alias == nullptr || names.insert(row.alias).second) << row.alias;
  }
  EXPECT_EQ(text_of(static_cast<tutti_type>(99)), "type99");
  for (const int none : {99, -1, INT_MIN}) {
    EXPECT_EQ(element_bytes(static_cast<tutti_type>(none)), 0u) << none;
    EXPECT_FALSE(is_supported(static_cast<tutti_type>(none))) << none;
  }
  EXPECT_EQ(element_bytes(TUTTI_OPAQUE), 0u);
  EXPECT_EQ(element_bytes(static_cast<tutti_type>(TUTTI_OPAQUE + 5)), 5u);
  EXPECT_FALSE(is_supported(static_cast<tutti_type>(TUTTI_OPAQUE + 5)));
  EXPECT_EQ(type_of("opaque5"), static_cast<tutti_type>(TUTTI_OPAQUE + 5));
  EXPECT_FALSE(type_of("float7"));
}

TEST(Operators, AreFoundByName) {
  for (const OperatorInfo& row : operators) EXPECT_EQ(op_of(row.name), row.op);
  EXPECT_EQ(operator_info(TUTTI_OP_LIMIT), nullptr);
  EXPECT_EQ(operator_info(static_cast<tutti_op>(-1)), nullptr);
  EXPECT_EQ(text_of(static_cast<tutti_op>(9)), "op9");
  EXPECT_FALSE(op_of("middle"));
}

}  // namespace
}  // namespace tutti
