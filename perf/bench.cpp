#include "perf/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "perf/memory.h"
#include "perf/names.h"
#include "perf/user_operators.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"
#include "src/tables/units.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t kFreshRoom = uint64_t{1} << 20;  // bytes that the slots of --fresh may take

/// Half of all bytes that there can be at most, which no machine has.
uint64_t whole_lines(uint64_t bytes) { return (std::min(bytes, UINT64_MAX / 2) + kLine - 1) / kLine * kLine; }

/// The product, or the largest number where that is more.
uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t larger_buffer(const CheckedOperation& operation) {
  return std::max(operation.send_bytes(), operation.recv_bytes());
}

}  // namespace

Bench::Bench(const Request& request, const program::RankMember& world, const program::RankMember& group, int color,
             program::Output& output)
    : request_(request),
      world_(world),
      group_(group),
      color_(color),
      output_(output),
      report_(request, output),
      types_(request.collective->senders != Role::nobody ? request.types : std::vector<tutti_type>{TUTTI_INT8}),
      own_places_(request.fuse ? static_cast<uint64_t>(request.aggregated) : 1) {
  if (!request.algorithm.empty()) call_.algorithm = request.algorithm.c_str();
  call_.reproducible = request.reproducible ? 1 : 0;
  call_.canonical = static_cast<uint32_t>(request.canonical);
  end_.fuse = request.fuse ? 1 : 0;
}

Bench::~Bench() {
  if (stream_.kind == TUTTI_STREAM_QUEUE) tutti_queue_destroy(static_cast<tutti_queue*>(stream_.handle));
}

int Bench::fail(const tutti_comm* comm, tutti_status status) { return output_.fail_as(world_.rank, comm, status); }

int Bench::fail(int code, const std::string& sentence) { return output_.fail_as(world_.rank, code, sentence); }

tutti_status Bench::call(const CheckedOperation& operation, const Places& places, const tutti_stream& stream) const {
  const Pattern& pattern = operation.pattern;
  return operation.collective->call({for_calls(places.send), for_calls(places.recv), operation.count, pattern.type,
                                     is_custom(pattern.op) ? custom_ : pattern.op, operation.root, group_.rank,
                                     group_.ranks, group_.comm, &call_, stream, places.lists});
}

// Where the library finds what the host's copy of a buffer has there.
std::byte* Bench::for_calls(std::byte* place) const {
  if (place == nullptr || device_ == nullptr) return place;
  return (recv_.holds(place) ? recv_ : send_).for_calls(place);
}

int Bench::to_device() {
  if (device_ == nullptr) return program::kGood;
  std::string why = send_.copy_in(*device_);
  if (why.empty()) why = recv_.copy_in(*device_);
  return why.empty() ? static_cast<int>(program::kGood) : fail(program::kFailed, why);
}

int Bench::from_device() {
  if (device_ == nullptr) return program::kGood;
  std::string why = send_.copy_out(*device_);
  if (why.empty()) why = recv_.copy_out(*device_);
  return why.empty() ? static_cast<int>(program::kGood) : fail(program::kFailed, why);
}

// Behind operations on a CUDA stream. What fails there the library tells by itself.
tutti_status Bench::synchronize(tutti_status status) const {
  if (status != TUTTI_SUCCESS || !request_.cuda_stream) return status;
  return device_->synchronize().empty() ? TUTTI_SUCCESS : TUTTI_UNHANDLED_CUDA_ERROR;
}

// Several operations together. The buffers of those that are to be fused may not be shared.
tutti_status Bench::run_group(const CheckedOperation& operation, uint64_t first, const tutti_stream& stream) const {
  tutti_status status = tutti_group_start();
  if (status != TUTTI_SUCCESS) return status;
  for (uint64_t i = 0; i < static_cast<uint64_t>(request_.aggregated) && status == TUTTI_SUCCESS; ++i) {
    status = request_.fuse ? call(in_slot(operation, first + i), places_[first + i], stream)
                           : call(operation, places_[first], stream);
  }
  const tutti_status end = tutti_group_end(&end_);
  return status != TUTTI_SUCCESS ? status : end;
}

// An operation by itself, or the whole group where it is fused with others.
tutti_status Bench::run_once(const CheckedOperation& operation) const {
  return request_.fuse ? run_group(operation, 0, kBlocking) : call(operation, places_[0], kBlocking);
}

// What one iteration is: an operation, or several in a group, and what else was asked to be timed with it.
tutti_status Bench::iterate(const CheckedOperation& operation, uint64_t slot) const {
  const uint64_t first = slot * own_places_ < places_.size() ? slot * own_places_ : 0;
  const tutti_status status =
      request_.aggregated == 1 ? call(operation, places_[first], stream_) : run_group(operation, first, stream_);
  if (status != TUTTI_SUCCESS || !request_.barriers) return status;
  return tutti_barrier(group_.comm, kBlocking, nullptr);
}

// What a fused operation has of its own: data, and the root that follows the one before's. Else all are alike.
CheckedOperation Bench::in_slot(CheckedOperation operation, uint64_t slot) const {
  const uint64_t number = slot % own_places_;
  operation.pattern.seed += static_cast<uint32_t>(number);
  if (operation.collective->rooted()) {
    const uint64_t root = static_cast<uint64_t>(operation.root) + number;
    operation.root = static_cast<int>(root % static_cast<uint64_t>(group_.ranks));
  }
  return operation;
}

uint64_t Bench::stride_of(const CheckedOperation& operation) const { return whole_lines(larger_buffer(operation)); }

// A v-variant's lists are made beforehand, as its callers would do it.
void Bench::lay_out_slots(const CheckedOperation& operation, uint64_t slots) {
  while (places_.size() < slots) {
    const uint64_t offset = places_.size() * stride_of(operation);
    Places places = lay_out(operation, send_.data() + offset, recv_.data() + offset);
    if (operation.collective->takes_lists) {
      places.lists = &lists_.emplace_back(block_lists(operation, for_calls(places.send), for_calls(places.recv)));
    }
    places_.push_back(places);
  }
}

// The first operation's, or those of a whole fused group.
void Bench::fill_group(const CheckedOperation& operation) const {
  for (uint64_t slot = 0; slot < own_places_; ++slot) {
    poison_result(in_slot(operation, slot), places_[slot]);
    fill_send(in_slot(operation, slot), places_[slot]);
  }
}

// With --fresh the iterations that share a clock reading need inputs each.
uint64_t Bench::slots_for(const CheckedOperation& operation, double nanoseconds) const {
  const uint64_t fit = std::max<uint64_t>(1, kFreshRoom / std::max<uint64_t>(1, own_places_ * stride_of(operation)));
  return std::min(fit, plan_for(nanoseconds, static_cast<uint64_t>(request_.iterations)).batch);
}

void Bench::note_choice(const BenchedCollective& collective, Measured& measured) const {
  tutti_comm_choice choice = {sizeof choice, nullptr, nullptr, nullptr};
  if (tutti_comm_last_choice(group_.comm, &choice) != TUTTI_SUCCESS) return;
  // What the library tells is the last collective's, which for messages is one of our own between them.
  const bool chosen = !collective.point_to_point && choice.algorithm != nullptr;
  measured.algorithm = chosen ? choice.algorithm : "none";
  measured.transport = choice.transport != nullptr ? choice.transport : "";
}

// Untimed iterations, the last without what else is timed: it is the last collective that the library tells about.
int Bench::warm_up(const CheckedOperation& operation, Measured& measured) {
  for (int64_t i = 1; i < request_.warmup; ++i) {
    if (const tutti_status status = iterate(operation, 0); status != TUTTI_SUCCESS) return fail(group_.comm, status);
  }
  if (const tutti_status status = run_once(operation); status != TUTTI_SUCCESS) return fail(group_.comm, status);
  note_choice(*operation.collective, measured);
  return program::kGood;
}

// But for what is done before each batch. Both arguments outlive it.
Run Bench::what_to_run(const CheckedOperation& operation, const RunPlan& plan) const {
  Run run;
  run.average = request_.average;
  run.iteration = [&](uint64_t slot) { return iterate(operation, slot); };
  // Most iterations are one operation, and a nanosecond shows.
  const bool plain = request_.aggregated == 1 && !request_.barriers;
  if (plain) {
    run.iteration = [&](uint64_t slot) { return call(operation, places_[slot < places_.size() ? slot : 0], stream_); };
  }
  if (request_.cuda_stream && !request_.call_time) {
    run.iteration = [&](uint64_t slot) {
      const tutti_status status = iterate(operation, slot);
      return slot + 1 == plan.batch ? synchronize(status) : status;
    };
  }
  if (request_.call_time && request_.cuda_stream) {
    run.after = [&] { return synchronize(TUTTI_SUCCESS); };
  } else if (request_.call_time) {
    run.after = [&] { return tutti_queue_wait(static_cast<tutti_queue*>(stream_.handle), 0); };
  }
  return run;
}

int Bench::measure(const CheckedOperation& operation, Measured& measured) {
  lists_.clear();
  places_.clear();
  lay_out_slots(operation, own_places_);
  fill_group(operation);
  if (const int code = to_device(); code != program::kGood) return code;
  if (const int code = warm_up(operation, measured); code != program::kGood) return code;
  RunPlan plan = {1, 1};
  Run run = what_to_run(operation, plan);
  // Where only the posting is timed, the plan is still for what an operation takes.
  const Iteration whole = request_.call_time ? [&](uint64_t) { return run_once(operation); } : run.iteration;
  double nanoseconds = 0;
  tutti_status status = estimate(world_.comm, whole, nanoseconds);
  if (status != TUTTI_SUCCESS) return fail(group_.comm, status);
  plan = plan_for(nanoseconds, static_cast<uint64_t>(request_.iterations));
  if (request_.fresh) {
    plan.batch = slots_for(operation, nanoseconds);
    lay_out_slots(operation, plan.batch * own_places_);
    run.before = [&] {
      for (uint64_t slot = 0; slot < places_.size(); ++slot) fill_send(in_slot(operation, slot), places_[slot]);
      static_cast<void>(to_device());
    };
  }
  Timing timing;
  status = run_plan(world_.comm, plan, run, timing);
  if (status != TUTTI_SUCCESS) return fail(group_.comm, status);
  measured.iterations = plan.iterations;
  measured.disturbed = oversubscribed_ ? -1 : timing.disturbed;
  for (Batch& batch : timing.batches) batch.iterations *= static_cast<uint64_t>(request_.aggregated);
  measured.time = summarize(std::move(timing.batches));
  return program::kGood;
}

int Bench::check(CheckedOperation operation, Measured& measured) {
  uint64_t wrong = 0;
  for (int64_t round = 0; round < request_.checks; ++round) {
    operation.pattern.seed = take_seeds();
    const uint64_t used = (own_places_ - 1) * stride_of(operation) + larger_buffer(operation);
    send_.guard(used);
    recv_.guard(used);
    fill_group(operation);
    if (const int code = to_device(); code != program::kGood) return code;
    if (const tutti_status status = run_once(operation); status != TUTTI_SUCCESS) return fail(group_.comm, status);
    if (const int code = from_device(); code != program::kGood) return code;
    CheckFinding finding;
    for (uint64_t slot = 0; slot < own_places_; ++slot) {
      finding.add(check_result(in_slot(operation, slot), places_[slot]));
    }
    const uint64_t trespasses = send_.trespasses() + recv_.trespasses();
    if (trespasses > 0 && finding.wrong == 0) {
      finding.sentence =
          fmt::format("{} of {} {} elements wrote to {} bytes around the buffers of rank {}", operation.collective->name,
                      operation.count, text_of(operation.pattern.type), trespasses, world_.rank);
    }
    wrong += finding.wrong + trespasses;
    // Only the first finding is told; the table counts all.
    if (!finding.sentence.empty() && !told_) {
      wrong_ = told_ = true;
      fail(program::kWrongData, finding.sentence + "; this is a defect of the library, please report it");
    }
  }
  const uint64_t own = wrong;
  if (const tutti_status status = total_of(world_.comm, wrong); status != TUTTI_SUCCESS) return fail(world_.comm, status);
  // A library that folds wrongly may lose the count on the way.
  measured.wrong = std::max(own, wrong);
  wrong_ = wrong_ || *measured.wrong > 0;
  return program::kGood;
}

// The first of as many as there are operations with data of their own.
uint32_t Bench::take_seeds() { return std::exchange(seed_, seed_ + static_cast<uint32_t>(own_places_)); }

// Of each rank in the fold.
int Bench::operands() const { return std::max(1, static_cast<int>(request_.canonical) / group_.ranks); }

// Of each of the two buffers.
uint64_t Bench::buffer_bytes(tutti_type type) const {
  uint64_t bytes = 0;
  for (const uint64_t count : counts_of(request_, type, group_.ranks)) {
    bytes = std::max(bytes, bytes_for(*request_.collective, count, type, group_.ranks));
  }
  const uint64_t each = whole_lines(times(bytes, static_cast<uint64_t>(operands())));
  return whole_lines(times(each, own_places_)) + (request_.fresh ? kFreshRoom : 0);
}

// Memory is had when it is first written to: without a look beforehand, the system would kill a rank in the middle.
int Bench::make_sure_of_memory() {
  struct Need {
    Rooms rooms;
    uint64_t bytes;
  };
  Need mine = {read_rooms(), 0};
  for (const tutti_type type : types_) mine.bytes = std::max(mine.bytes, buffer_bytes(type));
  std::vector<Need> all(static_cast<size_t>(world_.ranks));
  const tutti_status status =
      tutti_all_gather(&mine, all.data(), sizeof(mine), TUTTI_UINT8, world_.comm, kBlocking, nullptr);
  if (status != TUTTI_SUCCESS) return fail(world_.comm, status);
  std::vector<Rooms> rooms;
  uint64_t bytes = 0;  // groups of different sizes may need a few more or less
  for (const Need& need : all) {
    rooms.push_back(need.rooms);
    bytes = std::max(bytes, need.bytes);
  }
  const std::string sentence = check_rooms(rooms, bytes > UINT64_MAX / 2 ? UINT64_MAX : 2 * bytes);
  return sentence.empty() ? static_cast<int>(program::kGood) : fail(program::kWrongUse, sentence);
}

int Bench::reserve(tutti_type type) {
  const uint64_t bytes = buffer_bytes(type);
  if (send_.bytes() >= bytes && send_.data() != nullptr) return program::kGood;
  send_ = GuardedBuffer();
  recv_ = GuardedBuffer();
  send_ = GuardedBuffer::allocate(bytes, request_.memory);
  recv_ = GuardedBuffer::allocate(bytes, request_.memory);
  if (send_.data() != nullptr && recv_.data() != nullptr) return program::kGood;
  return fail(program::kFailed,
              fmt::format("two buffers of {} bytes on each rank are more than this machine gives; lower -e or --elements",
                          size_text(bytes)));
}

int Bench::run_half(const CheckedOperation& operation, Measured& measured) {
  measured.collective = operation.collective;
  measured.count = operation.count;
  measured.type = operation.pattern.type;
  measured.op = operation.pattern.op;
  measured.root = operation.root;
  measured.ranks = operation.pattern.ranks;
  measured.in_place = operation.in_place;
  measured.division = operation.division;
  const int code = measure(operation, measured);
  return code == program::kGood && request_.checks > 0 ? check(operation, measured) : code;
}

int Bench::run_counts(CheckedOperation operation, const std::vector<uint64_t>& counts) {
  for (const uint64_t count : counts) {
    operation.count = count;
    std::optional<Measured> halves[2];
    for (const bool in_place : {false, true}) {
      if (!(in_place ? request_.in_place : request_.out_of_place)) continue;
      operation.in_place = in_place;
      operation.pattern.seed = take_seeds();
      const int code = run_half(operation, halves[in_place ? 1 : 0].emplace());
      if (code != program::kGood) return code;
    }
    if (world_.rank == 0) report_.add(halves[0], halves[1]);
  }
  return program::kGood;
}

tutti_status Bench::make_custom(tutti_type type, tutti_op op) {
  if (op == kPreMulSum) {
    alignas(16) std::byte scalar[16];
    fill_scalar({type, op, true, group_.ranks, 0}, group_.rank, scalar);
    return tutti_op_create_pre_mul_sum(&custom_, scalar, type, TUTTI_MEMORY_HOST, group_.comm);
  }
  element_bytes_ = tutti_type_size(type);
  const bool commutes = op == kUser;
  return tutti_op_create_user(&custom_, commutes ? add_numbers : compose_maps, &element_bytes_, commutes ? 1 : 0,
                              element_bytes_, group_.comm);
}

int Bench::run_type(tutti_type type) {
  // Of all types those that can be; the library refuses one that was asked for by name.
  const bool accumulates = request_.accumulate && (request_.types.size() == 1 || accumulates_in_float32(type));
  call_.accumulate = accumulates ? TUTTI_FLOAT32 : TUTTI_INT8;
  const std::vector<uint64_t> counts = counts_of(request_, type, group_.ranks);
  if (const int code = reserve(type); code != program::kGood) return code;
  const std::vector<tutti_op> ops = request_.collective->reduces() ? request_.ops : std::vector<tutti_op>{TUTTI_SUM};
  for (const tutti_op op : ops) {
    // Of all operators and types those that go together; a pair that was asked for by name is refused in a sentence.
    const bool one_of_many = request_.ops.size() > 1 || request_.types.size() > 1;
    if (request_.collective->reduces() && one_of_many && !folds(op, type)) continue;
    if (is_custom(op)) {
      if (const tutti_status status = make_custom(type, op); status != TUTTI_SUCCESS) return fail(group_.comm, status);
    }
    const int code = run_op(type, op, counts);
    if (is_custom(op)) tutti_op_destroy(custom_, group_.comm);
    if (code != program::kGood) return code;
  }
  return program::kGood;
}

int Bench::run_op(tutti_type type, tutti_op op, const std::vector<uint64_t>& counts) {
  const bool all_roots = request_.collective->rooted() && !request_.root;
  const int first = request_.root.value_or(0);
  const int last = all_roots ? group_.ranks - 1 : first;
  const Pattern pattern = {type, op, request_.collective->reduces(), group_.ranks, 0, operands()};
  for (int root = first; root <= last; ++root) {
    for (const BlockDivision division : request_.divisions) {
      const int code = run_counts({request_.collective, pattern, root, group_.rank, 0, false, division}, counts);
      if (code != program::kGood) return code;
    }
  }
  return program::kGood;
}

int Bench::run_cycle() {
  for (const tutti_type type : types_) {
    if (const int code = run_type(type); code != program::kGood) return code;
  }
  return program::kGood;
}

// Refuses a root that is not in every group, and operands that a group cannot share. All ranks answer alike, so none goes
// on alone.
int Bench::check_groups(const std::vector<RankLocation>& locations) {
  std::map<int32_t, int> sizes;
  for (const RankLocation& location : locations) ++sizes[location.group];
  for (const auto& [group, size] : sizes) {
    if (request_.canonical % size == 0) continue;
    return fail(program::kWrongUse,
                fmt::format("--canonical was given {0}, but {1} ranks cannot share {0} operands evenly; "
                            "give a multiple of {1}",
                            request_.canonical, size));
  }
  const auto smaller = [](const auto& a, const auto& b) { return a.second < b.second; };
  const int ranks = std::ranges::min_element(sizes, smaller)->second;
  if (!request_.collective->rooted() || request_.root.value_or(0) < ranks) return program::kGood;
  const std::string there = ranks == 1 ? "is one rank" : fmt::format("are {} ranks", ranks);
  return fail(program::kWrongUse, fmt::format("--root was given {}, but there {}{}; give {}", *request_.root, there,
                                              sizes.size() > 1 ? " in the smallest group" : "",
                                              ranks == 1 ? "0" : fmt::format("0 to {}, or all", ranks - 1)));
}

// The device of this rank, which its calls take since it is current; and what it copies, for the report.
int Bench::open_device() {
  if (request_.memory != MemoryKind::cuda) return program::kGood;
  std::string why;
  device_ = program::RankDevice::open(request_.device, world_.rank, why);
  if (device_ == nullptr) return fail(program::kWrongUse, why);
  if (request_.cuda_stream) stream_ = {TUTTI_STREAM_CUDA, device_->stream()};
  constexpr uint64_t copied = uint64_t{64} << 20;
  const GuardedBuffer from = GuardedBuffer::allocate(world_.rank == 0 ? copied : 0, MemoryKind::cuda);
  const GuardedBuffer to = GuardedBuffer::allocate(world_.rank == 0 ? copied : 0, MemoryKind::cuda);
  if (from.data() == nullptr || to.data() == nullptr) return fail(nullptr, TUTTI_UNHANDLED_CUDA_ERROR);
  if (world_.rank == 0) {
    report_.introduce_device(device_->name(),
                             device_->copy_GBps(to.for_calls(to.data()), from.for_calls(from.data()), copied));
  }
  return program::kGood;
}

// What all ranks must know before the first operation.
int Bench::prepare() {
  std::vector<RankLocation> locations;
  if (const tutti_status status = gather_locations(world_.comm, color_, locations); status != TUTTI_SUCCESS) {
    return fail(world_.comm, status);
  }
  if (const int code = check_groups(locations); code != program::kGood) return code;
  if (const int code = make_sure_of_memory(); code != program::kGood) return code;
  if (const int code = open_device(); code != program::kGood) return code;
  const std::vector<std::string> oversubscribed = oversubscribed_lines(locations);
  oversubscribed_ = !oversubscribed.empty();
  report_.introduce(locations, oversubscribed, group_.ranks);
  if (!request_.call_time || request_.cuda_stream) return program::kGood;
  tutti_queue* queue = nullptr;
  if (const tutti_status status = tutti_queue_create(&queue); status != TUTTI_SUCCESS) return fail(nullptr, status);
  stream_ = {TUTTI_STREAM_QUEUE, queue};
  return program::kGood;
}

// Of the communicator that the operations ran on.
int Bench::report_memory() {
  if (!request_.memory_use) return program::kGood;
  tutti_memory_use own{};
  own.size = sizeof own;
  std::vector<tutti_memory_use> all(static_cast<size_t>(group_.ranks));
  tutti_status status = tutti_comm_memory(group_.comm, &own);
  if (status == TUTTI_SUCCESS) {
    status = tutti_all_gather(&own, all.data(), sizeof own, TUTTI_UINT8, group_.comm, kBlocking, nullptr);
  }
  if (status != TUTTI_SUCCESS) return fail(group_.comm, status);
  if (world_.rank == 0) report_.add_memory(all);
  return program::kGood;
}

// The end of the report, and its verdict, which all ranks return.
int Bench::finish() {
  if (const int code = report_memory(); code != program::kGood) return code;
  const std::string sentence = world_.rank == 0 ? report_.end() : "";
  if (wrong_ && !told_) {
    output_.echo_as(world_.rank, program::kWrongData, "other ranks got wrong data, see their errors; please report it");
  }
  if (wrong_) return program::kWrongData;
  if (!sentence.empty()) return fail(program::kFailed, sentence);
  if (!request_.environment.least_bandwidth) return program::kGood;
  double average = report_.average();
  const tutti_status status = tutti_broadcast(&average, &average, 1, TUTTI_FLOAT64, 0, world_.comm, kBlocking, nullptr);
  if (status != TUTTI_SUCCESS) return fail(world_.comm, status);
  const std::string why = too_slow(average, *request_.environment.least_bandwidth);
  if (why.empty()) return program::kGood;
  // All know it before the first aborts, else the others would lose a peer.
  tutti_barrier(world_.comm, kBlocking, nullptr);
  return world_.rank == 0 ? fail(program::kFailed, why) : static_cast<int>(program::kFailed);
}

int Bench::run() {
  if (const int code = prepare(); code != program::kGood) return code;
  for (int64_t cycle = 0; request_.cycles == 0 || cycle < request_.cycles; ++cycle) {
    report_.begin_cycle(cycle);
    if (const int code = run_cycle(); code != program::kGood) return code;
  }
  return finish();
}

int run_bench(const Request& request, const program::RankMember& member, program::Output& output) {
  if (!request.environment.split) return Bench(request, member, member, 0, output).run();
  const int color = request.environment.split->group_of(member.rank / static_cast<int>(request.ranks.each));
  program::RankMember group = {nullptr, 0, 0};
  tutti_status status = tutti_comm_split(member.comm, color, member.rank, &group.comm, nullptr);
  if (status == TUTTI_SUCCESS) status = tutti_comm_rank(group.comm, &group.rank);
  if (status == TUTTI_SUCCESS) status = tutti_comm_size(group.comm, &group.ranks);
  int code = program::kGood;
  if (status != TUTTI_SUCCESS) {
    code = output.fail_as(member.rank, member.comm, status);
  } else {
    code = Bench(request, member, group, color, output).run();
  }
  if (code == program::kGood) {
    status = tutti_comm_finalize(group.comm);
    if (status != TUTTI_SUCCESS) code = output.fail_as(member.rank, group.comm, status);
  } else if (group.comm != nullptr && code != program::kWrongData) {
    tutti_comm_abort(group.comm);
  }
  tutti_comm_destroy(group.comm);
  return code;
}

}  // namespace tutti::perf
