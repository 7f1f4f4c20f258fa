#include "tests/unit/executors/agreement.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "src/executors/simulator/simulator.h"
#include "src/links/transport_set.h"
#include "src/schedule/layout.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "tests/support/block_counts.h"

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

/// Elements of each block of a rank's buffer.
std::vector<std::uint64_t> counts_of(const Case& at, Buffer buffer, int rank) {
  const Problem problem = at.problem();
  if (at.division) return divided_counts(*at.division, at.ranks, at.count).of(problem, buffer, rank);
  return std::vector<std::uint64_t>(blocks_of(problem, buffer, rank), problem.count);
}
/// Elements before block `block` of a rank's buffer; without one, of all.
std::uint64_t elements_before(const Case& at, Buffer buffer, int rank, std::size_t block = SIZE_MAX) {
  const std::vector<std::uint64_t> counts = counts_of(at, buffer, rank);
  const std::size_t end = std::min(block, counts.size());
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(end), std::uint64_t{0});
}

/// A rank's blocks in its memory.
std::vector<tutti_block> list_of(const Case& at, Buffer buffer, int rank, std::byte* memory) {
  const Layout layout = layout_of(at, rank);
  std::byte* next = memory + (buffer == Buffer::input ? layout.input : layout.output);
  std::vector<tutti_block> list;
  for (const std::uint64_t count : counts_of(at, buffer, rank)) {
    list.push_back({next, count});
    next += count * element_bytes(at.type);
  }
  return list;
}

/// One rank's call of a v-variant.
tutti_status call_irregular(const Case& at, int rank, tutti_comm* comm, std::byte* memory, const tutti_call* call) {
  const std::vector<tutti_block> in = list_of(at, Buffer::input, rank, memory);
  const std::vector<tutti_block> out = list_of(at, Buffer::output, rank, memory);
  const auto ptr_of = [](const std::vector<tutti_block>& one) { return one.empty() ? nullptr : one[0].ptr; };
  const auto count_of = [](const std::vector<tutti_block>& one) { return one.empty() ? 0 : one[0].count; };
  switch (at.algorithm->collective) {
    case Collective::all_gather:
      return tutti_all_gather_v(ptr_of(in), count_of(in), out.data(), at.type, comm, {}, call);
    case Collective::reduce_scatter:
      return tutti_reduce_scatter_v(in.data(), ptr_of(out), count_of(out), at.type, at.op, comm, {}, call);
    case Collective::all_to_all:
      return tutti_all_to_all_v(in.data(), out.data(), at.type, comm, {}, call);
    case Collective::gather:
      return tutti_gather_v(ptr_of(in), count_of(in), out.data(), at.type, at.root, comm, {}, call);
    case Collective::scatter:
      return tutti_scatter_v(in.data(), ptr_of(out), count_of(out), at.type, at.root, comm, {}, call);
    default:
      return TUTTI_INVALID_ARGUMENT;
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
  problem.irregular = division.has_value();
  if (is_opaque(type)) {  // as the library: bytes
    problem.type = TUTTI_UINT8;
    problem.opaque = static_cast<std::uint32_t>(element_bytes(type));
    problem.count *= problem.opaque;
  }
  if (problem.collective != Collective::barrier) return problem;
  problem.type = TUTTI_UINT8;
  problem.op = TUTTI_MAX;
  problem.count = 1;
  return problem;
}

std::string Case::text() const {
  return std::string(name_of(algorithm->collective)) + " " + algorithm->name + ", " + std::to_string(ranks) +
         " ranks, root " + std::to_string(root) + ", " + std::to_string(count) + " " + text_of(type) + ", " + text_of(op) +
         (in_place ? ", in place" : "") + (division ? std::string(", division ") + name_of(*division) : "");
}

Layout layout_of(const Case& at, int rank) {
  const Problem problem = at.problem();
  const std::size_t element = element_bytes(problem.type);
  const std::size_t input = elements_before(at, Buffer::input, rank) * element;
  const std::size_t output = elements_before(at, Buffer::output, rank) * element;
  const Alias alias = in_place_alias(problem, rank);
  if (!at.in_place || !alias.any) return {guard + input + guard + output + guard, guard, guard + input + guard};
  // The one with fewer blocks is a block of the other.
  return {guard + std::max(input, output) + guard,
          guard + elements_before(at, Buffer::output, rank, alias.output_block) * element,
          guard + elements_before(at, Buffer::input, rank, alias.input_block) * element};
}

void fill(const Case& at, int rank, std::byte* memory) {
  const Problem problem = at.problem();
  const Layout layout = layout_of(at, rank);
  std::memset(memory, 0xa5, layout.bytes);
  const std::size_t element = element_bytes(problem.type);
  const std::uint64_t elements = elements_before(at, Buffer::input, rank);
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
      at.division ? call_irregular(at, rank, comm, memory, &call)
                  : call_verb(at.algorithm->collective, {send, recv, at.count, at.type, at.op, at.root, comm, {}, &call});
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
  std::vector<std::vector<tutti_block>> lists;
  for (int r = 0; r < at.ranks && at.division; ++r) {
    for (const Buffer buffer : {Buffer::input, Buffer::output})
      lists.push_back(list_of(at, buffer, r, all[static_cast<std::size_t>(r)].data()));
  }
  std::vector<IrregularBuffers> irregular;
  for (std::size_t l = 0; l < lists.size(); l += 2) irregular.push_back({lists[l], lists[l + 1]});
  config.irregular = irregular;
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
