#include "tests/standin/capture.h"

#include <algorithm>

#include "tests/standin/graphs.h"
#include "tests/standin/queues.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace standin {
namespace {

void invalidate(Capture& capture) { capture.invalidated = true; }

/// Whether this capture forbids unsafe calls to this thread, as cuThreadExchangeStreamCaptureMode is documented.
bool forbids(const Capture& capture) {
  const CaptureMode own = thread_capture_mode();
  if (own == CaptureMode::relaxed || capture.mode == CaptureMode::relaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return own == CaptureMode::global && capture.mode == CaptureMode::global;
}

/// Ends a capture: its streams run what they are given from here on.
void end(const std::shared_ptr<Capture>& capture) {
  for (const auto& stream : capture->streams) {
    stream->capture = nullptr;
    stream->capture_nodes.clear();
  }
  capture->over = true;
  auto& all = captures();
  all.erase(std::remove(all.begin(), all.end(), capture), all.end());
}

void add_node(Stream& stream, const Command& command) {
  auto node = std::make_shared<GraphNode>();
  node->context = stream.context;
  node->command = command;
  node->after = stream.capture_nodes;
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back(std::move(node));
  stream.capture_nodes = {nodes.size() - 1};
}

/// Whether every node of the graph comes before the nodes that the origin ends with.
bool is_joined(const Capture& capture) {
  const auto& nodes = capture.graph->nodes;
  std::vector<bool> reached(nodes.size(), false);
  for (const std::size_t last : capture.origin->capture_nodes) reached[last] = true;
  for (std::size_t at = nodes.size(); at-- > 0;) {
    for (const std::size_t before : reached[at] ? nodes[at]->after : std::vector<std::size_t>()) reached[before] = true;
  }
  return std::all_of(reached.begin(), reached.end(), [](bool each) { return each; });
}

/// Whether the legacy stream would have to wait for a stream that is capturing. Work for it ends that capture, a question
/// does not.
DriverResult refuse_implicit(const Stream& stream, bool is_work = true) {
  if (!stream.legacy) return DriverResult::success;
  DriverResult result = DriverResult::success;
  for (const auto& capture : captures()) {
    for (const auto& other : capture->streams) {
      if (other->context != stream.context || !other->blocking()) continue;
      if (is_work) invalidate(*capture);
      result = DriverResult::capture_implicit;
    }
  }
  return result;
}

DriverResult end_result(const Capture& capture, const Stream& stream) {
  if (capture.origin.get() != &stream) return DriverResult::capture_unmatched;
  if (capture.invalidated) return DriverResult::capture_invalidated;
  return is_joined(capture) ? DriverResult::success : DriverResult::capture_unjoined;
}

}  // namespace

std::vector<std::shared_ptr<Capture>>& captures() {
  static auto& all = *new std::vector<std::shared_ptr<Capture>>;
  return all;
}

CaptureMode& thread_capture_mode() {
  static thread_local CaptureMode mode = CaptureMode::global;
  return mode;
}

DriverResult refuse_unsafe() {
  DriverResult result = DriverResult::success;
  for (const auto& capture : captures()) {
    if (!forbids(*capture)) continue;
    invalidate(*capture);
    result = DriverResult::capture_unsupported;
  }
  return result;
}

DriverResult refuse_while_capturing(const Context& context) {
  for (const auto& capture : captures()) {
    for (const auto& stream : capture->streams) {
      if (stream->context.get() != &context) continue;
      invalidate(*capture);
      return DriverResult::capture_unsupported;
    }
  }
  return refuse_unsafe();
}

DriverResult refuse_captured(const Stream& stream) {
  if (stream.capture == nullptr) return refuse_implicit(stream);
  invalidate(*stream.capture);
  return DriverResult::capture_unsupported;
}

DriverResult refuse_captured(const Event& event) {
  if (event.capture == nullptr) return DriverResult::success;
  invalidate(*event.capture);
  return DriverResult::captured_event;
}

DriverResult submit(const std::shared_ptr<Stream>& stream, const Command& command, OperationPtr& operation) {
  if (stream->capture != nullptr) {
    if (stream->capture->invalidated) return DriverResult::capture_invalidated;
    add_node(*stream, command);
    return DriverResult::success;
  }
  if (const DriverResult refused = refuse_implicit(*stream); refused != DriverResult::success) return refused;
  operation = enqueue(stream, command);
  return DriverResult::success;
}

DriverResult submit(const std::shared_ptr<Stream>& stream, const Command& command) {
  OperationPtr unused;
  return submit(stream, command, unused);
}

DriverResult join_capture(const std::shared_ptr<Stream>& stream, const Event& event) {
  const auto& capture = event.capture;
  if (capture->over) return DriverResult::captured_event;
  if (capture->invalidated) return DriverResult::capture_invalidated;
  if (stream->legacy) {
    invalidate(*capture);
    return DriverResult::capture_implicit;
  }
  if (stream->capture != nullptr && stream->capture != capture) {
    invalidate(*capture);
    invalidate(*stream->capture);
    return DriverResult::capture_merge;
  }
  stream->capture = capture;
  capture->streams.insert(stream);
  std::set<std::size_t> nodes(stream->capture_nodes.begin(), stream->capture_nodes.end());
  nodes.insert(event.nodes.begin(), event.nodes.end());
  stream->capture_nodes.assign(nodes.begin(), nodes.end());
  return DriverResult::success;
}

}  // namespace standin

namespace {

/// The nodes that cuStreamGetCaptureInfo shows: the array is the stream's until the next call of this thread.
const GraphNodeHandle* shown_nodes(const Stream& stream, std::size_t& count) {
  static thread_local std::vector<GraphNodeHandle> shown;
  shown.clear();
  for (const std::size_t node : stream.capture_nodes) {
    shown.push_back(reinterpret_cast<GraphNodeHandle>(stream.capture->graph->nodes[node].get()));
  }
  count = shown.size();
  return shown.data();
}

void describe(const Stream& stream, std::uint64_t* id, GraphHandle* graph, const GraphNodeHandle** nodes,
              std::size_t* count) {
  std::size_t shown = 0;
  const GraphNodeHandle* const first = shown_nodes(stream, shown);
  if (id != nullptr) *id = stream.capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<GraphHandle>(stream.capture->graph.get());
  if (nodes != nullptr) *nodes = first;
  if (count != nullptr) *count = shown;
}

/// Indices of nodes by their handles; false where one is not of the graph.
bool find_nodes(const Graph& graph, const GraphNodeHandle* handles, std::size_t count, std::set<std::size_t>& found) {
  for (std::size_t each = 0; each < count; ++each) {
    const auto at = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
      return reinterpret_cast<GraphNodeHandle>(node.get()) == handles[each];
    });
    if (at == graph.nodes.end()) return false;
    found.insert(static_cast<std::size_t>(at - graph.nodes.begin()));
  }
  return true;
}

}  // namespace

DriverResult cuStreamBeginCapture_v2(StreamHandle handle, CaptureMode mode) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    if (stream->legacy) return DriverResult::capture_unsupported;
    if (stream->capture != nullptr) return DriverResult::illegal_state;
    if (mode > CaptureMode::relaxed) return DriverResult::invalid_value;
    auto capture = std::make_shared<Capture>();
    capture->id = state().next_id++;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = stream;
    capture->streams = {stream};
    capture->graph = std::make_shared<Graph>();
    graphs().add(capture->graph);
    stream->capture = capture;
    stream->capture_nodes.clear();
    captures().push_back(std::move(capture));
    return DriverResult::success;
  });
}

DriverResult cuStreamEndCapture(StreamHandle handle, GraphHandle* out) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    if (out == nullptr) return DriverResult::invalid_value;
    const auto capture = stream->capture;
    if (capture == nullptr) return DriverResult::illegal_state;
    if (capture->mode != CaptureMode::relaxed && capture->thread != std::this_thread::get_id()) {
      return DriverResult::capture_wrong_thread;
    }
    const auto graph = reinterpret_cast<GraphHandle>(capture->graph.get());
    const DriverResult result = end_result(*capture, *stream);
    *out = result == DriverResult::success ? graph : nullptr;
    end(capture);
    if (result != DriverResult::success) destroy_graph(graph);
    return result;
  });
}

DriverResult cuStreamGetCaptureInfo_v2(StreamHandle handle, CaptureStatus* status, std::uint64_t* id, GraphHandle* graph,
                                       const GraphNodeHandle** nodes, std::size_t* count) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    if (status == nullptr) return DriverResult::invalid_value;
    if (stream->capture == nullptr) {
      *status = CaptureStatus::none;
      return refuse_implicit(*stream, false);
    }
    *status = stream->capture->invalidated ? CaptureStatus::invalidated : CaptureStatus::active;
    if (*status == CaptureStatus::active) describe(*stream, id, graph, nodes, count);
    return DriverResult::success;
  });
}

DriverResult cuStreamUpdateCaptureDependencies(StreamHandle handle, GraphNodeHandle* nodes, std::size_t count,
                                               unsigned flags) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    if (stream->capture == nullptr) return DriverResult::illegal_state;
    if (flags > kSetCaptureDependencies) return DriverResult::invalid_value;
    std::set<std::size_t> found;
    if (flags == kAddCaptureDependencies) found.insert(stream->capture_nodes.begin(), stream->capture_nodes.end());
    if (!find_nodes(*stream->capture->graph, nodes, count, found)) return DriverResult::invalid_value;
    stream->capture_nodes.assign(found.begin(), found.end());
    return DriverResult::success;
  });
}

DriverResult cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  return enter(__func__, Needs::driver, [&](Call&) {
    if (mode == nullptr || *mode > CaptureMode::relaxed) return DriverResult::invalid_value;
    std::swap(*mode, thread_capture_mode());
    return DriverResult::success;
  });
}
