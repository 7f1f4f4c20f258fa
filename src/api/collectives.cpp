// The collective verbs: argument checks, then one path for all of them.
#include <fmt/format.h>

#include <cstring>
#include <span>

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

/// Looks up a custom operator, and puts what plans know of it into its place.
Status take_custom_operator(CollectiveCall& call, Communicator& comm) {
  const int value = static_cast<int>(call.op);
  call.custom = comm.custom_operators().find(call.op);
  if (call.custom == nullptr) {
    return invalid(fmt::format("\"{}\" has no operator {}", comm.name(), value),
                   "Pass one that tutti_op_create_user or tutti_op_create_pre_mul_sum made for this communicator, and that "
                   "is not destroyed yet.");
  }
  const CustomOperator& custom = *call.custom;
  if (custom.kind == CustomOperator::Kind::pre_mul_sum) {
    call.op = TUTTI_SUM;
    if (custom.type == call.type) return {};
    return invalid(
        fmt::format("operator {} scales {}, and the call is of {}", value, text_of(custom.type), text_of(call.type)),
        "Make one for each type.");
  }
  call.op = user_operator;
  if (custom.fold.element_bytes == element_bytes(call.type)) return {};
  return invalid(fmt::format("operator {} folds elements of {}, and {} has {}", value,
                             plural(custom.fold.element_bytes, "byte"), text_of(call.type), element_bytes(call.type)),
                 "Pass a type of as many bytes; TUTTI_OPAQUE + n has n.");
}

/// Type, operator and root.
Status take_kinds(CollectiveCall& call, Communicator& comm) {
  if (Status status = check_type(call.type); !status.ok()) return status;
  if (reduces(call.collective)) {
    const bool is_custom = static_cast<int>(call.op) >= least_custom_operator && call.op != TUTTI_OP_LIMIT;
    Status status = is_custom ? take_custom_operator(call, comm) : check_op(call.op, call.type);
    if (!status.ok()) return status;
  }
  if (rooted(call.collective) && (call.root < 0 || call.root >= comm.ranks())) {
    return invalid(
        fmt::format("root {} is outside \"{}\", which has {}", call.root, comm.name(), plural(comm.ranks(), "rank")),
        fmt::format("Pass a root from 0 to {}.", comm.ranks() - 1));
  }
  return {};
}

/// Sizes and addresses.
Status check_buffers(const CollectiveCall& call, const Communicator& comm) {
  std::uint64_t bytes = 0;
  const std::uint64_t each = element_bytes(call.type) * call.local_operands * static_cast<std::uint64_t>(comm.ranks());
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
  if (Status status = check_options(call); !status.ok()) return status;
  if ((call.flags & TUTTI_SOFT_DEADLINE) != 0) {
    return invalid(fmt::format("{} has a soft deadline", out.kind()),
                   "Leave flags unset: a collective that others have begun cannot be taken back.");
  }
  if (Status status = check_blocks(out.kind(), call.min_blocks, call.max_blocks); !status.ok()) return status;
  out.timeout_ns = call.timeout_ns;
  out.user_tag = call.user_tag;
  out.min_blocks = call.min_blocks;
  out.max_blocks = call.max_blocks;
  if (call.name != nullptr) out.name = call.name;
  if (call.algorithm != nullptr) out.algorithm = call.algorithm;
  return {};
}

/// How the operands of a verb that reduces are to be rounded, and in which order.
Status take_rounding(CollectiveCall& out, const tutti_call& call) {
  const ElementTypeInfo type = element_type_info(out.type);
  const bool accumulates = call.accumulate != TUTTI_INT8 && is_arithmetic(out.op);
  if (accumulates && (call.accumulate != TUTTI_FLOAT32 || !accumulates_in_float32(out.type))) {
    return invalid(fmt::format("{} cannot be accumulated in {}", text_of(out.type), text_of(call.accumulate)),
                   "Accumulate floats of up to 32 bits in TUTTI_FLOAT32, or leave accumulate unset.");
  }
  if (call.reproducible != 0 && call.reproducible != 1)
    return invalid(fmt::format("the call option reproducible is {}", call.reproducible), "Set it to 0 or 1.");
  const bool widens = accumulates && type.size < sizeof(float);
  const bool keeps_order = out.op == user_operator && !out.custom->commutative;
  out.one_fold = widens || keeps_order || (call.reproducible == 1 && may_depend_on_order(out.type, out.op));
  return {};
}

/// How many operands a rank has.
Status take_operands(CollectiveCall& out, std::uint32_t canonical, std::uint32_t ranks) {
  if (canonical == 0) return {};
  if (!takes_several_operands(out.collective) || out.irregular) {
    return invalid(fmt::format("{} has one operand a rank", out.kind()),
                   "Leave canonical unset; all_reduce and reduce may have several.");
  }
  if (canonical > most_total_operands) {
    return invalid(fmt::format("{} operands are more than one fold has", canonical),
                   fmt::format("Let canonical be up to {}.", most_total_operands));
  }
  if (canonical % ranks != 0) {
    return invalid(fmt::format("{} operands cannot be shared evenly by {}", canonical, plural(ranks, "rank")),
                   fmt::format("Let canonical be a multiple of {}.", ranks));
  }
  out.local_operands = canonical / ranks;
  out.one_fold = true;
  return {};
}

/// What the fold of a verb that reduces is asked for. What others are asked for holds of itself, but for several operands.
Status take_fold(CollectiveCall& out, const tutti_call& call, int ranks) {
  if (reduces(out.collective)) {
    if (Status status = take_rounding(out, call); !status.ok()) return status;
  }
  return take_operands(out, call.canonical, static_cast<std::uint32_t>(ranks));
}

/// Reads a verb's arguments, and runs it or holds it back. take_buffers(call, communicator): its sizes and addresses.
template <typename TakeBuffers>
Status start(CollectiveCall& call, tutti_comm* handle, const tutti_stream& stream, const tutti_call* options,
             const TakeBuffers& take_buffers) {
  tutti_call room;
  if (Status status = read_call(options, room); !status.ok()) return status;
  if (Status status = take_options(call, *options); !status.ok()) return status;
  auto comm = usable(handle);
  if (!comm.ok()) return comm.status();
  Communicator& communicator = **comm;
  if (Status status = take_kinds(call, communicator); !status.ok()) return status;
  if (Status status = take_fold(call, *options, communicator.ranks()); !status.ok()) return status;
  if (Status status = take_buffers(call, communicator); !status.ok()) return status;
  if (runs_now(stream, *options)) return communicator.run(call);
  return dispatch({&communicator, std::move(call)}, stream, *options);
}

/// Whether no option is set. A caller of another version, whose struct may be shorter, is not looked at that closely.
bool asks_nothing(const tutti_call* call) {
  static constexpr tutti_call unset = TUTTI_CALL_INIT;
  return call == nullptr || (call->size == sizeof unset && std::memcmp(call, &unset, sizeof unset) == 0);
}

/// The communicator of a call that may repeat the one before, else NULL.
inline Communicator* repeatable(const tutti_comm* comm, const tutti_stream& stream, const tutti_call* call) {
  const bool plain = asks_nothing(call) && stream.kind == TUTTI_STREAM_BLOCKING && !group_is_open();
  return plain ? usable_now(comm) : nullptr;
}

/// A call of any kind.
[[gnu::noinline]] tutti_status any_verb(const CallShape& shape, const void* send, void* recv, tutti_comm* comm,
                                        const tutti_stream& stream, const tutti_call* call) {
  return guarded_operation([&] {
    CollectiveCall c{shape};
    c.send = send;
    c.recv = recv;
    return start(c, comm, stream, call, check_buffers);
  });
}

/// Most calls are like the one before. What the others need is not set up for them, as that would take as long.
inline tutti_status verb(Collective collective, const void* send, void* recv, std::size_t count, tutti_type type,
                         tutti_op op, int root, tutti_comm* comm, const tutti_stream& stream, const tutti_call* call) {
  const CallShape shape{collective, count, type, op, root};
  if (Communicator* const communicator = repeatable(comm, stream, call); communicator != nullptr) {
    Status failure;
    const Again again = communicator->run_again(shape, send, recv, failure);
    if (again == Again::done) [[likely]]
      return TUTTI_SUCCESS;
    if (again == Again::failed) return answer(failure);
  }
  return any_verb(shape, send, recv, comm, stream, call);
}

/// One buffer's blocks of this rank, in the problem's elements.
Status take_blocks(const CollectiveCall& call, Buffer buffer, const Communicator& comm, const tutti_block& single,
                   const tutti_block* list, std::vector<tutti_block>& out) {
  const CollectiveInfo& info = info_of(call.collective);
  const bool is_input = buffer == Buffer::input;
  Problem problem;
  problem.collective = call.collective;
  problem.root = call.root;
  problem.ranks = comm.ranks();
  const std::uint32_t blocks = blocks_of(problem, buffer, comm.rank());
  const bool is_list = is_input ? info.has_send_blocks() : info.has_recv_blocks();
  const char* const name = is_input ? "send" : "receive";
  if (is_list && blocks != 0 && list == nullptr)
    return invalid(fmt::format("{} has a NULL list of {} blocks", call.kind(), name), "Pass a tutti_block for each rank.");
  std::uint64_t left = UINT64_MAX / 2 / element_bytes(call.type);
  for (std::uint32_t b = 0; b < blocks; ++b) {
    tutti_block block = is_list ? list[b] : single;
    if (block.count != 0 && block.ptr == nullptr)
      return invalid(fmt::format("{} of {} elements has a NULL {} block {}", call.kind(), block.count, name, b),
                     "Pass the block's memory, or a count of 0.");
    if (block.count > left) return invalid(fmt::format("{} has more elements than memory can hold", call.kind()));
    left -= block.count;
    block.count *= call.problem_units();
    out.push_back(block);
  }
  return {};
}

/// What a rank gives itself is as long where it lies as where it goes.
Status check_own_blocks(const CollectiveCall& call, const Communicator& comm) {
  const CollectiveInfo& info = info_of(call.collective);
  if (call.input.empty()) return {};
  for (std::uint32_t b = 0; b < call.output.size(); ++b) {
    const BlockOrigin origin = info.origin(comm.rank(), comm.ranks(), call.root, b);
    if (!origin.fold && origin.rank != comm.rank()) continue;
    const std::uint64_t given = call.input[origin.block].count, taken = call.output[b].count;
    if (given != taken)
      return invalid(fmt::format("{} sends {} elements to its own rank, {}, which receives {}", call.kind(),
                                 given / call.problem_units(), comm.rank(), taken / call.problem_units()),
                     "Let both blocks have the same count.");
  }
  return {};
}

Status take_all_blocks(CollectiveCall& call, const Communicator& comm, const IrregularArguments& given) {
  if (Status status = take_blocks(call, Buffer::input, comm, given.send, given.send_blocks, call.input); !status.ok())
    return status;
  if (Status status = take_blocks(call, Buffer::output, comm, given.recv, given.recv_blocks, call.output); !status.ok())
    return status;
  if (Status status = check_own_blocks(call, comm); !status.ok()) return status;
  for (const tutti_block& block : call.agreed()) call.count += block.count / call.problem_units();
  // Where peers may have something to do, this rank opens its links to them.
  if (call.agreed().empty()) call.count = 1;
  return {};
}

[[gnu::noinline]] tutti_status any_irregular_verb(const CallShape& shape, const IrregularArguments& given, tutti_comm* comm,
                                                  const tutti_stream& stream, const tutti_call* call) {
  return guarded_operation([&] {
    CollectiveCall c{shape};
    c.irregular = true;
    return start(c, comm, stream, call, [&given](CollectiveCall& taken, const Communicator& communicator) {
      return take_all_blocks(taken, communicator, given);
    });
  });
}

/// As verb: most v-variants too are like the one before, over the same blocks.
tutti_status irregular_verb(const CallShape& shape, const IrregularArguments& given, tutti_comm* comm,
                            const tutti_stream& stream, const tutti_call* call) {
  if (Communicator* const communicator = repeatable(comm, stream, call); communicator != nullptr) {
    Status failure;
    const Again again = communicator->run_again(shape, given, failure);
    if (again != Again::no) return answer(failure);
  }
  return any_irregular_verb(shape, given, comm, stream, call);
}

/// One buffer in pieces: checked, and how many elements it has.
Status take_pieces(const CollectiveCall& call, const char* name, std::span<const tutti_block> blocks,
                   std::vector<tutti_block>& out, std::uint64_t& total) {
  std::uint64_t left = UINT64_MAX / 2 / element_bytes(call.type);
  total = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const tutti_block& block = blocks[b];
    if (block.count != 0 && block.ptr == nullptr) {
      return invalid(fmt::format("all_reduce_v of {} elements has a NULL {} block {}", block.count, name, b),
                     "Pass the block's memory, or a count of 0.");
    }
    if (block.count > left) return invalid("all_reduce_v has more elements than memory can hold");
    left -= block.count;
    total += block.count;
    if (block.count != 0) out.push_back(block);
  }
  return {};
}

/// Both, and what they have to do with each other.
Status take_both_pieces(CollectiveCall& call, std::span<const tutti_block> send, std::span<const tutti_block> recv) {
  if (send.data() == nullptr && !send.empty()) return invalid("all_reduce_v has a NULL list of send blocks");
  if (recv.data() == nullptr && !recv.empty()) return invalid("all_reduce_v has a NULL list of receive blocks");
  if (Status status = take_pieces(call, "receive", recv, call.output, call.count); !status.ok()) return status;
  const bool in_place = send.data() == nullptr;
  if (in_place && call.local_operands != 1) {
    return invalid(fmt::format("all_reduce_v of {} operands a rank has no send blocks", call.local_operands),
                   "In place there is one operand.");
  }
  if (in_place) {
    call.input = call.output;
    return {};
  }
  std::uint64_t sent = 0;
  if (Status status = take_pieces(call, "send", send, call.input, sent); !status.ok()) return status;
  std::uint64_t wanted = 0;
  if (!__builtin_mul_overflow(call.count, call.local_operands, &wanted) && sent == wanted) return {};
  return invalid(fmt::format("all_reduce_v sends {} elements and receives {}, with {} a rank", sent, call.count,
                             plural(call.local_operands, "operand")),
                 "Let each operand be as long as the result.");
}

tutti_status pieces_verb(const CallShape& shape, std::span<const tutti_block> send, std::span<const tutti_block> recv,
                         tutti_comm* comm, const tutti_stream& stream, const tutti_call* call) {
  return guarded_operation([&] {
    CollectiveCall c{shape};
    c.in_pieces = true;
    return start(c, comm, stream, call,
                 [&](CollectiveCall& taken, const Communicator&) { return take_both_pieces(taken, send, recv); });
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

tutti_status tutti_all_reduce_v(const tutti_block* send_blocks, size_t send_count, const tutti_block* recv_blocks,
                                size_t recv_count, tutti_type type, tutti_op op, tutti_comm* comm, tutti_stream stream,
                                const tutti_call* call) {
  return tutti::pieces_verb({Collective::all_reduce, 0, type, op, 0}, {send_blocks, send_count}, {recv_blocks, recv_count},
                            comm, stream, call);
}

tutti_status tutti_all_gather_v(const void* send, size_t send_count, const tutti_block* recv_blocks, tutti_type type,
                                tutti_comm* comm, tutti_stream stream, const tutti_call* call) {
  return tutti::irregular_verb({Collective::all_gather, 0, type, TUTTI_SUM, 0},
                               {.send = {const_cast<void*>(send), send_count}, .recv_blocks = recv_blocks}, comm, stream,
                               call);
}

tutti_status tutti_reduce_scatter_v(const tutti_block* send_blocks, void* recv, size_t recv_count, tutti_type type,
                                    tutti_op op, tutti_comm* comm, tutti_stream stream, const tutti_call* call) {
  return tutti::irregular_verb({Collective::reduce_scatter, 0, type, op, 0},
                               {.recv = {recv, recv_count}, .send_blocks = send_blocks}, comm, stream, call);
}

tutti_status tutti_all_to_all_v(const tutti_block* send_blocks, const tutti_block* recv_blocks, tutti_type type,
                                tutti_comm* comm, tutti_stream stream, const tutti_call* call) {
  return tutti::irregular_verb({Collective::all_to_all, 0, type, TUTTI_SUM, 0},
                               {.send_blocks = send_blocks, .recv_blocks = recv_blocks}, comm, stream, call);
}

tutti_status tutti_gather_v(const void* send, size_t send_count, const tutti_block* recv_blocks, tutti_type type, int root,
                            tutti_comm* comm, tutti_stream stream, const tutti_call* call) {
  return tutti::irregular_verb({Collective::gather, 0, type, TUTTI_SUM, root},
                               {.send = {const_cast<void*>(send), send_count}, .recv_blocks = recv_blocks}, comm, stream,
                               call);
}

tutti_status tutti_scatter_v(const tutti_block* send_blocks, void* recv, size_t recv_count, tutti_type type, int root,
                             tutti_comm* comm, tutti_stream stream, const tutti_call* call) {
  return tutti::irregular_verb({Collective::scatter, 0, type, TUTTI_SUM, root},
                               {.recv = {recv, recv_count}, .send_blocks = send_blocks}, comm, stream, call);
}
