// src/cuda/driver_types.h and driver_entries.h against NVIDIA's cuda.h: values, layouts and signatures. Compiled only where
// that header is installed; there is nothing to run.
#define __CUDA_API_VERSION_INTERNAL  // declares every version of an entry point by its own name
#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "src/cuda/driver_entries.h"

namespace tutti::cuda {
namespace {

// ---- Values ----------------------------------------------------------------------------------------------------------

#define SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))
SAME(DriverResult::success, CUDA_SUCCESS);
SAME(DriverResult::invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME(DriverResult::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(DriverResult::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
SAME(DriverResult::deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME(DriverResult::no_device, CUDA_ERROR_NO_DEVICE);
SAME(DriverResult::invalid_device, CUDA_ERROR_INVALID_DEVICE);
SAME(DriverResult::invalid_image, CUDA_ERROR_INVALID_IMAGE);
SAME(DriverResult::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
SAME(DriverResult::map_failed, CUDA_ERROR_MAP_FAILED);
SAME(DriverResult::already_mapped, CUDA_ERROR_ALREADY_MAPPED);
SAME(DriverResult::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(DriverResult::ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(DriverResult::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SAME(DriverResult::invalid_ptx, CUDA_ERROR_INVALID_PTX);
SAME(DriverResult::nvlink_uncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(DriverResult::jit_compiler_not_found, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SAME(DriverResult::unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(DriverResult::jit_compilation_disabled, CUDA_ERROR_JIT_COMPILATION_DISABLED);
SAME(DriverResult::operating_system, CUDA_ERROR_OPERATING_SYSTEM);
SAME(DriverResult::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
SAME(DriverResult::illegal_state, CUDA_ERROR_ILLEGAL_STATE);
SAME(DriverResult::not_found, CUDA_ERROR_NOT_FOUND);
SAME(DriverResult::not_ready, CUDA_ERROR_NOT_READY);
SAME(DriverResult::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(DriverResult::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME(DriverResult::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(DriverResult::peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(DriverResult::peer_access_not_enabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
SAME(DriverResult::primary_context_active, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
SAME(DriverResult::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(DriverResult::device_assert, CUDA_ERROR_ASSERT);
SAME(DriverResult::host_memory_already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME(DriverResult::host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME(DriverResult::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(DriverResult::illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(DriverResult::misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(DriverResult::invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(DriverResult::invalid_pc, CUDA_ERROR_INVALID_PC);
SAME(DriverResult::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
SAME(DriverResult::not_permitted, CUDA_ERROR_NOT_PERMITTED);
SAME(DriverResult::not_supported, CUDA_ERROR_NOT_SUPPORTED);
SAME(DriverResult::capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(DriverResult::capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(DriverResult::capture_merge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
SAME(DriverResult::capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME(DriverResult::capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME(DriverResult::capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME(DriverResult::capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(DriverResult::captured_event, CUDA_ERROR_CAPTURED_EVENT);
SAME(DriverResult::capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME(DriverResult::unknown, CUDA_ERROR_UNKNOWN);
SAME(DeviceAttribute::max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(DeviceAttribute::max_grid_dim_x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
SAME(DeviceAttribute::max_shared_memory_per_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME(DeviceAttribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(DeviceAttribute::can_map_host_memory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
SAME(DeviceAttribute::compute_mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME(DeviceAttribute::concurrent_kernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
SAME(DeviceAttribute::pci_bus_id, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
SAME(DeviceAttribute::pci_device_id, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
SAME(DeviceAttribute::unified_addressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(DeviceAttribute::pci_domain_id, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SAME(DeviceAttribute::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(DeviceAttribute::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(DeviceAttribute::managed_memory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
SAME(DeviceAttribute::pageable_memory_access, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
SAME(DeviceAttribute::max_shared_memory_per_block_optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(DeviceAttribute::virtual_memory_management, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(DeviceAttribute::posix_descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(DeviceAttribute::gpu_direct_rdma_with_vmm, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(DeviceAttribute::memory_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME(DeviceAttribute::gpu_direct_rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
SAME(DeviceAttribute::gpu_direct_rdma_flush_options, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
SAME(DeviceAttribute::gpu_direct_rdma_writes_ordering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
SAME(DeviceAttribute::stream_mem_ops_64_bit, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
SAME(DeviceAttribute::stream_wait_value_nor, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR);
SAME(DeviceAttribute::dma_buf, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
SAME(DeviceAttribute::mem_sync_domain_count, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT);
SAME(DeviceAttribute::fabric_handles, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
SAME(PeerAttribute::performance_rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK);
SAME(PeerAttribute::access_supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED);
SAME(PeerAttribute::native_atomic_supported, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
SAME(PointerAttribute::context, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(PointerAttribute::device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME(PointerAttribute::host_pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
SAME(PointerAttribute::sync_memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
SAME(PointerAttribute::buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(PointerAttribute::is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(PointerAttribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(PointerAttribute::is_legacy_ipc_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME(PointerAttribute::range_start_address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(PointerAttribute::range_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(PointerAttribute::mapped, CU_POINTER_ATTRIBUTE_MAPPED);
SAME(PointerAttribute::allowed_handle_types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME(PointerAttribute::access_flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS);
SAME(FunctionAttribute::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(FunctionAttribute::shared_size_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(FunctionAttribute::local_size_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(FunctionAttribute::num_regs, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(FunctionAttribute::max_dynamic_shared_size_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(MemOpType::wait_32, CU_STREAM_MEM_OP_WAIT_VALUE_32);
SAME(MemOpType::write_32, CU_STREAM_MEM_OP_WRITE_VALUE_32);
SAME(MemOpType::flush_remote_writes, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES);
SAME(MemOpType::wait_64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
SAME(MemOpType::write_64, CU_STREAM_MEM_OP_WRITE_VALUE_64);
SAME(MemOpType::barrier, CU_STREAM_MEM_OP_BARRIER);
SAME(MemoryType::host, CU_MEMORYTYPE_HOST);
SAME(MemoryType::device, CU_MEMORYTYPE_DEVICE);
SAME(LocationType::device, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(LocationType::host, CU_MEM_LOCATION_TYPE_HOST);
SAME(AllocationType::pinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(ShareableType::posix_descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(ShareableType::fabric, CU_MEM_HANDLE_TYPE_FABRIC);
SAME(AccessFlags::read, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(AccessFlags::read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(Granularity::minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(Granularity::recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(RangeHandleType::dma_buf, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME(LaunchAttributeId::ignore, CU_LAUNCH_ATTRIBUTE_IGNORE);
SAME(LaunchAttributeId::priority, CU_LAUNCH_ATTRIBUTE_PRIORITY);
SAME(LaunchAttributeId::mem_sync_domain, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);
SAME(MemSyncDomain::usual, CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT);
SAME(MemSyncDomain::remote, CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
SAME(CaptureStatus::none, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(CaptureStatus::active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(CaptureStatus::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(CaptureMode::global, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(CaptureMode::thread_local_only, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(CaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(CopySourceOrder::stream, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
SAME(CopySourceOrder::during_call, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
SAME(CopySourceOrder::any, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
SAME(FlushTarget::current_context, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
SAME(FlushScope::to_owner, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
SAME(FlushScope::to_all_devices, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
SAME(kIpcLazyPeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME(kEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME(kEventInterprocess, CU_EVENT_INTERPROCESS);
SAME(kEventRecordExternal, CU_EVENT_RECORD_EXTERNAL);
SAME(kMemoryAttachGlobal, CU_MEM_ATTACH_GLOBAL);
SAME(kMemoryAttachHost, CU_MEM_ATTACH_HOST);
SAME(kHostPortable, CU_MEMHOSTALLOC_PORTABLE);
SAME(kHostDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(kAddCaptureDependencies, CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
SAME(kSetCaptureDependencies, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
SAME(kUserObjectNoDestructorSync, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
SAME(kGraphUserObjectMove, CU_GRAPH_USER_OBJECT_MOVE);
SAME(kWaitValueGreaterOrEqual, CU_STREAM_WAIT_VALUE_GEQ);
SAME(kWaitValueEqual, CU_STREAM_WAIT_VALUE_EQ);
SAME(kWaitValueAnd, CU_STREAM_WAIT_VALUE_AND);
SAME(kWaitValueNor, CU_STREAM_WAIT_VALUE_NOR);
SAME(kWaitValueFlush, CU_STREAM_WAIT_VALUE_FLUSH);
SAME(kWriteValueNoBarrier, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
#undef SAME
static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr) &&
              sizeof(AllocationHandle) == sizeof(CUmemGenericAllocationHandle));

// ---- Layouts ---------------------------------------------------------------------------------------------------------

static_assert(sizeof(MemoryLocation) == sizeof(CUmemLocation) && alignof(MemoryLocation) == alignof(CUmemLocation));
static_assert(offsetof(MemoryLocation, type) == offsetof(CUmemLocation, type));
static_assert(offsetof(MemoryLocation, id) == offsetof(CUmemLocation, id));
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp) &&
              alignof(AllocationProperties) == alignof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, type) == offsetof(CUmemAllocationProp, type));
static_assert(offsetof(AllocationProperties, handle_types) == offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, win32_metadata) == offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(AllocationProperties, compression) == offsetof(CUmemAllocationProp, allocFlags.compressionType));
static_assert(offsetof(AllocationProperties, gpu_direct_rdma) ==
              offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
static_assert(offsetof(AllocationProperties, usage) == offsetof(CUmemAllocationProp, allocFlags.usage));
static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc) &&
              alignof(AccessDescription) == alignof(CUmemAccessDesc));
static_assert(offsetof(AccessDescription, location) == offsetof(CUmemAccessDesc, location));
static_assert(offsetof(AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(IpcMemoryHandle) == sizeof(CUipcMemHandle) && alignof(IpcMemoryHandle) == alignof(CUipcMemHandle));
static_assert(offsetof(IpcMemoryHandle, reserved) == offsetof(CUipcMemHandle, reserved));
static_assert(sizeof(DeviceUuid) == sizeof(CUuuid) && alignof(DeviceUuid) == alignof(CUuuid));
static_assert(offsetof(DeviceUuid, bytes) == offsetof(CUuuid, bytes));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute) &&
              alignof(LaunchAttribute) == alignof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, id) == offsetof(CUlaunchAttribute, id));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig) && alignof(LaunchConfig) == alignof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, grid) == offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(LaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(MemOpValue) == sizeof(CUstreamBatchMemOpParams::CUstreamMemOpWaitValueParams_st) &&
              alignof(MemOpValue) == alignof(CUstreamBatchMemOpParams::CUstreamMemOpWaitValueParams_st));
static_assert(offsetof(MemOpValue, type) == offsetof(CUstreamBatchMemOpParams::CUstreamMemOpWaitValueParams_st, operation));
static_assert(offsetof(MemOpValue, address) ==
              offsetof(CUstreamBatchMemOpParams::CUstreamMemOpWaitValueParams_st, address));
static_assert(offsetof(MemOpValue, value) == offsetof(CUstreamBatchMemOpParams::CUstreamMemOpWaitValueParams_st, value64));
static_assert(offsetof(MemOpValue, flags) == offsetof(CUstreamBatchMemOpParams::CUstreamMemOpWaitValueParams_st, flags));
static_assert(offsetof(MemOpValue, alias) == offsetof(CUstreamBatchMemOpParams::CUstreamMemOpWaitValueParams_st, alias));
static_assert(sizeof(MemOp) == sizeof(CUstreamBatchMemOpParams) && alignof(MemOp) == alignof(CUstreamBatchMemOpParams));
static_assert(offsetof(MemOp, type) == offsetof(CUstreamBatchMemOpParams, operation));
static_assert(offsetof(MemOp, value) == offsetof(CUstreamBatchMemOpParams, waitValue));
static_assert(sizeof(CopyAttributes) == sizeof(CUmemcpyAttributes) &&
              alignof(CopyAttributes) == alignof(CUmemcpyAttributes));
static_assert(offsetof(CopyAttributes, order) == offsetof(CUmemcpyAttributes, srcAccessOrder));
static_assert(offsetof(CopyAttributes, source) == offsetof(CUmemcpyAttributes, srcLocHint));
static_assert(offsetof(CopyAttributes, destination) == offsetof(CUmemcpyAttributes, dstLocHint));
static_assert(offsetof(CopyAttributes, flags) == offsetof(CUmemcpyAttributes, flags));
static_assert(sizeof(LaunchAttribute{}.value) == sizeof(CUlaunchAttributeValue));

// ---- Signatures ------------------------------------------------------------------------------------------------------

/// What the calling convention sees of a type: its size, and whether it is an address, a number or a struct.
template <typename T>
struct Passed {
  static constexpr int kind = std::is_pointer_v<T> ? 0 : std::is_enum_v<T> || std::is_integral_v<T> ? 1 : 2;
  static constexpr std::size_t bytes = sizeof(T);
};

template <typename Ours, typename Theirs>
struct Alike : std::false_type {};
template <typename... Ours, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct Alike<DriverResult(Ours...), CUresult(Theirs...)>
    : std::bool_constant<((Passed<Ours>::kind == Passed<Theirs>::kind && Passed<Ours>::bytes == Passed<Theirs>::bytes) &&
                          ...)> {};

#define COMPARE(symbol, ...) static_assert(Alike<DriverResult(__VA_ARGS__), decltype(::symbol)>::value, #symbol);
TUTTI_CUDA_ENTRIES(COMPARE, COMPARE)
#undef COMPARE

}  // namespace
}  // namespace tutti::cuda
