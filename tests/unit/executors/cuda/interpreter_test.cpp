// The kernel that interprets programs, its blocks as threads of the host. Every algorithm gives the simulator's bits,
// however few blocks there are. Whatever ends a launch is told.
#include "src/executors/cuda/interpreter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <thread>
#include <tuple>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/executors/cuda/encode.h"
#include "src/executors/simulator/simulator.h"
#include "tests/support/pause.h"
#include "tests/support/views.h"
#include "tests/unit/executors/agreement.h"

namespace tutti::testing {
namespace {

/// What the threads of a block meet in.
struct BlockMeeting {
  explicit BlockMeeting(std::uint32_t threads, std::uint64_t storage_bytes)
      : barrier(threads), storage((storage_bytes + 15) / 16 * 16 + 16) {}
  std::barrier<> barrier;
  std::atomic<std::uint32_t> votes[2] = {0, 0};
  std::uint64_t values[2] = {0, 0};
  std::vector<std::max_align_t> storage;
};

class HostBlockThread final : public device::HostThread {
 public:
  HostBlockThread(BlockMeeting& meeting, std::uint32_t own, std::uint32_t of, std::uint32_t block_number,
                  std::uint32_t block_count)
      : meeting_(meeting) {
    thread = own;
    threads = of;
    block = block_number;
    blocks = block_count;
    shared = meeting.storage.data();
  }
  void barrier() override { meeting_.barrier.arrive_and_wait(); }
  bool any(bool vote) override {
    std::atomic<std::uint32_t>& votes = meeting_.votes[turn_];
    // Relaxed, all three: barriers lie between whoever counts, looks and cleans.
    if (vote) votes.fetch_add(1, std::memory_order_relaxed);
    barrier();
    const bool result = votes.load(std::memory_order_relaxed) != 0;
    barrier();
    if (thread == 0) votes.store(0, std::memory_order_relaxed);
    turn_ ^= 1u;
    return result;
  }
  std::uint64_t broadcast(std::uint64_t value, std::uint32_t from) override {
    if (thread == from) meeting_.values[turn_] = value;
    barrier();
    const std::uint64_t result = meeting_.values[turn_];
    turn_ ^= 1u;
    return result;
  }
  std::uint64_t timer_ns() override {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  void pause() override { pause_(); }

 private:
  BlockMeeting& meeting_;
  std::uint32_t turn_ = 0;
  Pause pause_;
};

/// How many blocks of how many threads.
struct Grid {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;
};

template <typename Body>
void run_blocks(const Grid& grid, std::uint64_t storage, const Body& body) {
  std::vector<std::unique_ptr<BlockMeeting>> meetings;
  std::vector<std::thread> running;
  for (std::uint32_t b = 0; b < grid.blocks; ++b) {
    BlockMeeting& meeting = *meetings.emplace_back(std::make_unique<BlockMeeting>(grid.threads, storage));
    for (std::uint32_t t = 0; t < grid.threads; ++t) {
      running.emplace_back([&meeting, &body, grid, b, t] {
        HostBlockThread self(meeting, t, grid.threads, b, grid.blocks);
        device::Group group(self);
        body(group);
      });
    }
  }
  for (std::thread& thread : running) thread.join();
}

/// How ranks run.
struct How {
  std::uint32_t strands = 1;
  std::uint32_t team = 0;  ///< ranks whose jobs are in one launch, neighbours; 0: all
  Protocol protocol = Protocol::messages;
  std::uint64_t first = 0;  ///< number of each link's first message
  /// Of a v-variant: elements of each rank's share, at most the case's count. Empty: the case is none.
  std::vector<std::uint64_t> shares = {};
  /// Elements of the longest segment, where both buffers are lists of segments, by chance cut; 0: they are none.
  std::uint64_t segment = 0;
};

/// A rank's memory, cut into pieces that lie apart, in no order and at odd addresses.
class Scattered {
 public:
  /// most: elements of the longest piece.
  Scattered(std::size_t bytes, std::size_t element, std::uint64_t most, std::mt19937_64& random) {
    for (std::size_t begin = 0; begin < bytes; begin = ends_.back())
      ends_.push_back(std::min(bytes, begin + element * (1 + random() % most)));
    std::vector<std::size_t> order(ends_.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    places_.resize(ends_.size());
    std::size_t used = 0;
    for (const std::size_t p : order) {
      places_[p] = used + random() % 13;
      used = places_[p] + bytes_of(p) + 1;
    }
    memory_.assign(used, gap);
  }
  /// The segments of a part of the memory, and one behind them.
  std::vector<Segment> list(std::size_t first, std::size_t bytes) {
    std::vector<Segment> segments;
    for (std::size_t p = 0; p < ends_.size(); ++p) {
      const std::size_t begin = std::max(first, begin_of(p)), end = std::min(first + bytes, ends_[p]);
      if (begin < end) segments.push_back({begin - first, memory_.data() + places_[p] + (begin - begin_of(p))});
    }
    segments.push_back({bytes, nullptr});
    return segments;
  }
  void write(const std::vector<std::byte>& flat) {
    for (std::size_t p = 0; p < ends_.size(); ++p)
      std::copy_n(flat.data() + begin_of(p), bytes_of(p), memory_.data() + places_[p]);
  }
  /// What it holds, in order. All between the pieces is as it was.
  std::vector<std::byte> read() const {
    std::vector<std::byte> flat, between = memory_;
    for (std::size_t p = 0; p < ends_.size(); ++p) {
      const auto at = memory_.begin() + static_cast<std::ptrdiff_t>(places_[p]);
      flat.insert(flat.end(), at, at + static_cast<std::ptrdiff_t>(bytes_of(p)));
      std::fill_n(between.begin() + (at - memory_.begin()), bytes_of(p), gap);
    }
    EXPECT_EQ(std::ranges::count(between, gap), static_cast<std::ptrdiff_t>(between.size()));
    return flat;
  }

 private:
  static constexpr std::byte gap{0xa5};
  std::size_t begin_of(std::size_t p) const { return p == 0 ? 0 : ends_[p - 1]; }
  std::size_t bytes_of(std::size_t p) const { return ends_[p] - begin_of(p); }
  std::vector<std::size_t> ends_, places_;  ///< by piece: its end in the whole, and where it begins in memory_
  std::vector<std::byte> memory_;
};

/// What outlives the launches of some ranks: their links, and the order of each team.
struct World {
  static constexpr std::uint64_t slot_count = 2;
  static constexpr std::uint64_t message_bytes = 512;

  /// A link of one strand, and where both its ends count.
  struct Wire {
    Wire(std::uint64_t first, std::uint64_t bytes)
        : sent(first), received(first), arrived(first), credit(first), slots(bytes / sizeof(Unit)) {}
    device::Word64* line(std::uint64_t at) {
      return reinterpret_cast<device::Word64*>(reinterpret_cast<std::byte*>(slots.data()) + at * line_bytes);
    }
    std::uint64_t sent, received, arrived, credit;
    std::vector<std::uint64_t> fingerprints = std::vector<std::uint64_t>(slot_count);
    /// All of its bytes are made 0 with the vector, which a type with padding does not promise: a line of no message is 0.
    struct alignas(line_bytes) Unit {
      std::byte bytes[line_bytes];
    };
    std::vector<Unit> slots;
  };
  using Key = std::tuple<int, int, std::uint32_t, Protocol>;

  Wire& wire(const Key& key, std::uint64_t first) {
    auto& found = wires[key];
    if (found == nullptr)
      found = std::make_unique<Wire>(first, slot_count * slot_bytes_of(std::get<Protocol>(key), message_bytes));
    return *found;
  }

  std::map<Key, std::unique_ptr<Wire>> wires;
  std::map<std::uint32_t, LaunchOrder> orders;  ///< by the team's first rank
  device::Word64 abort = 0;
};

/// One case of all its ranks, as jobs of one launch, or of one for each team. May be launched again, also with others of
/// the same world.
class Fused {
 public:
  static constexpr std::uint64_t slot_count = World::slot_count;

  Fused(const Case& at, const How& how, std::shared_ptr<World> world = std::make_shared<World>())
      : at_(at),
        team_(how.team == 0 ? static_cast<std::uint32_t>(at.ranks) : how.team),
        first_(how.first),
        shares_(how.shares),
        segment_(how.segment),
        world_(std::move(world)) {
    Problem problem = at.problem();
    problem.processor = Processor::cuda;
    problem.irregular = !how.shares.empty();
    plan_ = make_plan(*at.algorithm, problem, at.places(), {.strands = how.strands, .protocol = how.protocol},
                      World::message_bytes);
    const auto program_of = [this](int r) { return make_program(*at_.algorithm, plan_, at_.places(), r); };
    for (int r = 0; r < at.ranks; ++r) {
      programs_.push_back(program_of(r));
      const Lowered lowered = lower(plan_, r, programs_.back(), program_of);
      auto blob = encode(plan_, r, lowered);
      EXPECT_TRUE(blob.ok() && check_blob(blob->bytes(), buffer_bytes(plan_, r), plan_.message_bytes).empty());
      blobs_.push_back(std::move(*blob));
    }
    for (int r = 0; r < at.ranks; ++r) {
      fill(at, r, memory_.emplace_back(layout_of(at, r).bytes).data());
      scratch_.emplace_back(scratch_bytes(plan_) + 16);
      add_job(r);
    }
    for (std::uint32_t first = 0; first < ranks(); first += team_) world_->orders[first];
  }

  const Plan& plan() const { return plan_; }
  std::uint32_t tasks() const { return static_cast<std::uint32_t>(plan_.strands * plan_.shape.lanes) * ranks(); }
  JobRecord& record(int rank) { return records_[static_cast<std::size_t>(rank)]; }
  /// Elements of a block in a v-variant.
  std::uint64_t count_of(Buffer buffer, int rank, std::uint32_t block) const {
    const std::size_t own = static_cast<std::size_t>(rank);
    if (at_.algorithm->collective == Collective::all_to_all) {
      const std::size_t from = buffer == Buffer::input ? own : block, to = buffer == Buffer::input ? block : own;
      return shares_[(3 * from + to) % shares_.size()];
    }
    return shares_[blocks_of(plan_.problem, buffer, rank) == 1 ? own : block];
  }
  LaunchOrder& order(int team) { return world_->orders[static_cast<std::uint32_t>(team) * team_]; }
  Task& task(int rank) { return tasks_[static_cast<std::size_t>(rank)][0]; }
  /// Every line of all slots gets the tag of a message, and data that nobody sent.
  void fill_lines(std::uint64_t n) {
    for (auto& [key, wire] : world_->wires) {
      for (std::uint64_t line = 0; line < lines(); ++line) Line<SystemWords>::put(wire->line(line), n, ~n);
    }
  }
  /// The first lines of the first messages, and nothing behind them.
  void send_first_lines() {
    for (auto& [key, wire] : world_->wires)
      Line<SystemWords>::put(wire->line(first_ % slot_count * (lines() / slot_count)), first_, plan_.hash);
  }
  std::uint64_t lines_that_are_not_clean() {
    std::uint64_t left = 0;
    for (auto& [key, wire] : world_->wires) {
      for (std::uint64_t line = 0; line < lines(); ++line) left += wire->line(line)[0] != 0 ? 1 : 0;
    }
    return left;
  }
  /// Whether a launch has begun, so that the records are its own.
  bool has_launched() const { return cleaned_.load(std::memory_order_acquire); }  // acquire: see launch
  void set_abort() { std::atomic_ref(world_->abort).store(1, std::memory_order_release); }

  /// Launches the jobs of the first ranks (0: of all), and gives all ranks' memory.
  std::vector<std::vector<std::byte>> launch(const Grid& grid, std::uint64_t limit_ns = 0, std::uint32_t of = 0) {
    launch_together({this}, grid, limit_ns, of);
    return memory_;
  }
  const std::vector<std::vector<std::byte>>& memory() const { return memory_; }

  /// Launches operations of the same ranks, one behind the other. One may be there several times.
  static void launch_together(const std::vector<Fused*>& operations, const Grid& grid, std::uint64_t limit_ns = 0,
                              std::uint32_t of = 0) {
    const std::uint32_t end = of == 0 ? operations[0]->ranks() : of;
    launch_by_team(std::vector((end + operations[0]->team_ - 1) / operations[0]->team_, operations), grid, limit_ns, end);
  }
  /// Launches the operations of each team. end: behind the last rank.
  static void launch_by_team(const std::vector<std::vector<Fused*>>& operations, const Grid& grid, std::uint64_t limit_ns,
                             std::uint32_t end) {
    const auto each_of_all = [&operations](const auto& visit) {
      for (const auto& of_team : operations) std::for_each(of_team.begin(), of_team.end(), visit);
    };
    each_of_all([](Fused* each) { std::fill(each->records_.begin(), each->records_.end(), JobRecord{}); });
    // Release: records may be looked at from now on.
    each_of_all([](Fused* each) { each->cleaned_.store(true, std::memory_order_release); });
    std::vector<std::thread> launches;
    std::uint32_t first = 0;
    for (const auto& of_team : operations) {
      const std::uint32_t next = std::min(end, first + of_team[0]->team_);
      launches.emplace_back(
          [&of_team, &grid, first, next, limit_ns] { launch_team(of_team, grid, first, next, limit_ns); });
      first = next;
    }
    for (std::thread& each : launches) each.join();
    each_of_all([](Fused* each) {
      for (std::size_t r = 0; r < each->scattered_.size(); ++r) each->memory_[r] = each->scattered_[r].read();
    });
  }

  /// Launches a team's jobs of the operations, of ranks [first, end).
  static void launch_team(const std::vector<Fused*>& operations, const Grid& grid, std::uint32_t first, std::uint32_t end,
                          std::uint64_t limit_ns) {
    const std::vector<Job> jobs = jobs_of(operations, first, end, limit_ns);
    World& world = *operations[0]->world_;
    LaunchWords words{};
    std::vector<JobWords> job_words(jobs.size());
    Launch launch{};
    launch.order = &world.orders.at(first);
    launch.words = &words;
    launch.job_words = job_words.data();
    launch.abort = &world.abort;
    launch.job_count = static_cast<std::uint32_t>(jobs.size());
    launch.most_operands = 1;
    launch.patience = 64;
    if (launch.job_count > most_inline_jobs) launch.more = jobs.data();
    for (std::uint32_t j = 0; j < launch.job_count; ++j) {
      if (launch.more == nullptr) launch.jobs[j] = jobs[j];
      launch.most_operands = std::max(launch.most_operands, jobs[j].blob->most_operands);
      launch.task_count += jobs[j].blob->strands * jobs[j].blob->lanes.count;
      launch.busy_jobs += jobs[j].work != 0 ? 1 : 0;
    }
    const Plan& plan = operations[0]->plan_;
    run_blocks(grid, storage_bytes(launch.job_count, launch.most_operands), [&](device::Group& group) {
      if (!combines(plan.problem.collective)) return Interpreter<CopyOnly>(group, launch).run();
      dispatch(plan.problem, group, launch);
    });
    EXPECT_TRUE(words.left == 0 && words.finished == 0 && words.opened == 0);
    for (const JobWords& each : job_words) EXPECT_TRUE(each.finished == 0 && each.fingerprint == 0);
  }

 private:
  static std::vector<Job> jobs_of(const std::vector<Fused*>& operations, std::uint32_t first, std::uint32_t end,
                                  std::uint64_t limit_ns) {
    std::vector<Job> jobs;
    std::map<std::uint32_t, std::uint32_t> last;  // by rank
    std::map<const Task*, std::uint32_t> uses;
    for (std::uint32_t operation = 0; operation < operations.size(); ++operation) {
      for (std::uint32_t rank = first; rank < end; ++rank) {
        Job& job = jobs.emplace_back(operations[operation]->jobs_[rank]);
        job.operation = operation;
        job.operation_hash = operations[operation]->plan_.hash;
        job.limit_ns = limit_ns;
        job.predecessor = last[rank];
        job.earlier_uses = uses[job.tasks]++;
        if (job.work != 0) last[rank] = static_cast<std::uint32_t>(jobs.size());
      }
    }
    return jobs;
  }
  std::uint64_t slot_bytes() const { return slot_bytes_of(plan_.protocol, World::message_bytes); }
  std::uint64_t lines() const { return slot_count * slot_bytes() / line_bytes; }

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(at_.ranks); }

  static std::uint32_t work_of(const Blob& blob, std::uint64_t passes) {
    std::uint32_t work = 0;
    for (std::uint32_t s = 0; s < blob.strands; ++s) {
      const bool any = Strand{s, blob.strands}.passes(passes) != 0;
      for (std::uint32_t l = 0; l < blob.lanes.count; ++l)
        work += any && blob.array<BlobLane>(blob.lanes)[l].count != 0 ? 1 : 0;
    }
    return work;
  }
  static void dispatch(const Problem& problem, device::Group& group, const Launch& launch) {
    switch (problem.type) {
      case TUTTI_FLOAT32:
        return Interpreter<FoldBy<float, Sum>>(group, launch).run();
      case TUTTI_UINT8:  // a barrier's is a maximum
        return problem.collective == Collective::barrier ? Interpreter<FoldBy<std::uint8_t, Max>>(group, launch).run()
                                                         : Interpreter<FoldBy<std::uint8_t, Sum>>(group, launch).run();
      default:
        return Interpreter<FoldBy<std::int32_t, Sum>>(group, launch).run();
    }
  }

  void add_job(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    const Layout layout = layout_of(at_, rank);
    std::vector<DeviceLinkEnd>& ends = ends_.emplace_back();
    for (std::uint32_t s = 0; s < plan_.strands; ++s) {
      for (const Link& link : programs_[r].links) {
        const std::uint32_t channel = Strand{s, plan_.strands}.channel(link.channel);
        const int from = link.sends ? rank : link.peer, to = link.sends ? link.peer : rank;
        World::Wire& own = world_->wire({from, to, channel, plan_.protocol}, first_);
        ends.push_back({reinterpret_cast<device::Word64*>(link.sends ? &own.sent : &own.received), &own.arrived,
                        &own.credit, own.fingerprints.data(), reinterpret_cast<std::byte*>(own.slots.data()), slot_count,
                        slot_bytes(), link.peer});
      }
    }
    std::vector<Task>& tasks = tasks_.emplace_back(plan_.strands * programs_[r].lanes.size());
    records_.resize(static_cast<std::size_t>(at_.ranks));
    Job& job = jobs_.emplace_back();
    job.blob = &blobs_[r].blob();
    job.buffers[0] = memory_[r].data() + layout.input;
    job.buffers[1] = memory_[r].data() + layout.output;
    job.buffers[2] = scratch_[r].data();
    job.links = ends.data();
    job.tasks = tasks.data();
    job.record = &records_[r];
    job.passes = job.blob->passes;
    if (job.blob->is_irregular()) bind(rank, job);
    if (segment_ != 0) scatter(rank, job);
    job.work = work_of(*job.blob, job.passes);
  }
  void scatter(int rank, Job& job) {
    const auto r = static_cast<std::size_t>(rank);
    std::mt19937_64 random(r + segment_);
    Scattered& scattered = scattered_.emplace_back(memory_[r].size(), element_bytes(at_.type), segment_, random);
    scattered.write(memory_[r]);
    const std::size_t begins[] = {layout_of(at_, rank).input, layout_of(at_, rank).output};
    for (std::size_t buffer = 0; buffer < 2; ++buffer) {
      const auto& list = segments_.emplace_back(scattered.list(begins[buffer], buffer_bytes(plan_, rank)[buffer]));
      job.lists[buffer] = {list.data(), list.size() - 1};
      job.buffers[buffer] = nullptr;
    }
  }
  /// A v-variant's blocks lie where the case's do, and are shorter.
  void bind(int rank, Job& job) {
    const std::uint64_t block = at_.count * element_bytes(at_.type);
    std::vector<BoundBlock>& bound = bound_.emplace_back();
    for (const Buffer buffer : {Buffer::input, Buffer::output}) {
      std::byte* const begin = std::exchange(job.buffers[static_cast<std::size_t>(buffer)], nullptr);
      for (std::uint32_t b = 0; b < blocks_of(plan_.problem, buffer, rank); ++b) {
        const std::uint64_t count = count_of(buffer, rank, b);
        bound.push_back(bound_block(plan_.division(), {begin + b * block, count}));
        job.passes = std::max(job.passes, plan_.passes(count));
      }
    }
    job.bound = bound.data();
  }

  const Case at_;
  const std::uint32_t team_;
  const std::uint64_t first_;
  const std::vector<std::uint64_t> shares_;
  const std::uint64_t segment_;
  const std::shared_ptr<World> world_;
  Plan plan_;
  std::vector<Program> programs_;
  std::vector<BlobMemory> blobs_;
  std::vector<std::vector<std::byte>> memory_, scratch_;
  std::vector<std::vector<DeviceLinkEnd>> ends_;
  std::vector<std::vector<Task>> tasks_;
  std::vector<std::vector<BoundBlock>> bound_;  ///< by rank, where the case is a v-variant
  std::vector<Scattered> scattered_;            ///< by rank, where buffers are lists
  std::vector<std::vector<Segment>> segments_;  ///< two lists of each rank then
  std::vector<JobRecord> records_;
  std::vector<Job> jobs_;
  std::atomic<bool> cleaned_{false};
};

/// All ranks' memory after the case, as the simulator has it.
std::vector<std::vector<std::byte>> simulated(const Case& at, const Plan& plan) {
  std::vector<Program> programs;
  std::vector<std::vector<std::byte>> all, scratch;
  std::vector<RankMemory> memory;
  Plan whole = plan;
  whole.strands = 1;
  for (int r = 0; r < at.ranks; ++r) {
    const Layout layout = layout_of(at, r);
    programs.push_back(make_program(*at.algorithm, plan, at.places(), r));
    fill(at, r, all.emplace_back(layout.bytes).data());
    scratch.emplace_back(scratch_bytes(whole));
    memory.push_back({all.back().data() + layout.input, all.back().data() + layout.output, scratch.back().data()});
  }
  SimulatorConfig config;
  config.view = at.places();
  config.memory = memory;
  EXPECT_EQ(simulate(whole, programs, config).why, "");
  return all;
}

Case case_of(const Algorithm& algorithm, int ranks, int variant) {
  Case at{&algorithm, ranks};
  at.root = rooted(algorithm.collective) ? ranks - 1 : 0;
  const bool folds = reduces(algorithm.collective);
  at.type = !folds ? TUTTI_INT32 : variant % 2 == 0 ? TUTTI_FLOAT32 : TUTTI_UINT8;
  at.op = folds && variant % 3 == 0 ? TUTTI_AVG : TUTTI_SUM;
  at.in_place = variant % 2 != 0;
  return at;
}

bool takes(const Algorithm& algorithm, int ranks) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = ranks;
  return ranks == 1 || algorithm.fits(problem, flat_view(ranks));
}

/// Where two memories of all ranks differ first, and how long; "" where they do not.
std::string first_difference(const std::vector<std::vector<std::byte>>& got,
                             const std::vector<std::vector<std::byte>>& expected) {
  for (std::size_t r = 0; r < expected.size(); ++r) {
    const auto [here, there] = std::mismatch(got[r].begin(), got[r].end(), expected[r].begin(), expected[r].end());
    if (here == got[r].end()) continue;
    std::string text = "rank " + std::to_string(r) + " at byte " + std::to_string(here - got[r].begin()) + " of " +
                       std::to_string(got[r].size()) + ":";
    for (std::ptrdiff_t b = 0; b < std::min<std::ptrdiff_t>(24, got[r].end() - here); ++b)
      text += " " + std::to_string(std::to_integer<int>(here[b])) + "/" + std::to_string(std::to_integer<int>(there[b]));
    return text;
  }
  return "";
}

JobEnd end_of(Fused& fused, int rank) {
  // Acquire: the rest of the record is behind it.
  return static_cast<JobEnd>(std::atomic_ref(fused.record(rank).end).load(std::memory_order_acquire));
}

class EveryAlgorithm : public ::testing::TestWithParam<std::tuple<int, Protocol>> {};

TEST_P(EveryAlgorithm, GivesTheSimulatorsBits) {
  const auto [ranks, protocol] = GetParam();
  int variant = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (!takes(*algorithm, ranks)) continue;
    for (const std::uint64_t count : {0, 1, 77, 1300}) {
      Case at = case_of(*algorithm, ranks, ++variant);
      at.count = count;
      if (algorithm->collective == Collective::barrier && count != 1) continue;
      Fused fused(at, {.strands = 1 + static_cast<std::uint32_t>(variant) % 3, .protocol = protocol});
      const auto expected = simulated(at, fused.plan());
      const std::uint32_t all = std::max(1u, fused.tasks());
      const Grid choices[] = {{1, 1}, {2, 3}, {std::min(all, 12u), 1}};
      const Grid& grid = choices[variant % 3];
      const auto got = fused.launch(grid);
      ASSERT_EQ(first_difference(got, expected), "")
          << at.text() << ", " << fused.plan().strands << " strands, " << grid.blocks << " blocks of " << grid.threads;
      for (int r = 0; r < ranks; ++r) ASSERT_EQ(fused.record(r).end, static_cast<std::uint64_t>(JobEnd::completed));
    }
  }
  EXPECT_GT(variant, 100);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryAlgorithm,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5, 8),
                                            ::testing::Values(Protocol::messages, Protocol::lines)));

/// The memory of a v-variant: results as far as its blocks go, and what was there before behind them. An element of a
/// result comes of the same element of other blocks, so those of the whole case are right.
std::vector<std::vector<std::byte>> simulated_to_the_ends(const Case& at, const Fused& fused) {
  const Fused whole(at, {});
  const auto results = simulated(at, whole.plan());
  std::vector<std::vector<std::byte>> all;
  const std::size_t element = element_bytes(at.type), block = at.count * element;
  for (int r = 0; r < at.ranks; ++r) {
    const Layout layout = layout_of(at, r);
    std::vector<std::byte>& own = all.emplace_back(layout.bytes);
    fill(at, r, own.data());
    for (std::uint32_t b = 0; b < blocks_of(fused.plan().problem, Buffer::output, r); ++b) {
      const auto begin = static_cast<std::ptrdiff_t>(layout.output + b * block);
      std::copy_n(results[static_cast<std::size_t>(r)].begin() + begin, fused.count_of(Buffer::output, r, b) * element,
                  own.begin() + begin);
    }
  }
  return all;
}

class EveryDivision : public ::testing::TestWithParam<std::tuple<int, Protocol>> {};

TEST_P(EveryDivision, OfAVVariantGivesTheSimulatorsBits) {
  const auto [ranks, protocol] = GetParam();
  std::mt19937_64 random(static_cast<std::uint64_t>(ranks));
  int variant = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (!algorithm->irregular || !takes(*algorithm, ranks)) continue;
    for (int draw = 0; draw < 4; ++draw) {
      Case at = case_of(*algorithm, ranks, ++variant);
      at.count = 1300;
      How how{.strands = 1 + static_cast<std::uint32_t>(variant) % 3, .protocol = protocol};
      how.team = variant % 2 == 0 ? 0 : 1;
      for (int r = 0; r < ranks; ++r) {
        const std::uint64_t some[] = {0, 1, random() % at.count, at.count};
        how.shares.push_back(some[draw == 0 ? 0 : random() % 4]);
      }
      Fused fused(at, how);
      const auto expected = simulated_to_the_ends(at, fused);
      const Grid choices[] = {{1, 1}, {2, 3}, {std::min(std::max(1u, fused.tasks()), 12u), 1}};
      ASSERT_EQ(first_difference(fused.launch(choices[variant % 3]), expected), "")
          << at.text() << ", shares " << ::testing::PrintToString(how.shares);
      for (int r = 0; r < ranks; ++r) ASSERT_EQ(fused.record(r).end, static_cast<std::uint64_t>(JobEnd::completed));
    }
  }
  EXPECT_GT(variant, 20);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryDivision,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5, 8),
                                            ::testing::Values(Protocol::messages, Protocol::lines)));

class EveryList : public ::testing::TestWithParam<std::tuple<int, Protocol>> {};

TEST_P(EveryList, OfSegmentsGivesTheSimulatorsBits) {
  const auto [ranks, protocol] = GetParam();
  std::mt19937 random(static_cast<unsigned>(ranks));
  int cases = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (!takes(*algorithm, ranks) || algorithm->collective == Collective::barrier) continue;
    // Of one element each, some in a line, and more than a message long.
    for (const std::uint64_t segment : {1, 5, 40, 2000}) {
      Case at = case_of(*algorithm, ranks, static_cast<int>(random() % 6));
      at.in_place = random() % 2 != 0;
      at.count = segment == 1 ? 77 : 1300;
      Fused fused(at, {.strands = 1 + static_cast<std::uint32_t>(random() % 3), .protocol = protocol, .segment = segment});
      const auto expected = simulated(at, fused.plan());
      const Grid choices[] = {{1, 1}, {2, 3}, {std::min(std::max(1u, fused.tasks()), 12u), 1}};
      ASSERT_EQ(first_difference(fused.launch(choices[random() % 3]), expected), "")
          << at.text() << ", segments of at most " << segment << ", case " << cases;
      for (int r = 0; r < ranks; ++r) ASSERT_EQ(fused.record(r).end, static_cast<std::uint64_t>(JobEnd::completed));
      ++cases;
    }
  }
  EXPECT_GT(cases, 100);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryList,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5),
                                            ::testing::Values(Protocol::messages, Protocol::lines)));

Case ring_of(int ranks) {
  Case at{find_algorithm(Collective::all_reduce, "ring"), ranks};
  at.count = 1300;
  return at;
}

constexpr std::array ranks = {0, 1, 2};
constexpr Grid grids[] = {{1, 1}, {1, 3}, {3, 2}};

TEST(Interpreter, RunsAgainOnTheSameLinks) {
  for (const Grid& grid : grids) {
    const Case at = ring_of(4);
    Fused fused(at, {.strands = 2});
    const auto expected = simulated(at, fused.plan());
    for (int i = 0; i < 5; ++i) ASSERT_EQ(fused.launch(grid), expected) << "launch " << i;
  }
}

// Lanes that need what others of the rank wrote, and passes that share scratch: one block might be right by chance.
TEST(Interpreter, AwaitsOtherLanesAndPasses) {
  const std::pair<Collective, const char*> some[] = {{Collective::all_reduce, "hierarchical"},
                                                     {Collective::all_reduce, "leaders"},
                                                     {Collective::all_reduce, "halving_doubling"},
                                                     {Collective::reduce_scatter, "hierarchical"}};
  for (const auto& [collective, name] : some) {
    for (const Protocol protocol : {Protocol::messages, Protocol::lines}) {
      for (const Grid& grid : {Grid{8, 1}, Grid{3, 2}}) {
        Case at{find_algorithm(collective, name), 6};
        at.view = view_of_machines({3, 3});
        at.count = 5000;
        at.in_place = true;
        Fused fused(at, {.strands = 2, .protocol = protocol});
        ASSERT_GT(fused.plan().passes(at.count), 4u);
        const auto expected = simulated(at, fused.plan());
        ASSERT_EQ(first_difference(fused.launch(grid), expected), "") << at.text() << ", " << grid.blocks << " blocks";
      }
    }
  }
}

/// Ranks on devices of their own; each launch meets the others by its links alone.
TEST(Interpreter, RunsInALaunchForEachTeam) {
  for (const Grid& grid : grids) {
    for (const std::uint32_t team : {1u, 2u, 3u}) {
      Fused fused(ring_of(5), {.strands = 2, .team = team});
      const auto expected = simulated(ring_of(5), fused.plan());
      for (int i = 0; i < 3; ++i) ASSERT_EQ(fused.launch(grid), expected) << "launch " << i;
      EXPECT_EQ(fused.order(0).serving, 3u);
    }
  }
}

// Results of one are what the next one works on, where an operation is there again.
TEST(Interpreter, RunsSeveralOperationsInOneLaunchAsOneBehindTheOther) {
  const auto of = [](Collective collective, const char* name, std::uint64_t count, bool in_place) {
    Case at{find_algorithm(collective, name), 5};
    at.count = count;
    at.in_place = in_place;
    at.root = rooted(collective) ? 3 : 0;
    return at;
  };
  const Case reductions[] = {of(Collective::all_reduce, "ring", 1300, true),
                             of(Collective::reduce, "binomial", 77, false),  // some ranks are done at once
                             of(Collective::all_reduce, "recursive_doubling", 1, true),
                             of(Collective::all_reduce, "ring", 0, true)};  // nobody has anything to do
  const Case copies[] = {of(Collective::broadcast, "binomial", 700, true), of(Collective::all_gather, "ring", 300, true),
                         of(Collective::broadcast, "binomial", 3, true)};
  const std::vector<std::size_t> orders[] = {{0, 1, 2, 3}, {0, 0, 0}, {1, 0, 1, 3, 0, 2, 0, 1, 2}};
  int variant = 0;
  for (const std::span<const Case> cases : {std::span<const Case>(reductions), std::span<const Case>(copies)}) {
    for (const auto& order : orders) {
      for (const Grid& grid : {Grid{1, 1}, Grid{1, 3}, Grid{3, 2}, Grid{9, 1}}) {
        const std::uint32_t teams[] = {0, 1, 2};
        const std::uint32_t team = teams[++variant % 3];
        const auto together = std::make_shared<World>(), apart = std::make_shared<World>();
        std::vector<std::unique_ptr<Fused>> all, expected;
        for (const Case& at : cases) {
          const How how{.strands = 1 + static_cast<std::uint32_t>(variant) % 2, .team = team};
          all.push_back(std::make_unique<Fused>(at, how, together));
          expected.push_back(std::make_unique<Fused>(at, how, apart));
        }
        for (int again = 0; again < 2; ++again) {
          std::vector<Fused*> operations;
          for (const std::size_t o : order) {
            operations.push_back(all[o % cases.size()].get());
            expected[o % cases.size()]->launch(grid);
          }
          Fused::launch_together(operations, grid);
          for (std::size_t c = 0; c < cases.size(); ++c) {
            ASSERT_EQ(first_difference(all[c]->memory(), expected[c]->memory()), "")
                << cases[c].text() << ", " << grid.blocks << " blocks, team " << team << ", variant " << variant;
          }
          for (Fused* const each : operations) {
            for (int r = 0; r < 5; ++r) ASSERT_EQ(end_of(*each, r), JobEnd::completed);
          }
        }
        EXPECT_EQ(together->orders.at(0).history, apart->orders.at(0).history);
      }
    }
  }
}

// Rank 2 takes part in the first one only.
TEST(Interpreter, SaysOfEachOperationOfALaunchHowItEnded) {
  for (const Grid& grid : grids) {
    for (const bool same : {false, true}) {
      const auto world = std::make_shared<World>();
      const How how{.team = 1};
      Case of_nothing = ring_of(3);
      of_nothing.count = 0;
      Fused one(ring_of(3), how, world), two(ring_of(3), how, world), three(ring_of(3), how, world);
      Fused nothing(of_nothing, how, world);
      const auto expected = simulated(ring_of(3), one.plan());
      const std::vector<Fused*> all = {&one, same ? &one : &two, &three, &nothing};
      Fused::launch_by_team({all, all, {&one}}, grid, 1'000'000'000, 3);
      EXPECT_EQ(end_of(one, 2), JobEnd::completed);
      if (!same) {
        EXPECT_EQ(one.memory(), expected);
      }
      for (int rank = 0; rank < 2; ++rank) {
        if (!same) {
          EXPECT_EQ(end_of(one, rank), JobEnd::completed) << rank;
        }
        EXPECT_EQ(end_of(*all[1], rank), JobEnd::late) << rank;
        EXPECT_EQ(end_of(three, rank), JobEnd::aborted) << rank;
        EXPECT_EQ(end_of(nothing, rank), JobEnd::aborted) << rank;
      }
    }
  }
}

// Rank 2 is nearly late for each of two.
TEST(Interpreter, CountsAnOperationsLimitFromWhenItComesToIt) {
  for (const Grid& grid : {Grid{1, 1}, Grid{3, 2}}) {
    const auto world = std::make_shared<World>();
    const How how{.team = 1};
    Fused one(ring_of(3), how, world), two(ring_of(3), how, world);
    const auto expected = simulated(ring_of(3), one.plan());
    std::vector<std::thread> launches;
    const auto launch = [&](const std::vector<Fused*>& operations, std::uint32_t rank) {
      Fused::launch_team(operations, grid, rank, rank + 1, 3'000'000'000);
    };
    for (const std::uint32_t rank : {0u, 1u}) launches.emplace_back([&, rank] { launch({&one, &two}, rank); });
    for (Fused* const each : {&one, &two}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1600));
      launch({each}, 2);
    }
    for (std::thread& each : launches) each.join();
    for (Fused* const each : {&one, &two}) {
      EXPECT_EQ(each->memory(), expected);
      for (const int rank : ranks) EXPECT_EQ(end_of(*each, rank), JobEnd::completed) << rank;
    }
  }
}

// Rank 1's second operation is another one than the others'.
TEST(Interpreter, FindsAMismatchInTheOperationThatHasIt) {
  for (const Grid& grid : grids) {
    const auto world = std::make_shared<World>();
    const How how{.team = 1};
    Case shorter = ring_of(3);
    shorter.count = 1200;
    Fused one(ring_of(3), how, world), two(ring_of(3), how, world), other(shorter, how, world);
    ASSERT_NE(two.plan().hash, other.plan().hash);
    const auto expected = simulated(ring_of(3), one.plan());
    std::thread host([&] {
      while (!one.has_launched()) std::this_thread::yield();
      const auto is_told = [&](int r) { return end_of(r == 1 ? other : two, r) == JobEnd::mismatch; };
      const auto is_done = [&](int r) { return end_of(one, r) != JobEnd::under_way; };
      while (std::none_of(ranks.begin(), ranks.end(), is_told) || !std::all_of(ranks.begin(), ranks.end(), is_done))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      one.set_abort();
    });
    Fused::launch_by_team({{&one, &two}, {&one, &other}, {&one, &two}}, grid, 20'000'000'000, 3);
    host.join();
    int told = 0;
    EXPECT_EQ(one.memory(), expected);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(end_of(one, rank), JobEnd::completed) << rank;
      told += end_of(rank == 1 ? other : two, rank) == JobEnd::mismatch ? 1 : 0;
    }
    EXPECT_GE(told, 1);
  }
}

TEST(Interpreter, RunsMoreJobsThanParametersHold) {
  Fused fused(ring_of(20), {});
  const auto expected = simulated(ring_of(20), fused.plan());
  ASSERT_EQ(fused.launch({3, 2}), expected);
}

class Protocols : public ::testing::TestWithParam<Protocol> {};
INSTANTIATE_TEST_SUITE_P(All, Protocols, ::testing::Values(Protocol::messages, Protocol::lines));

TEST_P(Protocols, SayWhoseMessageIsAnotherOperations) {
  const Protocol protocol = GetParam();
  for (const Grid& grid : grids) {
    Fused fused(ring_of(3), {.team = 1, .protocol = protocol});
    fused.order(1).history = 1;  // it has run something that the others have not
    std::thread host([&fused] {
      // Who is told of the mismatch first tells the others.
      while (!fused.has_launched()) std::this_thread::yield();
      while (std::none_of(ranks.begin(), ranks.end(), [&](int r) { return end_of(fused, r) != JobEnd::under_way; }))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      fused.set_abort();
    });
    fused.launch(grid, 20'000'000'000);
    host.join();
    int told = 0;
    for (const int rank : ranks) {
      if (end_of(fused, rank) != JobEnd::mismatch) {
        EXPECT_EQ(end_of(fused, rank), JobEnd::aborted) << rank;
        continue;
      }
      ++told;
      EXPECT_TRUE(rank == 1 || fused.record(rank).peer == 1) << "rank " << rank << " blames " << fused.record(rank).peer;
      EXPECT_EQ(fused.record(rank).fingerprint, fused.order(rank == 1 ? fused.record(rank).peer : 1).history);
    }
    EXPECT_GE(told, 1);
  }
}

TEST_P(Protocols, EndByTheirDeadlineAndSayWhomTheyWaitedFor) {
  for (const Grid& grid : grids) {
    Fused fused(ring_of(3), {.protocol = GetParam()});
    fused.launch(grid, 20'000'000, 2);
    int told = 0;
    for (int rank = 0; rank < 2; ++rank) {
      if (end_of(fused, rank) != JobEnd::late) {
        EXPECT_EQ(end_of(fused, rank), JobEnd::aborted) << rank;
        continue;
      }
      ++told;
      EXPECT_NE(fused.record(rank).peer, rank);
      EXPECT_GE(fused.record(rank).peer, 0);
    }
    EXPECT_EQ(told, 1);
  }
}

TEST_P(Protocols, EndWhenTheHostSaysSo) {
  for (const Grid& grid : grids) {
    Fused fused(ring_of(3), {.strands = 2, .protocol = GetParam()});
    std::thread host([&fused] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      fused.set_abort();
    });
    fused.launch(grid, 0, 2);
    host.join();
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(end_of(fused, rank), JobEnd::aborted) << rank;
  }
}

// A sender that stands still in the middle of a message holds up a sweep, which looks at the time and the host as well.
TEST(Lines, ThatDoNotComeEndALaunchAtItsDeadline) {
  for (const Grid& grid : grids) {
    Fused fused(ring_of(3), {.team = 1, .protocol = Protocol::lines});
    fused.send_first_lines();
    fused.launch(grid, 20'000'000, 1);
    EXPECT_EQ(end_of(fused, 0), JobEnd::late);
    EXPECT_EQ(fused.record(0).peer, 2);
  }
}

TEST(Lines, ThatDoNotComeEndALaunchWhenTheHostSaysSo) {
  for (const Grid& grid : grids) {
    Fused fused(ring_of(3), {.team = 1, .protocol = Protocol::lines});
    fused.send_first_lines();
    std::thread host([&fused] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      fused.set_abort();
    });
    fused.launch(grid, 0, 1);
    host.join();
    EXPECT_EQ(end_of(fused, 0), JobEnd::aborted);
  }
}

// Every line has the tag that a message will have once tags come again. Messages come to where slots are cleaned: what they
// do not use is 0 then, and what they do use carries on.
TEST(Lines, ThatNobodyUsesAreCleanedBeforeTheirTagComesAgain) {
  constexpr std::uint64_t again = Line<SystemWords>::tags;
  for (const std::uint64_t first : {again / 2 - 2, again - 2, 2 * again - 2, 5 * again / 2 - 2}) {
    for (const Grid& grid : grids) {
      Case at = ring_of(3);
      at.count = 30;  // messages of a few lines
      Fused fused(at, {.protocol = Protocol::lines, .first = first});
      fused.fill_lines(first + again / 2);
      const auto expected = simulated(at, fused.plan());
      for (int i = 0; i < 4; ++i) {
        ASSERT_EQ(fused.launch(grid), expected) << "launch " << i << " from " << first;
        for (const int rank : ranks) ASSERT_EQ(end_of(fused, rank), JobEnd::completed);
      }
      EXPECT_LE(fused.lines_that_are_not_clean(), 3u * Fused::slot_count * 12) << "those of the last messages";
    }
  }
}

// The turn is another launch's for a while.
TEST(Interpreter, WaitsForItsTurn) {
  for (const Grid& grid : grids) {
    Fused fused(ring_of(3), {});
    const auto expected = simulated(ring_of(3), fused.plan());
    fused.order(0).next = 1;
    std::vector<std::vector<std::byte>> got;
    std::thread launch([&] { got = fused.launch(grid); });
    while (!fused.has_launched()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const int rank : ranks) {
      // Relaxed: nothing else is concluded from it.
      EXPECT_EQ(std::atomic_ref(fused.record(rank).begun).load(std::memory_order_relaxed), 0u) << rank;
      EXPECT_EQ(end_of(fused, rank), JobEnd::under_way) << rank;
    }
    // Release: as the launch before passes it.
    std::atomic_ref(fused.order(0).serving).store(1, std::memory_order_release);
    launch.join();
    EXPECT_EQ(got, expected);
    EXPECT_EQ(fused.order(0).serving, 2u);
  }
}

// Its tasks may be those of the launch that has the turn.
TEST(Interpreter, ThatLeavesBeforeItsTurnTouchesNoTask) {
  for (const Grid& grid : grids) {
    Fused fused(ring_of(3), {});
    fused.order(0).next = 1;  // the turn is another launch's, and it is at work
    for (const int rank : ranks) fused.task(rank) = {1, 7};
    fused.set_abort();
    fused.launch(grid);
    for (const int rank : ranks) {
      EXPECT_EQ(end_of(fused, rank), JobEnd::aborted);
      EXPECT_EQ(fused.task(rank).claim, 1u);
      EXPECT_EQ(fused.task(rank).retired, 7u);
    }
    EXPECT_EQ(fused.order(0).serving, 0u);
  }
}

}  // namespace
}  // namespace tutti::testing
