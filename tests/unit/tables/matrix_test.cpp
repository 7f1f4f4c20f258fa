// docs/matrix.md says what verbs take, as the library's tables have it. TEST_WRITE=1 writes it anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "src/schedule/problem.h"
#include "src/tables/collectives.h"
#include "src/tables/element_types.h"
#include "src/tables/operators.h"

namespace tutti {
namespace {

std::string row(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + cell + " |";
  return text + "\n";
}

std::string rule(std::size_t columns) { return row(std::vector<std::string>(columns, "---")); }

std::string types_by_operators() {
  std::vector<std::string> heading = {"type", "bytes"};
  for (const OperatorInfo& op : operators) heading.emplace_back(op.name);
  heading.insert(heading.end(), {"pre_mul_sum", "accumulate float32"});
  std::string text = row(heading) + rule(heading.size());
  for (const ElementTypeInfo& type : element_types) {
    std::vector<std::string> cells = {type.name, std::to_string(type.size)};
    for (const OperatorInfo& op : operators) cells.emplace_back(applies_to(op.op, type.type) ? "yes" : "");
    cells.emplace_back(can_be_scaled(type.type) ? "yes" : "");
    cells.emplace_back(accumulates_in_float32(type.type) ? "yes" : "");
    text += row(cells);
  }
  std::vector<std::string> opaque = {"opaque *n*", "*n*"};
  opaque.resize(heading.size());
  return text + row(opaque);
}

std::string verbs() {
  const auto who = [](Role role) {
    return std::string(role == Role::all ? "every rank" : role == Role::root ? "root" : "");
  };
  std::string text = row({"verb", "sends", "receives", "operator", "canonical", "v-variant"}) + rule(6);
  for (const CollectiveRow& of : collectives) {
    text +=
        row({of.info.name, who(of.info.senders), who(of.info.receivers), of.info.reduces() ? "yes" : "",
             takes_several_operands(of.collective) ? "yes" : "", of.info.v_variant != nullptr ? of.info.v_variant : ""});
  }
  return text;
}

std::string matrix() {
  return "# What verbs take\n\n"
         "`tests/unit/tables/matrix_test.cpp` makes this page from the tables in `src/tables`, and fails where it "
         "differs.\n"
         "What is not here is refused with a sentence. User-defined operators (tutti_op_create_user)\n"
         "take elements of any type of their size, of host memory.\n\n"
         "## Operators by type\n\n"
         "The same holds on host and on device memory. Verbs without an operator take every type. So do sends\n"
         "and receives, of host memory.\n"
         "`include/tutti/tutti.h` says what each operator does (`tutti_op`). A pre_mul_sum is an operator that\n"
         "tutti_op_create_pre_mul_sum makes. `accumulate` is an option of calls, for sums, products and averages.\n\n" +
         types_by_operators() +
         "\n## Verbs\n\nv-variants take blocks of any lengths, of host or device memory. So does\n"
         "all_reduce_v, which takes any number of them for one buffer. `canonical` is the option of calls by which a\n"
         "rank has several operands; all_reduce_v takes it, too, and no other v-variant.\n\n" +
         verbs();
}

TEST(Matrix, IsWhatTheTablesSay) {
  const std::string path = std::string(TUTTI_SOURCE_FOLDER) + "/docs/matrix.md";
  if (std::getenv("TEST_WRITE") != nullptr) std::ofstream(path) << matrix();
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), matrix()) << "TEST_WRITE=1 writes it anew";
}

}  // namespace
}  // namespace tutti
