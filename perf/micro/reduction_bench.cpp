// How fast the folds are beside a copy of the same traffic, every type × operator × shape, in L2 and from memory.
//
// Each iteration times the copy and then the fold, so that both see the same machine; `of_copy` is the copy's median time
// over the fold's, at equal traffic (bytes read and written): 0.9 or more is the goal. `traffic` is the fold's bytes per
// second. From memory both are measured against glibc's memcpy, which streams its stores there; so does fold_streaming.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/reduction/reduction.h"
#include "src/tables/element_types.h"
#include "src/tables/operators.h"

namespace tutti {
namespace {

struct Free {
  void operator()(std::uint8_t* block) const { std::free(block); }
};
using Block = std::unique_ptr<std::uint8_t, Free>;

/// Memory of whole huge pages where it is large, filled with small numbers of any type.
Block make_block(std::size_t bytes, std::uint8_t value) {
  const std::size_t alignment = bytes >= (std::size_t{2} << 20) ? std::size_t{2} << 20 : 4096;
  Block block(static_cast<std::uint8_t*>(std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)));
  std::memset(block.get(), value, bytes);
  return block;
}

double seconds_of(auto&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Shape {
  std::uint32_t sources;
  std::uint32_t destinations;
  std::size_t bytes;  ///< of each operand
  bool streaming;
};

void run_fold(benchmark::State& state, tutti_type type, tutti_op op, Shape shape) {
  const std::uint32_t operands = shape.sources + shape.destinations;
  std::vector<Block> blocks;
  for (std::uint32_t i = 0; i < operands; ++i) blocks.push_back(make_block(shape.bytes, static_cast<std::uint8_t>(i + 60)));
  std::vector<FoldSource> sources;
  std::vector<FoldDestination> destinations;
  for (std::uint32_t s = 0; s < shape.sources; ++s) sources.push_back({blocks[s].get()});
  for (std::uint32_t d = shape.sources; d < operands; ++d) {
    destinations.push_back({blocks[d].get(), shape.streaming});
  }
  const FoldFunction fold = find_fold(type, op);
  const FoldArguments arguments{
      sources.data(),           destinations.data(), shape.sources, shape.destinations, shape.bytes / element_bytes(type),
      op == TUTTI_AVG ? 3u : 0u};
  const std::size_t copied = shape.bytes * operands / 2;
  const Block from = make_block(copied, 1), to = make_block(copied, 2);
  const int batch = static_cast<int>(std::max<std::size_t>(1, (std::size_t{4} << 20) / shape.bytes));
  std::vector<double> copies, folds;
  for (auto _ : state) {
    copies.push_back(seconds_of([&] {
      for (int i = 0; i < batch; ++i) {
        std::memcpy(to.get(), from.get(), copied);
        benchmark::ClobberMemory();
      }
    }));
    folds.push_back(seconds_of([&] {
      for (int i = 0; i < batch; ++i) fold(arguments);
      benchmark::ClobberMemory();
    }));
    state.SetIterationTime(folds.back());
  }
  const double traffic = static_cast<double>(shape.bytes) * operands * batch;
  state.counters["traffic"] =
      benchmark::Counter(traffic / median(folds), benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  state.counters["of_copy"] = median(copies) / median(folds);
}

/// The smallest messages: nanoseconds of one call.
void run_small(benchmark::State& state, tutti_type type, tutti_op op, std::size_t bytes) {
  const Block a = make_block(4096, 60), b = make_block(4096, 61), to = make_block(4096, 0);
  const FoldSource sources[] = {{a.get()}, {b.get()}};
  const FoldDestination destination{to.get()};
  const FoldFunction fold = find_fold(type, op);
  const FoldArguments arguments{sources, &destination, 2, 1, bytes / element_bytes(type)};
  for (auto _ : state) {
    fold(arguments);
    benchmark::ClobberMemory();
  }
}

void register_place(const std::string& place, Shape shape) {
  for (const ElementTypeInfo& type : element_types) {
    for (const OperatorInfo& op : operators) {
      if (fold_kind(type.type, op.op).type != type.type) continue;  // another type's
      const std::string name = "fold" + std::string(shape.streaming ? "_streaming" : "") + "/" + place + "/" +
                               std::to_string(shape.sources) + "to" + std::to_string(shape.destinations) + "/" + type.name +
                               "/" + op.name;
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { run_fold(state, type.type, op.op, shape); })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

void register_all() {
  constexpr std::size_t kInCache = std::size_t{96} << 10;
  constexpr std::size_t kInMemory = std::size_t{64} << 20;
  register_place("L2", {2, 1, kInCache, false});
  register_place("L2", {2, 2, kInCache, false});
  register_place("L2", {4, 1, kInCache * 2 / 3, false});
  register_place("memory", {2, 1, kInMemory, false});
  register_place("memory", {2, 1, kInMemory, true});
  for (const ElementTypeInfo& type : element_types) {
    if (fold_kind(type.type, TUTTI_SUM).type != type.type) continue;
    for (std::size_t bytes : {8u, 64u, 256u, 1024u}) {
      const std::string name = std::string("small/") + type.name + "/sum/" + std::to_string(bytes);
      benchmark::RegisterBenchmark(name.c_str(),
                                   [=](benchmark::State& state) { run_small(state, type.type, TUTTI_SUM, bytes); });
    }
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  tutti::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
