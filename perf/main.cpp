// tutti-perf: measures and checks every collective; options, table and counting are nccl-tests' where it has them.
#include <cstdlib>

#include "perf/bench.h"
#include "perf/links.h"
#include "perf/options.h"
#include "src/program/ranks.h"

int main(int argc, char** argv) {
  using namespace tutti;
  program::Output output("tutti-perf");
  program::Options options("tutti-perf", "Measures and checks the collectives of Tutti");
  perf::Request request;
  if (const auto code = perf::read_request(options, argc, argv, output, request)) return *code;
  output.writes("--plot", request.plot);
  output.writes("--measure-links", request.links);
  tutti_config config = TUTTI_CONFIG_INIT;
  // The variable counts more than the configuration, and the command line more than either.
  if (!request.transports.empty()) {
    ::setenv("TUTTI_TRANSPORTS", request.transports.c_str(), 1);
    output.call("TUTTI_TRANSPORTS", "--transport");
  }
  config.operation_timeout_ns = static_cast<uint64_t>(request.timeout_s) * 1'000'000'000u;
  const auto body = [&](const program::Member& member) {
    return request.links.empty() ? perf::Bench(request, member, output).run()
                                 : perf::measure_links(request, member, output);
  };
  return program::run_ranks(options, request.ranks, argv, &config, output, body);
}
