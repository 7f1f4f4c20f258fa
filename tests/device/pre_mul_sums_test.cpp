// Pre-multiplied sums on device memory: to the bits of host memory, for every type, verb and algorithm.
#include <cstdlib>

#include "tests/device/calls.h"
#include "tests/device/device_fixture.h"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

struct World {
  int ranks;
  int places;
};

/// What may be scaled.
std::vector<tutti_type> scaled_types() {
  std::vector<tutti_type> types;
  for (const ElementTypeInfo& row : element_types) {
    if (row.kind != ElementKind::boolean) types.push_back(row.type);
  }
  return types;
}

/// A rank's own number: one of its operands' kind.
Bytes scalar_of(tutti_type type, std::uint64_t seed, int rank) {
  return contents_of({.type = type}, seed + 1000, rank, tutti_type_size(type));
}

/// A call over memory of the host or of a device, and what it leaves in recv and send.
Bytes result_of(const CollectiveCase& of, std::uint64_t seed, const DeviceRank& rank, MemoryKind kind,
                tutti_stream stream) {
  const Arrangement at = arrange(of, rank.rank, rank.size);
  Bytes first(at.shared ? at.shared_bytes() : at.send_bytes);
  const Bytes contents = contents_of(of, seed, rank.rank, at.send_bytes);
  std::copy(contents.begin(), contents.end(), first.begin() + static_cast<std::ptrdiff_t>(at.send_at));
  const Memory send(kind, first), apart(kind, Bytes(at.shared ? 0 : at.recv_bytes));
  const Memory& recv = at.shared ? send : apart;
  EXPECT_EQ(issue(of, send.as<std::uint8_t>() + at.send_at, recv.as<std::uint8_t>() + at.recv_at, rank.comm, stream),
            TUTTI_SUCCESS)
      << of.text() << ": " << last_error();
  rank.stream.wait();
  Bytes all = send.read();
  const Bytes second = apart.read();
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

std::vector<CollectiveCase> cases_of(tutti_type type, std::mt19937_64& random, int ranks) {
  std::vector<CollectiveCase> cases;
  for (const Verb verb : {Verb::all_reduce, Verb::reduce, Verb::reduce_scatter}) {
    for (const char* const algorithm : algorithms_of(verb)) {
      // A few go as lines, and more than one slot as messages.
      const std::size_t counts[] = {1, 1013, 70'001};
      CollectiveCase drawn{
          .verb = verb, .type = type, .count = counts[random() % 3], .in_place = random() % 2 == 0, .algorithm = algorithm};
      if (verb == Verb::reduce) drawn.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
      cases.push_back(drawn);
    }
    CollectiveCase folded{.verb = verb, .type = type, .count = 501, .in_place = random() % 2 == 0};
    folded.reproducible = true;
    cases.push_back(folded);
    if (verb == Verb::reduce_scatter) continue;
    folded.local_operands = 3;
    cases.push_back(folded);
  }
  return cases;
}

class DevicePreMulSums : public DeviceTest, public ::testing::WithParamInterface<World> {};

TEST_P(DevicePreMulSums, HaveTheBitsOfHostMemory) {
  const DeviceRanks ranks({.ranks = GetParam().ranks, .places = GetParam().places});
  ranks.run([&](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    std::mt19937_64 random(static_cast<std::uint64_t>(rank.size));
    for (const tutti_type type : scaled_types()) {
      for (CollectiveCase& each : cases_of(type, random, rank.size)) {
        // Under a sanitizer a ninth of them, the same on all ranks.
        const std::uint64_t seed = random() % 1000;
        if ((under_tsan || under_asan) && seed % 9 != 0) continue;
        const Bytes scalar = scalar_of(type, seed, rank.rank);
        ASSERT_EQ(tutti_op_create_pre_mul_sum(&each.op, scalar.data(), type, TUTTI_MEMORY_HOST, rank.comm), TUTTI_SUCCESS);
        const Bytes expected = result_of(each, seed, rank, MemoryKind::pageable, {});
        const bool on_stream = seed % 2 == 0;
        const Bytes got = result_of(each, seed, rank, MemoryKind::device, on_stream ? on(rank.stream) : tutti_stream{});
        ASSERT_EQ(got, expected) << each.text() << ", rank " << rank.rank << ", seed " << seed;
        ASSERT_EQ(tutti_op_destroy(each.op, rank.comm), TUTTI_SUCCESS);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, DevicePreMulSums, ::testing::Values(World{1, 1}, World{2, 1}, World{3, 2}, World{4, 1}),
                         [](const ::testing::TestParamInfo<World>& at) {
                           return std::to_string(at.param.ranks) + "RanksOn" + std::to_string(at.param.places);
                         });

class DeviceOperators : public DeviceTest {};

TEST_F(DeviceOperators, AScalarOnADeviceIsReadAsEachCallRuns) {
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    for (const std::size_t count : {std::size_t{10}, std::size_t{100'000}}) {
      const Memory scalar(MemoryKind::device, sizeof(float));
      const Memory send = device_values(std::vector<float>(count, 1.0f)), recv = device_values(std::vector<float>(count));
      tutti_op op = TUTTI_OP_LIMIT;
      ASSERT_EQ(tutti_op_create_pre_mul_sum(&op, scalar.data(), TUTTI_FLOAT32, TUTTI_MEMORY_CUDA, rank.comm),
                TUTTI_SUCCESS);
      const auto call = [&] {
        EXPECT_EQ(tutti_all_reduce(send.data(), recv.data(), count, TUTTI_FLOAT32, op, rank.comm, on(rank.stream), nullptr),
                  TUTTI_SUCCESS)
            << last_error();
      };
      const Replay replay = Replay::capture(rank.stream, cuda::CaptureMode::thread_local_only, call);
      for (int round = 1; round <= 4; ++round) {
        scalar.write_all(std::vector<float>(1, static_cast<float>(round * (rank.rank + 1))));
        if (round % 2 == 0) call();
        if (round % 2 != 0) replay.launch(rank.stream);
        rank.stream.wait();
        ASSERT_EQ(recv.read_all<float>(), std::vector<float>(count, static_cast<float>(3 * round))) << round;
      }
      EXPECT_EQ(tutti_op_destroy(op, rank.comm), TUTTI_SUCCESS);
    }
  });
}

TEST_F(DeviceOperators, OfAVVariantAreScaledToo) {
  const DeviceRanks ranks({.ranks = 3});
  ranks.run([](const DeviceRank& rank) {
    constexpr std::size_t counts[] = {0, 5, 70'000};
    std::vector<Memory> memory;
    std::vector<tutti_block> blocks;
    for (const std::size_t count : counts) {
      memory.push_back(device_values(std::vector<std::int32_t>(count, 7)));
      blocks.push_back({memory.back().data(), count});
    }
    const std::int32_t scalar = rank.rank + 1;
    tutti_op op = TUTTI_OP_LIMIT;
    ASSERT_EQ(tutti_op_create_pre_mul_sum(&op, &scalar, TUTTI_INT32, TUTTI_MEMORY_HOST, rank.comm), TUTTI_SUCCESS);
    const std::size_t own = counts[rank.rank];
    const Memory recv = device_values(std::vector<std::int32_t>(own, -1));
    ASSERT_EQ(tutti_reduce_scatter_v(blocks.data(), recv.data(), own, TUTTI_INT32, op, rank.comm, {}, nullptr),
              TUTTI_SUCCESS)
        << last_error();
    EXPECT_EQ(recv.read_all<std::int32_t>(), std::vector<std::int32_t>(own, 42));
    EXPECT_EQ(tutti_op_destroy(op, rank.comm), TUTTI_SUCCESS);
  });
}

// A kernel that scales and one that does not are two.
TEST_F(DeviceOperators, OfSumsAndOfPreMultipliedOnesAreAMismatch) {
  const DeviceRanks ranks({.ranks = 2});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    const Memory data = device_values(std::vector<float>(100, 1));
    const float two = 2;
    tutti_op op = TUTTI_SUM;
    if (rank.rank == 0) {
      ASSERT_EQ(tutti_op_create_pre_mul_sum(&op, &two, TUTTI_FLOAT32, TUTTI_MEMORY_HOST, rank.comm), TUTTI_SUCCESS);
    }
    EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), 100, TUTTI_FLOAT32, op, rank.comm, {}, nullptr), TUTTI_MISMATCH);
    EXPECT_THAT(last_error(), HasSubstr("pre-multiplied sum"));
  });
}

TEST_F(DeviceOperators, ThatAreUserDefinedRunOnTheHost) {
  const DeviceRanks ranks({.ranks = 1});
  ranks.run([](const DeviceRank& rank) {
    const Memory data = device_values(std::vector<float>(4, 1));
    tutti_op op = TUTTI_OP_LIMIT;
    const auto fold = [](void*, const void*, void*, std::uint64_t) {};
    ASSERT_EQ(tutti_op_create_user(&op, fold, nullptr, 1, sizeof(float), rank.comm), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), 4, TUTTI_FLOAT32, op, rank.comm, {}, nullptr), TUTTI_UNSUPPORTED);
    EXPECT_THAT(last_error(), HasSubstr("a user-defined operator, which runs on the host"));
    expect_sums(rank, {}, rank.stream);
  });
}

}  // namespace
}  // namespace tutti::test
