// all_reduce_v on device memory: lists of blocks, which no two ranks cut alike, give the bits of one buffer of the host,
// and those of a reference.
//
// The quick test takes a sample by a seed, TEST_SEED. With TEST_WHOLE=1 it is twenty times as large (label cuda-long).
#include <cstdlib>
#include <numeric>

#include "tests/device/calls.h"
#include "tests/device/device_fixture.h"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint8_t kGap = 0xa5;
constexpr std::size_t kQuickCases = under_tsan || under_asan ? 4 : 24;

std::uint64_t seed_of_run() {
  const char* const given = std::getenv("TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

/// How a buffer is cut.
struct Cut {
  std::size_t longest = 1;    ///< elements of a block
  std::size_t alignment = 1;  ///< of its blocks, in bytes
};

/// A buffer as a list of blocks in memory of its own, in no order, with gaps. Some blocks are empty, of which some are
/// NULL.
class List {
 public:
  List(MemoryKind kind, std::size_t count, std::size_t element, const Cut& cut, std::mt19937_64& random)
      : element_(element) {
    for (std::size_t left = count; left != 0; left -= blocks_.back().count)
      blocks_.push_back({nullptr, random() % 8 == 0 ? 0 : std::min<std::size_t>(left, 1 + random() % cut.longest)});
    if (random() % 2 == 0 || blocks_.empty()) blocks_.push_back({nullptr, 0});  // an empty vector has no address
    std::vector<std::size_t> order(blocks_.size()), places(blocks_.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::size_t used = 0;
    for (const std::size_t b : order) {
      places[b] = (used + 1 + random() % 20 + cut.alignment - 1) / cut.alignment * cut.alignment;
      used = places[b] + bytes_of(b);
    }
    memory_ = Memory(kind, Bytes(used + 1, kGap));
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].count != 0 || random() % 2 == 0) blocks_[b].ptr = memory_.as<std::uint8_t>() + places[b];
    }
  }
  const tutti_block* data() const { return blocks_.data(); }
  std::size_t size() const { return blocks_.size(); }

  void write(const Bytes& contents) const {
    Bytes image(memory_.bytes(), kGap);
    auto from = contents.begin();
    each_block(image, [&](auto block, std::ptrdiff_t bytes) {
      std::copy_n(from, bytes, block);
      from += bytes;
    });
    memory_.write(image);
  }
  template <typename T>
  void write_all(const std::vector<T>& values) const {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(values.data());
    write(Bytes(bytes, bytes + values.size() * sizeof(T)));
  }
  /// Its elements one behind the other. Nobody has written between the blocks.
  Bytes read() const {
    Bytes image = memory_.read(), contents;
    each_block(image, [&](auto block, std::ptrdiff_t bytes) {
      contents.insert(contents.end(), block, block + bytes);
      std::fill_n(block, bytes, kGap);
    });
    EXPECT_EQ(std::ranges::count(image, kGap), static_cast<std::ptrdiff_t>(image.size())) << "a gap was written to";
    return contents;
  }
  template <typename T>
  std::vector<T> read_all() const {
    const Bytes contents = read();
    std::vector<T> values(contents.size() / sizeof(T));
    std::memcpy(values.data(), contents.data(), contents.size());
    return values;
  }

 private:
  std::size_t bytes_of(std::size_t b) const { return blocks_[b].count * element_; }
  template <typename Visit>
  void each_block(Bytes& image, const Visit& visit) const {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].count == 0) continue;
      visit(image.begin() + (static_cast<const std::uint8_t*>(blocks_[b].ptr) - memory_.as<std::uint8_t>()),
            static_cast<std::ptrdiff_t>(bytes_of(b)));
    }
  }

  std::size_t element_;
  std::vector<tutti_block> blocks_;
  Memory memory_;
};

List integers(std::size_t count, const Cut& cut, std::mt19937_64& random, MemoryKind kind = MemoryKind::device) {
  return List(kind, count, sizeof(std::int32_t), cut, random);
}
tutti_status sum(const List* send, const List& recv, tutti_comm* comm, tutti_stream stream,
                 const tutti_call* call = nullptr) {
  return tutti_all_reduce_v(send != nullptr ? send->data() : nullptr, send != nullptr ? send->size() : 0, recv.data(),
                            recv.size(), TUTTI_INT32, TUTTI_SUM, comm, stream, call);
}
/// What ranks sum: rank r's values.
std::vector<std::int32_t> values_of(int rank, std::size_t count, std::int32_t seed = 0) {
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = seed + static_cast<std::int32_t>(i * 7) + 1000 * rank;
  return values;
}
std::vector<std::int32_t> sums_of(int ranks, std::size_t count, std::int32_t seed = 0) {
  std::vector<std::int32_t> sums(count);
  for (int r = 0; r < ranks; ++r) {
    const auto values = values_of(r, count, seed);
    for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
  }
  return sums;
}

// ---- Every kind of call, drawn.

enum class Way { blocking, queue, stream, managed };

struct World {
  int ranks;
  int places;
  bool one_resident = false;  ///< the stand-in lets one block run at a time
};

struct ListCase {
  CollectiveCase call;
  bool is_scaled;  ///< its sum is a pre-multiplied one
  Way way;
  std::uint64_t seed;
  std::string text() const {
    return call.text() + (is_scaled ? ", pre-multiplied" : "") + ", way " + std::to_string(static_cast<int>(way)) +
           ", seed " + std::to_string(seed);
  }
};

/// The types and their operators in turn, so that a sample has of all.
std::vector<std::pair<tutti_type, tutti_op>> all_folds() {
  std::vector<std::pair<tutti_type, tutti_op>> folds;
  for (const ElementTypeInfo& row : element_types) {
    for (const auto& [op, name, kinds] : operators) {
      if (applies_to(op, row.type)) folds.emplace_back(row.type, op);
    }
  }
  return folds;
}

ListCase drawn_case(tutti_type type, tutti_op op, std::mt19937_64& random) {
  // None, one, as many as go by lines, and more than one message.
  constexpr std::size_t counts[] = {0, 1, 2, 7, 77, 1013, 1013, 5000, 20'001, 100'000};
  const auto algorithms = algorithms_of(Verb::all_reduce);
  const bool is_number = element_type_info(type).kind != ElementKind::boolean;
  ListCase drawn{{.type = type, .op = op, .count = counts[random() % std::size(counts)], .in_place = random() % 3 == 0},
                 op == TUTTI_SUM && is_number && random() % 2 == 0,
                 static_cast<Way>(random() % 4),
                 random() % 1000};
  drawn.call.algorithm = algorithms[random() % algorithms.size()];
  if (random() % 3 != 0) return drawn;
  // The bits of what is folded at once do not depend on the algorithm.
  drawn.call.algorithm = nullptr;
  drawn.call.reproducible = random() % 2 == 0;
  if (!drawn.call.reproducible && !drawn.call.in_place) drawn.call.local_operands = 1 + random() % 3;
  if (drawn.call.local_operands == 0) drawn.call.reproducible = true;
  return drawn;
}

std::vector<ListCase> cases_of(const World& world) {
  std::mt19937_64 random(seed_of_run() * 1000 + static_cast<std::uint64_t>(world.ranks * 10 + world.places));
  auto folds = all_folds();
  std::shuffle(folds.begin(), folds.end(), random);
  std::vector<ListCase> cases;
  const std::size_t wanted = std::getenv("TEST_WHOLE") != nullptr ? 20 * kQuickCases : kQuickCases;
  for (std::size_t n = 0; n < wanted; ++n) {
    const auto [type, op] = folds[n % folds.size()];
    cases.push_back(drawn_case(type, op, random));
  }
  return cases;
}

/// One rank's part of a case: its lists, by its own generator.
class RankCase {
 public:
  RankCase(const ListCase& of, const DeviceRank& rank)
      : of_(of),
        rank_(rank),
        element_(tutti_type_size(of.call.type)),
        random_(of.seed * 64 + static_cast<std::uint64_t>(rank.rank)),
        extents_(extents(of.call, rank.rank, rank.size)) {}

  Bytes contents(std::uint64_t seed) const { return contents_of(of_.call, seed, rank_.rank, extents_.send * element_); }

  /// Of one buffer of the host: its status, and what it gives.
  tutti_status on_host(const CollectiveCase& call, std::uint64_t seed, Bytes& result) const {
    const Bytes send = contents(seed);
    result.assign(extents_.recv * element_, 0);
    return issue(call, send.data(), result.data(), rank_.comm, {});
  }
  /// Of lists of blocks on the device. Again with other contents, over the same blocks, which are bound already then.
  void on_device(const CollectiveCase& call, tutti_queue* queue, const std::vector<Bytes>& expected) {
    const MemoryKind kind = of_.way == Way::managed ? MemoryKind::managed : MemoryKind::device;
    const List recv(kind, extents_.recv, element_, some_cut(), random_);
    const List apart(kind, call.in_place ? 0 : extents_.send, element_, some_cut(), random_);
    const List& send = call.in_place ? recv : apart;
    const tutti_call options = options_of(call, rank_.comm);
    for (std::size_t again = 0; again < expected.size(); ++again) {
      const Bytes sent = contents(of_.seed + again);
      if (!call.in_place) recv.write(Bytes(extents_.recv * element_, 0x11));
      send.write(sent);
      ASSERT_EQ(tutti_all_reduce_v(call.in_place ? nullptr : send.data(), call.in_place ? 0 : send.size(), recv.data(),
                                   recv.size(), call.type, call.op, rank_.comm, stream(queue), &options),
                TUTTI_SUCCESS)
          << last_error();
      if (of_.way == Way::queue) {
        ASSERT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
      }
      rank_.stream.wait();
      EXPECT_TRUE(recv.read() == expected[again]) << "against host memory";
      if (!call.in_place) {
        EXPECT_TRUE(send.read() == sent) << "what was sent has changed";
      }
    }
  }
  /// By hand, where it is known.
  void check_reference(const Bytes& result) const {
    if (of_.is_scaled || !Reference::knows(of_.call)) return;
    EXPECT_TRUE(result == Reference(of_.call, of_.seed, rank_.size).recv_of(rank_.rank)) << "against the reference";
  }

 private:
  tutti_stream stream(tutti_queue* queue) const {
    if (of_.way == Way::queue) return {TUTTI_STREAM_QUEUE, queue};
    return of_.way == Way::stream ? on(rank_.stream) : tutti_stream{};
  }
  Cut some_cut() {
    const std::size_t longest[] = {1, 7, 300, 40'000};
    const std::size_t alignments[] = {1, element_, 16};
    const std::size_t first = of_.call.count > 2000 ? 2 : 0;  // a sweep for each of many is slow on the stand-in
    return {longest[first + random_() % (std::size(longest) - first)], alignments[random_() % 3]};
  }

  const ListCase& of_;
  const DeviceRank& rank_;
  const std::size_t element_;
  std::mt19937_64 random_;
  const Extents extents_;
};

class AllReduceVMatrix : public DeviceTest, public ::testing::WithParamInterface<World> {
 protected:
  /// Whether the case was run: an algorithm that does not take so many ranks is refused on the host, too.
  static bool run_case(const ListCase& of, const DeviceRank& rank, tutti_queue* queue) {
    RankCase part(of, rank);
    CollectiveCase call = of.call;
    if (of.is_scaled) {
      const Bytes scalar = contents_of({.type = call.type}, of.seed + 1000, rank.rank, tutti_type_size(call.type));
      EXPECT_EQ(tutti_op_create_pre_mul_sum(&call.op, scalar.data(), call.type, TUTTI_MEMORY_HOST, rank.comm),
                TUTTI_SUCCESS);
    }
    std::vector<Bytes> expected(2);
    const bool is_taken = part.on_host(call, of.seed, expected[0]) == TUTTI_SUCCESS &&
                          part.on_host(call, of.seed + 1, expected[1]) == TUTTI_SUCCESS;
    if (is_taken) {
      part.check_reference(expected[0]);
      part.on_device(call, queue, expected);
    }
    if (of.is_scaled) {
      EXPECT_EQ(tutti_op_destroy(call.op, rank.comm), TUTTI_SUCCESS);
    }
    return is_taken;
  }
};

TEST_P(AllReduceVMatrix, HasTheBitsOfOneBufferOfTheHost) {
  const World& world = GetParam();
  if (world.one_resident && !keep_one_block_resident()) {
    GTEST_SKIP() << "a real device has as many resident blocks as it has";
  }
  const std::vector<ListCase> cases = cases_of(world);
  const DeviceRanks ranks({.ranks = world.ranks, .places = world.places});
  ranks.run([&](const DeviceRank& rank) {
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
    expect_sums(rank, {}, rank.stream);  // joins from this thread, whose context is the rank's
    std::size_t taken = 0;
    for (const ListCase& each : cases) {
      SCOPED_TRACE(each.text() + ", rank " + std::to_string(rank.rank));
      taken += run_case(each, rank, queue) ? 1 : 0;
      if (::testing::Test::HasFailure()) break;
    }
    if (!::testing::Test::HasFailure()) {
      EXPECT_GE(2 * taken, cases.size());
    }
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, AllReduceVMatrix,
                         ::testing::Values(World{1, 1}, World{2, 1}, World{3, 1}, World{4, 1}, World{5, 1}, World{2, 2},
                                           World{4, 2}, World{5, 3}, World{3, 2, true}, World{5, 1, true}),
                         [](const ::testing::TestParamInfo<World>& at) {
                           return std::to_string(at.param.ranks) + "RanksOn" + std::to_string(at.param.places) +
                                  (at.param.one_resident ? "OneResident" : "");
                         });

// ---- What the matrix does not draw.

class DeviceAllReduceV : public DeviceTest {};

/// A rank's buffers of integers: lists by its own generator, filled.
struct Sum {
  Sum(int rank_of, int ranks_of, std::size_t elements, unsigned seed)
      : rank(rank_of),
        ranks(ranks_of),
        count(elements),
        random(seed * 64 + static_cast<unsigned>(rank)),
        send(integers(count, {1 + count / 5, 4}, random)),
        recv(integers(count, {1 + count / 9, 1}, random)) {}
  void fill(std::int32_t seed) {
    filled = seed;
    send.write_all(values_of(rank, count, seed));
    recv.write_all(std::vector<std::int32_t>(count, -1));
  }
  void call(tutti_comm* comm, tutti_stream stream) const {
    ASSERT_EQ(sum(&send, recv, comm, stream), TUTTI_SUCCESS) << last_error();
  }
  void expect() const { EXPECT_EQ(recv.read_all<std::int32_t>(), sums_of(ranks, count, filled)); }

  const int rank, ranks;
  const std::size_t count;
  std::mt19937_64 random;
  const List send, recv;
  std::int32_t filled = 0;
};

// The table is more than pinned memory is staged for.
TEST_F(DeviceAllReduceV, TakesManyBlocksOfOneElement) {
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    std::mt19937_64 random(static_cast<unsigned>(rank.rank));
    const std::size_t count = under_tsan || under_asan ? 5000 : 20'000;
    const List all = integers(count, {1, 4}, random), few = integers(count, {count, 4}, random);
    for (const bool on_stream : {false, true}) {
      all.write_all(values_of(rank.rank, count));
      ASSERT_EQ(sum(rank.rank == 0 ? nullptr : &all, rank.rank == 0 ? all : few, rank.comm,
                    on_stream ? on(rank.stream) : tutti_stream{}),
                TUTTI_SUCCESS)
          << last_error();
      rank.stream.wait();
      EXPECT_EQ((rank.rank == 0 ? all : few).read_all<std::int32_t>(), sums_of(2, count));
    }
  });
}

// Totals are what ranks have in common. On a device a list is one operation, however long.
TEST_F(DeviceAllReduceV, MeetsRanksThatHaveOneBuffer) {
  const DeviceRanks ranks({.ranks = 3, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    for (const std::size_t count : {std::size_t{50}, std::size_t{400'000}}) {
      Sum own(rank.rank, 3, count, 1);
      own.fill(5);
      std::uint64_t before = 0, after = 0;
      EXPECT_EQ(tutti_comm_sequence(rank.comm, &before), TUTTI_SUCCESS);
      if (rank.rank != 1) {
        own.call(rank.comm, {});
        own.expect();
      } else {
        const Memory data = device_values(values_of(1, count, 5));
        ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), count, TUTTI_INT32, TUTTI_SUM, rank.comm, {}, nullptr),
                  TUTTI_SUCCESS)
            << last_error();
        EXPECT_EQ(data.read_all<std::int32_t>(), sums_of(3, count, 5));
      }
      EXPECT_EQ(tutti_comm_sequence(rank.comm, &after), TUTTI_SUCCESS);
      EXPECT_EQ(after - before, 1u);
    }
  });
}

/// Calls of one plan over several lists and a buffer, and one of another collective, each of which takes what the one
/// before has given.
struct Chain {
  static constexpr std::size_t count = 3000;
  Chain(int rank_of, int ranks_of)
      : rank(rank_of),
        ranks(ranks_of),
        random(static_cast<unsigned>(rank)),
        first(integers(count, {400, 4}, random)),
        second(integers(count, {77, 1}, random)),
        third(integers(count, {count, 16}, random)) {
    first.write_all(values_of(rank, count));
  }
  void call(tutti_comm* comm, tutti_stream stream) const {
    EXPECT_EQ(sum(&first, second, comm, stream), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(sum(&second, third, comm, stream), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(sum(nullptr, third, comm, stream), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(sum(nullptr, third, comm, stream), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_all_reduce(plain.data(), plain.data(), count, TUTTI_INT32, TUTTI_SUM, comm, stream, nullptr),
              TUTTI_SUCCESS)
        << last_error();
    EXPECT_EQ(tutti_reduce(plain.data(), plain.data(), count, TUTTI_INT32, TUTTI_SUM, 0, comm, stream, nullptr),
              TUTTI_SUCCESS)
        << last_error();
    EXPECT_EQ(sum(&first, second, comm, stream), TUTTI_SUCCESS) << last_error();
  }
  void expect() const {
    const auto sums = sums_of(ranks, count);
    auto more = sums;
    for (std::int32_t& each : more) each *= ranks * ranks * ranks;
    EXPECT_EQ(first.read_all<std::int32_t>(), values_of(rank, count));
    EXPECT_EQ(second.read_all<std::int32_t>(), sums);
    EXPECT_EQ(third.read_all<std::int32_t>(), more);
    EXPECT_EQ(plain.read_all<std::int32_t>()[0], rank == 0 ? ranks * ranks : ranks);
  }
  const int rank, ranks;
  std::mt19937_64 random;
  const List first, second, third;
  const Memory plain = device_values(std::vector<std::int32_t>(count, 1));
};

// One thread has all ranks, so that all of the group has come together before any of it is launched.
TEST_F(DeviceAllReduceV, OfAGroupShareALaunch) {
  if (!standin) GTEST_SKIP() << "a real driver does not count its calls";
  for (const int places : {1, 2}) {
    const DeviceRanks ranks({.ranks = 3, .places = places});
    const auto for_each_rank = [&](const auto& body) {
      for (int r = 0; r < ranks.size(); ++r) {
        const CurrentPlace current(ranks.place_of(r));
        body(r, static_cast<std::size_t>(r));
      }
    };
    std::vector<Stream> streams;
    std::vector<std::unique_ptr<Chain>> chains;
    for_each_rank([&](int r, std::size_t) {
      streams.emplace_back();
      chains.push_back(std::make_unique<Chain>(r, ranks.size()));
    });
    const std::uint64_t before = standin.calls("cuLaunchKernelEx");
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for_each_rank([&](int r, std::size_t at) { chains[at]->call(ranks[r], on(streams[at])); });
    ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(standin.calls("cuLaunchKernelEx") - before, static_cast<std::uint64_t>(places));
    for_each_rank([&](int, std::size_t at) {
      streams[at].wait();
      chains[at]->expect();
      chains[at].reset();
    });
  }
}

TEST_F(DeviceAllReduceV, OfAGroupSeeWhatThoseBeforeThemGave) {
  for (const int places : {1, 3}) {
    const DeviceRanks ranks({.ranks = 3, .places = places});
    ranks.run([](const DeviceRank& rank) {
      for (const bool on_stream : {false, true}) {
        const Chain chain(rank.rank, rank.size);
        ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
        chain.call(rank.comm, on_stream ? on(rank.stream) : tutti_stream{});
        ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
        rank.stream.wait();
        chain.expect();
      }
    });
  }
}

// Calls over other blocks, more than are kept of a plan, come between.
TEST_F(DeviceAllReduceV, AreReplayedOverTheBlocksOfTheirCapture) {
  const DeviceRanks ranks({.ranks = 3, .places = 3});
  MeetingPoint point(3);
  ranks.run([&](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    for (const std::size_t count : {std::size_t{900}, std::size_t{70'000}}) {
      Sum captured(rank.rank, 3, count, 1);
      point.meet();
      const Replay replay = Replay::capture(rank.stream, cuda::CaptureMode::thread_local_only,
                                            [&] { captured.call(rank.comm, on(rank.stream)); });
      point.meet();
      for (unsigned n = 0; n < 40; ++n) {
        Sum other(rank.rank, 3, count, 100 + n);
        other.fill(static_cast<std::int32_t>(n));
        other.call(rank.comm, {});
        other.expect();
        if (n % 13 != 0) continue;
        captured.fill(static_cast<std::int32_t>(1000 * n));
        replay.launch(rank.stream);
        rank.stream.wait();
        captured.expect();
      }
    }
  });
}

// There are more lists than pinned memory is staged for.
TEST_F(DeviceAllReduceV, ManyListsRunOneAfterTheOther) {
  if (standin) standin.set("QUEUES", "128");
  const DeviceRanks ranks({.ranks = 2});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, on(rank.stream), rank.stream);
    std::vector<std::unique_ptr<Sum>> sums;
    for (unsigned n = 0; n < 40; ++n) {
      sums.push_back(std::make_unique<Sum>(rank.rank, 2, 300, n));
      sums.back()->fill(static_cast<std::int32_t>(n));
    }
    for (const auto& each : sums) each->call(rank.comm, on(rank.stream));
    rank.stream.wait();
    for (const auto& each : sums) each->expect();
  });
}

// Neither list alone says which blocks are meant.
TEST_F(DeviceAllReduceV, OfOtherSendOrReceiveListsAreOtherCalls) {
  const DeviceRanks ranks({.ranks = 2});
  ranks.run([](const DeviceRank& rank) {
    constexpr std::size_t count = 500;
    std::mt19937_64 random(static_cast<unsigned>(rank.rank));
    std::vector<List> lists;
    for (int i = 0; i < 4; ++i) lists.push_back(integers(count, {60, 4}, random));
    for (const auto& [from, to] : {std::pair(0, 2), {0, 3}, {1, 3}, {1, 2}, {0, 2}}) {
      const auto send = static_cast<std::size_t>(from), recv = static_cast<std::size_t>(to);
      lists[send].write_all(values_of(rank.rank, count, from));
      lists[recv].write_all(std::vector<std::int32_t>(count, -1));
      ASSERT_EQ(sum(&lists[send], lists[recv], rank.comm, {}), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(lists[recv].read_all<std::int32_t>(), sums_of(2, count, from)) << from << " to " << to;
    }
    // Blocks that begin where others did, and are as long together.
    const Memory one = device_values(values_of(rank.rank, 10)), two = device_values(values_of(rank.rank, 10, 500));
    const Memory out = device_values(std::vector(10, -1));
    for (const std::size_t first : {4u, 6u}) {
      const tutti_block send[] = {{one.data(), first}, {two.data(), 10 - first}}, recv = {out.data(), 10};
      ASSERT_EQ(tutti_all_reduce_v(send, 2, &recv, 1, TUTTI_INT32, TUTTI_SUM, rank.comm, {}, nullptr), TUTTI_SUCCESS);
      auto expected = sums_of(2, first);
      const auto rest = sums_of(2, 10 - first, 500);
      expected.insert(expected.end(), rest.begin(), rest.end());
      EXPECT_EQ(out.read_all<std::int32_t>(), expected) << first;
    }
  });
}

TEST_F(DeviceAllReduceV, OfOtherTotalsIsAMismatch) {
  for (const int places : {1, 2}) {
    const DeviceRanks ranks({.ranks = 2, .places = places});
    ranks.run([](const DeviceRank& rank) {
      expect_sums(rank, {}, rank.stream);
      std::mt19937_64 random(1);
      const List data = integers(rank.rank == 0 ? 100 : 101, {9, 4}, random);
      EXPECT_EQ(sum(nullptr, data, rank.comm, {}), TUTTI_MISMATCH);
    });
  }
}

/// Runs `calls` within a group; how many operations that were.
template <typename Calls>
std::uint64_t operations_of(tutti_comm* comm, const Calls& calls) {
  std::uint64_t before = 0, after = 0;
  EXPECT_EQ(tutti_comm_sequence(comm, &before), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  calls();
  tutti_call call = TUTTI_CALL_INIT;
  call.fuse = 1;
  EXPECT_EQ(tutti_group_end(&call), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_comm_sequence(comm, &after), TUTTI_SUCCESS);
  return after - before;
}

// Every other one is in place, so that a line may be of one that is and of one that is not.
TEST_F(DeviceAllReduceV, SmallSumsOfAGroupAreOneOperation) {
  for (const int p : {1, 3}) {
    const DeviceRanks ranks({.ranks = p, .places = p > 1 ? 2 : 1});
    ranks.run([](const DeviceRank& rank) {
      expect_sums(rank, {}, rank.stream);
      std::vector<Memory> tensors, sums;
      for (std::size_t t = 0; t < 20; ++t) {
        tensors.push_back(device_values(values_of(rank.rank, t * 17 + 1)));
        sums.push_back(t % 2 == 0 ? device_values(values_of(rank.rank, t * 17 + 1))
                                  : device_values(std::vector<std::int32_t>(t * 17 + 1, -1)));
      }
      EXPECT_EQ(operations_of(rank.comm,
                              [&] {
                                for (std::size_t t = 0; t < tensors.size(); ++t) {
                                  const void* const from = (t % 2 == 0 ? sums : tensors)[t].data();
                                  EXPECT_EQ(tutti_all_reduce(from, sums[t].data(), t * 17 + 1, TUTTI_INT32, TUTTI_SUM,
                                                             rank.comm, {}, nullptr),
                                            TUTTI_SUCCESS);
                                }
                              }),
                1u);
      for (std::size_t t = 0; t < tensors.size(); ++t)
        EXPECT_EQ(sums[t].read_all<std::int32_t>(), sums_of(rank.size, t * 17 + 1)) << t;
    });
  }
}

TEST_F(DeviceAllReduceV, BroadcastsOfAGroupAreOneOperation) {
  const DeviceRanks ranks({.ranks = 3, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    std::vector<Memory> tensors;
    for (int root = 0; root < 3; ++root) tensors.push_back(device_values(values_of(rank.rank, 50)));
    EXPECT_EQ(operations_of(rank.comm,
                            [&] {
                              for (int root = 0; root < 3; ++root) {
                                void* const data = tensors[static_cast<std::size_t>(root)].data();
                                EXPECT_EQ(tutti_broadcast(data, data, 50, TUTTI_INT32, root, rank.comm, {}, nullptr),
                                          TUTTI_SUCCESS);
                              }
                            }),
              1u);
    for (int root = 0; root < 3; ++root)
      EXPECT_EQ(tensors[static_cast<std::size_t>(root)].read_all<std::int32_t>(), values_of(root, 50));
  });
}

/// The calls of a group that is fused, with their memory and works: sums, and broadcasts of all ranks.
class FusedCalls {
 public:
  FusedCalls(const DeviceRank& rank, std::size_t sums) : rank_(rank), sums_(sums) {
    for (std::size_t t = 0; t < sums + static_cast<std::size_t>(rank.size); ++t)
      data_.push_back(device_values(values_of(rank.rank, count(t))));
    works_.resize(data_.size());
  }
  void call(tutti_stream stream, bool with_works = true) {
    for (std::size_t t = 0; t < data_.size(); ++t) {
      tutti_call call = TUTTI_CALL_INIT;
      if (with_works) call.work = &works_[t];
      void* const at = data_[t].data();
      EXPECT_EQ(is_sum(t) ? tutti_all_reduce(at, at, count(t), TUTTI_INT32, TUTTI_SUM, rank_.comm, stream, &call)
                          : tutti_broadcast(at, at, count(t), TUTTI_INT32, root_of(t), rank_.comm, stream, &call),
                TUTTI_SUCCESS)
          << last_error();
    }
  }
  void refill() const {
    for (std::size_t t = 0; t < data_.size(); ++t) data_[t].write_all(values_of(rank_.rank, count(t)));
  }
  void expect_works(tutti_status status) {
    for (tutti_work*& work : works_) {
      EXPECT_EQ(tutti_work_wait(work, 0), status) << last_error();
      tutti_work_release(std::exchange(work, nullptr));
    }
  }
  void expect() const {
    for (std::size_t t = 0; t < data_.size(); ++t) {
      EXPECT_EQ(data_[t].read_all<std::int32_t>(),
                is_sum(t) ? sums_of(rank_.size, count(t)) : values_of(root_of(t), count(t)))
          << t;
    }
  }

 private:
  static std::size_t count(std::size_t t) { return t * 17 + 1; }
  bool is_sum(std::size_t t) const { return t < sums_; }
  int root_of(std::size_t t) const { return static_cast<int>(t - sums_); }

  const DeviceRank& rank_;
  const std::size_t sums_;
  std::vector<Memory> data_;
  std::vector<tutti_work*> works_;
};

TEST_F(DeviceAllReduceV, CallsOfAFusedGroupOnOneStreamAreOneOperation) {
  const DeviceRanks ranks({.ranks = 3, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
    for (const tutti_stream stream : {on(rank.stream), tutti_stream{TUTTI_STREAM_QUEUE, queue}, on(rank.stream)}) {
      std::uint64_t before = 0, after = 0;
      EXPECT_EQ(tutti_comm_sequence(rank.comm, &before), TUTTI_SUCCESS);
      FusedCalls calls(rank, 20);
      operations_of(rank.comm, [&] { calls.call(stream); });
      calls.expect_works(TUTTI_SUCCESS);
      EXPECT_EQ(tutti_comm_sequence(rank.comm, &after), TUTTI_SUCCESS);
      EXPECT_EQ(after - before, 2u);
      calls.expect();
    }
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  });
}

// What the stream has before and behind the group stays there, and calls on another stream are others.
TEST_F(DeviceAllReduceV, AFusedGroupKeepsItsPlaceOnItsStream) {
  if (standin) standin.set("QUEUES", "128");
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    const Stream other;
    const std::vector<std::int32_t> ones(40, 1);
    const Memory a = device_values(ones), b = device_values(ones), c = device_values(ones), d = device_values(ones);
    const auto add = [&](const Memory& data, const Stream& stream) {
      EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), 40, TUTTI_INT32, TUTTI_SUM, rank.comm, on(stream), nullptr),
                TUTTI_SUCCESS)
          << last_error();
    };
    add(a, rank.stream);
    EXPECT_EQ(operations_of(rank.comm,
                            [&] {
                              add(a, rank.stream);
                              add(b, rank.stream);
                              add(c, other);
                              add(d, other);
                            }),
              2u);
    add(b, rank.stream);
    EXPECT_EQ(operations_of(rank.comm,
                            [&] {
                              add(a, rank.stream);
                              add(c, other);
                              add(b, rank.stream);
                              add(d, other);
                            }),
              4u);
    rank.stream.wait();
    other.wait();
    for (const auto& [data, value] : {std::pair(&a, 8), {&b, 8}, {&c, 4}, {&d, 4}})
      EXPECT_EQ(data->read_all<std::int32_t>(), std::vector<std::int32_t>(40, value));
  });
}

TEST_F(DeviceAllReduceV, AFusedGroupIsReplayed) {
  const DeviceRanks ranks({.ranks = 3, .places = 3});
  MeetingPoint point(3);
  ranks.run([&](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    FusedCalls calls(rank, 6);
    point.meet();
    const auto capture = [&](bool with_works, tutti_status status) {
      return Replay::capture(rank.stream, cuda::CaptureMode::thread_local_only, [&] {
        EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
        calls.call(on(rank.stream), with_works);
        tutti_call call = TUTTI_CALL_INIT;
        call.fuse = 1;
        EXPECT_EQ(tutti_group_end(&call), status) << last_error();
      });
    };
    const Replay replay = capture(false, TUTTI_SUCCESS);
    point.meet();
    for (int turn = 0; turn < 3; ++turn) {
      calls.refill();
      replay.launch(rank.stream);
      rank.stream.wait();
      calls.expect();
    }
    static_cast<void>(capture(true, TUTTI_INVALID_USAGE));
    calls.expect_works(TUTTI_INVALID_USAGE);
    point.meet();
  });
}

TEST_F(DeviceAllReduceV, AFusedGroupOnAStreamThatDiffersFailsAllItsWorks) {
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    const Memory a = device_values(values_of(rank.rank, 30)), b = device_values(values_of(rank.rank, 30));
    tutti_work* works[2] = {};
    tutti_call call = TUTTI_CALL_INIT;
    EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (int n = 0; n < 2; ++n) {
      call.work = &works[n];
      void* const data = (n == 0 ? a : b).data();
      const std::size_t count = n == 1 && rank.rank == 1 ? 29 : 30;
      EXPECT_EQ(tutti_all_reduce(data, data, count, TUTTI_INT32, TUTTI_SUM, rank.comm, on(rank.stream), &call),
                TUTTI_SUCCESS);
    }
    call.work = nullptr;
    call.fuse = 1;
    static_cast<void>(tutti_group_end(&call));  // tells it where that is known by then
    for (tutti_work* work : works) {
      EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_MISMATCH) << last_error();
      tutti_work_release(work);
    }
    rank.stream.wait();
  });
}

// One call cannot be of both.
TEST_F(DeviceAllReduceV, SumsOfHostAndDeviceMemoryStayApart) {
  const DeviceRanks ranks({.ranks = 2});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    const Memory one = device_values(values_of(rank.rank, 10)), two = device_values(values_of(rank.rank, 20));
    std::vector<std::int32_t> three = values_of(rank.rank, 30), four = values_of(rank.rank, 40);
    const auto add = [&](void* data, std::size_t count) {
      EXPECT_EQ(tutti_all_reduce(data, data, count, TUTTI_INT32, TUTTI_SUM, rank.comm, {}, nullptr), TUTTI_SUCCESS);
    };
    EXPECT_EQ(operations_of(rank.comm,
                            [&] {
                              add(one.data(), 10);
                              add(two.data(), 20);
                              add(three.data(), 30);
                              add(four.data(), 40);
                            }),
              2u);
    EXPECT_EQ(one.read_all<std::int32_t>(), sums_of(2, 10));
    EXPECT_EQ(two.read_all<std::int32_t>(), sums_of(2, 20));
    EXPECT_EQ(three, sums_of(2, 30));
    EXPECT_EQ(four, sums_of(2, 40));
  });
}

/// What lists are refused with.
void expect_refused(const DeviceRank& rank, std::span<const tutti_block> send, std::span<const tutti_block> recv,
                    tutti_stream stream, tutti_status status, const char* why) {
  EXPECT_EQ(tutti_all_reduce_v(send.data(), send.size(), recv.data(), recv.size(), TUTTI_INT32, TUTTI_SUM, rank.comm,
                               stream, nullptr),
            status);
  EXPECT_THAT(last_error(), HasSubstr(why));
}

TEST_F(DeviceAllReduceV, RefusesBlocksThatItCannotReach) {
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    const Memory data(MemoryKind::device, 400), more(MemoryKind::device, 400);
    const tutti_block all[] = {{data.data(), 60}, {more.data(), 40}}, null[] = {{data.data(), 60}, {nullptr, 40}};
    expect_refused(rank, null, all, {}, TUTTI_INVALID_ARGUMENT, "NULL send block 1");
    expect_refused(rank, all, null, on(rank.stream), TUTTI_INVALID_ARGUMENT, "NULL receive block 1");
    if (*driver().attribute(cuda::DeviceAttribute::pageable_memory_access, 0) == 0) {
      Bytes pageable(400);
      const tutti_block mixed[] = {{data.data(), 60}, {pageable.data(), 40}};
      expect_refused(rank, mixed, all, {}, TUTTI_UNSUPPORTED, "the send buffer is pageable");
      expect_refused(rank, all, mixed, {}, TUTTI_UNSUPPORTED, "the receive buffer is pageable");
      expect_refused(rank, mixed, all, on(rank.stream), TUTTI_INVALID_ARGUMENT, "the send buffer is pageable");
      expect_refused(rank, all, mixed, on(rank.stream), TUTTI_INVALID_ARGUMENT, "the receive buffer is pageable");
    }
    if (devices() > 1) {
      const CurrentPlace elsewhere(1 - rank.place);
      const Memory there(MemoryKind::device, 400);
      const tutti_block apart[] = {{data.data(), 60}, {there.data(), 40}};
      const CurrentPlace back(rank.place);
      expect_refused(rank, all, apart, {}, TUTTI_INVALID_ARGUMENT, "lies on device");
    }
    point.meet();  // memory of a device is freed behind what runs there, so not while the other rank's call waits for this
                   // one
    expect_sums(rank, on(rank.stream), rank.stream);
  });
}

}  // namespace
}  // namespace tutti::test
