// Streams' work: operations are dealt to the hardware queues of their device, each served by one thread.
//
//   stream a ─┐  hardware queue 0: [a1][b1][a2]   head first: while a1 may not start, neither may b1
//   stream b ─┘
//   stream c ──  hardware queue 1: [c1]
//
// A kernel leaves its queue once all its blocks have started, and ends later; all else ends at the head.
#pragma once

#include "tests/standin/state.h"

namespace standin {

/// A queue for a new stream, by the seed. With the lock, as are all here.
std::size_t choose_queue(Device& device);

/// The stream behind a handle: NULL and 1 are the current context's legacy stream, 2 this thread's own; nullptr: none.
std::shared_ptr<Stream> find_stream(const std::shared_ptr<Context>& current, StreamHandle handle);

/// Appends to a stream what is to run after all that the rules of streams say. The operation.
OperationPtr enqueue(const std::shared_ptr<Stream>& stream, const Command& command, std::vector<OperationPtr> after = {});

/// The same on a queue without a stream, for nodes of a graph.
OperationPtr enqueue_on(const std::shared_ptr<Context>& context, std::size_t queue, const Command& command,
                        std::vector<OperationPtr> after);

/// What a new operation of this stream would wait for by the rules of streams.
std::vector<OperationPtr> predecessors(const Stream& stream);

/// Marks an operation ended, and tells everybody.
void finish(const OperationPtr& operation, DriverResult result);

/// Waits for one operation, or for all of a context; releases the lock meanwhile. Ends at once where the context is lost.
void wait_for(Lock& lock, const OperationPtr& operation);
void wait_idle(Lock& lock, const Context& context);

/// Whether all operations given to a stream have ended.
bool is_idle(const Stream& stream);

}  // namespace standin
