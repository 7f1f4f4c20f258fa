// The room src/cuda: loading, sentences, holders under every failure.
#include "src/cuda/driver.h"

#include <sys/wait.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "src/cuda/kernel_library.h"
#include "src/cuda/kernel_module.h"
#include "tests/unit/cuda/cuda_test.h"

namespace tutti::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// First in its program: nothing has loaded the driver yet.
/// In a process that begins here: in this one another test, or an earlier run of this one, may have asked.
TEST(DriverLoading, ADriverThatNobodyAskedForIsNotLoaded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  enum Found { loaded_before = 1, not_loaded_after = 2, no_driver = 3 };
  const auto look = []() -> int {
    if (Driver::loaded_already()) return loaded_before;
    if (!Driver::get().ok()) return no_driver;
    return Driver::loaded_already() ? 0 : not_loaded_after;
  };
  const auto is_known = [](int status) {
    return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == no_driver);
  };
  EXPECT_EXIT(std::_Exit(look()), is_known, "");
  if (!Driver::get().ok()) GTEST_SKIP() << Driver::get().status().text();
}

TEST(DriverLoading, AMachineWithoutADriverIsToldTheRemedy) {
  const auto loaded = Driver::load("libcuda-that-is-not-there.so.1");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), TUTTI_UNSUPPORTED);
  EXPECT_THAT(loaded.status().text(), AllOf(StartsWith("This machine has no CUDA driver: "), HasSubstr("R525")));
}

TEST(DriverLoading, AnOldDriverIsNamedWithItsVersionTheLeastOneAndWhatItLacks) {
  const auto loaded = Driver::load(beside("cuda_modules/libcuda_old_driver.so").c_str());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), TUTTI_UNSUPPORTED);
  EXPECT_THAT(loaded.status().text(),
              AllOf(StartsWith("The CUDA driver is of API 11.4 and lacks cu"), HasSubstr("cuLibraryLoadData"),
                    HasSubstr("the least one is R525, of API 12.0")));
}

class DriverRefusals : public StandinTest {
 protected:
  Status load() { return Driver::load("libcuda.so.1").status(); }
};

TEST_F(DriverRefusals, AWholeDriverOfAnOldVersionIsRefused) {
  standin.set("VERSION", "11080");
  const Status status = load();
  standin.set("VERSION", "12040");
  EXPECT_EQ(status.code(), TUTTI_UNSUPPORTED);
  EXPECT_EQ(status.text(),
            "The CUDA driver is of API 11.8; the least one is R525, of API 12.0. Install NVIDIA's driver R525 or newer");
}

TEST_F(DriverRefusals, ADriverThatDoesNotStartSaysWhy) {
  standin.fail("cuInit:1:304");
  EXPECT_EQ(load().text(),
            "The CUDA driver's cuInit failed with CUDA_ERROR_OPERATING_SYSTEM (304: OS call failed or operation not "
            "supported on this "
            "OS) while starting the driver. Look for the driver's messages in the kernel's log");
  standin.fail("cuDeviceGetCount:1:999");
  EXPECT_THAT(load().text(), StartsWith("The CUDA driver's cuDeviceGetCount failed with CUDA_ERROR_UNKNOWN (999: "));
  standin.fail("cuDriverGetVersion:1:1");
  EXPECT_THAT(load().text(), HasSubstr("while asking for its version"));
}

TEST_F(DriverRefusals, AProcessWithoutADeviceIsUnsupported) {
  standin.fail("cuInit:1:100");
  const Status status = load();
  EXPECT_EQ(status.code(), TUTTI_UNSUPPORTED);
  EXPECT_THAT(status.text(),
              AllOf(StartsWith("The CUDA driver, of API 12.4, has no device for this process"), HasSubstr("nvidia-smi")));
}

TEST_F(DriverRefusals, AFailureNamesEntryPointResultDeviceAndWhatWasDone) {
  standin.fail("cuMemAlloc_v2:1");
  const auto memory = DeviceMemory::allocate(*context, 4096);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.status().code(), TUTTI_UNHANDLED_CUDA_ERROR);
  EXPECT_EQ(memory.status().text(),
            "The CUDA driver's cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY (2: out of memory) on device 0 while "
            "allocating 4096 "
            "bytes of device memory. Free memory on the device, or lower what this process takes of it");
}

TEST_F(DriverRefusals, AResultWithoutANameIsToldByItsNumber) {
  EXPECT_THAT(driver->failure(static_cast<DriverResult>(4321), "cuInit", kNoDevice, "testing").text(),
              StartsWith("The CUDA driver's cuInit failed with an unknown CUresult (4321: no description) while testing"));
}

TEST_F(DriverRefusals, AStickyErrorTellsThatTheContextIsLost) {
  EXPECT_THAT(driver->failure(DriverResult::illegal_address, "cuStreamQuery", 1, "waiting").text(),
              AllOf(HasSubstr("on device 1 while waiting"), HasSubstr("The device's context is lost")));
}

TEST_F(DriverRefusals, ARemedyFitsItsResult) {
  const auto remedy = [&](DriverResult result) {
    return driver->failure(result, "cuInit", kNoDevice, "testing").error().remedy;
  };
  EXPECT_THAT(remedy(DriverResult::deinitialized), HasSubstr("before the program returns from main"));
  EXPECT_THAT(remedy(DriverResult::not_initialized), HasSubstr("not in a forked child"));
  EXPECT_THAT(remedy(DriverResult::no_device), HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(remedy(DriverResult::launch_failed), HasSubstr("context is lost"));
  EXPECT_THAT(remedy(DriverResult::invalid_value), HasSubstr("kernel's log"));
}

TEST_F(DriverRefusals, AnAttributeIsReadOrItsFailureTold) {
  const auto blocks = driver->attribute(DeviceAttribute::multiprocessor_count, 0);
  ASSERT_TRUE(blocks.ok());
  EXPECT_EQ(*blocks, 4);
  EXPECT_THAT(
      driver->attribute(DeviceAttribute::multiprocessor_count, 77).status().text(),
      HasSubstr(
          "CUDA_ERROR_INVALID_DEVICE (101: invalid device ordinal) on device 77 while asking for device attribute 16"));
}

TEST_F(DriverRefusals, AnOptionalEntryPointThatIsAbsentIsUnsupported) {
  const DriverEntry<int> absent{"cuOfTomorrow"};
  const Status status = driver->call(absent, 0, "trying", 1);
  EXPECT_EQ(status.code(), TUTTI_UNSUPPORTED);
  EXPECT_THAT(status.text(), HasSubstr("has no cuOfTomorrow"));
}

class Holders : public CudaTest {};

TEST_F(Holders, TheCurrentContextIsTakenAndThePrimaryOneWithoutIt) {
  auto current = Context::current_or_primary(*driver, kNoDevice);
  ASSERT_TRUE(current.ok());
  EXPECT_EQ(current->handle(), context->handle());
  ContextHandle popped = nullptr;
  ASSERT_EQ(api().cuCtxPopCurrent_v2(&popped), ok);
  auto primary = Context::current_or_primary(*driver, 0);
  ASSERT_TRUE(primary.ok());
  EXPECT_EQ(primary->handle(), context->handle());
  EXPECT_EQ(primary->device(), 0);
  ASSERT_EQ(api().cuCtxPushCurrent_v2(popped), ok);
}

TEST_F(Holders, ACurrentContextOfAnotherDeviceIsNamed) {
  const auto other = Context::current_or_primary(*driver, 1);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(other.status().text(),
              StartsWith("Device 1 was asked for, and the thread's current CUDA context is of device 0"));
}

TEST_F(Holders, AScopeMakesTheContextBeforeCurrentAgain) {
  ContextHandle own = nullptr;
  ASSERT_EQ(api().cuCtxCreate_v2(&own, 0, 0), ok);
  {
    const auto scope = ContextScope::enter(*context);
    ContextHandle current = nullptr;
    EXPECT_EQ(api().cuCtxGetCurrent(&current), ok);
    EXPECT_EQ(current, context->handle());
  }
  ContextHandle current = nullptr;
  EXPECT_EQ(api().cuCtxGetCurrent(&current), ok);
  EXPECT_EQ(current, own);
  EXPECT_EQ(api().cuCtxDestroy_v2(own), ok);
}

TEST_F(Holders, DroppingMemoryWaitsForNothingEvenWhereAKernelRuns) {
  std::uint32_t* const word = make_word();
  const StreamHandle stream = make_stream();
  hold(stream, word);
  {
    auto device = DeviceMemory::allocate(*context, 64);
    auto pinned = PinnedMemory::allocate(*context, 64);
    auto mine = OwnedStream::create(*context);
    auto event = OwnedEvent::create(*context);
    ASSERT_TRUE(device.ok() && pinned.ok() && mine.ok() && event.ok());
    EXPECT_EQ(pinned->address(), reinterpret_cast<DevicePointer>(pinned->data()));
  }
  EXPECT_EQ(driver->deferred(), 2u);
  EXPECT_EQ(api().cuStreamQuery(stream), DriverResult::not_ready) << "still held: nothing has waited for it";
  put(word, 1);
  EXPECT_EQ(driver->release_deferred(), 0);
  EXPECT_EQ(driver->deferred(), 0u);
}

TEST_F(Holders, MemoryIsFreedOnce) {
  auto memory = DeviceMemory::allocate(*context, 64);
  ASSERT_TRUE(memory.ok());
  DeviceMemory moved = std::move(*memory);
  EXPECT_FALSE(*memory);
  EXPECT_TRUE(moved.free(*context).ok());
  EXPECT_FALSE(moved);
  EXPECT_TRUE(moved.free(*context).ok());
  EXPECT_EQ(driver->release_deferred(), 0);
}

TEST_F(Holders, KernelsAreLoadedAndFoundByTheirSymbol) {
  if (!standin) GTEST_SKIP() << "the kernels of this test are the stand-in's";
  auto library = KernelLibrary::load(*context, &standin::kTestKernelsImage);
  ASSERT_TRUE(library.ok()) << library.status().text();
  const auto kernel = library->kernel(*context, "block_sum_kernel");
  ASSERT_TRUE(kernel.ok()) << kernel.status().text();
  EXPECT_EQ(kernel->most_threads, 3);
  EXPECT_EQ(kernel->shared_bytes, 0u);
  EXPECT_THAT(
      library->kernel(*context, "nosuch").status().text(),
      HasSubstr(
          "cuLibraryGetKernel failed with CUDA_ERROR_NOT_FOUND (500: named symbol not found) on device 0 while looking for "
          "the kernel nosuch"));
  standin::MarkerImage elsewhere = standin::kTestKernelsImage;
  elsewhere.library[0] = 'L';
  const auto missing = KernelLibrary::load(*context, &elsewhere);
  EXPECT_EQ(missing.status().code(), TUTTI_UNSUPPORTED);
  EXPECT_THAT(missing.status().text(), StartsWith("The kernels have no code for device 0"));
}

TEST_F(Holders, ADriverThatMakesNoCodeOfTheKernelsPtxIsToBeNewer) {
  if (!standin) GTEST_SKIP() << "a real driver does not fail on order";
  for (const int result : {218, 221, 222, 223}) {
    standin.fail(("cuLibraryLoadData:1:" + std::to_string(result)).c_str());
    const Status status = KernelLibrary::load(*context, &standin::kTestKernelsImage).status();
    EXPECT_EQ(status.code(), TUTTI_UNSUPPORTED) << result;
    EXPECT_THAT(status.text(), AllOf(StartsWith("The driver, of API 12.4, cannot make code"), HasSubstr("PTX"),
                                     HasSubstr("Install a newer driver")));
  }
  standin.fail("");
}

/// All that a communicator would make on a device, in the order in which it would.
Status make_everything(const Driver& driver) {
  auto context = Context::current_or_primary(driver, 0);
  if (!context.ok()) return context.status();
  const auto library = KernelLibrary::load(*context, &standin::kTestKernelsImage);
  if (!library.ok()) return library.status();
  if (const auto kernel = library->kernel(*context, "add_kernel"); !kernel.ok()) return kernel.status();
  const auto stream = OwnedStream::create(*context);
  if (!stream.ok()) return stream.status();
  const auto event = OwnedEvent::create(*context);
  if (!event.ok()) return event.status();
  const auto pinned = PinnedMemory::allocate(*context, 4096);
  if (!pinned.ok()) return pinned.status();
  auto device = DeviceMemory::allocate(*context, 4096);
  if (!device.ok()) return device.status();
  const auto bytes = PhysicalMemory::granularity(*context);
  if (!bytes.ok()) return bytes.status();
  const auto physical = PhysicalMemory::create(*context, *bytes);
  if (!physical.ok()) return physical.status();
  const auto descriptor = physical->export_descriptor();
  if (!descriptor.ok()) return descriptor.status();
  const auto imported = PhysicalMemory::import(*context, descriptor->get(), *bytes);
  if (!imported.ok()) return imported.status();
  const auto mapped = MappedMemory::map(*imported);
  if (!mapped.ok()) return mapped.status();
  return device->free(*context);
}

class EveryCall : public StandinTest, public ::testing::WithParamInterface<const char*> {};

/// An entry point whose failure a creation reports, at its first and at a later call; nothing leaks either way.
TEST_P(EveryCall, ThatFailsIsReportedAndLeaksNothing) {
  const std::string entry = GetParam();
  const std::uint64_t live = standin.live();
  ASSERT_TRUE(make_everything(*driver).ok());
  ASSERT_EQ(driver->release_deferred(), 0);
  ASSERT_EQ(standin.live(), live);
  const std::uint64_t before = standin.calls(entry.c_str());
  ASSERT_TRUE(make_everything(*driver).ok());
  driver->release_deferred();
  const std::uint64_t calls = standin.calls(entry.c_str()) - before;
  ASSERT_GT(calls, 0u) << "this creation does not call it";
  int reported = 0;
  for (std::uint64_t at = 1; at <= calls; ++at) {
    ASSERT_TRUE(standin.fail((entry + ":" + std::to_string(at) + ":304").c_str()));
    const Status status = make_everything(*driver);
    standin.fail("");
    if (!status.ok()) {
      ++reported;
      EXPECT_EQ(status.code(), TUTTI_UNHANDLED_CUDA_ERROR);
      EXPECT_THAT(status.text(), HasSubstr(entry + " failed with CUDA_ERROR_OPERATING_SYSTEM"));
    }
    driver->release_deferred();
    EXPECT_EQ(standin.live(), live) << status.text();
  }
  EXPECT_GT(reported, 0);
}

INSTANTIATE_TEST_SUITE_P(Entries, EveryCall,
                         ::testing::Values("cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxPushCurrent_v2", "cuLibraryLoadData",
                                           "cuLibraryGetKernel", "cuKernelGetFunction", "cuFuncLoad", "cuFuncGetAttribute",
                                           "cuStreamCreateWithPriority", "cuEventCreate", "cuMemHostAlloc", "cuMemAlloc_v2",
                                           "cuMemGetAllocationGranularity", "cuMemCreate", "cuMemExportToShareableHandle",
                                           "cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap",
                                           "cuMemSetAccess"),
                         [](const auto& about) { return std::string(about.param); });

TEST_F(Holders, AFailedReleaseIsCountedAndCrashesNothing) {
  if (!standin) GTEST_SKIP() << "a real driver fails on no order";
  for (const char* entry :
       {"cuMemFree_v2", "cuMemFreeHost", "cuLibraryUnload", "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuMemUnmap",
        "cuMemRelease", "cuMemAddressFree", "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRelease_v2"}) {
    ASSERT_TRUE(standin.fail((std::string(entry) + ":1:304").c_str()));
    static_cast<void>(make_everything(*driver));
    static_cast<void>(driver->release_deferred());
    standin.fail("");
  }
  leaks = true;
  // A context that was not popped is still on the stack.
  ContextHandle current = nullptr;
  while (api().cuCtxPopCurrent_v2(&current) == ok) EXPECT_EQ(current, context->handle());
  EXPECT_EQ(api().cuCtxPushCurrent_v2(current), ok);
}

// ---- The kernels' module ---------------------------------------------------------------------------------------------

TEST(KernelModuleFile, ThatIsMissingIsNamedWithTheRemedy) {
  const auto loaded = load_kernel_module("/nosuch");
  EXPECT_EQ(loaded.status().code(), TUTTI_UNSUPPORTED);
  EXPECT_THAT(loaded.status().text(),
              AllOf(StartsWith("Device collectives need the kernels in /nosuch/libtutti_kernels.so, and it does "
                               "not load: "),
                    HasSubstr("TUTTI_MODULE_DIR")));
}

TEST(KernelModuleFile, OfAnotherVersionOrAbiOrNoModuleAtAllIsRefused) {
  EXPECT_THAT(load_kernel_module(beside("cuda_modules/version")).status().text(),
              HasSubstr("and it is of version 9.9.9, where this library is of "));
  EXPECT_THAT(load_kernel_module(beside("cuda_modules/abi")).status().text(),
              HasSubstr("and it is of ABI 99, where this library has 1"));
  EXPECT_THAT(load_kernel_module(beside("cuda_modules/empty")).status().text(), HasSubstr("and it holds no kernels"));
  EXPECT_THAT(load_kernel_module(beside("cuda_modules/none")).status().text(),
              HasSubstr("and it exports no tutti_kernel_module"));
}

TEST(KernelModuleFile, FindsKernelsByTheirName) {
  const auto loaded = load_kernel_module(beside("cuda_modules/good"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().text();
  const KernelName* const found = find_kernel(**loaded, "fold float32 sum");
  ASSERT_NE(found, nullptr);
  EXPECT_STREQ(found->symbol, "fold_float32_sum");
  EXPECT_EQ(find_kernel(**loaded, "fold float32"), nullptr);
  EXPECT_EQ(find_kernel(**loaded, "zzz"), nullptr);
}

}  // namespace
}  // namespace tutti::cuda
