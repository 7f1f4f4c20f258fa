#include "perf/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "perf/memory.h"
#include "perf/names.h"
#include "src/program/sizes.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t kFreshRoom = uint64_t{1} << 20;  // bytes that the slots of --fresh may take

uint64_t whole_lines(uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

uint64_t larger_buffer(const Operation& operation) { return std::max(operation.send_bytes(), operation.recv_bytes()); }

}  // namespace

Bench::Bench(const Request& request, const program::Member& member, program::Output& output)
    : request_(request),
      member_(member),
      output_(output),
      report_(request, output),
      types_(request.collective->senders != Role::kNobody ? request.types : std::vector<tutti_type>{TUTTI_INT8}) {
  if (!request.algorithm.empty()) call_.algorithm = request.algorithm.c_str();
}

int Bench::fail(tutti_status status) { return output_.fail_as(member_.rank, member_.comm, status); }

int Bench::fail(int code, const std::string& sentence) { return output_.fail_as(member_.rank, code, sentence); }

tutti_status Bench::call(const Operation& operation, const Places& places) const {
  const Pattern& pattern = operation.pattern;
  return operation.collective->call({places.send, places.recv, operation.count, pattern.type, pattern.op, operation.root,
                                     member_.rank, member_.ranks, member_.comm, &call_});
}

uint64_t Bench::stride_of(const Operation& operation) const { return whole_lines(larger_buffer(operation)); }

Places Bench::places_of(const Operation& operation, uint64_t slot) const {
  const uint64_t offset = slot * stride_of(operation);
  return lay_out(operation, send_.data() + offset, recv_.data() + offset);
}

// With --fresh the operations that share a clock reading need an input each.
uint64_t Bench::slots_for(const Operation& operation, double nanoseconds) const {
  const uint64_t fit = std::max<uint64_t>(1, kFreshRoom / std::max<uint64_t>(1, stride_of(operation)));
  return std::min(fit, plan_for(nanoseconds, static_cast<uint64_t>(request_.iterations)).batch);
}

void Bench::note_choice(const Collective& collective, Measured& measured) const {
  tutti_comm_choice choice = {sizeof choice, nullptr, nullptr, nullptr};
  if (tutti_comm_last_choice(member_.comm, &choice) != TUTTI_SUCCESS) return;
  // What the library tells is the last collective's, which for messages is one of our own between them.
  const bool chosen = !collective.point_to_point() && choice.algorithm != nullptr;
  measured.algorithm = chosen ? choice.algorithm : "none";
  measured.transport = choice.transport != nullptr ? choice.transport : "";
}

int Bench::measure(const Operation& operation, Measured& measured) {
  const Places first = places_of(operation, 0);
  poison_result(operation, first);
  fill_send(operation, first);
  uint64_t slots = 1;
  const Iteration iteration = [&](uint64_t slot) {
    return call(operation, slots == 1 ? first : places_of(operation, slot));
  };
  for (int64_t i = 0; i < std::max<int64_t>(request_.warmup, 1); ++i) {
    if (const tutti_status status = iteration(0); status != TUTTI_SUCCESS) return fail(status);
  }
  // Before any operation of our own: it is the last one that the library tells about.
  note_choice(*operation.collective, measured);
  double nanoseconds = 0;
  tutti_status status = estimate(member_.comm, iteration, 1, nanoseconds);
  if (status != TUTTI_SUCCESS) return fail(status);
  Plan plan = plan_for(nanoseconds, static_cast<uint64_t>(request_.iterations));
  std::function<void()> before;
  if (request_.fresh) {
    slots = slots_for(operation, nanoseconds);
    plan.batch = slots;
    before = [&] {
      for (uint64_t slot = 0; slot < slots; ++slot) fill_send(operation, places_of(operation, slot));
    };
  }
  std::vector<Batch> batches;
  status = run_plan(member_.comm, plan, iteration, before, batches);
  if (status != TUTTI_SUCCESS) return fail(status);
  measured.iterations = plan.iterations;
  measured.time = summarize(std::move(batches));
  return program::kGood;
}

int Bench::check(Operation operation, Measured& measured) {
  uint64_t wrong = 0;
  for (int64_t round = 0; round < request_.checks; ++round) {
    operation.pattern.seed = seed_++;
    const Places places = places_of(operation, 0);
    send_.guard(larger_buffer(operation));
    recv_.guard(larger_buffer(operation));
    poison_result(operation, places);
    fill_send(operation, places);
    if (const tutti_status status = call(operation, places); status != TUTTI_SUCCESS) return fail(status);
    Finding finding = check_result(operation, places);
    const uint64_t trespasses = send_.trespasses() + recv_.trespasses();
    if (trespasses > 0 && finding.wrong == 0) {
      finding.sentence =
          fmt::format("{} of {} {} elements wrote to {} bytes around the buffers of rank {}", operation.collective->name,
                      operation.count, name_of(operation.pattern.type), trespasses, member_.rank);
    }
    wrong += finding.wrong + trespasses;
    // Only the first finding is told; the table counts all.
    if (!finding.sentence.empty() && !told_) {
      wrong_ = told_ = true;
      fail(program::kWrongData, finding.sentence + "; this is a defect of the library, please report it");
    }
  }
  const uint64_t own = wrong;
  if (const tutti_status status = total_of(member_.comm, wrong); status != TUTTI_SUCCESS) return fail(status);
  // A library that folds wrongly may lose the count on the way.
  measured.wrong = std::max(own, wrong);
  wrong_ = wrong_ || *measured.wrong > 0;
  return program::kGood;
}

// Of each of the two buffers.
uint64_t Bench::buffer_bytes(tutti_type type) const {
  uint64_t bytes = 0;
  for (const uint64_t count : counts_of(request_, type, member_.ranks)) {
    bytes = std::max(bytes, bytes_for(*request_.collective, count, type, member_.ranks));
  }
  return whole_lines(bytes) + (request_.fresh ? kFreshRoom : 0);
}

// Memory is had when it is first written to: without a look beforehand, the system would kill a rank in the middle.
int Bench::make_sure_of_memory() {
  uint64_t bytes = 0;
  for (const tutti_type type : types_) bytes = std::max(bytes, buffer_bytes(type));
  const Rooms mine = read_rooms();
  std::vector<Rooms> all(static_cast<size_t>(member_.ranks));
  const tutti_status status = tutti_all_gather(&mine, all.data(), sizeof(mine), TUTTI_UINT8, member_.comm,
                                               {TUTTI_STREAM_BLOCKING, nullptr}, nullptr);
  if (status != TUTTI_SUCCESS) return fail(status);
  const std::string sentence = check_rooms(all, bytes > UINT64_MAX / 2 ? UINT64_MAX : 2 * bytes);
  return sentence.empty() ? static_cast<int>(program::kGood) : fail(program::kWrongUse, sentence);
}

int Bench::reserve(tutti_type type) {
  const uint64_t bytes = buffer_bytes(type);
  const bool both = !request_.in_place || request_.collective->in_place;
  if (both && send_.bytes() >= bytes && send_.data() != nullptr) return program::kGood;
  send_ = Buffer();
  recv_ = Buffer();
  send_ = Buffer::allocate(bytes, request_.memory);
  recv_ = Buffer::allocate(bytes, request_.memory);
  if (send_.data() != nullptr && recv_.data() != nullptr) return program::kGood;
  return fail(program::kFailed,
              fmt::format("two buffers of {} bytes on each rank are more than this machine gives; lower -e or --elements",
                          program::size_text(bytes)));
}

int Bench::run_counts(tutti_type type, tutti_op op, int root, const std::vector<uint64_t>& counts) {
  for (const uint64_t count : counts) {
    std::optional<Measured> results[2];
    for (const bool in_place : {false, true}) {
      if (in_place && !request_.in_place) continue;
      Operation operation = {request_.collective,
                             {type, op, request_.collective->reduces, member_.ranks, seed_++},
                             root,
                             member_.rank,
                             count,
                             in_place};
      Measured measured = {request_.collective, count, type, op, root, member_.ranks, in_place, 0, {}, "", "",
                           std::nullopt};
      int code = measure(operation, measured);
      if (code != program::kGood) return code;
      if (request_.checks > 0) code = check(operation, measured);
      if (code != program::kGood) return code;
      results[in_place ? 1 : 0] = measured;
    }
    if (member_.rank == 0) report_.add(*results[0], results[1]);
  }
  return program::kGood;
}

int Bench::run_type(tutti_type type) {
  const std::vector<uint64_t> counts = counts_of(request_, type, member_.ranks);
  if (const int code = reserve(type); code != program::kGood) return code;
  const std::vector<tutti_op> ops = request_.collective->reduces ? request_.ops : std::vector<tutti_op>{TUTTI_SUM};
  const bool all_roots = request_.collective->rooted() && !request_.root;
  const int first = request_.root.value_or(0);
  const int last = all_roots ? member_.ranks - 1 : first;
  for (const tutti_op op : ops) {
    for (int root = first; root <= last; ++root) {
      if (const int code = run_counts(type, op, root, counts); code != program::kGood) return code;
    }
  }
  return program::kGood;
}

int Bench::run() {
  if (request_.collective->rooted() && request_.root.value_or(0) >= member_.ranks) {
    return fail(program::kWrongUse,
                fmt::format("--root was given {}, but {}; give {}", *request_.root,
                            member_.ranks == 1 ? "there is one rank" : fmt::format("there are {} ranks", member_.ranks),
                            member_.ranks == 1 ? "0" : fmt::format("0 to {}, or all", member_.ranks - 1)));
  }
  if (const int code = make_sure_of_memory(); code != program::kGood) return code;
  for (const tutti_type type : types_) {
    if (const int code = run_type(type); code != program::kGood) return code;
  }
  const std::string sentence = member_.rank == 0 ? report_.end(member_.ranks) : "";
  if (wrong_ && !told_) {
    output_.echo_as(member_.rank, program::kWrongData, "other ranks got wrong data, see their errors; please report it");
  }
  if (wrong_) return program::kWrongData;
  return sentence.empty() ? static_cast<int>(program::kGood) : fail(program::kFailed, sentence);
}

}  // namespace tutti::perf
