#include "tests/standin/queues.h"

#include <algorithm>
#include <chrono>

#include "tests/standin/blocks.h"
#include "tests/standin/faults.h"
#include "tests/standin/pool.h"

namespace standin {
namespace {

using std::chrono::microseconds;

/// How long an operation is held up: mostly not at all, seldom long enough that all else overtakes it.
microseconds draw_delay() {
  const std::uint64_t kind = draw(16);
  if (kind < 10) return microseconds(0);
  return microseconds(kind < 15 ? draw(60) : draw(1500));
}

bool may_start(const Operation& operation) {
  const bool lost = operation.context->error != DriverResult::success;
  return lost || std::all_of(operation.after.begin(), operation.after.end(), [](const auto& each) { return each->done; });
}

/// Runs what a head does, without the lock.
DriverResult perform(Lock& lock, const Operation& operation) {
  if (!operation.work) return DriverResult::success;
  lock.unlock();
  DriverResult result = DriverResult::success;
  const bool whole = guarded([&] { result = operation.work(); });
  if (!whole) pool().let_this_thread_in(true);  // a jump out of a signal's handler leaves the thread without its keys
  lock.lock();
  return whole ? result : DriverResult::illegal_address;
}

void serve_head(Lock& lock, Device& device, const OperationPtr& head) {
  state().changed.wait(lock, [&] { return may_start(*head); });
  if (const microseconds delay = draw_delay(); delay.count() > 0) {
    lock.unlock();
    std::this_thread::sleep_for(delay);
    lock.lock();
  }
  if (head->context->error != DriverResult::success) return finish(head, head->context->error);
  if (head->launch == nullptr) return finish(head, perform(lock, *head));
  const auto run = issue(device, head);
  state().changed.wait(lock, [&] { return run->started == run->order.size() || head->done; });
}

/// The thread of one hardware queue.
void serve(Device& device, HardwareQueue& queue) {
  pool().let_this_thread_in(true);
  Lock lock(state().lock);
  while (true) {
    queue.filled.wait(lock, [&] { return !queue.operations.empty(); });
    const OperationPtr head = queue.operations.front();
    serve_head(lock, device, head);
    queue.operations.pop_front();
  }
}

void add_last(std::vector<OperationPtr>& all, const Stream& stream) {
  if (stream.last != nullptr && !stream.last->done) all.push_back(stream.last);
}

}  // namespace

std::size_t choose_queue(Device& device) {
  const auto queue = static_cast<std::size_t>(draw(static_cast<std::uint64_t>(state().configuration.queues)));
  while (device.queues.size() <= queue) {
    HardwareQueue& fresh = device.queues.emplace_back();
    ++state().threads;
    std::thread([&device, &fresh] { serve(device, fresh); }).detach();
  }
  return queue;
}

std::shared_ptr<Stream> find_stream(const std::shared_ptr<Context>& current, StreamHandle handle) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value == 0 || value == kLegacyStream) return current->legacy;
  if (value != kPerThreadStream) return state().streams.find(handle);
  auto& own = current->per_thread[std::this_thread::get_id()];
  if (own == nullptr) {
    own = std::make_shared<Stream>();
    own->context = current;
    own->queue = choose_queue(*current->device);
  }
  return own;
}

/// The legacy stream waits for all blocking streams of its context, and they for it; non-blocking ones stand apart.
std::vector<OperationPtr> predecessors(const Stream& stream) {
  std::vector<OperationPtr> all;
  add_last(all, stream);
  if (stream.blocking() && stream.context->legacy != nullptr) add_last(all, *stream.context->legacy);
  if (!stream.legacy) return all;
  for (const auto& other : stream.context->streams) {
    if (other->blocking()) add_last(all, *other);
  }
  for (const auto& [thread, other] : stream.context->per_thread) add_last(all, *other);
  return all;
}

OperationPtr enqueue_on(const std::shared_ptr<Context>& context, std::size_t queue, const Command& command,
                        std::vector<OperationPtr> after) {
  auto operation = std::make_shared<Operation>();
  operation->context = context;
  operation->after = std::move(after);
  operation->work = command.work;
  operation->launch = command.launch;
  if (command.wait_for != nullptr && command.wait_for->recorded != nullptr) {
    operation->after.push_back(command.wait_for->recorded);
  }
  if (command.record != nullptr) command.record->recorded = operation;
  context->device->queues[queue].operations.push_back(operation);
  context->device->queues[queue].filled.notify_one();
  return operation;
}

OperationPtr enqueue(const std::shared_ptr<Stream>& stream, const Command& command, std::vector<OperationPtr> after) {
  std::vector<OperationPtr> all = predecessors(*stream);
  all.insert(all.end(), after.begin(), after.end());
  stream->last = enqueue_on(stream->context, stream->queue, command, std::move(all));
  return stream->last;
}

void finish(const OperationPtr& operation, DriverResult result) {
  if (operation->done) return;
  if (result != DriverResult::success) lose(*operation->context, result);
  operation->done = true;
  operation->ended_ns = now_ns();
  operation->after.clear();
  operation->work = nullptr;
  state().changed.notify_all();
}

void wait_for(Lock& lock, const OperationPtr& operation) {
  if (operation == nullptr) return;
  const auto context = operation->context;
  state().changed.wait(lock, [&] { return operation->done || context->error != DriverResult::success; });
}

bool is_idle(const Stream& stream) { return stream.last == nullptr || stream.last->done; }

void wait_idle(Lock& lock, const Context& context) {
  const auto idle = [&] {
    return context.legacy == nullptr ||
           (is_idle(*context.legacy) &&
            std::all_of(context.streams.begin(), context.streams.end(), [](const auto& each) { return is_idle(*each); }) &&
            std::all_of(context.per_thread.begin(), context.per_thread.end(),
                        [](const auto& each) { return is_idle(*each.second); }));
  };
  state().changed.wait(lock, [&] { return context.error != DriverResult::success || idle(); });
}

}  // namespace standin
