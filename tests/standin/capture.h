// Stream capture: what is recorded into graphs, and what is forbidden meanwhile.
#pragma once

#include "tests/standin/entry.h"
#include "tests/standin/state.h"

namespace standin {

/// An object whose owner is told when no graph holds it any more.
struct UserObject {
  void* data = nullptr;
  HostFunction destroy = nullptr;
  unsigned references = 0;  ///< the program's and the graphs'
};

struct GraphNode {
  std::shared_ptr<Context> context;
  Command command;
  std::vector<std::size_t> after;  ///< nodes before it in the graph
};

struct Graph {
  std::vector<std::shared_ptr<GraphNode>> nodes;
  std::map<std::shared_ptr<UserObject>, unsigned> objects;  ///< held, and how often
};

/// A capture from its beginning to its end. Streams that joined refer to it.
struct Capture {
  std::uint64_t id = 0;
  CaptureMode mode = CaptureMode::global;
  std::thread::id thread;
  std::shared_ptr<Stream> origin;
  std::set<std::shared_ptr<Stream>> streams;
  std::shared_ptr<Graph> graph;
  bool invalidated = false;
  bool over = false;
};

/// All below: with the lock.

/// The captures under way in this process.
std::vector<std::shared_ptr<Capture>>& captures();

/// This thread's mode (cuThreadExchangeStreamCaptureMode).
CaptureMode& thread_capture_mode();

/// Refuses a call that a capture under way forbids, by the thread's mode and the capture's, and invalidates that capture:
/// allocations, loads, queries and waits.
DriverResult refuse_unsafe();

/// Refuses what would wait for a capturing stream of the context.
DriverResult refuse_while_capturing(const Context& context);

/// Refuses a call that a stream, or an event recorded in one, does not take during its capture.
DriverResult refuse_captured(const Stream& stream);
DriverResult refuse_captured(const Event& event);

/// Gives a command to a stream: it runs, or becomes a node where the stream is capturing.
DriverResult submit(const std::shared_ptr<Stream>& stream, const Command& command);

/// The same for whoever needs the operation, nullptr where it was captured.
DriverResult submit(const std::shared_ptr<Stream>& stream, const Command& command, OperationPtr& operation);

/// Makes the stream's next node depend on what a captured event was recorded behind. The stream joins that capture.
DriverResult join_capture(const std::shared_ptr<Stream>& stream, const Event& event);

}  // namespace standin
