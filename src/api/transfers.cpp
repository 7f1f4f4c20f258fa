// Send and receive.
#include <fmt/format.h>

#include "src/api/handles.h"
#include "src/base/plural.h"
#include "src/tables/element_types.h"

namespace tutti {
namespace {

/// A verb's arguments.
struct Asked {
  bool sends;
  void* memory;
  std::size_t count;
  tutti_type type;
  int peer;

  Transfer transfer(const tutti_call& call) const {
    const std::size_t element = element_bytes(type);
    const bool is_soft = (call.flags & TUTTI_SOFT_DEADLINE) != 0;
    return {
        sends,   type,         static_cast<std::byte*>(memory), count * element, element, peer, call.tag, call.timeout_ns,
        is_soft, call.user_tag};
  }
};

Status check(const Asked& asked, const Communicator& comm) {
  if (Status status = check_type(asked.type); !status.ok()) return status;
  const bool any = !asked.sends && asked.peer == TUTTI_ANY_SOURCE;
  if (!any && (asked.peer < 0 || asked.peer >= comm.ranks())) {
    return invalid(
        fmt::format("peer {} is outside \"{}\", which has {}", asked.peer, comm.name(), plural(comm.ranks(), "rank")),
        fmt::format("Pass a rank from 0 to {}.", comm.ranks() - 1));
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(asked.count, element_bytes(asked.type), &bytes) || bytes > UINT64_MAX / 2)
    return invalid(fmt::format("a count of {} is more than memory can hold", asked.count));
  if (asked.memory == nullptr && asked.count != 0) {
    return invalid(fmt::format("a {} of {} elements has a NULL buffer", asked.sends ? "send" : "receive", asked.count));
  }
  return {};
}

Status start(const Asked& asked, tutti_comm* handle, tutti_stream stream, const tutti_call* call) {
  tutti_call room;
  if (Status status = read_call(call, room); !status.ok()) return status;
  if (Status status = check_options(*call); !status.ok()) return status;
  auto comm = usable(handle);
  if (!comm.ok()) return comm.status();
  if (Status status = check(asked, **comm); !status.ok()) return status;
  const char* const verb = asked.sends ? "tutti_send" : "tutti_recv";
  if (Status status = (*comm)->refuse_device_memory(asked.memory, verb); !status.ok()) return status;
  const Transfer transfer = asked.transfer(*call);
  if (stream.kind == TUTTI_STREAM_BLOCKING && call->work == nullptr) return dispatch(**comm, transfer);
  return dispatch({*comm, transfer}, stream, *call);
}

/// What mostly is so, and takes few words to ask: there is nothing to be said against the transfer.
bool is_simple(const Asked& asked, const Communicator& comm) {
  constexpr std::size_t most = SIZE_MAX / 64;
  return !is_opaque(asked.type) && element_bytes(asked.type) != 0 && asked.count < most && asked.memory != nullptr &&
         asked.peer >= 0 && asked.peer < comm.ranks();
}

/// A transfer of any kind.
[[gnu::noinline]] tutti_status any_verb(const Asked& asked, tutti_comm* handle, const tutti_stream& stream,
                                        const tutti_call* call) {
  return guarded_operation([&] { return start(asked, handle, stream, call); });
}

/// One that `dispatch` takes as it is.
[[gnu::noinline]] tutti_status run(Communicator& comm, const Transfer& transfer) {
  return guarded_operation([&] { return dispatch(comm, transfer); });
}

inline tutti_status verb(const Asked& asked, tutti_comm* handle, const tutti_stream& stream, const tutti_call* call) {
  static constexpr tutti_call unset = TUTTI_CALL_INIT;
  const tutti_call& asks = call != nullptr ? *call : unset;
  if (asks.size == sizeof asks && asks.work == nullptr && asks.flags == 0 && stream.kind == TUTTI_STREAM_BLOCKING) {
    Communicator* const comm = usable_now(handle);
    if (comm != nullptr && is_simple(asked, *comm) && !comm->may_have_device_memory()) {
      const Transfer transfer = asked.transfer(asks);
      return hold_at_once(*comm, transfer) ? TUTTI_SUCCESS : run(*comm, transfer);
    }
  }
  return any_verb(asked, handle, stream, call);
}

}  // namespace
}  // namespace tutti

tutti_status tutti_send(const void* send, size_t count, tutti_type type, int peer, tutti_comm* comm, tutti_stream stream,
                        const tutti_call* call) {
  // A sending transfer only reads its memory.
  return tutti::verb({true, const_cast<void*>(send), count, type, peer}, comm, stream, call);
}

tutti_status tutti_recv(void* recv, size_t count, tutti_type type, int peer, tutti_comm* comm, tutti_stream stream,
                        const tutti_call* call) {
  return tutti::verb({false, recv, count, type, peer}, comm, stream, call);
}
