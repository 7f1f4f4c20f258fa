// The matrix: every verb on device memory gives the bits that host memory gives, and those that a reference gives.
//
// The quick test takes a sample by a seed, TEST_SEED. With TEST_WHOLE=1 every case is taken (label cuda-long).
#include <cstdlib>
#include <numeric>

#include "tests/device/calls.h"
#include "tests/device/device_fixture.h"

namespace tutti::test {
namespace {

constexpr std::uint8_t kSentinel = 0xa5;
constexpr std::size_t kGuard = 64;  ///< bytes behind each buffer that nobody may write
constexpr std::size_t kQuickCases = under_tsan || under_asan ? 6 : 24;

/// Counts: none, one, few, many, some that no number of ranks divides, and more than one slot of 256 KiB.
constexpr std::size_t kCounts[] = {0, 1, 7, 1000, 1013, 66'001};

enum class Way { blocking, queue, stream };

struct World {
  int ranks;
  int places;
  std::uint32_t max_blocks;   ///< as tutti_config has it
  bool one_resident = false;  ///< the stand-in lets one block run at a time
};

struct MatrixCase {
  CollectiveCase call;
  Way way;
  std::uint64_t seed;
  std::string text() const {
    constexpr const char* ways[] = {"blocking", "on a queue", "on a CUDA stream"};
    return call.text() + ", " + ways[static_cast<int>(way)] + ", seed " + std::to_string(seed);
  }
};

std::uint64_t seed_of_run() {
  const char* const given = std::getenv("TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}
bool takes_all() { return std::getenv("TEST_WHOLE") != nullptr; }

std::vector<tutti_type> types_of(Verb verb) {
  if (verb == Verb::barrier) return {TUTTI_INT8};
  if (!folds(verb)) {
    return {TUTTI_INT8,
            TUTTI_BFLOAT16,
            TUTTI_FLOAT32,
            TUTTI_UINT64,
            static_cast<tutti_type>(TUTTI_OPAQUE + 3),
            static_cast<tutti_type>(TUTTI_OPAQUE + 24)};
  }
  std::vector<tutti_type> types;
  for (const ElementTypeInfo& row : element_types) types.push_back(row.type);
  return types;
}

/// Makes it a call that folds all operands at once, by any algorithm that does.
void draw_fold(CollectiveCase& call, std::mt19937_64& random) {
  call.algorithm = nullptr;
  const ElementTypeInfo type = element_type_info(call.type);
  call.accumulates = type.kind == ElementKind::floating && type.size <= sizeof(float) && random() % 2 == 0;
  call.reproducible = call.verb == Verb::reduce_scatter || random() % 2 == 0;
  if (!call.reproducible) call.local_operands = 1 + random() % 3;
}

/// Every case of a world. Root, algorithm and, where the count is large, the way are drawn.
std::vector<MatrixCase> all_cases(int ranks, std::mt19937_64& random) {
  std::vector<MatrixCase> cases;
  for (int v = 0; v < kVerbs; ++v) {
    const Verb verb = static_cast<Verb>(v);
    const auto algorithms = algorithms_of(verb);
    for (const tutti_type type : types_of(verb)) {
      for (const auto& [op, name, kinds] : operators) {
        if (folds(verb) && !applies_to(op, type)) continue;
        for (const std::size_t count : kCounts) {
          for (const bool in_place : {false, true}) {
            for (const Way way : {Way::blocking, Way::queue, Way::stream}) {
              const bool large = count > 10'000;
              if ((!folds(verb) && op != TUTTI_SUM) || (verb == Verb::barrier && (count != 0 || in_place))) continue;
              if (large && way != static_cast<Way>(random() % 3)) continue;
              const int root = is_rooted(verb) ? static_cast<int>(random() % static_cast<unsigned>(ranks)) : 0;
              MatrixCase drawn = {
                  {verb, type, op, count, root, in_place, algorithms[random() % algorithms.size()]}, way, random() % 1000};
              if (folds(verb) && random() % 4 == 0) draw_fold(drawn.call, random);
              cases.push_back(drawn);
            }
          }
        }
      }
    }
  }
  return cases;
}

std::vector<MatrixCase> cases_of(const World& world) {
  std::mt19937_64 random(seed_of_run() * 1000 + static_cast<std::uint64_t>(world.ranks * 10 + world.places));
  std::vector<MatrixCase> cases = all_cases(world.ranks, random);
  if (takes_all()) return cases;
  // Each verb has its share, whatever its types and operators.
  std::vector<MatrixCase> sample;
  for (std::size_t n = 0; n < kQuickCases; ++n) {
    std::vector<MatrixCase> of_verb;
    std::copy_if(cases.begin(), cases.end(), std::back_inserter(of_verb),
                 [&](const MatrixCase& each) { return each.call.verb == static_cast<Verb>(n % kVerbs); });
    sample.push_back(of_verb[random() % of_verb.size()]);
  }
  return sample;
}

/// A rank's buffers with their guards, as bytes. In place `send` holds both.
struct Images {
  Bytes send;
  Bytes recv;
  bool operator==(const Images&) const = default;
};

/// One rank's part of a case.
class RankCase {
 public:
  RankCase(const MatrixCase& of, const DeviceRank& rank)
      : of_(of),
        rank_(rank),
        arrangement_(arrange(of.call, rank.rank, rank.size)),
        lead_(of.seed % 3 * tutti_type_size(of.call.type)) {}

  Images before() const {
    const Bytes contents = contents_of(of_.call, of_.seed, rank_.rank, arrangement_.send_bytes);
    Images images{framed(arrangement_.shared ? arrangement_.shared_bytes() : arrangement_.send_bytes), {}};
    if (!arrangement_.shared) images.recv = framed(arrangement_.recv_bytes);
    std::copy(contents.begin(), contents.end(), images.send.begin() + at(arrangement_.send_at));
    return images;
  }

  /// What the reference says it is afterwards.
  Images expected() const {
    Images images = before();
    const Bytes received = Reference(of_.call, of_.seed, rank_.size).recv_of(rank_.rank);
    Bytes& into = arrangement_.shared ? images.send : images.recv;
    std::copy(received.begin(), received.end(), into.begin() + at(arrangement_.recv_at));
    return images;
  }

  /// The call on host memory. Its status, and what the buffers are afterwards.
  tutti_status on_host(Images& images) const {
    return issue(
        of_.call, place(images.send.data(), arrangement_.send_bytes, arrangement_.send_at),
        place((arrangement_.shared ? images.send : images.recv).data(), arrangement_.recv_bytes, arrangement_.recv_at),
        rank_.comm, {});
  }

  /// The same on device memory.
  tutti_status on_device(Images& images, tutti_queue* queue) const {
    const Memory first(MemoryKind::device, images.send);
    const Memory second(MemoryKind::device, images.recv);
    const void* const send = place(first.as<std::uint8_t>(), arrangement_.send_bytes, arrangement_.send_at);
    void* const recv =
        place((arrangement_.shared ? first : second).as<std::uint8_t>(), arrangement_.recv_bytes, arrangement_.recv_at);
    tutti_stream stream{};
    if (of_.way == Way::queue) stream = {TUTTI_STREAM_QUEUE, queue};
    if (of_.way == Way::stream) stream = on(rank_.stream);
    tutti_status status = issue(of_.call, send, recv, rank_.comm, stream);
    if (of_.way == Way::queue && status == TUTTI_SUCCESS) status = tutti_queue_wait(queue, 2 * kUsualTimeoutNs);
    if (of_.way == Way::stream) rank_.stream.wait();
    images = {first.read(), second.read()};
    return status;
  }

 private:
  std::ptrdiff_t at(std::size_t offset) const { return static_cast<std::ptrdiff_t>(lead_ + offset); }
  Bytes framed(std::size_t bytes) const { return Bytes(lead_ + bytes + kGuard, kSentinel); }
  /// An ignored buffer is nullptr.
  std::uint8_t* place(std::uint8_t* base, std::size_t bytes, std::size_t offset) const {
    return bytes == 0 ? nullptr : base + at(offset);
  }

  const MatrixCase& of_;
  const DeviceRank& rank_;
  const Arrangement arrangement_;
  const std::size_t lead_;
};

/// Where two images differ, in words.
std::string difference(const Images& got, const Images& expected) {
  for (const auto& [one, other, name] :
       {std::tuple(&got.send, &expected.send, "send"), {&got.recv, &expected.recv, "recv"}}) {
    for (std::size_t i = 0; i < one->size(); ++i) {
      if ((*one)[i] == (*other)[i]) continue;
      return std::string("byte ") + std::to_string(i) + " of " + std::to_string(one->size()) + " of " + name + " is " +
             std::to_string((*one)[i]) + " instead of " + std::to_string((*other)[i]);
    }
  }
  return "they are equal";
}

class Matrix : public DeviceTest, public ::testing::WithParamInterface<World> {
 protected:
  /// Whether the communicator can go on.
  static bool run_case(const MatrixCase& of, const DeviceRank& rank, tutti_queue* queue) {
    const RankCase part(of, rank);
    const std::string where = of.text() + ", rank " + std::to_string(rank.rank);
    Images host = part.before();
    const tutti_status host_status = part.on_host(host);
    const std::string host_error = last_error();
    Images device = part.before();
    const tutti_status status = part.on_device(device, queue);
    EXPECT_EQ(status, host_status) << where << ": " << last_error() << "; on host memory: " << host_error;
    // An algorithm that does not take so many ranks is refused on both.
    if (status != TUTTI_SUCCESS) return status == TUTTI_INVALID_ARGUMENT && host_status == status;
    EXPECT_TRUE(device == host) << where << ", against host memory: " << difference(device, host);
    if (!Reference::knows(of.call)) return true;
    const Images expected = part.expected();
    EXPECT_TRUE(device == expected) << where << ", against the reference: " << difference(device, expected);
    return true;
  }
};

TEST_P(Matrix, HasTheBitsOfHostMemoryAndOfTheReference) {
  const World& world = GetParam();
  if (world.one_resident && !keep_one_block_resident()) {
    GTEST_SKIP() << "a real device has as many resident blocks as it has";
  }
  const std::vector<MatrixCase> cases = cases_of(world);
  const DeviceRanks ranks({.ranks = world.ranks, .places = world.places, .max_blocks = world.max_blocks});
  ranks.run([&](const DeviceRank& rank) {
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
    expect_sums(rank, {}, rank.stream);  // joins from this thread, whose context is the rank's
    for (const MatrixCase& each : cases) {
      if (!run_case(each, rank, queue)) break;
    }
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, Matrix,
                         ::testing::Values(World{1, 1, 0}, World{2, 1, 0}, World{3, 1, 0}, World{5, 1, 0}, World{8, 1, 0},
                                           World{2, 2, 0}, World{3, 2, 0}, World{5, 2, 0}, World{8, 2, 0}, World{9, 1, 0},
                                           World{3, 1, 1}, World{5, 2, 2}, World{8, 1, 1}, World{3, 2, 0, true},
                                           World{8, 1, 0, true}),
                         [](const ::testing::TestParamInfo<World>& at) {
                           const World& world = at.param;
                           return std::to_string(world.ranks) + "RanksOn" + std::to_string(world.places) +
                                  (world.max_blocks != 0 ? "By" + std::to_string(world.max_blocks) + "Blocks" : "") +
                                  (world.one_resident ? "OneResident" : "");
                         });

class DeviceMemory : public DeviceTest {};

// On machines without protection keys the stand-in does not notice a host that touches device memory.
TEST_F(DeviceMemory, CallsOnItAreLaunchedAndThoseOnHostMemoryAreNot) {
  if (!standin) GTEST_SKIP() << "a real driver does not count its calls";
  const DeviceRanks ranks({.ranks = 3});
  MeetingPoint point(3);
  ranks.run([&](const DeviceRank& rank) {
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
    const auto launches_of = [&](MemoryKind kind, tutti_stream stream) {
      const Memory data(kind, 400);
      point.meet();
      const std::uint64_t before = standin.calls("cuLaunchKernelEx");
      point.meet();
      EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), 100, TUTTI_INT32, TUTTI_SUM, rank.comm, stream, nullptr),
                TUTTI_SUCCESS)
          << last_error();
      EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS);
      rank.stream.wait();
      point.meet();
      const std::uint64_t made = standin.calls("cuLaunchKernelEx") - before;
      point.meet();
      return made;
    };
    const tutti_stream queued = {TUTTI_STREAM_QUEUE, queue};
    EXPECT_EQ(launches_of(MemoryKind::pageable, {}), 0u);
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::managed}) {
      for (const tutti_stream stream : {tutti_stream{}, queued, on(rank.stream)}) {
        EXPECT_EQ(launches_of(kind, stream), 1u) << name_of(kind) << ", stream of kind " << stream.kind;
      }
    }
    EXPECT_EQ(launches_of(MemoryKind::pinned, {}), 0u);
    EXPECT_EQ(launches_of(MemoryKind::pinned, on(rank.stream)), 1u);
    EXPECT_EQ(launches_of(MemoryKind::pageable, queued), 0u);
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  });
}

TEST_F(DeviceMemory, CommunicatorsTellWhatTheyTakeOfIt) {
  constexpr std::uint64_t granule = std::uint64_t{2} << 20;
  const DeviceRanks ranks({.ranks = 3, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    const auto taken = [&] {
      tutti_memory_use use{};
      use.size = sizeof use;
      EXPECT_EQ(tutti_comm_memory(rank.comm, &use), TUTTI_SUCCESS) << last_error();
      return use.device_bytes;
    };
    EXPECT_EQ(taken(), 0u);
    const Memory data = device_values(std::vector<std::int32_t>(1000, 1));
    ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), 1000, TUTTI_INT32, TUTTI_SUM, rank.comm, {}, nullptr),
              TUTTI_SUCCESS)
        << last_error();
    // Each rank's stock of zeros, and what its blocks lie in.
    EXPECT_GE(taken(), (rank.place == 0 ? 3 : 2) * granule);
    EXPECT_EQ(taken() % granule, 0u);
  });
}

// Every algorithm of all_reduce that takes the ranks, and the one that is told afterwards.
TEST_F(DeviceMemory, ACallRunsByTheAlgorithmThatItNames) {
  const DeviceRanks ranks({.ranks = 4});
  ranks.run([](const DeviceRank& rank) {
    constexpr std::size_t count = 5000;
    for (const char* const name : algorithms_of(Verb::all_reduce)) {
      const Memory data = device_values(std::vector<std::int32_t>(count, rank.rank));
      tutti_call call = TUTTI_CALL_INIT;
      call.algorithm = name;
      ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), count, TUTTI_INT32, TUTTI_SUM, rank.comm, {}, &call),
                TUTTI_SUCCESS)
          << name << ": " << last_error();
      EXPECT_EQ(data.read_all<std::int32_t>(), std::vector<std::int32_t>(count, 6)) << name;
      tutti_comm_choice choice{};
      choice.size = sizeof choice;
      EXPECT_EQ(tutti_comm_last_choice(rank.comm, &choice), TUTTI_SUCCESS);
      EXPECT_STREQ(choice.algorithm, name);
    }
  });
}

TEST_F(DeviceMemory, MayBeOfEveryKindThatADeviceReaches) {
  const DeviceRanks ranks({.ranks = 3});
  ranks.run([](const DeviceRank& rank) {
    constexpr std::size_t count = 777;
    constexpr MemoryKind kinds[] = {MemoryKind::device, MemoryKind::managed, MemoryKind::pinned};
    for (const MemoryKind send_kind : kinds) {
      for (const MemoryKind recv_kind : kinds) {
        // Ranks differ: each has its own kinds at each turn.
        const auto turned = [&](MemoryKind kind) { return kinds[(static_cast<int>(kind) + rank.rank) % 3]; };
        const Memory send(turned(send_kind), count * sizeof(float));
        const Memory recv(turned(recv_kind), count * sizeof(float));
        send.write_all(std::vector<float>(count, static_cast<float>(rank.rank) + 0.5f));
        ASSERT_EQ(tutti_all_reduce(send.data(), recv.data(), count, TUTTI_FLOAT32, TUTTI_SUM, rank.comm, on(rank.stream),
                                   nullptr),
                  TUTTI_SUCCESS)
            << name_of(send_kind) << " to " << name_of(recv_kind) << ": " << last_error();
        rank.stream.wait();
        EXPECT_EQ(recv.read_all<float>(), std::vector<float>(count, 4.5f))
            << name_of(send_kind) << " to " << name_of(recv_kind);
      }
    }
  });
}

TEST_F(DeviceMemory, OfManagedMemoryABlockingCallIsADevices) {
  const DeviceRanks ranks({.ranks = 2});
  ranks.run([](const DeviceRank& rank) {
    const Memory managed(MemoryKind::managed, 400);
    const Memory device(MemoryKind::device, 400);
    managed.write_all(std::vector<std::int32_t>(100, rank.rank + 1));
    // One rank sends managed memory and receives device memory, the other the other way round.
    const Memory& send = managed;
    for (const Memory* recv : {&device, &managed}) {
      managed.write_all(std::vector<std::int32_t>(100, rank.rank + 1));
      ASSERT_EQ(tutti_all_reduce(send.data(), recv->data(), 100, TUTTI_INT32, TUTTI_SUM, rank.comm, {}, nullptr),
                TUTTI_SUCCESS)
          << last_error();
      EXPECT_EQ(recv->read_all<std::int32_t>(), std::vector<std::int32_t>(100, 3));
    }
  });
}

TEST_F(DeviceMemory, HostAndDeviceCallsOfOneCommunicatorTakeTurns) {
  const DeviceRanks ranks({.ranks = 3});
  ranks.run([](const DeviceRank& rank) {
    constexpr std::size_t count = 3000;
    const Memory data = device_values(std::vector<std::int32_t>(count, 1));
    std::vector<std::int32_t> host(count, 1);
    std::int32_t expected = 1;
    for (int round = 0; round < 10; ++round) {
      // The stream's call may still run while the host's does.
      ASSERT_EQ(
          tutti_all_reduce(data.data(), data.data(), count, TUTTI_INT32, TUTTI_SUM, rank.comm, on(rank.stream), nullptr),
          TUTTI_SUCCESS)
          << last_error();
      ASSERT_EQ(tutti_all_reduce(host.data(), host.data(), count, TUTTI_INT32, TUTTI_SUM, rank.comm, {}, nullptr),
                TUTTI_SUCCESS)
          << last_error();
      expected *= 3;
    }
    rank.stream.wait();
    EXPECT_EQ(host, std::vector<std::int32_t>(count, expected));
    EXPECT_EQ(data.read_all<std::int32_t>(), host);
  });
}

TEST_F(DeviceMemory, WhereAllMemoryIsTheDevicesAQuestionIsSparedAndCallsWork) {
  const DeviceRanks ranks({.ranks = 2, .memory = TUTTI_MEMORY_CUDA});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    expect_sums(rank, on(rank.stream), rank.stream);
    EXPECT_EQ(tutti_barrier(rank.comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
  });
}

TEST_F(DeviceMemory, GroupsThatWereSplitOffWorkBesideTheirParent) {
  const DeviceRanks ranks({.ranks = 5});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, on(rank.stream), rank.stream);
    tutti_comm* part = nullptr;
    ASSERT_EQ(tutti_comm_split(rank.comm, rank.rank % 2, -rank.rank, &part, nullptr), TUTTI_SUCCESS) << last_error();
    DeviceRank own = rank;
    own.comm = part;
    ASSERT_EQ(tutti_comm_size(part, &own.size), TUTTI_SUCCESS);
    ASSERT_EQ(tutti_comm_rank(part, &own.rank), TUTTI_SUCCESS);
    for (int round = 0; round < 3; ++round) {
      expect_sums(own, on(rank.stream), rank.stream);
      expect_sums(rank, {}, rank.stream);
      expect_sums(own, {}, rank.stream);
    }
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
    expect_sums(rank, on(rank.stream), rank.stream);
  });
}

TEST_F(DeviceMemory, SeveralCommunicatorsShareADevice) {
  constexpr int kGroups = 3;
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 70'000;
  std::vector<std::unique_ptr<DeviceRanks>> groups;
  for (int g = 0; g < kGroups; ++g) groups.push_back(std::make_unique<DeviceRanks>(GroupOptions{.ranks = kRanks}));
  // Each group has threads of its own, so that nothing orders one group's launches behind another's.
  std::vector<std::thread> threads;
  for (const auto& group : groups) {
    threads.emplace_back([&group] {
      group->run([](const DeviceRank& rank) {
        const Memory data = device_values(std::vector<std::int64_t>(kCount, 1));
        for (int round = 0; round < 8; ++round) {
          ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), kCount, TUTTI_INT64, TUTTI_SUM, rank.comm, on(rank.stream),
                                     nullptr),
                    TUTTI_SUCCESS)
              << last_error();
        }
        rank.stream.wait();
        EXPECT_EQ(data.read_all<std::int64_t>(), std::vector<std::int64_t>(kCount, 6561));
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DeviceMemory, CommunicatorsThatAreCalledInDifferentOrdersComeToAnEnd) {
  // Kernels that wait for each other are on queues of their own: no driver promises as much where streams share one.
  if (standin) standin.set("QUEUES", "128");
  // Ranks of one place meet in their calls, so they keep one order.
  const DeviceRanks first({.ranks = 2, .places = 2});
  const DeviceRanks second({.ranks = 2, .places = 2});
  first.run([&](const DeviceRank& rank) {
    const Stream other;
    const Memory a = device_values(std::vector<std::int32_t>(5000, 1));
    const Memory b = device_values(std::vector<std::int32_t>(5000, 1));
    expect_sums(rank, {}, rank.stream);  // the first call of a communicator waits for all its ranks
    DeviceRank beside = rank;
    beside.comm = second[rank.rank];
    expect_sums(beside, {}, rank.stream);
    for (int round = 0; round < 8; ++round) {
      const auto call = [&](tutti_comm* comm, const Memory& data, const Stream& stream) {
        ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), 5000, TUTTI_INT32, TUTTI_SUM, comm, on(stream), nullptr),
                  TUTTI_SUCCESS)
            << last_error();
      };
      if (rank.rank == 0) call(rank.comm, a, rank.stream);
      call(second[rank.rank], b, other);
      if (rank.rank != 0) call(rank.comm, a, rank.stream);
    }
    rank.stream.wait();
    other.wait();
    EXPECT_EQ(a.read_all<std::int32_t>(), std::vector<std::int32_t>(5000, 256));
    EXPECT_EQ(b.read_all<std::int32_t>(), std::vector<std::int32_t>(5000, 256));
  });
}

}  // namespace
}  // namespace tutti::test
