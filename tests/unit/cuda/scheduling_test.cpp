// What the stand-in does to programs that rely on more than CUDA promises: blocks, queues, delays.
#include <algorithm>
#include <numeric>

#include "tests/support/sanitizers.h"
#include "tests/unit/cuda/cuda_test.h"

namespace tutti::cuda {
namespace {

class Scheduling : public StandinTest {};

TEST_F(Scheduling, BlocksStartInAnyOrder) {
  standin.set("SMS", "1");
  standin.set("BLOCKS_PER_SM", "1");
  constexpr std::uint32_t blocks = 8;
  std::vector<std::uint32_t> sorted(blocks);
  std::iota(sorted.begin(), sorted.end(), 0u);
  bool shuffled = false;
  for (int tries = 0; tries < 5; ++tries) {
    std::uint32_t* const next = make_word();
    void* memory = nullptr;
    ASSERT_EQ(api().cuMemHostAlloc(&memory, blocks * sizeof(std::uint32_t), 0), ok);
    auto* const order = static_cast<std::uint32_t*>(memory);
    EXPECT_EQ(launch("order", blocks, 1, nullptr, standin::OrderParameters{next, order}), ok);
    EXPECT_EQ(api().cuCtxSynchronize(), ok);
    std::vector<std::uint32_t> seen(order, order + blocks);
    shuffled |= seen != sorted;
    EXPECT_TRUE(std::is_permutation(seen.begin(), seen.end(), sorted.begin()));
  }
  EXPECT_TRUE(shuffled);
  unload();
}

TEST_F(Scheduling, NoMoreBlocksAreResidentThanTheDeviceHolds) {
  standin.set("SMS", "2");
  standin.set("BLOCKS_PER_SM", "2");
  standin.most_resident(0);
  std::uint32_t* const count = make_word();
  EXPECT_EQ(launch("count_blocks", 16, 2, nullptr, standin::WordParameters{count, 4}), ok);
  EXPECT_EQ(api().cuCtxSynchronize(), ok);
  EXPECT_EQ(get(count), 16u);
  EXPECT_EQ(standin.most_resident(0), 4u);
  unload();
}

TEST_F(Scheduling, BlocksThatDoNotFitWaitForThoseThatRun) {
  standin.set("SMS", "1");
  standin.set("BLOCKS_PER_SM", "2");
  std::uint32_t* const count = make_word();
  const StreamHandle stream = make_stream();
  EXPECT_EQ(launch("count_blocks", 3, 1, stream, standin::WordParameters{count, 3}), ok);
  EXPECT_TRUE(eventually([&] { return get(count) == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(get(count), 2u) << "the third block waits, and the two wait for it: a program that needs more is stuck";
  put(count, 3);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  unload();
}

TEST_F(Scheduling, StreamsThatShareAQueueHoldEachOtherUp) {
  standin.set("QUEUES", "1");
  std::uint32_t* const word = make_word();
  std::uint32_t* const out = make_word();
  const StreamHandle first = make_stream();
  const StreamHandle second = make_stream();
  EXPECT_EQ(launch("spin", 1, 1, first, standin::WordParameters{word, 1}), ok);
  EXPECT_EQ(api().cuMemsetD8Async(allocate(64), 0, 64, first), ok);
  mark(second, out, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(get(out), 0u) << "it overtook the head of its queue";
  EXPECT_EQ(api().cuStreamQuery(second), DriverResult::not_ready);
  put(word, 1);
  EXPECT_EQ(api().cuStreamSynchronize(second), ok);
  EXPECT_EQ(get(out), 1u);
  unload();
}

TEST_F(Scheduling, StreamsOfTwoQueuesRunSideBySide) {
  standin.set("QUEUES", "64");
  std::uint32_t* const word = make_word();
  std::uint32_t* const out = make_word();
  const StreamHandle held = make_stream();
  EXPECT_EQ(launch("spin", 1, 1, held, standin::WordParameters{word, 1}), ok);
  // One of several is on another queue.
  for (int tries = 0; tries < 4; ++tries) mark(make_stream(), out, 1);
  EXPECT_TRUE(eventually([&] { return get(out) == 1; }));
  put(word, 1);
  EXPECT_EQ(api().cuCtxSynchronize(), ok);
  unload();
}

TEST_F(Scheduling, SeedsGiveOtherOrders) {
  // Two streams race for one word, without an order between them: by some seed each comes last.
  bool first_last = false;
  bool second_last = false;
  for (int seed = 0; seed < 200 && !(first_last && second_last); ++seed) {
    standin.set("SEED", std::to_string(seed).c_str());
    std::uint32_t* const out = make_word();
    mark(make_stream(), out, 1);
    mark(make_stream(), out, 2);
    EXPECT_EQ(api().cuCtxSynchronize(), ok);
    first_last |= get(out) == 1;
    second_last |= get(out) == 2;
  }
  EXPECT_TRUE(first_last);
  EXPECT_TRUE(second_last);
}

class BlockThreads : public KernelTest, public ::testing::WithParamInterface<unsigned> {};

TEST_P(BlockThreads, MeetAtBarriersVoteAndBroadcast) {
  constexpr unsigned blocks = 5;
  constexpr std::uint64_t rounds = 40;
  const unsigned threads = GetParam();
  void* out = nullptr;
  ASSERT_EQ(api().cuMemHostAlloc(&out, blocks * sizeof(std::uint64_t), 0), ok);
  EXPECT_EQ(launch("block_sum", blocks, threads, nullptr,
                   standin::BlockSumParameters{static_cast<unsigned long long*>(out), rounds}),
            ok);
  EXPECT_EQ(api().cuCtxSynchronize(), ok);
  const std::uint64_t wanted = rounds * (threads * (threads - 1) / 2) + threads * (rounds * (rounds - 1) / 2);
  for (unsigned block = 0; block < blocks; ++block) EXPECT_EQ(static_cast<std::uint64_t*>(out)[block], wanted);
  unload();
}

TEST_P(BlockThreads, ShareAGridsWork) {
  const unsigned threads = GetParam();
  constexpr std::uint64_t count = 1000;
  const DevicePointer a = allocate(count * 4);
  const DevicePointer b = allocate(count * 4);
  EXPECT_EQ(api().cuMemsetD32Async(a, 3, count, nullptr), ok);
  EXPECT_EQ(api().cuMemsetD32Async(b, 4, count, nullptr), ok);
  EXPECT_EQ(
      launch("add", 3, threads, nullptr, standin::AddParameters{at<int>(b), at<const int>(a), at<const int>(b), count}),
      ok);
  EXPECT_THAT(read(b, count), ::testing::Each(7));
  unload();
}

TEST_P(BlockThreads, SendLinesWhoseWordsMayArriveInAnyOrder) {
  constexpr unsigned count = 100;
  void* memory = nullptr;
  void* out = nullptr;
  ASSERT_EQ(api().cuMemHostAlloc(&memory, count * 16, 0), ok);
  ASSERT_EQ(api().cuMemHostAlloc(&out, count * 4, 0), ok);
  std::memset(memory, 0, count * 16);
  const standin::LineParameters given{memory, static_cast<unsigned*>(out), count, 77};
  EXPECT_EQ(launch("lines", 2, GetParam(), nullptr, given), ok);
  EXPECT_EQ(api().cuCtxSynchronize(), ok);
  for (unsigned i = 0; i < count; ++i) EXPECT_EQ(static_cast<unsigned*>(out)[i], 4 * i + 1);
  unload();
}

TEST_P(BlockThreads, WithoutABarrierRaceWhereThereIsMoreThanOne) {
  if (!test::under_tsan || !standin) GTEST_SKIP() << "for the thread sanitizer, on the stand-in";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [&] {
    void* out = nullptr;
    api().cuMemHostAlloc(&out, 64, 0);
    static_cast<void>(launch("broken_sum", 1, GetParam(), nullptr,
                             standin::BlockSumParameters{static_cast<unsigned long long*>(out), 1}));
    api().cuCtxSynchronize();
    std::exit(0);
  };
  constexpr int race = 66;  // the sanitizer's exit status
  if (GetParam() == 1) {
    EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
  } else {
    EXPECT_EXIT(run(), ::testing::ExitedWithCode(race), "data race");
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, BlockThreads, ::testing::Values(1u, 3u));

TEST_F(Scheduling, LaunchesBeyondTheLimitsAreRefused) {
  std::uint32_t* const word = make_word();
  EXPECT_EQ(launch("spin", 1, 4, nullptr, standin::WordParameters{word, 0}), DriverResult::invalid_value)
      << "more threads than a block has";
  EXPECT_EQ(launch("spin", 0, 1, nullptr, standin::WordParameters{word, 0}), DriverResult::invalid_value);
  standin::WordParameters given{word, 0};
  void* parameters[] = {&given};
  const FunctionHandle function = find_kernel("spin");
  LaunchConfig config;
  config.shared_bytes = 64 * 1024;
  EXPECT_EQ(api().cuLaunchKernelEx(&config, function, parameters, nullptr), DriverResult::invalid_value);
  EXPECT_EQ(api().cuFuncSetAttribute(function, FunctionAttribute::max_dynamic_shared_size_bytes, 64 * 1024), ok);
  EXPECT_EQ(api().cuLaunchKernelEx(&config, function, parameters, nullptr), ok);
  LaunchAttribute attribute;
  attribute.id = static_cast<LaunchAttributeId>(2);  // cooperative: not implemented
  config.attributes = &attribute;
  config.attribute_count = 1;
  EXPECT_EQ(api().cuLaunchKernelEx(&config, function, parameters, nullptr), DriverResult::not_supported);
  attribute.id = LaunchAttributeId::mem_sync_domain;
  attribute.value.domain = MemSyncDomain::remote;
  EXPECT_EQ(api().cuLaunchKernelEx(&config, function, parameters, nullptr), ok);
  EXPECT_EQ(api().cuCtxSynchronize(), ok);
  unload();
}

}  // namespace
}  // namespace tutti::cuda
