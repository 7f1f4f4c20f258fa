// tutti-topo and tutti-doctor, as scripts and people use them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/support/processor_time.h"
#include "tests/unit/topology/fake_files.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/verbs_look.h"
#include "tools/doctor/verdicts.h"
#include "tools/topo/graph_json.h"
#include "topology/cpus.h"
#include "topology/render.h"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

std::string content(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}

/// Runs a command line of the shell.
Outcome run(const std::string& command) {
  const std::string stem = testing::TempDir() + "/tutti_tools_" + std::to_string(getpid());
  const int status = ::system((command + " >" + stem + ".out 2>" + stem + ".err").c_str());
  Outcome result{WIFEXITED(status) ? WEXITSTATUS(status) : -1, content(stem + ".out"), content(stem + ".err")};
  unlink((stem + ".out").c_str());
  unlink((stem + ".err").c_str());
  return result;
}

const std::string kTopo = TUTTI_TOPO;
const std::string kDoctor = TUTTI_DOCTOR;

TEST(Topo, PrintsATreeByDefaultAndOnDemand) {
  const Outcome plain = run(kTopo);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("machine0: "));
  EXPECT_THAT(plain.out, HasSubstr("numa0: "));
  EXPECT_THAT(plain.err, IsEmpty());
  EXPECT_EQ(run(kTopo + " --text").out.substr(0, 9), "machine0:");
}

// A stdout that takes nothing more: one sentence and exit code 1, whatever was to be written.
TEST(Tools, SayOnceThatStdoutCannotBeWritten) {
  for (const std::string& program : {kTopo, kDoctor}) {
    for (const char* arguments : {"", " --help", " --version", " --json"}) {
      for (const char* out : {" >/dev/full", " >&-"}) {
        const Outcome result = run("{ " + program + arguments + out + "; }");
        EXPECT_EQ(result.code, 1) << program << arguments << out;
        EXPECT_THAT(result.err, HasSubstr("stdout")) << program << arguments << out;
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
      }
    }
  }
}

TEST(Tools, RefuseAJsonFileThatCannotBeWrittenAndEmptyOneThatCan) {
  EXPECT_EQ(run(kTopo + " --json=/nowhere/x").code, 2);
  EXPECT_EQ(run(kDoctor + " --json=/nowhere/x").code, 2);
  const std::string file = testing::TempDir() + "/tutti_tools_json_" + std::to_string(getpid());
  for (int twice = 0; twice < 2; ++twice) EXPECT_EQ(run(kTopo + " --json=" + file).code, 0);
  EXPECT_FALSE(Json::parse(content(file), nullptr, false).is_discarded());
  unlink(file.c_str());
}

TEST(Topo, SaysThatAFileFindsNoRoomAndWhatToDo) {
  for (const char* option : {" --svg", " --write-nccl-xml"}) {
    const Outcome result = run(kTopo + option + " /dev/full");
    EXPECT_EQ(result.code, 1) << option;
    EXPECT_THAT(result.err, HasSubstr("/dev/full cannot be written: No space left on device; name another file")) << option;
  }
}

TEST(Topo, TakesNoArgumentWithoutExplain) {
  const Outcome result = run(kTopo + " foo");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("'foo' was given"));
}

TEST(Topo, JsonHasTheContractsShape) {
  const Outcome result = run(kTopo + " --json");
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  for (const char* key : {"numa", "gpus", "nics", "paths", "rings", "trees"}) {
    EXPECT_TRUE(json[key].is_array()) << key;
  }
  ASSERT_TRUE(json.contains("ring_bandwidth_GBps"));
  ASSERT_GE(json["numa"].size(), 1u);
  EXPECT_TRUE(json["numa"][0]["cpus"].is_string());
  EXPECT_GT(json["numa"][0]["memory_bytes"].get<std::uint64_t>(), 0u);
  EXPECT_EQ(json["cpus"]["effective"], effective_cpus());
}

/// A part of a machine, within another.
Node node_of(NodeKind kind, int parent = 0, int id = 0) {
  Node node;
  node.kind = kind;
  node.parent = parent;
  node.id = id;
  return node;
}

TEST(Topo, JsonOfDevicesHasTheContractsFields) {
  Graph graph;
  graph.add({});
  Node numa = node_of(NodeKind::numa, 0, 1);
  Node gpu = node_of(NodeKind::gpu, graph.add(numa));
  gpu.name = "NVIDIA \xff";
  gpu.pci = "0000:07:00.0";
  gpu.sm = 90;
  graph.add(gpu);
  Node nic = node_of(NodeKind::nic, 1);
  nic.name = "mlx5_0";
  nic.nic = {{"ib0"}, 200, 1, true, true};
  graph.add(nic);
  const Json json = Json::parse(topo::graph_json(graph, *topo::find_routes(graph)).text(), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  const Json& first = json["gpus"][0];
  EXPECT_EQ(first["id"], 0);
  EXPECT_EQ(first["pci"], "0000:07:00.0");
  EXPECT_EQ(first["numa"], 1);
  EXPECT_EQ(first["sm"], 90);
  EXPECT_EQ(json["nics"][0]["name"], "mlx5_0");
  EXPECT_EQ(json["nics"][0]["speed_Gbps"], 200);
  EXPECT_EQ(json["nics"][0]["gdr"], true);
  EXPECT_EQ(json["nics"][0]["ports"], 1);
  ASSERT_EQ(json["paths"].size(), 1u);
  EXPECT_EQ(json["paths"][0]["a"], "gpu0");
  EXPECT_EQ(json["paths"][0]["b"], "nic0");
  EXPECT_EQ(json["paths"][0]["type"], "NODE");
  EXPECT_TRUE(json["paths"][0]["bandwidth_GBps"].is_null()) << "nobody knows it";
  EXPECT_EQ(json["paths"][0]["hops"], 2);
}

TEST(Topo, AFileOfHwlocsIsShownInsteadOfThisMachine) {
  const std::string path = testing::TempDir() + "/tutti_topo_" + std::to_string(getpid()) + ".xml";
  std::ofstream(path) << R"(<topology version="2.0"><object type="Machine" os_index="0" cpuset="0x3" nodeset="0x1">
      <object type="NUMANode" os_index="0" cpuset="0x3" nodeset="0x1" local_memory="4096"/></object></topology>)";
  const Outcome result = run(kTopo + " --json --hwloc-xml " + path);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"numa\":[{\"id\":0,\"cpus\":\"0-1\",\"memory_bytes\":4096}]"));
  std::ofstream(path) << "<topology version='7'/>";
  const Outcome refused = run(kTopo + " --hwloc-xml " + path);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr(path));
  unlink(path.c_str());
}

TEST(Topo, JsonSaysNullWhereNobodyKnowsAndWholeNumbersWhole) {
  Graph graph;
  graph.add({});
  Node numa = node_of(NodeKind::numa);
  Node gpu = node_of(NodeKind::gpu, graph.add(numa));
  graph.add(gpu);
  gpu.id = 1;
  gpu.sm = 90;
  graph.add(gpu);
  const std::string text = topo::graph_json(graph, *topo::find_routes(graph)).text();
  const Json json = Json::parse(text);
  EXPECT_TRUE(json["numa"][0]["memory_bytes"].is_null()) << text;
  EXPECT_TRUE(json["gpus"][0]["name"].is_null()) << text;
  EXPECT_TRUE(json["gpus"][0]["pci"].is_null()) << text;
  EXPECT_TRUE(json["gpus"][0]["sm"].is_null()) << text;
  EXPECT_TRUE(json["host"].is_null()) << text;
  EXPECT_THAT(text, HasSubstr("\"sm\":90}"));
}

// Two GPUs on two NUMA nodes of Zen 3 whose PCIe links are not told, as in azure-ncv4.xml.
Graph gpus_with_unknown_links() {
  Graph graph;
  graph.add({});
  for (int i = 0; i < 2; ++i) {
    Node numa = node_of(NodeKind::numa, 0, i);
    numa.cpu = {"x86_64", "AuthenticAMD", 0xaf, 1};
    Node gpu = node_of(NodeKind::gpu, graph.add(std::move(numa)), i);
    graph.add(std::move(gpu));
  }
  return graph;
}

TEST(Topo, WhatIsOnlyAssumedIsSaidToBe) {
  const Graph graph = gpus_with_unknown_links();
  const topo::Routes routes = *topo::find_routes(graph);
  EXPECT_THAT(topo::rings_text(routes)[1],
              HasSubstr("(narrowest: gpu0 > numa0 (PCIe) of unknown bandwidth, taken for 12.0 GB/s)"));
  const Json json = Json::parse(topo::graph_json(graph, routes).text());
  EXPECT_EQ(json["ring_details"][0]["assumed"], true);
  EXPECT_EQ(json["trees"][0]["assumed"], true);

  const Path path = path_between(graph, 2, 4);
  const auto links = topo::way_links(graph, path);
  ASSERT_EQ(links.size(), 3u);
  EXPECT_THAT(topo::unknown_links_text(links),
              testing::ElementsAre(testing::EndsWith("gpu0 > numa0 (PCIe) (12.0 GB/s), gpu1 < numa1 (PCIe) (12.0 GB/s)")));
  const Json way = Json::parse(topo::way_json(graph, path, links).text());
  EXPECT_EQ(way["bandwidth_GBps"], path.gbytes) << "what is known";
  EXPECT_EQ(way["links"][0]["assumed"], true);
  EXPECT_EQ(way["links"][1]["assumed"], false);
}

TEST(Topo, ExplainIsAnEntryOfPathsInJson) {
  const std::string topology = std::string(TUTTI_TEST_DATA) + "/topologies/dgx1-v100.nccl.xml";
  const Json all = Json::parse(run(kTopo + " --json --nccl-xml " + topology).out);
  const Outcome result = run(kTopo + " --json --explain gpu0 gpu3 --nccl-xml " + topology);
  ASSERT_EQ(result.code, 0) << result.err;
  Json way = Json::parse(result.out, nullptr, false);
  ASSERT_FALSE(way.is_discarded()) << result.out;
  EXPECT_EQ(way["links"], Json::parse(R"x([{"name":"gpu0 > gpu3 (NVLink)","bandwidth_GBps":50,"assumed":false}])x"));
  way.erase("links");
  EXPECT_EQ(way, all["paths"][2]);
  const std::string file = testing::TempDir() + "/tutti_topo_" + std::to_string(getpid()) + ".json";
  EXPECT_EQ(run(kTopo + " --json=" + file + " --explain gpu0 gpu0 --nccl-xml " + topology).code, 0);
  EXPECT_THAT(content(file), HasSubstr("\"type\":\"X\""));
  unlink(file.c_str());
}

// A file's names may hold what commands a terminal, or ends a string of DOT's.
TEST(Topo, NamesFromFilesDoNotCommandTheTerminal) {
  const std::string path = testing::TempDir() + "/tutti_topo_" + std::to_string(getpid()) + ".xml";
  std::ofstream(path) << R"(<system version="1"><cpu numaid="0" affinity="0000000f">
      <pci busid="0000:01:00.0" class="0x030200" vendor="0x1002" device="0x1" link_speed="8 GT/s" link_width="16">
        <gpu dev="0" gcn="gfx&#27;[31m&#10;new&#155;2J&quot;\" rank="0" gdr="1"/></pci>
      <nic><net name="eth&#27;]0;x&#7;" dev="0" speed="100000" port="0" guid="0x0" maxconn="1" gdr="0"/></nic>
      </cpu></system>)";
  for (const char* options : {"--text", "--dot", "--explain gpu0 nic0", "--rings"}) {
    const Outcome result = run(kTopo + " " + options + " --nccl-xml " + path);
    EXPECT_EQ(result.code, 0) << result.err;
    for (const char* control : {"\x1b", "\x07", "\xc2\x9b", "\nnew"}) EXPECT_THAT(result.out, Not(HasSubstr(control)));
  }
  EXPECT_THAT(run(kTopo + " --nccl-xml " + path).out, HasSubstr("gfx?[31m?new?2J\"\\\n"));
  EXPECT_THAT(run(kTopo + " --dot --nccl-xml " + path).out, HasSubstr("gfx?[31m?new?2J\\\"\\\\\"]"));
  std::ofstream(path) << R"(<system version="1"><cpu numaid="0" affinity="0&#27;[31m"/></system>)";
  const Outcome refused = run(kTopo + " --nccl-xml " + path);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("0?[31m"));
  unlink(path.c_str());
}

TEST(Topo, WhatHasNothingToSayOfItselfHasNoColon) {
  Graph graph;
  graph.add({});
  EXPECT_EQ(text_tree(graph), "machine0\n");
}

// Four GPUs in a cycle of NVLinks, which is one ring each way.
Graph cycle_of_gpus() {
  Graph graph;
  graph.add({});
  for (int i = 0; i < 4; ++i) {
    Node gpu = node_of(NodeKind::gpu, 0, 10 + i);
    graph.add(std::move(gpu));
    graph.links.push_back({1 + i, 1 + (i + 1) % 4, LinkKind::nvlink, 1, 25, 0});
  }
  return graph;
}

TEST(Topo, JsonHasRingsAndTreesByTheGpusIds) {
  const Graph graph = cycle_of_gpus();
  const Json json = Json::parse(topo::graph_json(graph, *topo::find_routes(graph)).text());
  EXPECT_EQ(json["rings"], Json::parse("[[10,11,12,13],[10,13,12,11]]"));
  EXPECT_EQ(json["ring_bandwidth_GBps"], 50);
  EXPECT_EQ(json["ring_bound_GBps"], 50);
  ASSERT_EQ(json["ring_details"].size(), 2u);
  EXPECT_EQ(json["ring_details"][0]["bandwidth_GBps"], 25);
  EXPECT_EQ(json["ring_details"][0]["narrowest"], "gpu10 > gpu11 (NVLink)");
  EXPECT_NEAR(json["tree_bandwidth_GBps"].get<double>(), 25 * 4 / 3., 1e-3) << "each tree leaves out one of the links";
  EXPECT_EQ(json["trees"][0]["edges"].size(), 3u);
  EXPECT_TRUE(json["trees"][0].contains("root"));

  const Json part = Json::parse(topo::graph_json(graph, *topo::find_routes(graph, "10-11")).text());
  EXPECT_EQ(part["rings"], Json::parse("[[10,11]]"));
  EXPECT_FALSE(topo::find_routes(graph, "10,14").ok());
  EXPECT_FALSE(topo::find_routes(graph, "all").ok());
}

TEST(Topo, RingsAndTreesAreLinesWithTheirNarrowestLinks) {
  const topo::Routes routes = *topo::find_routes(cycle_of_gpus());
  EXPECT_THAT(
      topo::rings_text(routes),
      testing::ElementsAre("2 rings, 50.0 GB/s together; no set has more",
                           "    25.0 GB/s  gpu10 gpu11 gpu12 gpu13  (narrowest: gpu10 > gpu11 (NVLink) of 25.0 GB/s)",
                           "    25.0 GB/s  gpu10 gpu13 gpu12 gpu11  (narrowest: gpu10 > gpu13 (NVLink) of 25.0 GB/s)"));
  EXPECT_THAT(topo::trees_text(routes)[0], HasSubstr("trees, 33.3 GB/s together; no set has more"));
  EXPECT_THAT(topo::rings_text(*topo::find_routes(Graph())), testing::ElementsAre("No rings: there are no GPUs"));
}

TEST(Topo, JsonOfManyDevicesTakesTimeByWhatItSays) {
  Graph graph = cycle_of_gpus();
  for (int i = 0; i < 5000; ++i) graph.links.push_back({1, 1 + i % 3 + 1, LinkKind::xgmi, 1, 1, 0});
  for (int i = 0; i < 900; ++i) {
    Node node = node_of(i < 300 ? NodeKind::gpu : NodeKind::nic, 0, 100 + i);
    graph.add(std::move(node));
  }
  topo::Routes none;
  const test::ProcessorTime taken;
  const std::string text = topo::graph_json(graph, none).text();
  EXPECT_TRUE(taken.within(3)) << "about .2 s in Release";
  const Json json = Json::parse(text, nullptr, false);
  ASSERT_EQ(json["paths"].size(), 304u * 303 / 2 + 304 * 600);
  EXPECT_EQ(json["paths"][0], Json::parse(R"({"a":"gpu10","b":"gpu11","type":"NV1","bandwidth_GBps":25.0,"hops":1})"));
  EXPECT_EQ(json["paths"].back()["type"], "SYS");
}

TEST(Topo, ABoundIsToldOnlyWhereThereIsOne) {
  topo::Routes routes = *topo::find_routes(cycle_of_gpus());
  routes.trees.optimal = false;
  routes.trees.bound = 40e9;
  EXPECT_THAT(topo::trees_text(routes)[0], HasSubstr("together; no set has more than 40.0 GB/s"));
  routes.trees.bound = 0;
  EXPECT_THAT(topo::trees_text(routes)[0], HasSubstr("together; how much more another set could have is not known"));
  routes.trees.trees.clear();
  EXPECT_THAT(topo::trees_text(routes)[0], HasSubstr("there may be some"));
}

TEST(Topo, RingsAndTreesAreShownOnDemand) {
  const Outcome both = run(kTopo + " --rings --trees");
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_THAT(both.out, HasSubstr("ring"));
  EXPECT_THAT(both.out, HasSubstr("tree"));
  EXPECT_THAT(both.out, Not(HasSubstr("machine0:")));
  EXPECT_THAT(run(kTopo + " --rings --text").out, HasSubstr("machine0:"));
}

TEST(Topo, AFileOfNcclsIsShownDrawnAndWritten) {
  const std::string stem = testing::TempDir() + "/tutti_topo_" + std::to_string(getpid());
  const std::string topology = std::string(TUTTI_TEST_DATA) + "/topologies/dgx1-v100.nccl.xml";
  const Outcome result =
      run(kTopo + " --json --nccl-xml " + topology + " --svg " + stem + ".svg --write-nccl-xml " + stem + ".xml");
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  ASSERT_EQ(json["gpus"].size(), 8u) << result.out;
  EXPECT_EQ(json["gpus"][0]["sm"], 70);
  EXPECT_EQ(json["nics"][0]["speed_Gbps"], 100);
  EXPECT_EQ(json["paths"].size(), 8u * 7 / 2 + 8 * 4);
  EXPECT_EQ(json["paths"][2]["type"], "NV2") << "gpu0 to gpu3";
  EXPECT_EQ(json["paths"][2]["bandwidth_GBps"], 50);
  EXPECT_EQ(json["rings"].size(), 6u) << "three cycles both ways";
  EXPECT_EQ(json["ring_bandwidth_GBps"], 150);
  EXPECT_THAT(content(stem + ".svg"), HasSubstr("NV2, 50 GB/s"));
  const Outcome again = run(kTopo + " --json --nccl-xml " + stem + ".xml");
  EXPECT_EQ(Json::parse(again.out, nullptr, false)["paths"], json["paths"]) << again.err;
  unlink((stem + ".svg").c_str());
  unlink((stem + ".xml").c_str());
}

TEST(Topo, DotIsAGraph) {
  const Outcome result = run(kTopo + " --dot");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out.substr(0, 7), "graph m");
  if (run("dot -V").code != 0) GTEST_SKIP() << "Graphviz is not installed; the text alone was looked at";
  EXPECT_EQ(run(kTopo + " --dot | dot -Tsvg").code, 0);
}

TEST(Topo, WhatIsWrongOrNotThereYetIsRefusedInOneSentence) {
  for (const char* options : {"--rings --gpus x", "--rings --gpus 7", "--gpus 0", "--rings --dot", "--svg /no/such/x.svg",
                              "--nccl-xml /no/such/file", "--hwloc-xml /no/such/file", "--dot --json=/dev/null",
                              "--rings --gpus 0-1,0", "--explain gpu7 gpu8", "--explain gpu0", "--text --dot",
                              "--hwloc-xml a --nccl-xml b", "--write-nccl-xml /no/such/x.xml", "--bogus", "extra"}) {
    const Outcome result = run(kTopo + " " + options);
    EXPECT_EQ(result.code, 2) << options;
    EXPECT_THAT(result.err, HasSubstr("tutti-topo: ")) << options;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << options << ": " << result.err;
    EXPECT_THAT(result.out, IsEmpty()) << options;
  }
  EXPECT_THAT(run(kTopo + " machine.xml").err, HasSubstr("name a machine's file as --hwloc-xml or --nccl-xml"));
  EXPECT_THAT(run(kTopo + " --nccl-xml machine.xml --svg ./machine.xml").err,
              HasSubstr("--svg would overwrite the file that --nccl-xml reads"));
  EXPECT_THAT(run(kTopo + " --svg new.svg --json=new.svg").err, HasSubstr("--svg and --json name the same file"));
}

TEST(Doctor, SaysForEachTransportWhetherItIsUsableAndIfNotWhatWouldMakeItSo) {
  const Outcome result = run(kDoctor + " --json");
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  std::vector<std::string> names;
  for (const Json& transport : json["transports"]) {
    names.push_back(transport["name"]);
    EXPECT_FALSE(transport["why"].get<std::string>().empty()) << transport;
    EXPECT_NE(transport["usable"].get<bool>(), !transport["remedy"].get<std::string>().empty()) << transport;
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("shm", "tcp", "verbs", "nvlink"));
  EXPECT_GE(json["checks"].size(), 8u);
}

TEST(Doctor, ATransportThatTheSettingLeavesOutIsNotUsable) {
  Settings settings = tolerant_settings(nullptr);
  settings.transports = {"tcp"};
  for (const doctor::Verdict& verdict : doctor::judge_transports(Sysfs(), settings)) {
    if (verdict.transport != "shm") continue;
    EXPECT_FALSE(verdict.usable);
    EXPECT_THAT(verdict.why + verdict.remedy, HasSubstr("TUTTI_TRANSPORTS"));
  }
}

std::string why_not(const FakeFiles& fake, const std::string& transport) {
  for (const doctor::Verdict& verdict : doctor::judge_transports(fake.files(), tolerant_settings(nullptr))) {
    if (verdict.transport == transport) return verdict.usable ? "usable" : verdict.why;
  }
  return "absent";
}

std::string verbs_missing(const FakeFiles& fake) {
  const Status usable = doctor::look_at_verbs_ports(fake.files()).usable;
  return usable.ok() ? "" : usable.error().message;
}

TEST(Doctor, NamesTheFirstThingThatADeviceTransportLacks) {
  FakeFiles fake;
  EXPECT_THAT(why_not(fake, "verbs"), HasSubstr("no verbs transport yet; " + verbs_missing(fake)));

  EXPECT_THAT(why_not(fake, "nvlink"), HasSubstr("no GPU"));
  for (const char* address : {"0000:07:00.0", "0000:08:00.0"}) {
    const std::string folder = std::string("/sys/bus/pci/devices/") + address;
    fake.file(folder + "/class", "0x030200").file(folder + "/vendor", "0x10de");
  }
  EXPECT_THAT(why_not(fake, "nvlink"), HasSubstr("no NVIDIA driver"));
}

TEST(Doctor, SaysOfVerbsWhatItsExitCodeSays) {
  const Outcome result = run(kDoctor + " verbs --json");
  const Json json = Json::parse(result.out.substr(0, result.out.find('\n')), nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  EXPECT_EQ(json["usable"].get<bool>(), result.code == 0) << result.out;
  EXPECT_EQ(json["remedy"].get<std::string>().empty(), result.code == 0);
  EXPECT_EQ(run(kDoctor + " verbs a.file").code, 2);
  EXPECT_EQ(run(kDoctor + " verbs --settings").code, 2);
}

TEST(Doctor, HasTheTransportsOwnSentenceOfALimitThatRulesItOut) {
  const Outcome result = run("(ulimit -f 2048; " + kDoctor + ")");  // blocks of 512 bytes
  EXPECT_EQ(result.code, 0) << result.err;                          // tcp is usable
  EXPECT_THAT(result.out,
              testing::ContainsRegex("shm +no +this process cannot share memory: shared memory of [0-9]+ bytes is "
                                     "longer than files may be .1048576 bytes.: File too large\n"
                                     " +> Raise the limit of file sizes .`ulimit -f`."));
}

TEST(Doctor, NotesAQuotaBelowTheCpus) {
  FakeFiles fake;
  fake.file("/proc/self/cgroup", "0::/").file("/proc/self/mountinfo", "1 1 0:1 / /cg rw - cgroup2 cgroup2 rw");
  fake.file("/cg/cpu.max", "50000 100000");
  const doctor::Finding cpus = doctor::look_around(fake.files()).front();
  EXPECT_EQ(cpus.health, doctor::Health::note);
  EXPECT_THAT(cpus.text, HasSubstr("0.50 CPUs by /cg/cpu.max"));
  EXPECT_THAT(cpus.remedy, Not(IsEmpty()));
}

TEST(Doctor, PrintsEverySettingWithItsOrigin) {
  const Outcome result = run("TUTTI_LANES=4 TUTTI_SECRET=swordfish TUTTI_LAENS=3 " + kDoctor + " --settings");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, testing::ContainsRegex("TUTTI_LANES +integer +0 +4 +environment"));
  EXPECT_THAT(result.out, testing::ContainsRegex("TUTTI_CONNECT_TIMEOUT +duration +60s +60s +default"));
  EXPECT_THAT(result.out, HasSubstr("TUTTI_LAENS is no setting"));
  EXPECT_THAT(result.out, Not(HasSubstr("swordfish")));
  EXPECT_THAT(result.out, HasSubstr("(set)"));
}

TEST(Doctor, AMalformedSettingIsShownAndFails) {
  EXPECT_EQ(run("TUTTI_LANES=many " + kDoctor).code, 2);
  const Outcome result = run("TUTTI_LANES=many " + kDoctor + " --settings --json");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("TUTTI_LANES is \"many\""));
  EXPECT_THAT(result.out, HasSubstr("\"name\":\"TUTTI_SECRET_FILE\""));
}

TEST(Doctor, ASettingThatNamesWhatIsNotThereIsShownAndFails) {
  const std::string folder = testing::TempDir() + "/tutti_doctor_" + std::to_string(getpid());
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  const std::string empty = folder + "/empty";
  std::ofstream(empty) << "\n";
  const std::pair<std::string, std::string> cases[] = {
      {"TUTTI_PLUGIN_PATH=/nosuch", "\"/nosuch\", which cannot be read"},
      {"TUTTI_TRANSPORTS=tcp,pigeon", "a transport \"pigeon\", which there is not"},
      {"TUTTI_ALGORITHM=bogus", "\"bogus\" names an algorithm"},
      {"TUTTI_INTERFACE=nosuch", "interface \"nosuch\" does not exist"},
      {"TUTTI_SECRET_FILE=/nosuch", "\"/nosuch\" cannot be read"},
      {"TUTTI_SECRET_FILE=" + folder, "cannot be read"},
      {"TUTTI_SECRET_FILE=" + empty, "is empty"},
      {"TUTTI_SECRET_FILE=/dev/null", "is empty"},
      {"TUTTI_COMM_ID=foo", "TUTTI_COMM_ID: \"foo\" is no address at which ranks can meet"},
      {"TUTTI_COMM_ID=env://", "leads nowhere"},
      {"TUTTI_COMM_ID=tcp://host:0", "ports are 1 to 65535"}};
  for (const auto& [setting, why] : cases) {
    const Outcome result = run(setting + " " + kDoctor);
    EXPECT_EQ(result.code, 2) << setting;
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_THAT(result.out, HasSubstr(why));
    EXPECT_THAT(run(setting + " " + kDoctor + " --settings").out, HasSubstr(why));
  }
  std::ofstream(empty) << "a key\n";
  EXPECT_EQ(
      run("TUTTI_TRANSPORTS=tcp TUTTI_ALGORITHM=ring TUTTI_INTERFACE=lo TUTTI_SECRET_FILE=" + empty + " " + kDoctor).code,
      0);
  unlink(empty.c_str());
  rmdir(folder.c_str());
}

#ifdef TUTTI_PLUGINS
TEST(Doctor, ListsTheTransportsOfPluginsToo) {
  const std::string plugins = TUTTI_PLUGINS;
  const Outcome result = run("TUTTI_TRANSPORTS=queue TUTTI_PLUGIN_PATH=" + plugins + " " + kDoctor);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, testing::ContainsRegex("\nqueue +yes +.*\\(plugin " + plugins));
  const std::string folder = testing::TempDir() + "/tutti_plugins_" + std::to_string(getpid());
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  std::ofstream(folder + "/junk.so") << "no library";
  EXPECT_THAT(run("TUTTI_PLUGIN_PATH=" + plugins + ":" + folder + " " + kDoctor).out,
              testing::ContainsRegex("\njunk.so +no +passed over: "));
  unlink((folder + "/junk.so").c_str());
  rmdir(folder.c_str());
}
#endif

// The loopback of a new network namespace is down, and ranks meet by TCP whatever carries their messages.
TEST(Doctor, NoTransportIsUsableWhereRanksCannotMeet) {
  if (run("unshare -rn true").code != 0) GTEST_SKIP() << "no network namespace can be made here";
  const Outcome result = run("unshare -rn " + kDoctor);
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.out, testing::ContainsRegex("\nshm +no +ranks cannot meet here: [^\n]*\n +> [^\n]*ip link set lo up"));
}

TEST(Doctor, RecordIsRefusedUntilItIsThere) {
  const Outcome result = run(kDoctor + " record some.file");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("some.file"));
  EXPECT_EQ(run(kDoctor + " rekord").code, 2);
}

}  // namespace
}  // namespace tutti
