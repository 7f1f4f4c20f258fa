// User-defined operators, and sums of scaled operands.
#include "src/tables/operators.h"

#include <fmt/format.h>

#include <cstring>

#include "src/api/handles.h"
#include "src/communicator/custom_operator.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"

namespace tutti {
namespace {

/// Many of them fit into a message. Calls whose messages would have more of them are refused.
constexpr std::size_t most_element_bytes = 1024;

Status make_user(tutti_op* op, const UserFold& fold, bool commutative, tutti_comm* handle) {
  if (op == nullptr) return invalid("tutti_op_create_user needs a place for the operator");
  *op = TUTTI_OP_LIMIT;
  if (fold.fold == nullptr) return invalid("tutti_op_create_user has no function", "Pass what folds two arrays.");
  if (fold.element_bytes == 0 || fold.element_bytes > most_element_bytes) {
    return invalid(fmt::format("a user-defined operator on elements of {} bytes", fold.element_bytes),
                   fmt::format("Elements have 1 to {} bytes.", most_element_bytes));
  }
  auto comm = usable(handle);
  if (!comm.ok()) return comm.status();
  CustomOperator custom;
  custom.kind = CustomOperator::Kind::user;
  custom.fold = fold;
  custom.commutative = commutative;
  *op = (*comm)->custom_operators().add(custom);
  return {};
}

Status make_pre_mul_sum(tutti_op* op, const void* scalar, tutti_type type, tutti_memory_kind kind, tutti_comm* handle) {
  if (op == nullptr) return invalid("tutti_op_create_pre_mul_sum needs a place for the operator");
  *op = TUTTI_OP_LIMIT;
  if (scalar == nullptr) return invalid("tutti_op_create_pre_mul_sum has no scalar", "Pass the number to multiply by.");
  if (Status status = check_type(type); !status.ok()) return status;
  if (!can_be_scaled(type)) {
    return invalid(fmt::format("{} cannot be scaled", text_of(type)), "Scale integers, floats or complex numbers.");
  }
  if (kind != TUTTI_MEMORY_AUTO && kind != TUTTI_MEMORY_HOST && kind != TUTTI_MEMORY_CUDA)
    return invalid(fmt::format("a scalar in memory of kind {}", static_cast<int>(kind)),
                   "Name TUTTI_MEMORY_AUTO, _HOST or _CUDA.");
  auto comm = usable(handle);
  if (!comm.ok()) return comm.status();
  CustomOperator custom;
  custom.kind = CustomOperator::Kind::pre_mul_sum;
  custom.type = type;
  if (kind == TUTTI_MEMORY_CUDA) {
    custom.scalar_at = static_cast<const std::byte*>(scalar);
  } else {
    std::memcpy(custom.scalar.data(), scalar, element_bytes(type));
  }
  *op = (*comm)->custom_operators().add(custom);
  return {};
}

Status destroy(tutti_op op, tutti_comm* handle) {
  auto comm = usable(handle);
  if (!comm.ok()) return comm.status();
  if ((*comm)->custom_operators().remove(op)) return {};
  return invalid(fmt::format("\"{}\" has no operator {} to destroy", (*comm)->name(), static_cast<int>(op)),
                 "Pass one that tutti_op_create_user or tutti_op_create_pre_mul_sum made for this communicator.");
}

}  // namespace
}  // namespace tutti

tutti_status tutti_op_create_user(tutti_op* op, void (*fold)(void* ctx, const void* in, void* inout, uint64_t count),
                                  void* ctx, int commutative, size_t element_bytes, tutti_comm* comm) {
  return tutti::guarded([&] { return tutti::make_user(op, {fold, ctx, element_bytes}, commutative != 0, comm); });
}

tutti_status tutti_op_create_pre_mul_sum(tutti_op* op, const void* scalar, tutti_type type, tutti_memory_kind kind,
                                         tutti_comm* comm) {
  return tutti::guarded([&] { return tutti::make_pre_mul_sum(op, scalar, type, kind, comm); });
}

tutti_status tutti_op_destroy(tutti_op op, tutti_comm* comm) {
  return tutti::guarded([&] { return tutti::destroy(op, comm); });
}
