// Rules of memory: who may use it, how long it lives, what copies do.
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/unit/cuda/cuda_test.h"
#include "tests/unit/cuda/owner_process.h"

namespace tutti::cuda {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class MemoryRules : public CudaTest {
 protected:
  PhysicalMemory make_physical() {
    auto granularity = PhysicalMemory::granularity(*context);
    EXPECT_TRUE(granularity.ok()) << granularity.status().text();
    auto memory = PhysicalMemory::create(*context, *granularity);
    EXPECT_TRUE(memory.ok()) << memory.status().text();
    return std::move(*memory);
  }
};
class StandinMemoryRules : public StandinTest {};

TEST_F(MemoryRules, MappedMemoryMayBeUsedOnlyAfterSetAccess) {
  if (!standin) GTEST_SKIP() << "the fault costs the process its context";
  const PhysicalMemory memory = make_physical();
  DevicePointer address = 0;
  ASSERT_EQ(api().cuMemAddressReserve(&address, memory.bytes(), 0, 0, 0), ok);
  ASSERT_EQ(api().cuMemMap(address, memory.bytes(), 0, memory.handle(), 0), ok);
  unsigned long long flags = 99;
  const MemoryLocation own{LocationType::device, 0};
  EXPECT_EQ(api().cuMemGetAccess(&flags, &own, address), ok);
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(launch("store", 1, 1, nullptr, standin::WordParameters{at(address), 5}), ok);
  EXPECT_EQ(api().cuCtxSynchronize(), DriverResult::illegal_address);
  unload();
  EXPECT_EQ(api().cuMemUnmap(address, memory.bytes()), ok);
  EXPECT_EQ(api().cuMemAddressFree(address, memory.bytes()), ok);
}

TEST_F(MemoryRules, MappedMemoryIsUsedByThoseDevicesThatWereLetIn) {
  auto mapped = MappedMemory::map(make_physical());
  ASSERT_TRUE(mapped.ok()) << mapped.status().text();
  EXPECT_EQ(api().cuMemsetD32Async(mapped->address(), 7, 16, nullptr), ok);
  EXPECT_THAT(read(mapped->address(), 16), Each(7));
  if (driver->device_count() < 2) GTEST_SKIP() << "the rest needs two devices";
  auto other = Context::primary(*driver, 1);
  ASSERT_TRUE(other.ok());
  {
    const auto entered = ContextScope::enter(*other);
    EXPECT_NE(api().cuMemsetD32Async(mapped->address(), 8, 16, nullptr), ok) << "device 1 was not let in";
    EXPECT_TRUE(mapped->allow(1).ok());
    EXPECT_EQ(api().cuMemsetD32Async(mapped->address(), 8, 16, nullptr), ok);
    EXPECT_EQ(api().cuCtxSynchronize(), ok);
  }
  EXPECT_THAT(read(mapped->address(), 16), Each(8));
}

TEST_F(MemoryRules, AnotherDevicesMemoryNeedsPeerAccessExceptForCopies) {
  if (driver->device_count() < 2) GTEST_SKIP() << "one device";
  const DevicePointer address = allocate(64);
  EXPECT_EQ(api().cuMemsetD32Async(address, 3, 16, nullptr), ok);
  EXPECT_EQ(api().cuCtxSynchronize(), ok);
  auto other = Context::primary(*driver, 1);
  ASSERT_TRUE(other.ok());
  const auto entered = ContextScope::enter(*other);
  const DevicePointer there = allocate(64);
  EXPECT_EQ(api().cuMemcpyPeerAsync(there, other->handle(), address, context->handle(), 64, nullptr), ok);
  EXPECT_THAT(read(there, 16), Each(3));
  if (standin) {
    EXPECT_NE(api().cuMemsetD32Async(address, 4, 16, nullptr), ok) << "without peer access";
  }
  EXPECT_EQ(api().cuCtxEnablePeerAccess(context->handle(), 0), ok);
  EXPECT_EQ(api().cuCtxEnablePeerAccess(context->handle(), 0), DriverResult::peer_access_already_enabled);
  EXPECT_EQ(api().cuMemsetD32Async(address, 4, 16, nullptr), ok);
  EXPECT_EQ(api().cuCtxSynchronize(), ok);
}

TEST_F(MemoryRules, AKernelMayNotUseAnotherDevicesMemoryWithoutPeerAccess) {
  if (!standin || driver->device_count() < 2) GTEST_SKIP() << "the fault costs the process its context; two devices";
  const DevicePointer address = allocate(64);
  auto other = Context::primary(*driver, 1);
  ASSERT_TRUE(other.ok());
  {
    const auto entered = ContextScope::enter(*other);
    EXPECT_EQ(launch("store", 1, 1, nullptr, standin::WordParameters{at(address), 5}), ok);
    EXPECT_EQ(api().cuCtxSynchronize(), DriverResult::illegal_address);
  }
  unload();
  EXPECT_EQ(api().cuCtxSynchronize(), ok) << "device 0's context is another";
}

TEST_F(StandinMemoryRules, DevicesWithoutALinkGetNoPeerAccess) {
  if (driver->device_count() < 2) GTEST_SKIP() << "one device";
  standin.set("LINKS", "none");
  int can = 1;
  EXPECT_EQ(api().cuDeviceCanAccessPeer(&can, 0, 1), ok);
  EXPECT_EQ(can, 0);
  {
    auto other = Context::primary(*driver, 1);
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(api().cuCtxEnablePeerAccess(other->handle(), 0), DriverResult::peer_access_unsupported);
  }
  standin.set("LINKS", "all");
}

TEST_F(MemoryRules, PhysicalMemoryLivesAsLongAsItIsMapped) {
  auto memory = make_physical();
  auto mapped = MappedMemory::map(memory);
  ASSERT_TRUE(mapped.ok());
  memory = PhysicalMemory();
  EXPECT_EQ(api().cuMemsetD32Async(mapped->address(), 9, 4, nullptr), ok);
  EXPECT_THAT(read(mapped->address(), 4), Each(9));
  AllocationHandle again = 0;
  EXPECT_EQ(api().cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(mapped->address())), ok);
  AllocationProperties properties;
  EXPECT_EQ(api().cuMemGetAllocationPropertiesFromHandle(&properties, again), ok);
  EXPECT_EQ(properties.handle_types, ShareableType::posix_descriptor);
  EXPECT_EQ(api().cuMemRelease(again), ok);
}

TEST_F(MemoryRules, TwoMappingsOfOneMemoryShowTheSameBytes) {
  const PhysicalMemory memory = make_physical();
  const auto one = MappedMemory::map(memory);
  const auto two = MappedMemory::map(memory);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(one->address(), two->address());
  EXPECT_EQ(api().cuMemsetD32Async(one->address(), 11, 4, nullptr), ok);
  EXPECT_THAT(read(two->address(), 4), Each(11));
}

TEST_F(MemoryRules, AddressesThatAreMappedAreNotFreed) {
  const PhysicalMemory memory = make_physical();
  const auto mapped = MappedMemory::map(memory);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(api().cuMemAddressFree(mapped->address(), mapped->bytes()), DriverResult::invalid_value);
}

TEST_F(MemoryRules, AProcessCannotOpenItsOwnHandle) {
  const DevicePointer address = allocate(4096);
  IpcMemoryHandle handle;
  ASSERT_EQ(api().cuIpcGetMemHandle(&handle, address), ok);
  DevicePointer opened = 0;
  EXPECT_EQ(api().cuIpcOpenMemHandle_v2(&opened, handle, kIpcLazyPeerAccess), DriverResult::invalid_context);
}

TEST_F(MemoryRules, AHandleShowsAnotherProcessTheSameMemory) {
  OwnerProcess owner("legacy");
  DevicePointer opened = 0;
  ASSERT_EQ(api().cuIpcOpenMemHandle_v2(&opened, owner.read<IpcMemoryHandle>(), kIpcLazyPeerAccess), ok);
  EXPECT_THAT(read(opened, 4), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(api().cuIpcCloseMemHandle(opened), ok);
}

TEST_F(StandinMemoryRules, LegacyMemoryThatItsOwnerFreedFaults) {
  OwnerProcess owner("legacy");
  DevicePointer opened = 0;
  ASSERT_EQ(api().cuIpcOpenMemHandle_v2(&opened, owner.read<IpcMemoryHandle>(), kIpcLazyPeerAccess), ok);
  owner.tell('f');
  EXPECT_EQ(owner.read<char>(), 'f');
  EXPECT_EQ(api().cuMemsetD32Async(opened, 1, 4, nullptr), ok);
  EXPECT_EQ(api().cuCtxSynchronize(), DriverResult::illegal_address);
}

TEST_F(StandinMemoryRules, LegacyMemoryOfAKilledOwnerFaults) {
  OwnerProcess owner("legacy");
  DevicePointer opened = 0;
  ASSERT_EQ(api().cuIpcOpenMemHandle_v2(&opened, owner.read<IpcMemoryHandle>(), kIpcLazyPeerAccess), ok);
  owner.kill();
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(api().cuMemsetD32Async(opened, 1, 4, nullptr));
    return api().cuCtxSynchronize() == DriverResult::illegal_address;
  }));
}

TEST_F(MemoryRules, MappedMemoryOfAKilledOwnerLives) {
  OwnerProcess owner("physical");
  const auto bytes = owner.read<std::uint64_t>();
  const UniqueFd descriptor = owner.receive_descriptor();
  ASSERT_TRUE(descriptor);
  auto memory = PhysicalMemory::import(*context, descriptor.get(), bytes);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  const auto mapped = MappedMemory::map(*memory);
  ASSERT_TRUE(mapped.ok()) << mapped.status().text();
  owner.kill();
  EXPECT_THAT(read(mapped->address(), 4), ElementsAre(1, 2, 3, 4));
}

TEST_F(StandinMemoryRules, HostCodeThatTouchesDeviceMemoryFaults) {
  if (!standin.protects()) GTEST_SKIP() << "this processor has no protection keys";
  const DevicePointer address = allocate(64);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(static_cast<void>(*reinterpret_cast<volatile int*>(address)), "");
}

TEST_F(StandinMemoryRules, UseAfterFreeFaultsEvenWhereOtherMemoryWasTakenSince) {
  const DevicePointer address = allocate(4096);
  EXPECT_EQ(api().cuMemFree_v2(address), ok);
  EXPECT_NE(allocate(4096), address);
  EXPECT_EQ(launch("store", 1, 1, nullptr, standin::WordParameters{at(address), 5}), ok);
  EXPECT_EQ(api().cuCtxSynchronize(), DriverResult::illegal_address);
  unload();
}

TEST_F(MemoryRules, FreeingInStreamOrderWaitsForTheStream) {
  std::uint32_t* const word = make_word();
  const StreamHandle stream = make_stream();
  DevicePointer address = 0;
  ASSERT_EQ(api().cuMemAllocAsync(&address, 64, stream), ok);
  hold(stream, word);
  EXPECT_EQ(api().cuMemsetD32Async(address, 1, 16, stream), ok);
  EXPECT_EQ(api().cuMemFreeAsync(address, stream), ok);
  put(word, 1);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  if (standin) {
    EXPECT_NE(api().cuMemsetD32Async(address, 1, 16, stream), ok) << "it is freed";
  }
}

// A driver may do so, as it has to read the source into memory of its own.
TEST_F(MemoryRules, PageableSourcesAreReadByTheCallWhichWaitsForTheStream) {
  if (!standin) GTEST_SKIP() << "a real driver need not wait";
  std::uint32_t* const word = make_word();
  const StreamHandle stream = make_stream();
  const DevicePointer address = allocate(64);
  std::vector<std::int32_t> values(16, 5);
  hold(stream, word);
  std::atomic<bool> returned{false};
  std::jthread copying([&] {
    const auto scope = ContextScope::enter(*context);
    EXPECT_TRUE(scope.ok());
    EXPECT_EQ(api().cuMemcpyHtoDAsync_v2(address, values.data(), 64, stream), ok);
    returned = true;
    values.assign(16, 6);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(returned);
  put(word, 1);
  copying.join();
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_THAT(read(address, 16), Each(5));
}

TEST_F(MemoryRules, PinnedSourcesAreReadWhenTheirTurnComes) {
  std::uint32_t* const word = make_word();
  std::uint32_t* const source = make_word();
  const StreamHandle stream = make_stream();
  const DevicePointer address = allocate(64);
  hold(stream, word);
  EXPECT_EQ(api().cuMemcpyHtoDAsync_v2(address, source, 4, stream), ok);
  *source = 6;
  put(word, 1);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_THAT(read(address, 1), ElementsAre(6));
}

TEST_F(MemoryRules, CopiesCheckTheDirectionThatTheirNameSays) {
  std::uint32_t* const word = make_word();
  const DevicePointer address = allocate(64);
  EXPECT_EQ(api().cuMemcpyHtoDAsync_v2(reinterpret_cast<DevicePointer>(word), word, 4, nullptr),
            DriverResult::invalid_value);
  EXPECT_EQ(api().cuMemcpyDtoDAsync_v2(address, address + 32, 32, nullptr), ok);
  EXPECT_EQ(api().cuCtxSynchronize(), ok);
}

TEST_F(MemoryRules, ABatchCopiesEachPiece) {
  if (!api().cuMemcpyBatchAsync.there()) GTEST_SKIP() << "this driver has no batches";
  const StreamHandle stream = make_stream();
  const DevicePointer from = allocate(64);
  const DevicePointer to = allocate(64);
  EXPECT_EQ(api().cuMemsetD32Async(from, 2, 16, stream), ok);
  EXPECT_EQ(api().cuMemsetD32Async(to, 0, 16, stream), ok);
  DevicePointer sources[] = {from, from + 32};
  DevicePointer destinations[] = {to + 32, to};
  std::size_t bytes[] = {32, 32};
  CopyAttributes attributes;
  attributes.order = CopySourceOrder::stream;
  std::size_t first = 0;
  std::size_t failed = 0;
  EXPECT_EQ(api().cuMemcpyBatchAsync(destinations, sources, bytes, 2, &attributes, &first, 1, &failed, stream), ok);
  EXPECT_EQ(api().cuStreamSynchronize(stream), ok);
  EXPECT_THAT(read(to, 16), Each(2));
}

TEST_F(MemoryRules, AttributesTellKindsOfMemoryApart) {
  const DevicePointer device = allocate(64);
  DevicePointer managed = 0;
  ASSERT_EQ(api().cuMemAllocManaged(&managed, 64, kMemoryAttachGlobal), ok);
  const auto pinned = reinterpret_cast<DevicePointer>(make_word());
  std::uint32_t pageable = 0;
  const auto ask = [&](DevicePointer address) {
    MemoryType type = MemoryType::none;
    unsigned is_managed = 0;
    int ordinal = -5;
    PointerAttribute attributes[] = {PointerAttribute::memory_type, PointerAttribute::is_managed,
                                     PointerAttribute::device_ordinal};
    void* out[] = {&type, &is_managed, &ordinal};
    EXPECT_EQ(api().cuPointerGetAttributes(3, attributes, out, address), ok);
    return std::tuple(type, is_managed != 0);
  };
  EXPECT_EQ(ask(device + 8), std::tuple(MemoryType::device, false));
  EXPECT_EQ(std::get<1>(ask(managed)), true);
  EXPECT_EQ(ask(pinned), std::tuple(MemoryType::host, false));
  EXPECT_EQ(ask(reinterpret_cast<DevicePointer>(&pageable)), std::tuple(MemoryType::none, false));
  MemoryType type = MemoryType::none;
  EXPECT_EQ(api().cuPointerGetAttribute(&type, PointerAttribute::memory_type, reinterpret_cast<DevicePointer>(&pageable)),
            DriverResult::invalid_value);
}

TEST_F(MemoryRules, RegisteredMemoryIsPinnedUntilItIsUnregistered) {
  std::vector<std::uint32_t> own(4096, 0);
  ASSERT_EQ(api().cuMemHostRegister_v2(own.data(), own.size() * 4, kHostDeviceMap), ok);
  EXPECT_EQ(api().cuMemHostRegister_v2(own.data(), 4096, kHostDeviceMap), DriverResult::host_memory_already_registered);
  DevicePointer address = 0;
  EXPECT_EQ(api().cuMemHostGetDevicePointer_v2(&address, own.data(), 0), ok);
  EXPECT_EQ(api().cuMemsetD32Async(address, 4, 4, nullptr), ok);
  EXPECT_EQ(api().cuCtxSynchronize(), ok);
  EXPECT_EQ(own[3], 4u);
  EXPECT_EQ(api().cuMemHostUnregister(own.data()), ok);
  EXPECT_EQ(api().cuMemHostUnregister(own.data()), DriverResult::host_memory_not_registered);
}

TEST_F(StandinMemoryRules, TakenMemoryIsCountedAndMoreThanThereIsRefused) {
  const auto left = [&] {
    std::size_t bytes = 0;
    std::size_t total = 0;
    EXPECT_EQ(api().cuMemGetInfo_v2(&bytes, &total), ok);
    return bytes;
  };
  const std::size_t before = left();
  DevicePointer address = 0;
  EXPECT_EQ(api().cuMemAlloc_v2(&address, before + 1), DriverResult::out_of_memory);
  {
    auto memory = PhysicalMemory::create(*context, *PhysicalMemory::granularity(*context));
    ASSERT_TRUE(memory.ok());
    auto mapped = MappedMemory::map(*memory);
    ASSERT_TRUE(mapped.ok());
    EXPECT_EQ(left(), before - memory->bytes());
    *memory = PhysicalMemory();
    EXPECT_LT(left(), before) << "it is mapped";
  }
  EXPECT_EQ(left(), before);
}

TEST_F(MemoryRules, AnAddressRangeIsTheWholeAllocation) {
  const DevicePointer address = allocate(12345);
  DevicePointer base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(api().cuMemGetAddressRange_v2(&base, &bytes, address + 12000), ok);
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 12345u);
}

}  // namespace
}  // namespace tutti::cuda
