#include "src/executors/simulator/trace.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "src/schedule/text.h"

namespace tutti {
namespace {

/// Appends text as printf makes it; lines are shorter than 512 bytes.
[[gnu::format(printf, 2, 3)]] void append(std::string& out, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  out.append(line, std::min(sizeof line - 1, static_cast<std::size_t>(std::max(0, length))));
}

/// The thread that shows a rank's egress: after its lanes.
std::size_t egress_of(const Program& program) { return program.lanes.size(); }

/// What a step is called in a slice.
std::string name_of_step(const Program& program, const SimulatedStep& step) {
  return print_step(program, program.steps[program.lanes[step.lane].first + step.step]);
}

}  // namespace

std::string chrome_trace(const std::function<const Program&(int)>& program_of, const SimulatorReport& report) {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  const char* comma = "\n";
  for (const auto& [rank, alike] : report.rank_classes) {
    const Program& program = program_of(rank);
    append(out, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank %d", comma, rank, rank);
    if (alike > 1) append(out, " and %llu alike", static_cast<unsigned long long>(alike - 1));
    out += "\"}}";
    comma = ",\n";
    for (std::size_t l = 0; l <= egress_of(program); ++l) {
      const std::string name = l == egress_of(program) ? "egress" : "lane " + std::to_string(l);
      append(out, "%s{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%zu,\"args\":{\"name\":\"%s\"}}", comma,
             rank, l, name.c_str());
    }
  }
  for (const SimulatedStep& step : report.steps) {
    const Program& program = program_of(step.rank);
    append(out, ",\n{\"ph\":\"X\",\"name\":\"%.200s\",\"pid\":%d,\"tid\":%u,\"ts\":%.6f,\"dur\":%.6f,",
           name_of_step(program, step).c_str(), step.rank, step.lane, step.arrived * 1e6, (step.end - step.arrived) * 1e6);
    append(out, "\"args\":{\"step\":%u,\"pass\":%llu,\"bytes\":%llu,\"waited_us\":%.6f}}", step.step,
           static_cast<unsigned long long>(step.pass), static_cast<unsigned long long>(step.bytes),
           (step.begin - step.arrived) * 1e6);
  }
  for (const SimulatedFlight& flight : report.flights) {
    const LinkTraffic& link = report.links[flight.link];
    append(out, ",\n{\"ph\":\"X\",\"name\":\"to rank %d, channel %u\",\"pid\":%d,\"tid\":%zu,\"ts\":%.6f,\"dur\":%.6f,",
           link.to, link.channel, link.from, egress_of(program_of(link.from)), flight.begin * 1e6,
           (flight.left - flight.begin) * 1e6);
    append(out, "\"args\":{\"bytes\":%llu,\"delivered_us\":%.6f}}", static_cast<unsigned long long>(flight.bytes),
           flight.delivered * 1e6);
  }
  return out + "\n]}\n";
}

std::string chrome_trace(std::span<const Program> programs, const SimulatorReport& report) {
  return chrome_trace([&](int rank) -> const Program& { return programs[static_cast<std::size_t>(rank)]; }, report);
}

}  // namespace tutti
