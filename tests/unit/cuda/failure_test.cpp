// Failures: sticky errors, injected ones, the driver's end, forks.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "tests/unit/cuda/cuda_test.h"
#include "tests/unit/cuda/owner_process.h"

namespace tutti::cuda {
namespace {

class Failures : public StandinTest {};

TEST_F(Failures, ALostContextAnswersItsErrorToEveryCall) {
  std::uint32_t* const word = make_word();
  const StreamHandle stream = make_stream();
  const EventHandle event = make_event();
  const FunctionHandle spin = find_kernel("spin");
  EXPECT_EQ(api().cuEventRecord(event, stream), ok);
  EXPECT_EQ(launch("store", 1, 3, stream, standin::WordParameters{at(8), 5}), ok) << "the fault comes when it runs";
  EXPECT_EQ(api().cuStreamSynchronize(stream), DriverResult::illegal_address);
  DevicePointer address = 0;
  EXPECT_EQ(api().cuMemAlloc_v2(&address, 64), DriverResult::illegal_address);
  EXPECT_EQ(api().cuStreamQuery(stream), DriverResult::illegal_address);
  EXPECT_EQ(api().cuEventQuery(event), DriverResult::illegal_address);
  standin::WordParameters given{word, 0};
  void* parameters[] = {&given};
  EXPECT_EQ(api().cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr), DriverResult::illegal_address);
  int device = -1;
  EXPECT_EQ(api().cuCtxGetDevice(&device), ok) << "what asks the device nothing still answers";
  unload();
}

TEST_F(Failures, KernelsOfALostContextEndAndTheNextContextWorks) {
  std::uint32_t* const word = make_word();
  standin.set("QUEUES", "64");
  EXPECT_EQ(launch("spin", 2, 3, make_stream(), standin::WordParameters{word, 1}), ok);
  EXPECT_EQ(launch("store", 1, 1, make_stream(), standin::WordParameters{at(8), 5}), ok);
  EXPECT_EQ(api().cuCtxSynchronize(), DriverResult::illegal_address);
  unload();
  close_context();
  open_context();
  const DevicePointer address = allocate(64);
  EXPECT_EQ(api().cuMemsetD32Async(address, 6, 16, nullptr), ok);
  EXPECT_THAT(read(address, 16), ::testing::Each(6));
}

TEST_F(Failures, AnOrderFailsTheCallThatItNames) {
  DevicePointer address = 0;
  ASSERT_TRUE(standin.fail("cuMemAlloc_v2:2"));
  EXPECT_EQ(api().cuMemAlloc_v2(&address, 64), ok);
  EXPECT_EQ(api().cuMemAlloc_v2(&address, 64), DriverResult::out_of_memory);
  EXPECT_EQ(api().cuMemAlloc_v2(&address, 64), ok);
  ASSERT_TRUE(standin.fail("cuStreamQuery:0:999"));
  EXPECT_EQ(api().cuStreamQuery(nullptr), DriverResult::unknown);
  EXPECT_EQ(api().cuStreamQuery(nullptr), DriverResult::unknown);
  EXPECT_FALSE(standin.fail("cuStreamQuery"));
  EXPECT_EQ(api().cuStreamQuery(nullptr), ok);
}

TEST_F(Failures, AStickyOrderLosesTheContext) {
  ASSERT_TRUE(standin.fail("cuStreamQuery:1:719"));
  EXPECT_EQ(api().cuStreamQuery(nullptr), DriverResult::launch_failed);
  standin.fail("");
  EXPECT_EQ(api().cuStreamQuery(nullptr), DriverResult::launch_failed);
}

TEST_F(Failures, EveryEntryPointCanBeMadeToFail) {
  for_each_entry(api(), [&](const auto& entry) {
    const std::uint64_t before = standin.calls(entry.name);
    ASSERT_TRUE(standin.fail((std::string(entry.name) + ":1:304").c_str()));
    EXPECT_EQ(call_with_nothing(entry), DriverResult::operating_system) << entry.name;
    EXPECT_EQ(standin.calls(entry.name), before + 1) << entry.name;
  });
}

TEST_F(Failures, EveryEntryPointIsRefusedInAForkedChild) {
  const pid_t child = ::fork();
  if (child == 0) {
    int wrong = 0;
    for_each_entry(api(), [&](const auto& entry) {
      const DriverResult result = call_with_nothing(entry);
      const bool names = std::string_view(entry.name).starts_with("cuGetError");  // for the sentence that the child gets
      wrong += result != (names ? DriverResult::invalid_value : DriverResult::not_initialized);
    });
    ::_exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(Failures, OrdersOfTheEnvironmentHoldFromTheFirstCall) {
  for (const auto& [name, value] :
       {std::pair{"STANDIN_FAIL", "cuInit:1:304"}, {"STANDIN_DEVICES", "0"}, {"STANDIN_VERSION", "11080"}}) {
    const char* const given = std::getenv(name);
    const std::string before = given != nullptr ? given : "";
    ASSERT_EQ(::setenv(name, value, 1), 0);
    EXPECT_EQ(OwnerProcess("legacy", OwnerProcess::Errors::hidden).wait(), 1) << name;
    ASSERT_EQ(given != nullptr ? ::setenv(name, before.c_str(), 1) : ::unsetenv(name), 0);
  }
}

TEST_F(Failures, SymbolsAreFoundByTheirNameWithoutAVersion) {
  using Find = DriverResult (*)(const char*, void**, int, std::uint64_t, unsigned*);
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto find = reinterpret_cast<Find>(::dlsym(library, "cuGetProcAddress_v2"));
  ASSERT_NE(find, nullptr);
  void* found = nullptr;
  unsigned outcome = 9;
  EXPECT_EQ(find("cuMemAlloc", &found, 12000, 0, &outcome), ok);
  EXPECT_EQ(found, reinterpret_cast<void*>(api().cuMemAlloc_v2.function));
  EXPECT_EQ(outcome, 0u);
  EXPECT_EQ(find("cuOfTomorrow", &found, 12000, 0, &outcome), DriverResult::not_found);
  EXPECT_EQ(outcome, 1u);
}

TEST_F(CudaTest, CallsInAForkedChildAreRefused) {
  const StreamHandle stream = make_stream();
  const pid_t child = ::fork();
  if (child == 0) {
    ContextHandle current = nullptr;
    const bool refused = api().cuCtxGetCurrent(&current) == DriverResult::not_initialized &&
                         api().cuStreamQuery(stream) == DriverResult::not_initialized &&
                         api().cuInit(0) == DriverResult::not_initialized;
    const auto found = Driver::get();
    const bool ours = !found.ok() && found.status().code() == TUTTI_INVALID_USAGE &&
                      found.status().text().find(fmt::format("was forked from process {} after that had started CUDA",
                                                             ::getppid())) != std::string::npos;
    const bool sentence = driver->call(api().cuStreamQuery, 0, "asking", stream).code() == TUTTI_UNHANDLED_CUDA_ERROR;
    ::_exit(refused && ours && sentence ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(CudaTest, HoldersInAForkedChildGiveNothingBack) {
  auto memory = PinnedMemory::allocate(*context, 64);
  auto stream = OwnedStream::create(*context);
  ASSERT_TRUE(memory.ok() && stream.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    *memory = PinnedMemory();
    *stream = OwnedStream();
    ::_exit(driver->release_deferred() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(api().cuStreamQuery(stream->handle()), ok) << "the parent's is untouched";
}

TEST_F(CudaTest, CallsAfterMainAreAnsweredThatTheDriverHasEnded) {
  OwnerProcess program("exit");
  EXPECT_EQ(program.wait(), 0);
}

TEST_F(CudaTest, CallsBeforeCuInitOrWithoutAContextAreRefused) {
  ContextHandle current = nullptr;
  ASSERT_EQ(api().cuCtxPopCurrent_v2(&current), ok);
  DevicePointer address = 0;
  EXPECT_EQ(api().cuMemAlloc_v2(&address, 64), DriverResult::invalid_context);
  EXPECT_EQ(api().cuCtxPushCurrent_v2(current), ok);
  EXPECT_EQ(api().cuStreamQuery(reinterpret_cast<StreamHandle>(&address)), DriverResult::invalid_handle);
}

TEST_F(CudaTest, ADestroyedContextIsNoContext) {
  ContextHandle own = nullptr;
  ASSERT_EQ(api().cuCtxCreate_v2(&own, 0, 0), ok);
  const StreamHandle stream = make_stream();
  EXPECT_EQ(api().cuCtxDestroy_v2(own), ok);
  EXPECT_EQ(api().cuCtxPushCurrent_v2(own), DriverResult::invalid_context);
  if (standin) {
    EXPECT_EQ(api().cuStreamQuery(stream), DriverResult::invalid_handle);
  }
  unsigned flags = 0;
  int active = 0;
  EXPECT_EQ(api().cuDevicePrimaryCtxGetState(0, &flags, &active), ok);
  EXPECT_EQ(active, 1);
}

}  // namespace
}  // namespace tutti::cuda
