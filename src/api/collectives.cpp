// The collective verbs: argument checks, then one path for all of them.
#include <fmt/format.h>

#include <cstring>

#include "src/api/handles.h"
#include "src/base/plural.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"

namespace tutti {
namespace {

Status check_op(tutti_op op, tutti_type type) {
  if (applies_to(op, type)) return {};
  if (operator_info(op) == nullptr)
    return invalid(fmt::format("operator {} does not exist", static_cast<int>(op)), "See tutti_op.");
  const std::vector<std::string> others = op_names_of(type);
  return invalid(fmt::format("operator {} does not apply to {}", text_of(op), text_of(type)),
                 others.empty() ? "Fold elements of a type that has operators." : "Use one of " + listing(others) + ".");
}

/// Whether this rank uses the buffer at all: a reduce's recv matters on the root alone.
bool uses(const CollectiveCall& call, Buffer buffer, const Communicator& comm) {
  Problem problem;
  problem.collective = call.collective;
  problem.root = call.root;
  problem.ranks = comm.ranks();
  return call.count != 0 && blocks_of(problem, buffer, comm.rank()) != 0;
}

Status check(const CollectiveCall& call, const Communicator& comm) {
  if (Status status = check_type(call.type); !status.ok()) return status;
  if (reduces(call.collective)) {
    if (Status status = check_op(call.op, call.type); !status.ok()) return status;
  }
  if (rooted(call.collective) && (call.root < 0 || call.root >= comm.ranks())) {
    return invalid(
        fmt::format("root {} is outside \"{}\", which has {}", call.root, comm.name(), plural(comm.ranks(), "rank")),
        fmt::format("Pass a root from 0 to {}.", comm.ranks() - 1));
  }
  std::uint64_t bytes = 0;
  const std::uint64_t each = element_bytes(call.type) * static_cast<std::uint64_t>(comm.ranks());
  const bool endless = __builtin_mul_overflow(call.count, each, &bytes) || bytes > UINT64_MAX / 2;
  if (endless) return invalid(fmt::format("a count of {} elements is more than memory can hold", call.count));
  if (call.send == nullptr && uses(call, Buffer::input, comm)) {
    return invalid(fmt::format("{} of {} elements has a NULL send buffer", name_of(call.collective), call.count),
                   "Pass the memory that holds them.");
  }
  if (call.recv == nullptr && uses(call, Buffer::output, comm)) {
    return invalid(fmt::format("{} of {} elements has a NULL receive buffer", name_of(call.collective), call.count),
                   "Pass memory for the result.");
  }
  return {};
}

Status take_options(CollectiveCall& out, const tutti_call& call) {
  out.timeout_ns = call.timeout_ns;
  if (call.name != nullptr) out.name = call.name;
  if (call.algorithm != nullptr) out.algorithm = call.algorithm;
  if (call.accumulate == TUTTI_INT8) return {};
  return Status(TUTTI_UNSUPPORTED, "the call option accumulate is not there yet", "Leave it unset.");
}

Status start(CollectiveCall& call, tutti_comm* handle, tutti_stream stream, const tutti_call* options) {
  tutti_call room;
  if (Status status = read_call(options, room); !status.ok()) return status;
  if (Status status = take_options(call, *options); !status.ok()) return status;
  auto comm = usable(handle);
  if (!comm.ok()) return comm.status();
  Communicator& communicator = **comm;
  if (Status status = check(call, communicator); !status.ok()) return status;
  if (runs_now(stream, *options)) return communicator.run(call);
  return dispatch({&communicator, std::move(call)}, stream, *options);
}

/// Whether no option is set. A caller of another version, whose struct may be shorter, is not looked at that closely.
bool asks_nothing(const tutti_call* call) {
  static constexpr tutti_call unset = TUTTI_CALL_INIT;
  return call == nullptr || (call->size == sizeof unset && std::memcmp(call, &unset, sizeof unset) == 0);
}

/// A call of any kind.
[[gnu::noinline]] tutti_status any_verb(const CallShape& shape, const void* send, void* recv, tutti_comm* comm,
                                        const tutti_stream& stream, const tutti_call* call) {
  return guarded_operation([&] {
    CollectiveCall c{shape};
    c.send = send;
    c.recv = recv;
    return start(c, comm, stream, call);
  });
}

/// Most calls are like the one before. What the others need is not set up for them, as that would take as long.
inline tutti_status verb(Collective collective, const void* send, void* recv, std::size_t count, tutti_type type,
                         tutti_op op, int root, tutti_comm* comm, const tutti_stream& stream, const tutti_call* call) {
  const CallShape shape{collective, count, type, op, root};
  if (asks_nothing(call) && stream.kind == TUTTI_STREAM_BLOCKING && !group_is_open()) {
    Communicator* const communicator = usable_now(comm);
    Status failure;
    const auto again = communicator != nullptr ? communicator->run_again(shape, send, recv, failure) : Again::no;
    if (again == Again::done) [[likely]]
      return TUTTI_SUCCESS;
    if (again == Again::failed) return answer(failure);
  }
  return any_verb(shape, send, recv, comm, stream, call);
}

tutti_status missing(const char* name, const tutti_call* call) {
  return guarded_operation([&]() -> Status {
    tutti_call room;
    if (Status status = read_call(call, room); !status.ok()) return status;
    return Status(TUTTI_UNSUPPORTED, fmt::format("{} is not there yet", name),
                  "Use the verb with equal counts, or sends and receives in a group.");
  });
}

}  // namespace
}  // namespace tutti

using tutti::Collective;

tutti_status tutti_all_reduce(const void* send, void* recv, size_t count, tutti_type type, tutti_op op, tutti_comm* comm,
                              tutti_stream stream, const tutti_call* call) {
  return tutti::verb(Collective::all_reduce, send, recv, count, type, op, 0, comm, stream, call);
}

tutti_status tutti_reduce(const void* send, void* recv, size_t count, tutti_type type, tutti_op op, int root,
                          tutti_comm* comm, tutti_stream stream, const tutti_call* call) {
  return tutti::verb(Collective::reduce, send, recv, count, type, op, root, comm, stream, call);
}

tutti_status tutti_broadcast(const void* send, void* recv, size_t count, tutti_type type, int root, tutti_comm* comm,
                             tutti_stream stream, const tutti_call* call) {
  return tutti::verb(Collective::broadcast, send, recv, count, type, TUTTI_SUM, root, comm, stream, call);
}

tutti_status tutti_all_gather(const void* send, void* recv, size_t send_count, tutti_type type, tutti_comm* comm,
                              tutti_stream stream, const tutti_call* call) {
  return tutti::verb(Collective::all_gather, send, recv, send_count, type, TUTTI_SUM, 0, comm, stream, call);
}

tutti_status tutti_reduce_scatter(const void* send, void* recv, size_t recv_count, tutti_type type, tutti_op op,
                                  tutti_comm* comm, tutti_stream stream, const tutti_call* call) {
  return tutti::verb(Collective::reduce_scatter, send, recv, recv_count, type, op, 0, comm, stream, call);
}

tutti_status tutti_all_to_all(const void* send, void* recv, size_t count, tutti_type type, tutti_comm* comm,
                              tutti_stream stream, const tutti_call* call) {
  return tutti::verb(Collective::all_to_all, send, recv, count, type, TUTTI_SUM, 0, comm, stream, call);
}

tutti_status tutti_gather(const void* send, void* recv, size_t send_count, tutti_type type, int root, tutti_comm* comm,
                          tutti_stream stream, const tutti_call* call) {
  return tutti::verb(Collective::gather, send, recv, send_count, type, TUTTI_SUM, root, comm, stream, call);
}

tutti_status tutti_scatter(const void* send, void* recv, size_t recv_count, tutti_type type, int root, tutti_comm* comm,
                           tutti_stream stream, const tutti_call* call) {
  return tutti::verb(Collective::scatter, send, recv, recv_count, type, TUTTI_SUM, root, comm, stream, call);
}

tutti_status tutti_barrier(tutti_comm* comm, tutti_stream stream, const tutti_call* call) {
  // One scratch element moves, so that there is something to wait for.
  return tutti::verb(Collective::barrier, nullptr, nullptr, 1, TUTTI_UINT8, TUTTI_MAX, 0, comm, stream, call);
}

tutti_status tutti_all_gather_v(const void*, size_t, const tutti_block*, tutti_type, tutti_comm*, tutti_stream,
                                const tutti_call* call) {
  return tutti::missing("all_gather_v", call);
}

tutti_status tutti_reduce_scatter_v(const tutti_block*, void*, size_t, tutti_type, tutti_op, tutti_comm*, tutti_stream,
                                    const tutti_call* call) {
  return tutti::missing("reduce_scatter_v", call);
}

tutti_status tutti_all_to_all_v(const tutti_block*, const tutti_block*, tutti_type, tutti_comm*, tutti_stream,
                                const tutti_call* call) {
  return tutti::missing("all_to_all_v", call);
}

tutti_status tutti_gather_v(const void*, size_t, const tutti_block*, tutti_type, int, tutti_comm*, tutti_stream,
                            const tutti_call* call) {
  return tutti::missing("gather_v", call);
}

tutti_status tutti_scatter_v(const tutti_block*, void*, size_t, tutti_type, int, tutti_comm*, tutti_stream,
                             const tutti_call* call) {
  return tutti::missing("scatter_v", call);
}
