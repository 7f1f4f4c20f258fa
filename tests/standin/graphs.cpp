#include "tests/standin/graphs.h"

#include <algorithm>

#include "tests/standin/queues.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

/// A graph made ready to run: a copy of it, so that the graph may go before.
struct GraphExec {
  std::vector<std::shared_ptr<GraphNode>> nodes;
  std::map<std::shared_ptr<UserObject>, unsigned> objects;
  OperationPtr last;  ///< of its last replay: one instance runs one replay at a time
};

HandleTable<GraphExec, GraphExecHandle>& instances() {
  static auto& all = *new HandleTable<GraphExec, GraphExecHandle>;
  return all;
}

HandleTable<UserObject, UserObjectHandle>& user_objects() {
  static auto& all = *new HandleTable<UserObject, UserObjectHandle>;
  return all;
}

/// Runs the destructor of an object that nobody holds, on a thread of the driver's, once `after` has ended.
void destroy_later(const std::shared_ptr<UserObject>& object, const OperationPtr& after) {
  std::thread([object, after] {
    {
      Lock lock(state().lock);
      wait_for(lock, after);
    }
    in_host_function() = true;  // as in callbacks of streams, no call is permitted
    object->destroy(object->data);
  }).detach();
}

void let_go(const std::shared_ptr<UserObject>& object, unsigned count, const OperationPtr& after) {
  object->references -= std::min(object->references, count);
  if (object->references > 0) return;
  user_objects().remove(reinterpret_cast<UserObjectHandle>(object.get()));
  destroy_later(object, after);
}

/// The nodes that no other comes after.
std::vector<std::size_t> leaves(const std::vector<std::shared_ptr<GraphNode>>& nodes) {
  std::vector<bool> followed(nodes.size(), false);
  for (const auto& node : nodes) {
    for (const std::size_t before : node->after) followed[before] = true;
  }
  std::vector<std::size_t> last;
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    if (!followed[at]) last.push_back(at);
  }
  return last;
}

/// Gives all nodes to queues, drawn for each, since which branch runs where is the driver's choice.
void replay(GraphExec& instance, const std::shared_ptr<Stream>& stream) {
  std::vector<OperationPtr> before = predecessors(*stream);
  if (instance.last != nullptr) before.push_back(instance.last);
  std::vector<OperationPtr> made;
  for (const auto& node : instance.nodes) {
    std::vector<OperationPtr> after = node->after.empty() ? before : std::vector<OperationPtr>();
    for (const std::size_t each : node->after) after.push_back(made[each]);
    made.push_back(enqueue_on(node->context, choose_queue(*node->context->device), node->command, std::move(after)));
  }
  std::vector<OperationPtr> last = before;
  for (const std::size_t each : leaves(instance.nodes)) last.push_back(made[each]);
  instance.last = enqueue(stream, {}, std::move(last));
}

}  // namespace

namespace standin {

HandleTable<Graph, GraphHandle>& graphs() {
  static auto& all = *new HandleTable<Graph, GraphHandle>;
  return all;
}

void destroy_graph(GraphHandle handle) {
  const auto graph = graphs().find(handle);
  graphs().remove(handle);
  for (const auto& [object, count] : graph->objects) let_go(object, count, nullptr);
}

std::size_t graph_objects() { return graphs().size() + instances().size() + user_objects().size(); }

}  // namespace standin

DriverResult cuGraphInstantiateWithFlags(GraphExecHandle* out, GraphHandle handle, unsigned long long flags) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto graph = graphs().find(handle);
    if (graph == nullptr || out == nullptr || flags != 0) return DriverResult::invalid_value;
    auto instance = std::make_shared<GraphExec>();
    instance->nodes = graph->nodes;
    instance->objects = graph->objects;
    for (const auto& [object, count] : instance->objects) object->references += count;
    *out = instances().add(std::move(instance));
    return DriverResult::success;
  });
}

DriverResult cuGraphLaunch(GraphExecHandle handle, StreamHandle stream_handle) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto instance = instances().find(handle);
    const auto stream = find_stream(call.context, stream_handle);
    if (instance == nullptr) return DriverResult::invalid_value;
    if (stream == nullptr) return DriverResult::invalid_handle;
    if (stream->capture != nullptr) return DriverResult::not_supported;  // child graphs are not implemented
    replay(*instance, stream);
    return DriverResult::success;
  });
}

DriverResult cuGraphDestroy(GraphHandle handle) {
  return enter(__func__, Needs::driver, [&](Call&) {
    if (graphs().find(handle) == nullptr) return DriverResult::invalid_value;
    destroy_graph(handle);
    return DriverResult::success;
  });
}

DriverResult cuGraphExecDestroy(GraphExecHandle handle) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto instance = instances().find(handle);
    if (instance == nullptr) return DriverResult::invalid_value;
    instances().remove(handle);
    for (const auto& [object, count] : instance->objects) let_go(object, count, instance->last);
    return DriverResult::success;
  });
}

DriverResult cuUserObjectCreate(UserObjectHandle* out, void* data, HostFunction destroy, unsigned references,
                                unsigned flags) {
  return enter(__func__, Needs::driver, [&](Call&) {
    if (out == nullptr || destroy == nullptr || references == 0 || flags != kUserObjectNoDestructorSync) {
      return DriverResult::invalid_value;
    }
    auto object = std::make_shared<UserObject>();
    object->data = data;
    object->destroy = destroy;
    object->references = references;
    *out = user_objects().add(std::move(object));
    return DriverResult::success;
  });
}

DriverResult cuUserObjectRelease(UserObjectHandle handle, unsigned count) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto object = user_objects().find(handle);
    if (object == nullptr || count == 0 || count > object->references) return DriverResult::invalid_value;
    let_go(object, count, nullptr);
    return DriverResult::success;
  });
}

DriverResult cuGraphRetainUserObject(GraphHandle graph_handle, UserObjectHandle handle, unsigned count, unsigned flags) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto graph = graphs().find(graph_handle);
    const auto object = user_objects().find(handle);
    if (graph == nullptr || object == nullptr || count == 0 || flags > kGraphUserObjectMove)
      return DriverResult::invalid_value;
    if (flags != kGraphUserObjectMove) object->references += count;
    graph->objects[object] += count;
    return DriverResult::success;
  });
}
