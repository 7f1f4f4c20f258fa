// Rules of streams and events, each by a program that would go wrong without it.
#include "tests/unit/cuda/cuda_test.h"

namespace tutti::cuda {
namespace {

class Streams : public CudaTest {};

class StreamKernels : public KernelTest {};

TEST_F(StreamKernels, ParametersAreThoseOfTheLaunchAndNotOfTheTimeWhenItRuns) {
  std::uint32_t* const word = make_word();
  std::uint32_t* const out = make_word();
  const FunctionHandle function = find_kernel("store");
  if (api().cuFuncLoad.there()) {
    EXPECT_EQ(api().cuFuncLoad(function), ok);
  }  // a first launch may wait for the device
  const StreamHandle stream = make_stream();
  hold(stream, word);
  standin::WordParameters given{out, 7};
  void* parameters[] = {&given};
  ASSERT_EQ(api().cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr), ok);
  given = {nullptr, 8};
  put(word, 1);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_EQ(get(out), 7u);
  unload();
}

TEST_F(Streams, WaitingForAnEventThatWasNeverRecordedDoesNothing) {
  const StreamHandle stream = make_stream();
  const EventHandle event = make_event();
  EXPECT_EQ(api().cuStreamWaitEvent(stream, event, 0), ok);
  EXPECT_EQ(api().cuEventQuery(event), ok);
  EXPECT_EQ(api().cuEventSynchronize(event), ok);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
}

TEST_F(Streams, AWaitIsForTheRecordThatWasTheLastWhenItWasCalled) {
  std::uint32_t* const word = make_word();
  const StreamHandle first = make_stream();
  const StreamHandle second = make_stream();
  const EventHandle event = make_event();
  EXPECT_EQ(api().cuEventRecord(event, first), ok);
  EXPECT_EQ(api().cuStreamWaitEvent(second, event, 0), ok);
  hold(first, word);
  EXPECT_EQ(api().cuEventRecord(event, first), ok);
  EXPECT_EQ(api().cuEventQuery(event), DriverResult::not_ready);
  EXPECT_EQ(api().cuStreamSynchronize(second), ok) << "the second record, which is held up, was waited for";
  put(word, 1);
  EXPECT_EQ(api().cuEventSynchronize(event), ok);
}

TEST_F(Streams, AnEventOutlivesItsDestructionForThoseWhoWaitForIt) {
  std::uint32_t* const word = make_word();
  std::uint32_t* const out = make_word();
  const StreamHandle first = make_stream();
  const StreamHandle second = make_stream();
  const EventHandle event = make_event();
  hold(first, word);
  EXPECT_EQ(api().cuEventRecord(event, first), ok);
  EXPECT_EQ(api().cuStreamWaitEvent(second, event, 0), ok);
  EXPECT_EQ(api().cuEventDestroy_v2(event), ok);
  mark(second, out, 1);
  EXPECT_EQ(api().cuStreamQuery(second), DriverResult::not_ready);
  EXPECT_EQ(get(out), 0u);
  put(word, 1);
  EXPECT_EQ(api().cuStreamSynchronize(second), ok);
  EXPECT_EQ(get(out), 1u);
}

TEST_F(Streams, DestroyingAStreamReturnsAtOnceAndItsWorkStillRuns) {
  std::uint32_t* const word = make_word();
  std::uint32_t* const out = make_word();
  const StreamHandle stream = make_stream();
  hold(stream, word);
  mark(stream, out, 1);
  EXPECT_EQ(api().cuStreamDestroy_v2(stream), ok);
  EXPECT_EQ(get(out), 0u);
  put(word, 1);
  EXPECT_TRUE(eventually([&] { return get(out) == 1; }));
}

/// Whether what is given to `late` waits for what `early`, given before, is held up by.
class StreamOrder : public CudaTest {
 protected:
  bool waits(StreamHandle early, StreamHandle late) {
    if (standin) standin.set("QUEUES", "64");  // so that queues are no reason
    std::uint32_t* const word = make_word();
    std::uint32_t* const out = make_word();
    hold(early, word);
    mark(late, out, 1);
    const bool ran = wait_for(out);
    put(word, 1);
    EXPECT_TRUE(eventually([&] { return get(out) == 1; }));
    EXPECT_EQ(api().cuCtxSynchronize(), ok);
    return !ran;
  }

  /// What may run at once has mostly run after a tenth of a second. A slow machine weakens the test, and does not fail it.
  static bool wait_for(std::uint32_t* word) {
    for (int tries = 0; tries < 100 && get(word) == 0; ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return get(word) != 0;
  }

  static StreamHandle legacy() { return nullptr; }
  static StreamHandle per_thread() { return reinterpret_cast<StreamHandle>(kPerThreadStream); }
};

TEST_F(StreamOrder, TheLegacyStreamWaitsForBlockingStreams) { EXPECT_TRUE(waits(make_stream(0), legacy())); }

TEST_F(StreamOrder, BlockingStreamsWaitForTheLegacyStream) {
  EXPECT_TRUE(waits(legacy(), make_stream(0)));
  EXPECT_TRUE(waits(reinterpret_cast<StreamHandle>(kLegacyStream), make_stream(0)));
}

TEST_F(StreamOrder, PerThreadStreamsAndTheLegacyStreamWaitForEachOther) {
  EXPECT_TRUE(waits(per_thread(), legacy()));
  EXPECT_TRUE(waits(legacy(), per_thread()));
}

TEST_F(StreamOrder, NonBlockingStreamsStandApart) {
  // Streams may share a queue by chance, and then wait for it: one pair of several must not.
  bool apart = false;
  for (int tries = 0; tries < 8 && !apart; ++tries)
    apart = !waits(make_stream(), legacy()) || !waits(legacy(), make_stream());
  EXPECT_TRUE(apart);
}

TEST_F(StreamOrder, EachThreadHasAStreamOfItsOwn) {
  std::uint32_t* const word = make_word();
  hold(per_thread(), word);
  EXPECT_EQ(api().cuStreamQuery(per_thread()), DriverResult::not_ready);
  std::thread other([&] {
    const auto entered = ContextScope::enter(*context);
    EXPECT_TRUE(entered.ok());
    EXPECT_EQ(api().cuStreamQuery(per_thread()), ok);
  });
  other.join();
  put(word, 1);
  EXPECT_EQ(api().cuStreamSynchronize(per_thread()), ok);
}

TEST_F(Streams, ValuesAreComparedAsTheirFlagsSay) {
  std::uint32_t* const word = make_word();
  const auto address = reinterpret_cast<DevicePointer>(word);
  const StreamHandle stream = make_stream();
  put(word, 0x80000005u);
  EXPECT_EQ(api().cuStreamWaitValue32_v2(stream, address, 0x80000005u, kWaitValueEqual), ok);
  EXPECT_EQ(api().cuStreamWaitValue32_v2(stream, address, 0x7ffffff0u, kWaitValueGreaterOrEqual), ok) << "cyclic";
  EXPECT_EQ(api().cuStreamWaitValue32_v2(stream, address, 4, kWaitValueAnd), ok);
  EXPECT_EQ(api().cuStreamWaitValue32_v2(stream, address, 8, kWaitValueNor), ok);
  EXPECT_EQ(api().cuStreamWriteValue64_v2(stream, address, std::uint64_t{3} << 40, 0), ok);
  EXPECT_EQ(api().cuStreamWaitValue64_v2(stream, address, std::uint64_t{1} << 40, kWaitValueAnd), ok);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
}

TEST_F(Streams, ABatchOfValuesRunsInItsOrder) {
  std::uint32_t* const word = make_word();
  std::uint32_t* const out = make_word();
  const StreamHandle stream = make_stream();
  MemOp ops[2] = {};
  ops[0].value = {MemOpType::wait_32, reinterpret_cast<DevicePointer>(word), 1, kWaitValueEqual, 0};
  ops[1].value = {MemOpType::write_32, reinterpret_cast<DevicePointer>(out), 5, 0, 0};
  EXPECT_EQ(api().cuStreamBatchMemOp_v2(stream, 2, ops, 0), ok);
  EXPECT_EQ(get(out), 0u);
  put(word, 1);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_EQ(get(out), 5u);
}

TEST_F(Streams, ACallbackMayNotCallTheDriver) {
  struct Seen {
    const DriverApi* api;
    DriverResult result;
  } seen{&api(), ok};
  const StreamHandle stream = make_stream();
  EXPECT_EQ(api().cuLaunchHostFunc(
                stream,
                [](void* data) {
                  auto& mine = *static_cast<Seen*>(data);
                  DevicePointer address = 0;
                  mine.result = mine.api->cuMemAlloc_v2(&address, 64);
                },
                &seen),
            ok);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_EQ(seen.result, DriverResult::not_permitted);
}

TEST_F(Streams, ElapsedTimeNeedsEventsThatMeasureIt) {
  const StreamHandle stream = make_stream();
  const EventHandle first = make_event(0);
  const EventHandle second = make_event(0);
  float milliseconds = -1;
  EXPECT_EQ(api().cuEventElapsedTime(&milliseconds, first, second), DriverResult::invalid_handle) << "never recorded";
  EXPECT_EQ(api().cuEventRecord(first, stream), ok);
  EXPECT_EQ(api().cuEventRecord(second, stream), ok);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_EQ(api().cuEventElapsedTime(&milliseconds, first, second), ok);
  EXPECT_GE(milliseconds, 0);
  const EventHandle untimed = make_event();
  EXPECT_EQ(api().cuEventRecord(untimed, stream), ok);
  EXPECT_EQ(api().cuEventElapsedTime(&milliseconds, first, untimed), DriverResult::invalid_handle);
}

}  // namespace
}  // namespace tutti::cuda
