// Send and receive.
#include <fmt/format.h>

#include "src/api/handles.h"
#include "src/base/counted.h"
#include "src/base/types.h"

namespace tutti {
namespace {

Status check(const Transfer& transfer, std::uint64_t count, tutti_type type, const Communicator& comm) {
  if (Status status = check_type(type); !status.ok()) return status;
  const bool any = !transfer.sends && transfer.peer == TUTTI_ANY_SOURCE;
  if (!any && (transfer.peer < 0 || transfer.peer >= comm.ranks())) {
    return invalid(
        fmt::format("peer {} is outside \"{}\", which has {}", transfer.peer, comm.name(), counted(comm.ranks(), "rank")),
        fmt::format("Pass a rank from 0 to {}.", comm.ranks() - 1));
  }
  if (count > UINT64_MAX / 2 / transfer.element)
    return invalid(fmt::format("a count of {} is more than memory can hold", count));
  if (transfer.memory == nullptr && count != 0) {
    return invalid(fmt::format("a {} of {} elements has a NULL buffer", transfer.sends ? "send" : "receive", count));
  }
  return {};
}

tutti_status verb(bool sends, void* memory, std::size_t count, tutti_type type, int peer, tutti_comm* handle,
                  tutti_stream stream, const tutti_call* given) {
  return guarded_operation([&]() -> Status {
    tutti_call call;
    if (Status status = read_call(given, call); !status.ok()) return status;
    auto comm = usable(handle);
    if (!comm.ok()) return comm.status();
    Transfer transfer;
    transfer.sends = sends;
    transfer.memory = static_cast<std::byte*>(memory);
    transfer.element = element_bytes(type);
    transfer.bytes = count * transfer.element;
    transfer.peer = peer;
    transfer.tag = call.tag;
    transfer.timeout_ns = call.timeout_ns;
    if (Status status = check(transfer, count, type, **comm); !status.ok()) return status;
    return dispatch(**comm, transfer, stream, call);
  });
}

}  // namespace
}  // namespace tutti

tutti_status tutti_send(const void* send, size_t count, tutti_type type, int peer, tutti_comm* comm, tutti_stream stream,
                        const tutti_call* call) {
  // A sending transfer only reads its memory.
  return tutti::verb(true, const_cast<void*>(send), count, type, peer, comm, stream, call);
}

tutti_status tutti_recv(void* recv, size_t count, tutti_type type, int peer, tutti_comm* comm, tutti_stream stream,
                        const tutti_call* call) {
  return tutti::verb(false, recv, count, type, peer, comm, stream, call);
}
