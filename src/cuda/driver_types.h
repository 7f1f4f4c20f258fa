// The CUDA driver's types and constants as far as we use them. They are declared here after its public documentation, so
// that no header of NVIDIA's is needed to build. tests/unit/cuda/declarations_compared.cpp compares them with cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::cuda {

using DevicePointer = unsigned long long;     ///< CUdeviceptr
using DeviceOrdinal = int;                    ///< CUdevice
using AllocationHandle = unsigned long long;  ///< CUmemGenericAllocationHandle
using ContextHandle = struct ContextOpaque*;
using StreamHandle = struct StreamOpaque*;
using EventHandle = struct EventOpaque*;
using GraphHandle = struct GraphOpaque*;
using GraphExecHandle = struct GraphExecOpaque*;
using GraphNodeHandle = struct GraphNodeOpaque*;
using UserObjectHandle = struct UserObjectOpaque*;
using LibraryHandle = struct LibraryOpaque*;
using KernelHandle = struct KernelOpaque*;
using FunctionHandle = struct FunctionOpaque*;
using HostFunction = void (*)(void* data);  ///< CUhostFn

/// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD; NULL is the legacy stream, too.
inline constexpr std::uintptr_t kLegacyStream = 1;
inline constexpr std::uintptr_t kPerThreadStream = 2;

/// CUresult, the values that we tell apart.
enum class DriverResult : unsigned {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  map_failed = 205,
  already_mapped = 208,
  no_binary_for_gpu = 209,
  ecc_uncorrectable = 214,
  peer_access_unsupported = 217,
  invalid_ptx = 218,
  nvlink_uncorrectable = 220,
  jit_compiler_not_found = 221,
  unsupported_ptx_version = 222,
  jit_compilation_disabled = 223,
  operating_system = 304,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  peer_access_already_enabled = 704,
  peer_access_not_enabled = 705,
  primary_context_active = 708,
  context_is_destroyed = 709,
  device_assert = 710,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  hardware_stack_error = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
  not_permitted = 800,
  not_supported = 801,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_merge = 902,
  capture_unmatched = 903,
  capture_unjoined = 904,
  capture_isolation = 905,
  capture_implicit = 906,
  captured_event = 907,
  capture_wrong_thread = 908,
  unknown = 999,
};

/// CUdevice_attribute.
enum class DeviceAttribute : unsigned {
  max_threads_per_block = 1,
  max_grid_dim_x = 5,
  max_shared_memory_per_block = 8,
  multiprocessor_count = 16,
  can_map_host_memory = 19,
  compute_mode = 20,
  concurrent_kernels = 31,
  pci_bus_id = 33,
  pci_device_id = 34,
  unified_addressing = 41,
  pci_domain_id = 50,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  managed_memory = 83,
  pageable_memory_access = 88,
  max_shared_memory_per_block_optin = 97,
  virtual_memory_management = 102,
  posix_descriptors = 103,
  gpu_direct_rdma_with_vmm = 110,
  memory_pools = 115,
  gpu_direct_rdma = 116,
  gpu_direct_rdma_flush_options = 117,
  gpu_direct_rdma_writes_ordering = 118,
  stream_mem_ops_64_bit = 122,
  stream_wait_value_nor = 123,
  dma_buf = 124,
  mem_sync_domain_count = 126,
  fabric_handles = 128,
};

/// CUdevice_P2PAttribute.
enum class PeerAttribute : unsigned { performance_rank = 1, access_supported = 2, native_atomic_supported = 3 };

/// CUpointer_attribute.
enum class PointerAttribute : unsigned {
  context = 1,
  memory_type = 2,
  device_pointer = 3,
  host_pointer = 4,
  sync_memops = 6,
  buffer_id = 7,
  is_managed = 8,
  device_ordinal = 9,
  is_legacy_ipc_capable = 10,
  range_start_address = 11,
  range_size = 12,
  mapped = 13,
  allowed_handle_types = 14,
  access_flags = 16,
};

/// CUmemorytype.
enum class MemoryType : unsigned { none = 0, host = 1, device = 2 };

/// CUmemLocationType and CUmemLocation.
enum class LocationType : unsigned { none = 0, device = 1, host = 2 };
struct MemoryLocation {
  LocationType type = LocationType::none;
  int id = 0;
};

/// CUmemAllocationType, CUmemAllocationHandleType, CUmemAccess_flags, CUmemAllocationGranularity_flags,
/// CUmemRangeHandleType.
enum class AllocationType : unsigned { invalid = 0, pinned = 1 };
enum class ShareableType : unsigned { none = 0, posix_descriptor = 1, fabric = 8 };
enum class AccessFlags : unsigned { none = 0, read = 1, read_write = 3 };
enum class Granularity : unsigned { minimum = 0, recommended = 1 };
enum class RangeHandleType : unsigned { dma_buf = 1 };

/// CUmemAllocationProp.
struct AllocationProperties {
  AllocationType type = AllocationType::invalid;
  ShareableType handle_types = ShareableType::none;
  MemoryLocation location;
  void* win32_metadata = nullptr;
  unsigned char compression = 0;
  unsigned char gpu_direct_rdma = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};

/// CUmemAccessDesc.
struct AccessDescription {
  MemoryLocation location;
  AccessFlags flags = AccessFlags::none;
};

/// CUipcMemHandle and CUuuid.
struct IpcMemoryHandle {
  char reserved[64] = {};
};
struct DeviceUuid {
  unsigned char bytes[16] = {};
};
inline constexpr unsigned kIpcLazyPeerAccess = 1;  ///< CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

/// CUfunction_attribute.
enum class FunctionAttribute : unsigned {
  max_threads_per_block = 0,
  shared_size_bytes = 1,
  local_size_bytes = 3,
  num_regs = 4,
  max_dynamic_shared_size_bytes = 8,
};

/// CUlaunchAttributeID, CUlaunchMemSyncDomain, CUlaunchAttribute and CUlaunchConfig.
enum class LaunchAttributeId : unsigned { ignore = 0, priority = 8, mem_sync_domain = 10 };
enum class MemSyncDomain : unsigned { usual = 0, remote = 1 };
struct LaunchAttribute {
  LaunchAttributeId id = LaunchAttributeId::ignore;
  unsigned padding = 0;
  union {
    char bytes[64];
    int priority;
    MemSyncDomain domain;
    void* alignment;
  } value = {};
};
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  StreamHandle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

/// CUstream_flags, CUevent_flags, CUmemAttach_flags, and the flags of cuMemHostAlloc and cuMemHostRegister.
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;
inline constexpr unsigned kEventRecordExternal = 1;
inline constexpr unsigned kMemoryAttachGlobal = 1;
inline constexpr unsigned kMemoryAttachHost = 2;
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kHostDeviceMap = 2;

/// CUstreamCaptureStatus, CUstreamCaptureMode, CUstreamUpdateCaptureDependencies_flags.
enum class CaptureStatus : unsigned { none = 0, active = 1, invalidated = 2 };
enum class CaptureMode : unsigned { global = 0, thread_local_only = 1, relaxed = 2 };
inline constexpr unsigned kAddCaptureDependencies = 0;
inline constexpr unsigned kSetCaptureDependencies = 1;

/// CUuserObject_flags and CUuserObjectRetain_flags.
inline constexpr unsigned kUserObjectNoDestructorSync = 1;
inline constexpr unsigned kGraphUserObjectMove = 1;

/// CUstreamWaitValue_flags, CUstreamWriteValue_flags, CUstreamBatchMemOpType, CUstreamBatchMemOpParams.
inline constexpr unsigned kWaitValueGreaterOrEqual = 0;
inline constexpr unsigned kWaitValueEqual = 1;
inline constexpr unsigned kWaitValueAnd = 2;
inline constexpr unsigned kWaitValueNor = 3;
inline constexpr unsigned kWaitValueFlush = 1u << 30;
inline constexpr unsigned kWriteValueNoBarrier = 1;
enum class MemOpType : unsigned {
  wait_32 = 1,
  write_32 = 2,
  flush_remote_writes = 3,
  wait_64 = 4,
  write_64 = 5,
  barrier = 6
};
/// Waits and writes of values; other operations use `type` and leave the rest. `value` holds 32-bit values in its low half.
struct MemOpValue {
  MemOpType type;
  DevicePointer address;
  std::uint64_t value;
  unsigned flags;
  DevicePointer alias;
};
union MemOp {
  MemOpType type;
  MemOpValue value;
  std::uint64_t padding[6];
};

/// CUmemcpySrcAccessOrder and CUmemcpyAttributes, for batches of copies.
enum class CopySourceOrder : unsigned { invalid = 0, stream = 1, during_call = 2, any = 3 };
struct CopyAttributes {
  CopySourceOrder order = CopySourceOrder::invalid;
  MemoryLocation source;
  MemoryLocation destination;
  unsigned flags = 0;
};

/// CUflushGPUDirectRDMAWritesTarget and CUflushGPUDirectRDMAWritesScope.
enum class FlushTarget : unsigned { current_context = 0 };
enum class FlushScope : unsigned { to_owner = 100, to_all_devices = 200 };

}  // namespace tutti::cuda
