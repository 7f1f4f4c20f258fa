// tutti-topo: a machine's graph as text, JSON, DOT, a drawing or NCCL's XML, the way between two of its devices, and rings
// and trees over its GPUs.
#include <array>
#include <string>
#include <vector>

#include "src/program/files.h"
#include "src/program/options.h"
#include "src/program/output.h"
#include "tools/topo/graph_json.h"
#include "tools/topo/routes.h"
#include "topology/hwloc_xml.h"
#include "topology/live_machine.h"
#include "topology/nccl_xml.h"
#include "topology/render.h"
#include "topology/svg.h"

namespace {

using namespace tutti;

struct Request {
  std::string hwloc_xml;
  std::string nccl_xml;
  std::string write_nccl_xml;
  std::string svg;
  std::string explain;  // the first device, as "gpu0"
  std::string other;    // the second
  std::string gpus;     // those that rings and trees join
  bool text = false;
  bool dot = false;
  bool rings = false;
  bool trees = false;
};

void declare(program::Options& options, Request& request) {
  options.flag("--text", &request.text, "The tree and the matrix of ways between devices (the default)");
  options.flag("--dot", &request.dot, "Graphviz's language");
  options.text("--explain", &request.explain, "A B", "Why the way between two devices is what it is");
  options.positional("B", &request.other, "The second device of --explain", false);
  options.text("--hwloc-xml", &request.hwloc_xml, "FILE",
               "A machine from hwloc's XML (versions 1 to 3) instead of this one");
  options.text("--nccl-xml", &request.nccl_xml, "FILE", "A machine from NCCL's or RCCL's XML instead of this one");
  options.text("--write-nccl-xml", &request.write_nccl_xml, "FILE",
               "Writes the machine as NCCL reads it (NCCL_TOPO_FILE), besides what is shown");
  options.text("--svg", &request.svg, "FILE", "Writes a drawing, besides what is shown; with --rings they are drawn too");
  options.flag("--rings", &request.rings, "Rings of greatest bandwidth over the GPUs, instead of the tree and matrix");
  options.flag("--trees", &request.trees, "Trees of greatest bandwidth, likewise");
  options.text("--gpus", &request.gpus, "LIST", "The GPUs that rings and trees join, as 0-3,6 (all)");
  options.example("tutti-topo", "this machine");
  options.example("tutti-topo --json | jq .nics", "its network devices");
  options.example("tutti-topo --explain gpu0 nic1", "the way between two devices");
  options.example("tutti-topo --rings --gpus 0-3", "rings over four of its GPUs");
  options.example("tutti-topo --hwloc-xml machine.xml", "a machine that lstopo has written down");
  options.example("tutti-topo --nccl-xml topo.xml --svg topo.svg", "a drawing of a machine that NCCL has written down");
  options.example("tutti-topo --dot | dot -Tsvg > machine.svg", "a drawing by Graphviz");
}

/// The index of the GPU or NIC with this label ("gpu0") or name ("mlx5_0"), -1 where there is none.
int device_named(const Graph& graph, const std::string& label) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].kind != NodeKind::gpu && graph.nodes[i].kind != NodeKind::nic) continue;
    if (node_label(graph.nodes[i]) == label || (!label.empty() && graph.nodes[i].name == label)) return static_cast<int>(i);
  }
  return -1;
}

void print(const std::vector<std::string>& lines, program::Output& output) {
  for (const std::string& line : lines) output.line(line);
}

int explain(const Graph& graph, const Request& request, program::Output& output) {
  const std::array<std::string, 2> names = {request.explain, request.other};
  std::array<int, 2> ends{};
  for (std::size_t i = 0; i < names.size(); ++i) {
    ends[i] = device_named(graph, names[i]);
    if (ends[i] < 0) {
      return output.fail(program::kWrongUse,
                         "there is no GPU or NIC \"" + names[i] + "\" here; tutti-topo lists what there is");
    }
  }
  const Path path = path_between(graph, ends[0], ends[1]);
  const std::vector<NetworkLink> links = topo::way_links(graph, path);
  print(path_explained(graph, path), output);
  print(topo::unknown_links_text(links), output);
  output.record(topo::way_json(graph, path, links));
  return program::kGood;
}

Result<Graph> read_graph(const Request& request) {
  if (!request.hwloc_xml.empty()) return read_hwloc_xml(request.hwloc_xml);
  if (!request.nccl_xml.empty()) return read_nccl_xml(request.nccl_xml);
  return read_live();
}

int refuse(const Status& status, program::Output& output) {
  return output.fail(status.code() == TUTTI_INVALID_ARGUMENT ? program::kWrongUse : program::kFailed, status.text());
}

/// The files that were asked for besides the text.
int write_files(const Graph& graph, const Request& request, const topo::Routes& routes, program::Output& output) {
  if (!request.svg.empty()) {
    const std::vector<std::vector<int>> rings =
        request.rings ? topo::rings_by_place(graph, routes) : std::vector<std::vector<int>>();
    const int code = output.file(request.svg, draw_svg(graph, rings, topo::ring_gbytes(routes)).svg);
    if (code != program::kGood) return code;
  }
  if (request.write_nccl_xml.empty()) return program::kGood;
  const auto text = write_nccl_xml(graph);
  return text.ok() ? output.file(request.write_nccl_xml, *text) : refuse(text.status(), output);
}

void show_graph(const Graph& graph, bool dot, program::Output& output) {
  std::string text = dot ? dot_graph(graph) : text_tree(graph);
  const std::string matrix = dot ? std::string() : path_matrix(graph);
  if (!matrix.empty()) text += '\n' + matrix;
  text.pop_back();  // line adds the last newline
  output.line(text);
}

int show(const Request& request, program::Output& output) {
  const Result<Graph> graph = read_graph(request);
  if (!graph.ok()) return output.fail(program::kWrongUse, graph.status().text());
  Result<topo::Routes> routes = topo::Routes();
  const bool wants_routes = (output.json() && request.explain.empty()) || request.rings || request.trees;
  if (wants_routes) routes = topo::find_routes(*graph, request.gpus);
  if (!routes.ok()) return output.fail(program::kWrongUse, routes.status().text());
  if (const int code = write_files(*graph, request, *routes, output); code != program::kGood) return code;
  if (!request.explain.empty()) return explain(*graph, request, output);
  if (output.json()) {
    output.record(topo::graph_json(*graph, *routes));
    return program::kGood;
  }
  if (request.text || !(request.rings || request.trees)) show_graph(*graph, request.dot, output);
  if (request.rings) print(topo::rings_text(*routes), output);
  if (request.trees) print(topo::trees_text(*routes), output);
  return program::kGood;
}

/// What is wrong with the options together; empty where nothing is.
std::string wrong_with(const Request& request, bool json) {
  const bool lone = request.explain.empty() && !request.other.empty();
  const std::pair<bool, std::string> wrongs[] = {
      {request.dot && (request.rings || request.trees),
       "--dot does not draw rings and trees; leave out --dot, or --rings and --trees"},
      {!request.gpus.empty() && !request.rings && !request.trees && !json,
       "--gpus chooses the GPUs of --rings and --trees; give one of them, or --json"},
      {request.text && request.dot, "--text and --dot exclude each other; give one of them"},
      {request.dot && json, "--dot and --json exclude each other; give one of them"},
      {!request.hwloc_xml.empty() && !request.nccl_xml.empty(),
       "--hwloc-xml and --nccl-xml exclude each other; give one of them"},
      {lone, "'" + request.other +
                 "' was given, but nothing says what it is; name a machine's file as --hwloc-xml or --nccl-xml, or two "
                 "devices as --explain gpu0 nic1"},
      {request.explain.empty() != request.other.empty(), "--explain takes two devices; give them as --explain gpu0 nic1"}};
  for (const auto& [is_so, sentence] : wrongs) {
    if (is_so) return sentence;
  }
  for (const auto& [option, path] :
       {std::pair{"--svg", request.svg}, std::pair{"--write-nccl-xml", request.write_nccl_xml}}) {
    if (path.empty()) continue;
    if (std::string refusal = program::check_writable(option, path); !refusal.empty()) return refusal;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  program::Output output("tutti-topo");
  program::Options options("tutti-topo",
                           "Shows the machine as Tutti sees it: NUMA nodes, CPUs, caches, PCIe, GPUs and NICs");
  Request request;
  declare(options, request);
  if (const auto code = options.parse(argc, argv, output)) return *code;
  if (const std::string wrong = wrong_with(request, output.json()); !wrong.empty()) {
    return output.fail(program::kWrongUse, wrong);
  }
  output.writes("--svg", request.svg);
  output.writes("--write-nccl-xml", request.write_nccl_xml);
  output.reads("--hwloc-xml", request.hwloc_xml);
  output.reads("--nccl-xml", request.nccl_xml);
  if (const int code = output.open(); code != program::kGood) return code;
  return output.result(show(request, output));
}
