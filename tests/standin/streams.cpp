// Streams as the program sees them, host callbacks, and waits for and writes of values in stream order.
#include <atomic>

#include "tests/standin/address_map.h"
#include "tests/standin/capture.h"
#include "tests/standin/entry.h"
#include "tests/standin/pool.h"
#include "tests/standin/queues.h"
#include "tests/support/pause.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

/// Runs `body` for a stream that there is.
template <typename Body>
DriverResult for_stream(const char* entry, StreamHandle handle, const Body& body) {
  return enter(entry, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    return stream == nullptr ? DriverResult::invalid_handle : body(call, stream);
  });
}

DriverResult run_callback(HostFunction function, void* data) {
  pool().let_this_thread_in(false);
  in_host_function() = true;
  function(data);
  in_host_function() = false;
  pool().let_this_thread_in(true);
  return DriverResult::success;
}

bool is_met(std::uint64_t now, std::uint64_t wanted, unsigned how, bool wide) {
  const std::uint64_t mask = wide ? UINT64_MAX : UINT32_MAX;
  switch (how) {
    // Cyclic, as documented: the difference is not negative.
    case kWaitValueGreaterOrEqual:
      return wide ? static_cast<std::int64_t>(now - wanted) >= 0
                  : static_cast<std::int32_t>(static_cast<std::uint32_t>(now) - static_cast<std::uint32_t>(wanted)) >= 0;
    case kWaitValueEqual:
      return (now & mask) == (wanted & mask);
    case kWaitValueAnd:
      return (now & wanted & mask) != 0;
    default:
      return (~(now | wanted) & mask) != 0;
  }
}

/// Acquire: what was written before the value is seen by all that comes after in the stream.
std::uint64_t load(DevicePointer address, bool wide) {
  if (wide) return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(address)).load(std::memory_order_acquire);
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(address)).load(std::memory_order_acquire);
}

/// Release: whoever sees the value sees all that came before in the stream.
void store(DevicePointer address, std::uint64_t value, bool wide) {
  if (wide) {
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(address)).store(value, std::memory_order_release);
  } else {
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(address))
        .store(static_cast<std::uint32_t>(value), std::memory_order_release);
  }
}

/// Polls until the value is there or the context is lost; its hardware queue stands still meanwhile.
DriverResult wait_value(const std::shared_ptr<Context>& context, DevicePointer address, std::uint64_t value, unsigned how,
                        bool wide) {
  tutti::testing::Pause pause;
  while (!is_met(load(address, wide), value, how, wide)) {
    pause();
    // Relaxed: see Context::lost. The context knows its error already.
    if (context->lost.load(std::memory_order_relaxed)) return DriverResult::success;
  }
  return DriverResult::success;
}

bool is_wait(MemOpType type) { return type == MemOpType::wait_32 || type == MemOpType::wait_64; }
bool is_wide(MemOpType type) { return type == MemOpType::wait_64 || type == MemOpType::write_64; }

DriverResult check_mem_op(const Context& context, const MemOp& op) {
  const std::size_t bytes = is_wide(op.type) ? 8 : 4;
  if (op.type == MemOpType::barrier) return DriverResult::success;
  const bool known = is_wait(op.type) || op.type == MemOpType::write_32 || op.type == MemOpType::write_64;
  if (!known) return DriverResult::not_supported;
  const unsigned most = is_wait(op.type) ? kWaitValueNor : kWriteValueNoBarrier;
  const bool legal = op.value.address % bytes == 0 && op.value.flags <= most;
  if (!legal ||
      may_access(context, op.value.address, bytes, is_wait(op.type) ? Use::read : Use::write) != DriverResult::success) {
    return DriverResult::invalid_value;
  }
  return DriverResult::success;
}

DriverResult run_mem_op(const std::shared_ptr<Context>& context, const MemOp& op) {
  if (op.type == MemOpType::barrier) return DriverResult::success;
  if (is_wait(op.type)) return wait_value(context, op.value.address, op.value.value, op.value.flags, is_wide(op.type));
  store(op.value.address, op.value.value, is_wide(op.type));
  return DriverResult::success;
}

DriverResult submit_mem_ops(const std::shared_ptr<Stream>& stream, const std::vector<MemOp>& ops) {
  for (const MemOp& op : ops) {
    if (const DriverResult refused = check_mem_op(*stream->context, op); refused != DriverResult::success) return refused;
  }
  const auto context = stream->context;
  Command command;
  command.work = [context, ops] {
    DriverResult result = DriverResult::success;
    for (const MemOp& op : ops) {
      if (result == DriverResult::success) result = run_mem_op(context, op);
    }
    return result;
  };
  return submit(stream, command);
}

DriverResult one_mem_op(const char* entry, StreamHandle handle, MemOpType type, DevicePointer address, std::uint64_t value,
                        unsigned flags) {
  return for_stream(entry, handle, [&](Call&, const std::shared_ptr<Stream>& stream) {
    MemOp op{};
    op.value = {type, address, value, flags, 0};
    return submit_mem_ops(stream, {op});
  });
}

constexpr unsigned kMostMemOps = 255;

/// Drops streams that were destroyed while they had work, and have none now.
void forget_finished(Context& context) {
  std::erase_if(context.streams, [](const std::shared_ptr<Stream>& each) {
    return is_idle(*each) && state().streams.find(reinterpret_cast<StreamHandle>(each.get())) == nullptr;
  });
}

}  // namespace

DriverResult cuStreamCreateWithPriority(StreamHandle* out, unsigned flags, int priority) {
  return enter(__func__, Needs::context, [&](Call& call) {
    if (out == nullptr || flags > kStreamNonBlocking) return DriverResult::invalid_value;
    forget_finished(*call.context);
    auto stream = std::make_shared<Stream>();
    stream->context = call.context;
    stream->flags = flags;
    stream->priority = priority;
    stream->queue = choose_queue(*call.context->device);
    call.context->streams.insert(stream);
    *out = state().streams.add(std::move(stream));
    return DriverResult::success;
  });
}

// Returns at once: what was enqueued runs, and until then the context knows the stream, so that others wait for it.
DriverResult cuStreamDestroy_v2(StreamHandle handle) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto stream = state().streams.find(handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    if (stream->capture != nullptr) stream->capture->invalidated = true;
    state().streams.remove(handle);
    if (is_idle(*stream)) stream->context->streams.erase(stream);
    return DriverResult::success;
  });
}

DriverResult cuStreamQuery(StreamHandle handle) {
  return for_stream(__func__, handle, [&](Call&, const std::shared_ptr<Stream>& stream) {
    if (const DriverResult refused = refuse_captured(*stream); refused != DriverResult::success) return refused;
    if (const DriverResult refused = refuse_unsafe(); refused != DriverResult::success) return refused;
    for (const OperationPtr& each : predecessors(*stream)) {
      if (!each->done && (stream->legacy || each == stream->last)) return DriverResult::not_ready;
    }
    return DriverResult::success;
  });
}

DriverResult cuStreamSynchronize(StreamHandle handle) {
  return for_stream(__func__, handle, [&](Call& call, const std::shared_ptr<Stream>& stream) {
    if (const DriverResult refused = refuse_captured(*stream); refused != DriverResult::success) return refused;
    if (const DriverResult refused = refuse_unsafe(); refused != DriverResult::success) return refused;
    const std::vector<OperationPtr> all = stream->legacy ? predecessors(*stream) : std::vector{stream->last};
    for (const OperationPtr& each : all) wait_for(call.lock, each);
    return stream->context->error;
  });
}

DriverResult cuStreamGetCtx(StreamHandle handle, ContextHandle* out) {
  return for_stream(__func__, handle, [&](Call&, const std::shared_ptr<Stream>& stream) {
    if (out == nullptr) return DriverResult::invalid_value;
    *out = reinterpret_cast<ContextHandle>(stream->context.get());
    return DriverResult::success;
  });
}

DriverResult cuStreamGetId(StreamHandle handle, unsigned long long* out) {
  return for_stream(__func__, handle, [&](Call&, const std::shared_ptr<Stream>& stream) {
    if (out == nullptr) return DriverResult::invalid_value;
    if (stream->id == 0) stream->id = state().next_id++;
    *out = stream->id;
    return DriverResult::success;
  });
}

DriverResult cuLaunchHostFunc(StreamHandle handle, HostFunction function, void* data) {
  return for_stream(__func__, handle, [&](Call&, const std::shared_ptr<Stream>& stream) {
    if (function == nullptr) return DriverResult::invalid_value;
    Command command;
    command.work = [function, data] { return run_callback(function, data); };
    return submit(stream, command);
  });
}

DriverResult cuStreamWaitValue32_v2(StreamHandle handle, DevicePointer address, std::uint32_t value, unsigned flags) {
  return one_mem_op(__func__, handle, MemOpType::wait_32, address, value, flags);
}

DriverResult cuStreamWaitValue64_v2(StreamHandle handle, DevicePointer address, std::uint64_t value, unsigned flags) {
  return one_mem_op(__func__, handle, MemOpType::wait_64, address, value, flags);
}

DriverResult cuStreamWriteValue32_v2(StreamHandle handle, DevicePointer address, std::uint32_t value, unsigned flags) {
  return one_mem_op(__func__, handle, MemOpType::write_32, address, value, flags);
}

DriverResult cuStreamWriteValue64_v2(StreamHandle handle, DevicePointer address, std::uint64_t value, unsigned flags) {
  return one_mem_op(__func__, handle, MemOpType::write_64, address, value, flags);
}

DriverResult cuStreamBatchMemOp_v2(StreamHandle handle, unsigned count, MemOp* ops, unsigned flags) {
  return for_stream(__func__, handle, [&](Call&, const std::shared_ptr<Stream>& stream) {
    if (ops == nullptr || count > kMostMemOps || flags != 0) return DriverResult::invalid_value;
    return submit_mem_ops(stream, std::vector<MemOp>(ops, ops + count));
  });
}
