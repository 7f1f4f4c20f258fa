#include "perf/nccl_file.h"

#include <fmt/format.h>
#include <string.h>

#include <string_view>

#include "perf/names.h"
#include "src/program/json.h"
#include "src/tables/names.h"

namespace tutti::perf {
namespace {

using program::JsonObject;

template <class Item, class Text>
std::string list_of(const std::vector<Item>& items, Text text) {
  std::string list = "[";
  for (const Item& item : items) list += (list.size() > 1 ? "," : "") + text(item);
  return list + "]";
}

// JSON has no type for a text alone: what an object writes of one, without the object.
std::string quoted(const std::string& text) {
  constexpr std::string_view kBegin = "{\"a\":";
  const std::string object = JsonObject().add("a", text).text();
  return object.substr(kBegin.size(), object.size() - kBegin.size() - 1);
}

std::string half(const std::optional<Measured>& measured, const Request& request) {
  if (!measured) return "null";
  JsonObject object;
  object.measured(request.call_time ? "cpu_time" : "time", measured->time.median);
  object.measured("alg_bw", measured->algbw_GBps()).measured("bus_bw", measured->busbw_GBps());
  object.add_json("nwrong", measured->wrong ? std::to_string(*measured->wrong) : "null");
  object.add("algorithm", measured->algorithm).add("transport", measured->transport);
  if (measured->disturbed >= 0) object.measured("disturbed", measured->disturbed, 3);
  return object.text();
}

std::string json_row(const Row& row, const Request& request) {
  const Measured& any = row.any();
  JsonObject object;
  object.add("size", any.bytes()).add("count", any.count).add("type", text_of(any.type));
  object.add("redop", any.collective->reduces() ? text_of_op(any.op) : "none");
  object.add("root", std::to_string(any.collective->rooted() ? any.root : -1));
  if (any.collective->takes_lists) object.add("division", any.division_text());
  object.add_json("out_of_place", half(row.out_of_place, request)).add_json("in_place", half(row.in_place, request));
  object.add("actual_iterations", any.iterations);
  if (request.timestamps) object.add("timestamp", row.timestamp);
  return object.text();
}

JsonObject config(const NcclRun& run) {
  const Request& request = *run.request;
  JsonObject object;
  object.add("nthreads", request.threads).add("ngpus", request.devices);
  object.add("minimum_bytes", request.min_bytes).add("maximum_bytes", request.max_bytes);
  if (request.step_factor > 1) {
    object.add("step_factor", request.step_factor);
  } else {
    object.add("step_bytes", request.step_bytes);
  }
  object.add("warmup_iters", request.warmup).add("iterations", request.iterations);
  object.add("aggregated_iterations", request.aggregated).add("validation", request.checks).add("graph", 0);
  object.add("blocking_collectives", request.barriers).add("parallel_init", true);
  int rank = 0;
  object.add_json("devices", list_of(*run.locations, [&](const RankLocation& location) {
                    JsonObject device;
                    device.add("rank", rank++).add("group", int{location.group}).add("pid", location.pid);
                    device.add("hostname",
                               std::string(location.host.data(), ::strnlen(location.host.data(), location.host.size())));
                    device.add("device", -1).add("device_info", "host memory");
                    return device.text();
                  }));
  return object;
}

std::string json_file(const NcclRun& run, const std::vector<Row>& rows) {
  const auto least = run.request->environment.least_bandwidth;
  JsonObject bounds;
  bounds.add("count", run.wrong).add("okay", run.wrong == 0);
  JsonObject average;
  average.measured("bandwidth", run.average_GBps);
  average.add_json("okay", !least ? "\"unchecked\"" : too_slow(run.average_GBps, *least).empty() ? "true" : "false");
  JsonObject document;
  document.add("program", "tutti-perf").add("collective", run.request->collective->name);
  document.add("tutti_version", tutti_version()).add("start_time", run.begun);
  document.add_json("args", list_of(run.request->arguments, quoted)).add("config", config(run));
  document.add_json("results", list_of(rows, [&](const Row& row) { return json_row(row, *run.request); }));
  document.add("out_of_bounds", bounds).add("average_bus_bandwidth", average).add("end_time", run.ended);
  return document.text() + "\n";
}

std::string csv_half(const std::optional<Measured>& measured) {
  if (!measured) return ",N/A,N/A,N/A,N/A";
  return fmt::format(",{:.2f},{:.2f},{:.2f},{}", measured->time.median, measured->algbw_GBps(), measured->busbw_GBps(),
                     measured->wrong ? std::to_string(*measured->wrong) : "N/A");
}

// A v-variant's rows have a column more, which nccl-tests does not have.
std::string csv_file(const NcclRun& run, const std::vector<Row>& rows) {
  const char* const time = run.request->call_time ? "cputime" : "time";
  const bool lists = run.request->collective->takes_lists;
  const char* const none = lists ? "," : "";
  std::string text =
      fmt::format(",,,,,out-of-place,out-of-place,out-of-place,out-of-place,in-place,in-place,in-place,in-place{}\n", none);
  text += fmt::format("size,count,type,redop,root,{0},algbw,busbw,#wrong,{0},algbw,busbw,#wrong{1}\n", time,
                      lists ? ",division" : "");
  text += fmt::format("(B),(elements),,,,(us),(GB/s),(GB/s),,(us),(GB/s),(GB/s),{}\n", none);
  for (const Row& row : rows) {
    const Measured& any = row.any();
    text += fmt::format("{},{},{},{},{}{}{}{}\n", any.bytes(), any.count, text_of(any.type),
                        any.collective->reduces() ? text_of_op(any.op) : "none", any.collective->rooted() ? any.root : -1,
                        csv_half(row.out_of_place), csv_half(row.in_place),
                        lists ? std::string(",") + any.division_text() : "");
  }
  return text;
}

}  // namespace

std::string nccl_file(const NcclRun& run, const std::vector<Row>& rows) {
  return run.request->output_file.ends_with(".csv") ? csv_file(run, rows) : json_file(run, rows);
}

}  // namespace tutti::perf
