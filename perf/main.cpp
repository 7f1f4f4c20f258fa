// tutti-perf: measures and checks every collective; options, table and counting are nccl-tests' where it has them.
#include <cstdlib>
#include <string>

#include "perf/bench.h"
#include "perf/links.h"
#include "perf/options.h"
#include "src/program/run_ranks.h"

int main(int argc, char** argv) {
  using namespace tutti;
  program::Output output("tutti-perf");
  program::Options options("tutti-perf", "Measures and checks the collectives of Tutti");
  perf::Request request;
  if (const auto code = perf::read_request(options, argc, argv, output, request)) return *code;
  output.writes("--plot", request.plot);
  output.writes("--output_file", request.output_file);
  output.writes("--measure-links", request.links);
  // Variables count more than a configuration, and the command line more than either.
  if (!request.transports.empty()) {
    ::setenv("TUTTI_TRANSPORTS", request.transports.c_str(), 1);
    output.call("TUTTI_TRANSPORTS", "--transport");
  }
  if (request.timeout_s > 0) {
    ::setenv("TUTTI_OPERATION_TIMEOUT", (std::to_string(request.timeout_s) + "s").c_str(), 1);
    output.call("TUTTI_OPERATION_TIMEOUT", "--timeout");
  }
  const auto body = [&](const program::RankMember& member) {
    return request.links.empty() ? perf::run_bench(request, member, output) : perf::measure_links(request, member, output);
  };
  return program::run_ranks(options, request.ranks, argv, nullptr, output, body);
}
