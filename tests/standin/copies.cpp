// Copies and fills in stream order.
#include <cstring>

#include "tests/standin/address_map.h"
#include "tests/standin/capture.h"
#include "tests/standin/entry.h"
#include "tests/standin/queues.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

template <typename T>
T* pointer(DevicePointer address) {
  return reinterpret_cast<T*>(address);
}

DevicePointer address_of(const void* data) { return reinterpret_cast<DevicePointer>(data); }

/// Memory of the program's that the driver has not been told of.
bool is_pageable(DevicePointer address) { return address_map().find(address) == nullptr; }

/// What copies bytes when its turn comes. Pageable sources are read now, as the real driver reads them into its own memory.
Command make_copy(DevicePointer to, DevicePointer from, std::size_t bytes, bool capturing) {
  Command command;
  if (is_pageable(from) && !capturing) {
    auto staged = std::make_shared<std::vector<unsigned char>>(pointer<const unsigned char>(from),
                                                               pointer<const unsigned char>(from) + bytes);
    command.work = [to, staged] {
      std::memcpy(pointer<void>(to), staged->data(), staged->size());
      return DriverResult::success;
    };
  } else {
    command.work = [to, from, bytes] {
      std::memmove(pointer<void>(to), pointer<const void>(from), bytes);
      return DriverResult::success;
    };
  }
  return command;
}

/// Each side by its own context, which for all but cuMemcpyPeerAsync is the stream's.
DriverResult check_copy(const Context& to_context, DevicePointer to, const Context& from_context, DevicePointer from,
                        std::size_t bytes) {
  const bool whole = may_access(to_context, to, bytes, Use::copy_to) == DriverResult::success &&
                     may_access(from_context, from, bytes, Use::copy_from) == DriverResult::success;
  return whole ? DriverResult::success : DriverResult::invalid_value;
}

/// A copy into pageable memory returns when it is done. One out of it may wait for what the stream has been given before,
/// and here always does.
DriverResult submit_copy(Lock& lock, const std::shared_ptr<Stream>& stream, DevicePointer to, DevicePointer from,
                         std::size_t bytes) {
  if (bytes == 0) return DriverResult::success;
  OperationPtr operation;
  const bool capturing = stream->capture != nullptr;
  if (!capturing && is_pageable(from)) {
    for (const OperationPtr& before : predecessors(*stream)) wait_for(lock, before);
  }
  const DriverResult result = submit(stream, make_copy(to, from, bytes, capturing), operation);
  if (result != DriverResult::success || capturing || !is_pageable(to)) return result;
  wait_for(lock, operation);
  return stream->context->error;
}

DriverResult copy(const char* entry, DevicePointer to, DevicePointer from, std::size_t bytes, StreamHandle handle) {
  return enter(entry, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    const DriverResult legal = check_copy(*stream->context, to, *stream->context, from, bytes);
    return legal == DriverResult::success ? submit_copy(call.lock, stream, to, from, bytes) : legal;
  });
}

template <typename T>
DriverResult fill(const char* entry, DevicePointer to, T value, std::size_t count, StreamHandle handle) {
  return enter(entry, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    const bool legal =
        to % sizeof(T) == 0 && may_access(*stream->context, to, count * sizeof(T), Use::write) == DriverResult::success;
    if (!legal) return DriverResult::invalid_value;
    Command command;
    command.work = [to, value, count] {
      std::fill_n(pointer<T>(to), count, value);
      return DriverResult::success;
    };
    return submit(stream, command);
  });
}

/// Whether an address is the device's: the directions that a name says are checked, as by the real driver.
bool is_device(DevicePointer address) {
  const auto range = address_map().find(address);
  return range != nullptr && !range->on_host();
}

DriverResult refuse_direction(bool right) { return right ? DriverResult::success : DriverResult::invalid_value; }

/// A copy whose device side must be device memory.
DriverResult directed(const char* entry, DevicePointer to, DevicePointer from, std::size_t bytes, StreamHandle handle,
                      bool to_device, bool from_device) {
  return enter(entry, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    const bool right = bytes == 0 || ((!to_device || is_device(to)) && (!from_device || is_device(from)));
    if (const DriverResult wrong = refuse_direction(right); wrong != DriverResult::success) return wrong;
    const DriverResult legal = check_copy(*stream->context, to, *stream->context, from, bytes);
    return legal == DriverResult::success ? submit_copy(call.lock, stream, to, from, bytes) : legal;
  });
}

}  // namespace

DriverResult cuMemcpyAsync(DevicePointer to, DevicePointer from, std::size_t bytes, StreamHandle stream) {
  return copy(__func__, to, from, bytes, stream);
}

DriverResult cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes, StreamHandle stream) {
  return directed(__func__, to, address_of(from), bytes, stream, true, false);
}

DriverResult cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, StreamHandle stream) {
  return directed(__func__, address_of(to), from, bytes, stream, false, true);
}

DriverResult cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes, StreamHandle stream) {
  return directed(__func__, to, from, bytes, stream, true, true);
}

DriverResult cuMemcpyPeerAsync(DevicePointer to, ContextHandle to_handle, DevicePointer from, ContextHandle from_handle,
                               std::size_t bytes, StreamHandle handle) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    const auto to_context = state().contexts.find(to_handle);
    const auto from_context = state().contexts.find(from_handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    if (to_context == nullptr || from_context == nullptr) return DriverResult::invalid_context;
    const DriverResult legal = check_copy(*to_context, to, *from_context, from, bytes);
    return legal == DriverResult::success ? submit_copy(call.lock, stream, to, from, bytes) : legal;
  });
}

// One node each would be legal too: the order among a batch's copies is nobody's.
DriverResult cuMemcpyBatchAsync(DevicePointer* to, DevicePointer* from, std::size_t* bytes, std::size_t count,
                                CopyAttributes* attributes, std::size_t* first_of, std::size_t attribute_count,
                                std::size_t* failed, StreamHandle handle) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    if (stream == nullptr || stream->legacy) return DriverResult::invalid_handle;
    if (count == 0 || attribute_count == 0 || attribute_count > count || attributes == nullptr || first_of == nullptr) {
      return DriverResult::invalid_value;
    }
    if (stream->capture != nullptr) return DriverResult::capture_unsupported;
    for (std::size_t each = 0; each < count; ++each) {
      if (failed != nullptr) *failed = each;
      const DriverResult legal = check_copy(*stream->context, to[each], *stream->context, from[each], bytes[each]);
      if (legal != DriverResult::success) return legal;
    }
    DriverResult result = DriverResult::success;
    for (std::size_t each = 0; each < count && result == DriverResult::success; ++each) {
      result = submit_copy(call.lock, stream, to[each], from[each], bytes[each]);
    }
    return result;
  });
}

DriverResult cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t count, StreamHandle stream) {
  return fill<unsigned char>(__func__, to, value, count, stream);
}

DriverResult cuMemsetD32Async(DevicePointer to, unsigned value, std::size_t count, StreamHandle stream) {
  return fill<std::uint32_t>(__func__, to, value, count, stream);
}

DriverResult cuFlushGPUDirectRDMAWrites(FlushTarget target, FlushScope scope) {
  return enter(__func__, Needs::context, [&](Call&) {
    const bool known =
        target == FlushTarget::current_context && (scope == FlushScope::to_owner || scope == FlushScope::to_all_devices);
    return known ? DriverResult::success : DriverResult::invalid_value;
  });
}
