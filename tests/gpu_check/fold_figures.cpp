#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "algorithms/algorithm.h"
#include "algorithms/arithmetic.h"
#include "src/cuda/kernel_module.h"
#include "src/device/team.h"
#include "src/device/world.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "tests/gpu_check/figures.h"
#include "tests/unit/cuda/beside.h"

namespace tutti::gpu_check {
namespace {

using nlohmann::json;

constexpr int kWarmUp = 2;
constexpr std::uint64_t kLimitNs = 10'000'000'000;

/// A reduce-scatter as one rank would have it whose peers' blocks all lie in its own input: one fold, and no messages.
namespace fold {

Shape shape(const Problem&, const View&, const Parameters&) { return {.chunks = 1, .lanes = 1, .message_cells = 1}; }

void build(Builder& builder, const View&, const Parameters&) {
  std::vector<Ref> blocks;
  for (int r = 0; r < builder.ranks(); ++r) blocks.push_back(input(block_range(static_cast<std::uint32_t>(r))));
  builder.lane(0).complete(blocks, std::vector{output(0)});
}

Cost cost(const Problem&, const View&) { return {}; }

}  // namespace fold

const Algorithm fold_alone = {"fold",
                              Collective::reduce_scatter,
                              "one fold of a rank's own blocks",
                              [](const Problem&, const View&) { return true; },
                              fold::shape,
                              fold::build,
                              fold::cost};

/// How a fold is cut: tasks that blocks claim, and bytes of each input that a task takes at a time.
struct Cut {
  std::uint32_t strands;
  std::uint64_t pass_bytes;
};

/// Words of a type's ones, and of what several of them add up to.
struct Words {
  std::uint32_t one;
  std::map<int, std::uint32_t> sums;
};
const std::map<tutti_type, Words>& words() {
  static const std::map<tutti_type, Words> all = {
      {TUTTI_FLOAT32, {0x3f800000, {{2, 0x40000000}, {8, 0x41000000}}}},
      {TUTTI_INT32, {1, {{2, 2}, {8, 8}}}},
      {TUTTI_FLOAT16, {0x3c003c00, {{2, 0x40004000}, {8, 0x48004800}}}},
      {TUTTI_BFLOAT16, {0x3f803f80, {{2, 0x40004000}, {8, 0x41004100}}}},
      {TUTTI_INT8, {0x01010101, {{2, 0x02020202}, {8, 0x08080808}}}},
      {TUTTI_UINT8, {0x01010101, {{2, 0x02020202}, {8, 0x08080808}}}},
  };
  return all;
}

template <typename T>
T made(Result<T> result) {
  if (!result.ok() && result.status().code() == TUTTI_UNSUPPORTED) throw Lacking(result.status().text());
  return value_of(std::move(result));
}

/// A world of one rank, whose launches have one job.
class Lone {
 public:
  Lone(const Gpu& gpu) : world_(DeviceWorld::of("gpu_figures", 1)) {
    const char* const folder = std::getenv("TUTTI_MODULE_DIR");
    world_->join(0, made(DeviceRuntime::get(gpu.device(),
                                            folder != nullptr && *folder != 0 ? folder : cuda::beside("../lib/tutti"))));
    const Status status = world_->connect(SetUpLimit{});
    if (!status.ok()) throw Failure(status.text());
  }
  const std::shared_ptr<DeviceWorld>& world() const { return world_; }
  Team& team() const { return world_->team(0); }

 private:
  std::shared_ptr<DeviceWorld> world_;
};

std::shared_ptr<DevicePlan> plan_of(const Lone& lone, const Problem& problem, const Cut& cut) {
  const View view = flat_view(problem.ranks);
  const Plan plan = make_plan(fold_alone, problem, view, {.strands = cut.strands}, cut.pass_bytes);
  const auto program_of = [&](int rank) { return make_program(fold_alone, plan, view, rank); };
  const Program program = program_of(0);
  return made(DevicePlan::make(lone.world(), 0, plan, lower(plan, 0, program, program_of), nullptr, SetUpLimit{}));
}

/// Launches a fold, waits for it, and gives what it took by the device's clock.
double run_once(const Gpu& gpu, const Lone& lone, const Deposit& deposit, const cuda::OwnedStream& stream,
                const std::array<TimedEvent, 2>& events) {
  events[0].record(gpu, stream);
  const auto meeting = value_of(lone.team().deposit(deposit));
  lone.team().launch_ready(0);
  events[1].record(gpu, stream);
  gpu.finish(stream);
  const Departure departure = lone.team().departure(*meeting, 0);
  if (!departure.status.ok()) throw Failure(departure.status.text());
  if (departure.flight->end(departure.job) != JobEnd::completed) throw Failure("A fold did not complete.");
  return events[1].us_since(gpu, events[0]);
}

/// That the first and the last word of the output are what they should be.
void expect_right(const Gpu& gpu, const cuda::DeviceMemory& output, const cuda::OwnedStream& stream,
                  std::uint32_t expected) {
  for (const std::size_t at : {std::size_t{0}, output.bytes() - sizeof expected}) {
    std::uint32_t word = 0;
    gpu.call(gpu.api().cuMemcpyDtoHAsync_v2, &word, output.address() + at, sizeof word, stream.handle());
    gpu.finish(stream);
    if (word != expected) throw Failure("A fold's output is wrong at byte " + std::to_string(at) + ".");
  }
}

}  // namespace

json measure_fold(const Gpu& gpu, const Asked& asked) {
  const auto type = type_of(asked.type);
  if (!type || !words().contains(*type) || !words().at(*type).sums.contains(asked.inputs)) {
    throw Lacking("Folds of " + std::to_string(asked.inputs) + " inputs of " + asked.type + " are not measured.");
  }
  Problem problem;
  problem.collective = Collective::reduce_scatter;
  problem.type = *type;
  problem.ranks = asked.inputs;
  problem.count = asked.bytes / element_type_info(*type).size;
  problem.processor = Processor::cuda;

  const Lone lone(gpu);
  const cuda::OwnedStream stream = gpu.make_stream();
  const std::array<TimedEvent, 2> events = {TimedEvent(gpu), TimedEvent(gpu)};
  const Words& word = words().at(*type);
  const cuda::DeviceMemory input = gpu.make_memory(asked.bytes * static_cast<std::size_t>(asked.inputs), word.one);
  const cuda::DeviceMemory output = gpu.make_memory(asked.bytes, 0);
  const auto processors = static_cast<std::uint32_t>(gpu.attribute(cuda::DeviceAttribute::multiprocessor_count));
  json best;
  for (const std::uint32_t strands : {processors, 2 * processors}) {
    for (const std::uint64_t pass_bytes : {std::uint64_t{32} << 10, std::uint64_t{128} << 10, std::uint64_t{512} << 10}) {
      Deposit deposit;
      deposit.rank = 0;
      deposit.plan = plan_of(lone, problem, {strands, pass_bytes});
      deposit.send = reinterpret_cast<const void*>(input.address());
      deposit.recv = reinterpret_cast<void*>(output.address());
      deposit.stream = stream.handle();
      deposit.limit_ns = kLimitNs;
      deposit.blocks = {strands, strands};
      std::vector<double> us;
      for (int round = -kWarmUp; round < asked.rounds; ++round) {
        const double each = run_once(gpu, lone, deposit, stream, events);
        if (round >= 0) us.push_back(each);
      }
      expect_right(gpu, output, stream, word.sums.at(asked.inputs));
      gpu.call(gpu.api().cuMemsetD32Async, output.address(), 0u, output.bytes() / 4, stream.handle());
      gpu.finish(stream);
      const double median = summarize(us).median;
      if (!best.is_null() && best["median_us"].get<double>() <= median) continue;
      best = {{"bytes", asked.bytes},
              {"type", asked.type},
              {"inputs", asked.inputs},
              {"median_us", median},
              {"fold_GBps", 1e-3 * static_cast<double>(asked.bytes) * (asked.inputs + 1) / median},
              {"blocks", strands},
              {"pass_bytes", pass_bytes}};
    }
  }
  return best;
}

}  // namespace tutti::gpu_check
