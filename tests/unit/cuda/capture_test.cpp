// Rules of stream capture, graphs and user objects.
#include "tests/unit/cuda/cuda_test.h"

namespace tutti::cuda {
namespace {

using ::testing::Each;

class Capture : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (driver != nullptr) stream = make_stream();
  }

  void begin(CaptureMode mode = CaptureMode::global) { ASSERT_EQ(api().cuStreamBeginCapture_v2(stream, mode), ok); }

  /// Ends the capture; what that came to. The graph, where there is one, is `graph`.
  DriverResult end() { return api().cuStreamEndCapture(stream, &graph); }

  void expect_invalidated(DriverResult result = DriverResult::capture_invalidated) {
    CaptureStatus status = CaptureStatus::none;
    EXPECT_EQ(api().cuStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, nullptr, nullptr), ok);
    EXPECT_EQ(status, CaptureStatus::invalidated);
    EXPECT_EQ(end(), result);
    EXPECT_EQ(graph, nullptr);
  }

  /// The graph, instantiated; `graph` is destroyed.
  GraphExecHandle instantiate() {
    GraphExecHandle instance = nullptr;
    EXPECT_EQ(api().cuGraphInstantiateWithFlags(&instance, graph, 0), ok);
    EXPECT_EQ(api().cuGraphDestroy(graph), ok);
    return instance;
  }

  StreamHandle stream = nullptr;
  GraphHandle graph = nullptr;
};

TEST_F(Capture, WhatIsCapturedRunsWithEachReplayAndNotBefore) {
  const DevicePointer address = allocate(64);
  EXPECT_EQ(api().cuMemsetD32Async(address, 1, 16, stream), ok);
  begin();
  EXPECT_EQ(api().cuMemsetD32Async(address, 2, 16, stream), ok);
  EXPECT_EQ(end(), ok);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_THAT(read(address, 16), Each(1));
  const GraphExecHandle instance = instantiate();
  for (int replay = 0; replay < 3; ++replay) {
    EXPECT_EQ(api().cuGraphLaunch(instance, stream), ok);
    EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
    EXPECT_THAT(read(address, 16), Each(2));
    EXPECT_EQ(api().cuMemsetD32Async(address, 1, 16, stream), ok);
    EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  }
  EXPECT_EQ(api().cuGraphExecDestroy(instance), ok);
}

TEST_F(Capture, AStreamThatWaitsForACapturedEventJoins) {
  const DevicePointer address = allocate(64);
  const StreamHandle branch = make_stream();
  const EventHandle fork = make_event();
  const EventHandle join = make_event();
  begin();
  EXPECT_EQ(api().cuMemsetD32Async(address, 3, 16, stream), ok);
  EXPECT_EQ(api().cuEventRecord(fork, stream), ok);
  EXPECT_EQ(api().cuStreamWaitEvent(branch, fork, 0), ok);
  EXPECT_EQ(api().cuMemsetD32Async(address, 4, 8, branch), ok);
  EXPECT_EQ(api().cuEventRecord(join, branch), ok);
  EXPECT_EQ(api().cuStreamWaitEvent(stream, join, 0), ok);
  EXPECT_EQ(api().cuMemsetD32Async(address, 5, 4, stream), ok);
  EXPECT_EQ(end(), ok);
  const GraphExecHandle instance = instantiate();
  EXPECT_EQ(api().cuGraphLaunch(instance, stream), ok);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_THAT(read(address, 4), Each(5));
  EXPECT_THAT(read(address + 16, 4), Each(4));
  EXPECT_THAT(read(address + 32, 8), Each(3));
  EXPECT_EQ(api().cuGraphExecDestroy(instance), ok);
}

TEST_F(Capture, AReplayComesBetweenWhatItsStreamWasGivenBeforeAndAfter) {
  std::uint32_t* const word = make_word();
  std::uint32_t* const out = make_word();
  begin();
  mark(stream, out, 2);
  EXPECT_EQ(end(), ok);
  const GraphExecHandle instance = instantiate();
  hold(stream, word);
  mark(stream, out, 1);
  EXPECT_EQ(api().cuGraphLaunch(instance, stream), ok);
  hold(stream, word);
  EXPECT_EQ(get(out), 0u);
  put(word, 1);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_EQ(get(out), 2u);
  EXPECT_EQ(api().cuGraphExecDestroy(instance), ok);
}

TEST_F(Capture, AForkThatDoesNotComeBackIsUnjoined) {
  const DevicePointer address = allocate(64);
  const StreamHandle branch = make_stream();
  const EventHandle fork = make_event();
  begin();
  EXPECT_EQ(api().cuEventRecord(fork, stream), ok);
  EXPECT_EQ(api().cuStreamWaitEvent(branch, fork, 0), ok);
  EXPECT_EQ(api().cuMemsetD32Async(address, 4, 8, branch), ok);
  EXPECT_EQ(end(), DriverResult::capture_unjoined);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(api().cuMemsetD32Async(address, 4, 8, branch), ok) << "the branch is free again";
}

TEST_F(Capture, TwoCapturesDoNotMerge) {
  const StreamHandle other = make_stream();
  const EventHandle event = make_event();
  begin();
  EXPECT_EQ(api().cuStreamBeginCapture_v2(other, CaptureMode::global), ok);
  EXPECT_EQ(api().cuEventRecord(event, other), ok);
  EXPECT_EQ(api().cuStreamWaitEvent(stream, event, 0), DriverResult::capture_merge);
  expect_invalidated();
  EXPECT_EQ(api().cuStreamEndCapture(other, &graph), DriverResult::capture_invalidated);
}

TEST_F(Capture, WorkOutsideIsNotWaitedFor) {
  const StreamHandle other = make_stream();
  const EventHandle event = make_event();
  EXPECT_EQ(api().cuEventRecord(event, other), ok);
  begin();
  EXPECT_EQ(api().cuStreamWaitEvent(stream, event, 0), DriverResult::capture_isolation);
  expect_invalidated();
}

TEST_F(Capture, AnotherStreamDoesNotEndIt) {
  const StreamHandle branch = make_stream();
  const EventHandle fork = make_event();
  begin();
  EXPECT_EQ(api().cuEventRecord(fork, stream), ok);
  EXPECT_EQ(api().cuStreamWaitEvent(branch, fork, 0), ok);
  EXPECT_EQ(api().cuStreamEndCapture(branch, &graph), DriverResult::capture_unmatched);
  EXPECT_EQ(api().cuStreamEndCapture(make_stream(), &graph), DriverResult::illegal_state) << "not capturing";
}

TEST_F(Capture, TheLegacyStreamIsNotCapturedAndMayNotBeUsedBesideBlockingStreams) {
  EXPECT_EQ(api().cuStreamBeginCapture_v2(nullptr, CaptureMode::global), DriverResult::capture_unsupported);
  const DevicePointer address = allocate(64);
  stream = make_stream(0);
  begin(CaptureMode::relaxed);
  CaptureStatus status = CaptureStatus::none;
  EXPECT_EQ(api().cuStreamGetCaptureInfo_v2(nullptr, &status, nullptr, nullptr, nullptr, nullptr),
            DriverResult::capture_implicit);
  EXPECT_EQ(api().cuStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, nullptr, nullptr), ok);
  EXPECT_EQ(status, CaptureStatus::active) << "a question ends no capture";
  EXPECT_EQ(api().cuMemsetD32Async(address, 1, 16, nullptr), DriverResult::capture_implicit);
  expect_invalidated();
}

TEST_F(Capture, TheLegacyStreamMayBeUsedBesideNonBlockingStreams) {
  const DevicePointer address = allocate(64);
  begin(CaptureMode::relaxed);
  EXPECT_EQ(api().cuMemsetD32Async(address, 1, 16, nullptr), ok);
  EXPECT_EQ(end(), ok);
  EXPECT_EQ(api().cuGraphDestroy(graph), ok);
}

TEST_F(Capture, AllocationsAndQueriesEndACaptureOfModeGlobal) {
  DevicePointer address = 0;
  begin();
  EXPECT_EQ(api().cuMemAlloc_v2(&address, 64), DriverResult::capture_unsupported);
  expect_invalidated();
  const EventHandle event = make_event();
  begin();
  EXPECT_EQ(api().cuEventQuery(event), DriverResult::capture_unsupported);
  expect_invalidated();
}

TEST_F(Capture, AnotherThreadsUnsafeCallEndsACaptureOfModeGlobalAlone) {
  const auto allocate_elsewhere = [&] {
    DriverResult result = ok;
    std::thread other([&] {
      const auto entered = ContextScope::enter(*context);
      DevicePointer address = 0;
      result = api().cuMemAlloc_v2(&address, 64);
    });
    other.join();
    return result;
  };
  begin(CaptureMode::thread_local_only);
  EXPECT_EQ(allocate_elsewhere(), ok);
  EXPECT_EQ(end(), ok);
  EXPECT_EQ(api().cuGraphDestroy(graph), ok);
  begin(CaptureMode::global);
  EXPECT_EQ(allocate_elsewhere(), DriverResult::capture_unsupported);
  expect_invalidated();
}

TEST_F(Capture, AThreadThatIsRelaxedMayMakeUnsafeCalls) {
  CaptureMode mode = CaptureMode::relaxed;
  begin();
  EXPECT_EQ(api().cuThreadExchangeStreamCaptureMode(&mode), ok);
  EXPECT_EQ(mode, CaptureMode::global);
  DevicePointer address = 0;
  EXPECT_EQ(api().cuMemAlloc_v2(&address, 64), ok);
  EXPECT_EQ(api().cuThreadExchangeStreamCaptureMode(&mode), ok);
  EXPECT_EQ(mode, CaptureMode::relaxed);
  EXPECT_EQ(end(), ok);
  EXPECT_EQ(api().cuGraphDestroy(graph), ok);
}

TEST_F(Capture, ACapturingStreamAndItsEventsAreNotWaitedForByTheHost) {
  const EventHandle event = make_event();
  begin(CaptureMode::relaxed);
  EXPECT_EQ(api().cuEventRecord(event, stream), ok);
  EXPECT_EQ(api().cuEventQuery(event), DriverResult::captured_event);
  expect_invalidated();
  begin(CaptureMode::relaxed);
  EXPECT_EQ(api().cuStreamSynchronize(stream), DriverResult::capture_unsupported);
  expect_invalidated();
  begin(CaptureMode::relaxed);
  EXPECT_EQ(api().cuCtxSynchronize(), DriverResult::capture_unsupported);
  expect_invalidated();
}

TEST_F(Capture, WhatIsInvalidatedTakesNoMoreWork) {
  const DevicePointer address = allocate(64);
  begin(CaptureMode::relaxed);
  EXPECT_EQ(api().cuStreamQuery(stream), DriverResult::capture_unsupported);
  EXPECT_EQ(api().cuMemsetD32Async(address, 1, 16, stream), DriverResult::capture_invalidated);
  expect_invalidated();
  EXPECT_EQ(api().cuMemsetD32Async(address, 1, 16, stream), ok) << "the stream is usable again";
}

TEST_F(Capture, AnotherThreadDoesNotEndACaptureUnlessItIsRelaxed) {
  const auto end_elsewhere = [&] {
    DriverResult result = ok;
    std::thread other([&] {
      const auto entered = ContextScope::enter(*context);
      result = end();
    });
    other.join();
    return result;
  };
  begin(CaptureMode::thread_local_only);
  EXPECT_EQ(end_elsewhere(), DriverResult::capture_wrong_thread);
  EXPECT_EQ(end(), ok);
  EXPECT_EQ(api().cuGraphDestroy(graph), ok);
  begin(CaptureMode::relaxed);
  EXPECT_EQ(end_elsewhere(), ok);
  EXPECT_EQ(api().cuGraphDestroy(graph), ok);
}

TEST_F(Capture, AKernelThatIsNotLoadedYetEndsACapture) {
  if (!standin) GTEST_SKIP() << "a real driver may have loaded it with its library";
  std::uint32_t* const out = make_word();
  const FunctionHandle function = find_kernel("store");
  standin::WordParameters given{out, 7};
  void* parameters[] = {&given};
  begin();
  EXPECT_EQ(api().cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr),
            DriverResult::capture_unsupported);
  expect_invalidated();
  EXPECT_EQ(api().cuFuncLoad(function), ok);
  begin();
  EXPECT_EQ(api().cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr), ok);
  given.value = 9;
  EXPECT_EQ(end(), ok);
  const GraphExecHandle instance = instantiate();
  EXPECT_EQ(api().cuGraphLaunch(instance, stream), ok);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_EQ(get(out), 7u) << "a node has the parameters of its capture";
  EXPECT_EQ(api().cuGraphExecDestroy(instance), ok);
  unload();
}

TEST_F(Capture, InfoNamesTheGraphAndTheNodesThatComeNext) {
  const DevicePointer address = allocate(64);
  begin();
  EXPECT_EQ(api().cuMemsetD32Async(address, 1, 16, stream), ok);
  CaptureStatus status = CaptureStatus::none;
  std::uint64_t id = 0;
  GraphHandle shown = nullptr;
  const GraphNodeHandle* nodes = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(api().cuStreamGetCaptureInfo_v2(stream, &status, &id, &shown, &nodes, &count), ok);
  EXPECT_EQ(status, CaptureStatus::active);
  EXPECT_NE(id, 0u);
  ASSERT_EQ(count, 1u);
  GraphNodeHandle last = nodes[0];
  EXPECT_EQ(api().cuStreamUpdateCaptureDependencies(stream, nullptr, 0, kSetCaptureDependencies), ok);
  EXPECT_EQ(api().cuStreamGetCaptureInfo_v2(stream, &status, &id, &shown, &nodes, &count), ok);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(api().cuStreamUpdateCaptureDependencies(stream, &last, 1, kAddCaptureDependencies), ok);
  EXPECT_EQ(end(), ok);
  EXPECT_EQ(graph, shown);
  EXPECT_EQ(api().cuGraphDestroy(graph), ok);
}

TEST_F(Capture, AUserObjectLivesUntilTheLastGraphThatHoldsItIsGone) {
  std::uint32_t* const word = make_word();
  std::atomic<int> destroyed{0};
  UserObjectHandle object = nullptr;
  // Relaxed: nothing but the count is read.
  const auto destroy = [](void* data) { static_cast<std::atomic<int>*>(data)->fetch_add(1, std::memory_order_relaxed); };
  ASSERT_EQ(api().cuUserObjectCreate(&object, &destroyed, destroy, 1, kUserObjectNoDestructorSync), ok);
  begin();
  hold(stream, word);
  EXPECT_EQ(end(), ok);
  EXPECT_EQ(api().cuGraphRetainUserObject(graph, object, 1, kGraphUserObjectMove), ok);
  const GraphExecHandle instance = instantiate();
  EXPECT_EQ(api().cuGraphLaunch(instance, stream), ok);
  EXPECT_EQ(api().cuGraphExecDestroy(instance), ok);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(destroyed.load(), 0) << "a replay is under way";
  put(word, 1);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_TRUE(eventually([&] { return destroyed.load() == 1; }));
}

TEST_F(Capture, ReplaysOfOneInstanceRunOneAfterTheOther) {
  if (!has_kernels() || !api().cuFuncLoad.there()) GTEST_SKIP() << "no kernels for this driver";
  std::uint32_t* const word = make_word();
  std::uint32_t* const count = make_word();
  const FunctionHandle function = find_kernel("count_blocks");
  EXPECT_EQ(api().cuFuncLoad(function), ok);
  standin::WordParameters given{count, 1};
  void* parameters[] = {&given};
  begin();
  EXPECT_EQ(api().cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr), ok);
  hold(stream, word);
  EXPECT_EQ(end(), ok);
  const GraphExecHandle instance = instantiate();
  const StreamHandle other = make_stream();
  EXPECT_EQ(api().cuGraphLaunch(instance, stream), ok);
  EXPECT_EQ(api().cuGraphLaunch(instance, other), ok);
  EXPECT_TRUE(eventually([&] { return get(count) == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(get(count), 1u);
  put(word, 1);
  EXPECT_EQ(api().cuStreamSynchronize(other), ok);
  EXPECT_EQ(get(count), 2u);
  EXPECT_EQ(api().cuGraphExecDestroy(instance), ok);
  unload();
}

}  // namespace
}  // namespace tutti::cuda
