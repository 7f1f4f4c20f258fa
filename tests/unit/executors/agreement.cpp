#include "tests/unit/executors/agreement.h"

#include <cmath>
#include <cstring>

#include "src/executors/simulator/simulator.h"
#include "src/links/transport_set.h"
#include "src/schedule/layout.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"

namespace tutti::testing {
namespace {

constexpr std::size_t guard = 128;

std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// In ±[1, 2) times a power of two from 1 to 128.
float number(std::uint64_t bits) {
  const float mantissa = 1.0f + static_cast<float>(bits & 0x7fffff) / 8388608.0f;
  return std::ldexp((bits >> 40 & 1) != 0 ? -mantissa : mantissa, static_cast<int>(bits >> 32 & 7));
}

void write_element(tutti_type type, std::uint64_t bits, std::byte* to) {
  const float value = number(bits);
  if (type == TUTTI_FLOAT32) {
    std::memcpy(to, &value, sizeof value);
  } else if (type == TUTTI_BFLOAT16) {
    std::memcpy(to, reinterpret_cast<const std::byte*>(&value) + 2, 2);  // its upper half
  } else {
    const std::uint64_t words[] = {bits, scramble(bits)};
    std::memcpy(to, words, element_bytes(type));
  }
}

Plan plan_of(const Case& at) { return make_plan(*at.algorithm, at.problem(), at.places(), Parameters{}, link_slot_bytes); }

}  // namespace

Problem Case::problem() const {
  Problem problem;
  problem.collective = algorithm->collective;
  problem.type = type;
  problem.op = op;
  problem.root = root;
  problem.ranks = ranks;
  problem.count = count;
  if (problem.collective != Collective::barrier) return problem;
  problem.type = TUTTI_UINT8;
  problem.op = TUTTI_MAX;
  problem.count = 1;
  return problem;
}

std::string Case::text() const {
  return std::string(name_of(algorithm->collective)) + " " + algorithm->name + ", " + std::to_string(ranks) +
         " ranks, root " + std::to_string(root) + ", " + std::to_string(count) + " " + text_of(type) + ", " + text_of(op) +
         (in_place ? ", in place" : "");
}

Layout layout_of(const Case& at, int rank) {
  const Problem problem = at.problem();
  const std::size_t block = problem.count * element_bytes(problem.type);
  const std::size_t input = blocks_of(problem, Buffer::input, rank) * block;
  const std::size_t output = blocks_of(problem, Buffer::output, rank) * block;
  const Alias alias = in_place_alias(problem, rank);
  if (!at.in_place || !alias.any) return {guard + input + guard + output + guard, guard, guard + input + guard};
  // The smaller of the two is a block of the larger.
  return {guard + std::max(input, output) + guard, guard + (output > input ? alias.output_block * block : 0),
          guard + (output < input ? alias.input_block * block : 0)};
}

void fill(const Case& at, int rank, std::byte* memory) {
  const Problem problem = at.problem();
  const Layout layout = layout_of(at, rank);
  std::memset(memory, 0xa5, layout.bytes);
  const std::size_t element = element_bytes(problem.type);
  const std::uint64_t elements = blocks_of(problem, Buffer::input, rank) * problem.count;
  for (std::uint64_t i = 0; i < elements; ++i) {
    write_element(problem.type, scramble((static_cast<std::uint64_t>(rank) << 40) + i + 1),
                  memory + layout.input + i * element);
  }
}

tutti_status run_on_host(const Case& at, int rank, tutti_comm* comm, std::byte* memory) {
  const Layout layout = layout_of(at, rank);
  const std::byte* send = memory + layout.input;
  std::byte* recv = memory + layout.output;
  tutti_call call = TUTTI_CALL_INIT;
  call.algorithm = at.algorithm->name;
  const tutti_status status =
      call_verb(at.algorithm->collective, {send, recv, at.count, at.type, at.op, at.root, comm, {}, &call});
  if (status != TUTTI_SUCCESS || at.ranks == 1) return status;
  tutti_comm_choice choice{};
  choice.size = sizeof choice;
  const bool known = tutti_comm_last_choice(comm, &choice) == TUTTI_SUCCESS;
  return known && std::strcmp(choice.algorithm, at.algorithm->name) == 0 ? TUTTI_SUCCESS : TUTTI_INTERNAL_ERROR;
}

std::vector<std::vector<std::byte>> run_in_simulator(const Case& at, std::string* why) {
  const Plan plan = plan_of(at);
  SimulatorConfig config;
  config.view = at.places();
  std::vector<Program> programs;
  std::vector<std::vector<std::byte>> all, scratch;
  std::vector<RankMemory> memory;
  for (int r = 0; r < at.ranks; ++r) {
    const Layout layout = layout_of(at, r);
    programs.push_back(make_program(*at.algorithm, plan, config.view, r));
    fill(at, r, all.emplace_back(layout.bytes).data());
    scratch.emplace_back(scratch_bytes(plan));
    memory.push_back({all.back().data() + layout.input, all.back().data() + layout.output, scratch.back().data()});
  }
  config.memory = memory;
  const SimulatorReport report = simulate(plan, programs, config);
  *why = report.why;
  if (report.verdict != SimulatorReport::Verdict::completed) all.clear();
  return all;
}

std::uint64_t count_of_three_passes(const Case& at) {
  const std::uint64_t window = plan_of(at).window;
  return 2 * window + window / 2 + 3;
}

}  // namespace tutti::testing
