// The v-variants on device memory: every verb, type, operator and division of blocks, against an independent referee.
//
// The quick test takes a sample by a seed, TEST_SEED. With TEST_WHOLE=1 every case is taken (label cuda-long).
#include <cstdlib>
#include <memory>

#include "tests/device/device_fixture.h"
#include "tests/support/matrix.h"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kQuickCases = under_tsan || under_asan ? 4 : 30;

enum class Way { blocking, queue, stream, managed };
constexpr int kWays = 4;

/// Blocks in device memory, a few bytes apart.
class DeviceBlocks final : public BlockMemory {
 public:
  DeviceBlocks(MemoryKind kind, std::size_t bytes)
      : memory_(kind, Bytes(bytes, std::to_integer<std::uint8_t>(kSentinel))) {}
  std::byte* take(std::size_t bytes) override {
    std::byte* const at = memory_.as<std::byte>() + used_;
    guards_.push_back(used_ + bytes);
    used_ += (bytes + kGuard + 15) / 16 * 16;
    EXPECT_LE(used_, memory_.bytes());
    return at;
  }
  void write(void* to, const std::vector<std::byte>& bytes) override {
    const Stream own;
    if (bytes.empty()) return;
    EXPECT_EQ(api().cuMemcpyAsync(reinterpret_cast<cuda::DevicePointer>(to),
                                  reinterpret_cast<cuda::DevicePointer>(bytes.data()), bytes.size(), own.handle()),
              kOk);
    own.wait();
  }
  std::vector<std::byte> read(const void* from, std::size_t bytes) override {
    const Bytes all = memory_.read();
    const auto* const at = reinterpret_cast<const std::byte*>(all.data()) + (static_cast<const std::byte*>(from) - base());
    return bytes == 0 ? std::vector<std::byte>() : std::vector<std::byte>(at, at + bytes);
  }
  bool is_intact() override {
    const Bytes all = memory_.read();
    return std::ranges::all_of(guards_, [&](std::size_t guard) {
      return std::all_of(all.begin() + static_cast<std::ptrdiff_t>(guard),
                         all.begin() + static_cast<std::ptrdiff_t>(guard + kGuard),
                         [](std::uint8_t byte) { return std::byte{byte} == kSentinel; });
    });
  }
  void reset() { memory_.write(Bytes(memory_.bytes(), std::to_integer<std::uint8_t>(kSentinel))); }

 private:
  const std::byte* base() const { return memory_.as<std::byte>(); }
  Memory memory_;
  std::size_t used_ = 0;
  std::vector<std::size_t> guards_;
};

/// Enough for all blocks of a case.
std::size_t bytes_for(const Case& of, int ranks) {
  const std::size_t block = (of.count * element_bytes(of.type) + kGuard + 15) / 16 * 16;
  return 2 * static_cast<std::size_t>(ranks) * block + 16;
}

struct World {
  int ranks;
  int places;
  bool one_resident = false;  ///< the stand-in lets one block run at a time
};

std::uint64_t seed_of_run() {
  const char* const given = std::getenv("TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

std::vector<Case> cases_of(const World& world) {
  std::vector<Case> cases = all_cases(world.ranks);
  std::erase_if(cases, [](const Case& each) { return each.division == Division::whole || each.registered; });
  if (std::getenv("TEST_WHOLE") != nullptr) return cases;
  std::mt19937_64 random(seed_of_run() * 1000 + static_cast<std::uint64_t>(world.ranks * 10 + world.places));
  std::vector<Case> sample;
  for (std::size_t n = 0; n < kQuickCases; ++n) sample.push_back(cases[random() % cases.size()]);
  return sample;
}

/// A rank that has no block says by its stream, or by an address, that the call is of a device.
Way way_of(const Case& of) {
  const Way way = static_cast<Way>(of.seed % kWays);
  const bool all_have_blocks = info_of(of.collective).knows_all_counts();
  return all_have_blocks || way != Way::managed ? way : Way::stream;
}

void call_and_wait(const RankCase& part, Way way, bool is_reproducible, const DeviceRank& rank, tutti_queue* queue,
                   const std::string& where) {
  tutti_stream stream{};
  if (way == Way::queue) stream = {TUTTI_STREAM_QUEUE, queue};
  if (way == Way::stream) stream = on(rank.stream);
  tutti_call options = TUTTI_CALL_INIT;
  options.reproducible = is_reproducible ? 1 : 0;
  ASSERT_EQ(part.call(rank.comm, stream, &options), TUTTI_SUCCESS) << where << ": " << last_error();
  if (way == Way::queue) {
    ASSERT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << where << ": " << last_error();
  }
  rank.stream.wait();
}

class VVariantMatrix : public DeviceTest, public ::testing::WithParamInterface<World> {};

TEST_P(VVariantMatrix, IsRightByAnIndependentReferee) {
  const World& world = GetParam();
  if (world.one_resident && !keep_one_block_resident()) {
    GTEST_SKIP() << "a real device has as many resident blocks as it has";
  }
  const std::vector<Case> cases = cases_of(world);
  const DeviceRanks ranks({.ranks = world.ranks, .places = world.places});
  ranks.run([&](const DeviceRank& rank) {
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
    expect_sums(rank, {}, rank.stream);  // joins from this thread, whose context is the rank's
    for (const Case& each : cases) {
      const std::string where = each.text() + ", rank " + std::to_string(rank.rank);
      const Way way = way_of(each);
      DeviceBlocks memory(way == Way::managed ? MemoryKind::managed : MemoryKind::device, bytes_for(each, rank.size));
      RankCase part(each, rank.rank, rank.size, memory);
      // Again over the same blocks, which are bound already.
      for (int again = 0; again < 2; ++again) {
        part.fill();
        ASSERT_NO_FATAL_FAILURE(call_and_wait(part, way, each.seed % 3 == 0, rank, queue, where));
        ASSERT_NO_FATAL_FAILURE(part.check());
      }
    }
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, VVariantMatrix,
                         ::testing::Values(World{1, 1}, World{2, 1}, World{3, 1}, World{5, 1}, World{8, 1}, World{2, 2},
                                           World{3, 2}, World{5, 2}, World{8, 3}, World{3, 2, true}, World{5, 1, true}),
                         [](const ::testing::TestParamInfo<World>& at) {
                           return std::to_string(at.param.ranks) + "RanksOn" + std::to_string(at.param.places) +
                                  (at.param.one_resident ? "OneResident" : "");
                         });

/// Elements that rank i has for rank j.
using Counts = std::vector<std::vector<std::size_t>>;

Counts some_counts(int ranks, std::size_t most, unsigned seed) {
  std::mt19937 random(seed);
  Counts counts(static_cast<std::size_t>(ranks), std::vector<std::size_t>(static_cast<std::size_t>(ranks)));
  for (auto& row : counts) {
    for (std::size_t& count : row) count = random() % 4 == 0 ? 0 : random() % (most + 1);
  }
  return counts;
}
Counts transposed(const Counts& counts) {
  Counts turned(counts.size(), std::vector<std::size_t>(counts.size()));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (std::size_t j = 0; j < counts.size(); ++j) turned[j][i] = counts[i][j];
  }
  return turned;
}

/// One rank's blocks of integers, one behind the other in the memory of a device.
class Row {
 public:
  Row(const Counts& counts, int rank) : counts_(counts[static_cast<std::size_t>(rank)]) {
    std::size_t all = 0;
    for (const std::size_t count : counts_) all += count;
    memory_ = Memory(MemoryKind::device, all * sizeof(std::int32_t));
    std::int32_t* at = memory_.as<std::int32_t>();
    for (const std::size_t count : counts_) {
      blocks_.push_back({count == 0 ? nullptr : at, count});
      at += count;
    }
  }
  const tutti_block* list() const { return blocks_.data(); }
  std::size_t size() const { return memory_.bytes() / sizeof(std::int32_t); }
  void write(const std::vector<std::int32_t>& values) const { memory_.write_all(values); }
  std::vector<std::int32_t> read() const { return memory_.read_all<std::int32_t>(); }

 private:
  std::vector<std::size_t> counts_;
  Memory memory_;
  std::vector<tutti_block> blocks_;
};

/// What goes to others and comes back: two calls, of which the second one sends what the first one has received.
struct RoundTrip {
  RoundTrip(const Counts& counts, int rank) : out(counts, rank), away(transposed(counts), rank), back(counts, rank) {}
  void call(tutti_comm* comm, tutti_stream stream) const {
    ASSERT_EQ(tutti_all_to_all_v(out.list(), away.list(), TUTTI_INT32, comm, stream, nullptr), TUTTI_SUCCESS)
        << last_error();
    ASSERT_EQ(tutti_all_to_all_v(away.list(), back.list(), TUTTI_INT32, comm, stream, nullptr), TUTTI_SUCCESS)
        << last_error();
  }
  /// Gives it other contents.
  std::vector<std::int32_t> fill(int seed) const {
    std::vector<std::int32_t> values(out.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = seed + static_cast<std::int32_t>(i * 7);
    out.write(values);
    back.write(std::vector<std::int32_t>(values.size(), -1));
    return values;
  }
  Row out, away, back;
};

class DeviceVVariants : public DeviceTest {};

/// A rank's two trips of one plan, which have blocks of their own. It is made and destroyed in the rank's context.
struct TwoTrips {
  TwoTrips(int rank, int ranks) : one(some_counts(ranks, 5000, 1), rank), two(some_counts(ranks, 70'000, 2), rank) {
    first = one.fill(rank * 1000);
    second = two.fill(rank * 10'000);
  }
  void call(tutti_comm* comm, tutti_stream stream) const {
    one.call(comm, stream);
    two.call(comm, stream);
  }
  void expect_all_back() const {
    EXPECT_EQ(one.back.read(), first);
    EXPECT_EQ(two.back.read(), second);
  }
  const RoundTrip one, two;
  std::vector<std::int32_t> first, second;
};

// One thread has all ranks, so that all of the group has come together before any of it is launched.
TEST_F(DeviceVVariants, OfAGroupShareALaunch) {
  if (!standin) GTEST_SKIP() << "a real driver does not count its calls";
  for (const int places : {1, 2}) {
    const DeviceRanks ranks({.ranks = 4, .places = places});
    const auto for_each_rank = [&](const auto& body) {
      for (int r = 0; r < ranks.size(); ++r) {
        const CurrentPlace current(ranks.place_of(r));
        body(r);
      }
    };
    std::vector<Stream> streams;
    std::vector<std::unique_ptr<TwoTrips>> trips;
    for_each_rank([&](int r) {
      streams.emplace_back();
      trips.push_back(std::make_unique<TwoTrips>(r, ranks.size()));
    });
    const std::uint64_t before = standin.calls("cuLaunchKernelEx");
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for_each_rank(
        [&](int r) { trips[static_cast<std::size_t>(r)]->call(ranks[r], on(streams[static_cast<std::size_t>(r)])); });
    ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(standin.calls("cuLaunchKernelEx") - before, static_cast<std::uint64_t>(places));
    for_each_rank([&](int r) {
      streams[static_cast<std::size_t>(r)].wait();
      trips[static_cast<std::size_t>(r)]->expect_all_back();
      trips[static_cast<std::size_t>(r)].reset();
    });
  }
}

// Ranks are threads, and who launches how many at once is chance.
TEST_F(DeviceVVariants, OfAGroupSeeWhatThoseBeforeThemGave) {
  for (const int places : {1, 2}) {
    const DeviceRanks ranks({.ranks = 4, .places = places});
    ranks.run([](const DeviceRank& rank) {
      const TwoTrips trips(rank.rank, rank.size);
      ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      trips.call(rank.comm, on(rank.stream));
      ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
      rank.stream.wait();
      trips.expect_all_back();
    });
  }
}

TEST_F(DeviceVVariants, AreReplayedOverTheBlocksOfTheirCapture) {
  const DeviceRanks ranks({.ranks = 3, .places = 3});
  MeetingPoint point(3);
  ranks.run([&](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    const RoundTrip trip(some_counts(3, 70'000, 3), rank.rank);
    point.meet();
    const Replay replay =
        Replay::capture(rank.stream, cuda::CaptureMode::thread_local_only, [&] { trip.call(rank.comm, on(rank.stream)); });
    point.meet();
    // Calls over other blocks, more than are kept of a plan, come between.
    for (unsigned n = 0; n < 40; ++n) {
      const RoundTrip other(some_counts(3, 50, 100 + n), rank.rank);
      const auto sent = other.fill(static_cast<int>(n));
      other.call(rank.comm, {});
      ASSERT_EQ(other.back.read(), sent) << n;
      if (n % 10 != 0) continue;
      const auto values = trip.fill(static_cast<int>(1000 * n) + rank.rank);
      replay.launch(rank.stream);
      rank.stream.wait();
      ASSERT_EQ(trip.back.read(), values) << n;
    }
  });
}

// There are more than pinned memory is staged for.
TEST_F(DeviceVVariants, ManyDivisionsRunOneAfterTheOther) {
  if (standin) standin.set("QUEUES", "128");
  const DeviceRanks ranks({.ranks = 2});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, on(rank.stream), rank.stream);
    std::vector<std::unique_ptr<RoundTrip>> trips;
    std::vector<std::vector<std::int32_t>> sent;
    for (unsigned n = 0; n < 40; ++n) {
      trips.push_back(std::make_unique<RoundTrip>(some_counts(2, 300, n), rank.rank));
      sent.push_back(trips.back()->fill(static_cast<int>(n) * 1000));
    }
    for (const auto& trip : trips) trip->call(rank.comm, on(rank.stream));
    rank.stream.wait();
    for (std::size_t n = 0; n < trips.size(); ++n) ASSERT_EQ(trips[n]->back.read(), sent[n]) << n;
  });
}

// Nothing says by its memory where its call is to run, so its stream does.
TEST_F(DeviceVVariants, ARankWithoutBlocksTakesPartByItsStream) {
  const DeviceRanks ranks({.ranks = 3});
  ranks.run([](const DeviceRank& rank) {
    Counts counts(3, std::vector<std::size_t>(3));
    counts[0][1] = 1000;
    const RoundTrip trip(counts, rank.rank);
    const auto sent = trip.fill(7);
    trip.call(rank.comm, on(rank.stream));
    rank.stream.wait();
    EXPECT_EQ(trip.back.read(), sent);
  });
}

/// What a rank sends to its neighbour, and what that one takes.
struct Ends {
  std::size_t sent;
  std::size_t taken;
};

// Lengths are no part of a device's messages, so the counts are a part of what tells operations apart.
TEST_F(DeviceVVariants, WhoseEndsDifferAreAMismatch) {
  for (const int places : {1, 2}) {
    for (const Ends& ends : {Ends{5, 4}, Ends{4, 5}, Ends{131'072, 65'536}, Ends{65'536, 131'072}, Ends{3, 0}}) {
      const DeviceRanks ranks({.ranks = 2, .places = places});
      ranks.run([&](const DeviceRank& rank) {
        expect_sums(rank, {}, rank.stream);
        const Row send({{2, ends.sent}, {2, 2}}, rank.rank), recv({{2, 2}, {ends.taken, 2}}, rank.rank);
        tutti_status status = tutti_all_to_all_v(send.list(), recv.list(), TUTTI_INT32, rank.comm, {}, nullptr);
        const std::string where = std::to_string(ends.sent) + " and " + std::to_string(ends.taken);
        const Row even({{2, 2}, {2, 2}}, rank.rank), from({{2, 2}, {2, 2}}, rank.rank);
        // Who has nothing to wait for hears of it in a call that comes behind.
        for (int n = 0; n < 2 && status == TUTTI_SUCCESS; ++n)
          status = tutti_all_to_all_v(even.list(), from.list(), TUTTI_INT32, rank.comm, {}, nullptr);
        EXPECT_EQ(status, TUTTI_MISMATCH) << where << ", rank " << rank.rank << ": " << last_error();
        // Of a message that nobody takes the call behind may hear before its sender has come to it.
        const char* const words =
            ends.taken == 0 ? "all_to_all_v" : "the two ends of a block have different counts in all_to_all_v";
        EXPECT_THAT(last_error(), HasSubstr(words)) << where;
      });
    }
  }
}

TEST_F(DeviceVVariants, OfOtherCountsAreNamed) {
  for (const int places : {1, 2}) {
    const DeviceRanks ranks({.ranks = 2, .places = places});
    ranks.run([&](const DeviceRank& rank) {
      expect_sums(rank, {}, rank.stream);
      const std::size_t first = rank.rank == 0 ? 2 : 1;
      const Row recv({{first, 3 - first}, {first, 3 - first}}, rank.rank);
      const tutti_block& own = recv.list()[rank.rank];
      EXPECT_EQ(tutti_all_gather_v(own.ptr, own.count, recv.list(), TUTTI_INT32, rank.comm, {}, nullptr), TUTTI_MISMATCH);
      EXPECT_THAT(last_error(), HasSubstr("with other counts of its blocks"));
    });
  }
}

TEST_F(DeviceVVariants, OfBlocksThatADeviceDoesNotReachAreRefused) {
  const DeviceRanks ranks({.ranks = 1});
  ranks.run([](const DeviceRank& rank) {
    const Memory data = device_values(std::vector<std::int32_t>(4, 1));
    std::int32_t on_host[4] = {};
    const tutti_block block = {on_host, 4};
    EXPECT_EQ(tutti_all_gather_v(data.data(), 4, &block, TUTTI_INT32, rank.comm, {}, nullptr), TUTTI_UNSUPPORTED);
    EXPECT_THAT(last_error(), HasSubstr("the receive buffer is pageable host memory"));
    expect_sums(rank, {}, rank.stream);
  });
}

}  // namespace
}  // namespace tutti::test
