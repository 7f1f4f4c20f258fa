// The entry points of libcuda.so.1 that we use, by their versioned names. Such a symbol has one signature for good, so a
// newer driver cannot change it under us. All but the optional ones are exported by R525 (API 12.0) and later.
#pragma once

#include "src/cuda/driver_types.h"

/// Calls MANDATORY(symbol, types of its parameters…) or OPTIONAL(…) for each entry point. The symbol is the one that R525
/// exports, which need not be the newest that cuda.h's macros lead to.
#define TUTTI_CUDA_ENTRIES(MANDATORY, OPTIONAL)                                                                          \
  MANDATORY(cuInit, unsigned)                                                                                            \
  MANDATORY(cuDriverGetVersion, int*)                                                                                    \
  MANDATORY(cuGetErrorName, DriverResult, const char**)                                                                  \
  MANDATORY(cuGetErrorString, DriverResult, const char**)                                                                \
  MANDATORY(cuDeviceGet, DeviceOrdinal*, int)                                                                            \
  MANDATORY(cuDeviceGetCount, int*)                                                                                      \
  MANDATORY(cuDeviceGetName, char*, int, DeviceOrdinal)                                                                  \
  MANDATORY(cuDeviceGetUuid_v2, DeviceUuid*, DeviceOrdinal)                                                              \
  MANDATORY(cuDeviceGetAttribute, int*, DeviceAttribute, DeviceOrdinal)                                                  \
  MANDATORY(cuDeviceTotalMem_v2, std::size_t*, DeviceOrdinal)                                                            \
  MANDATORY(cuDeviceGetPCIBusId, char*, int, DeviceOrdinal)                                                              \
  MANDATORY(cuDeviceGetByPCIBusId, DeviceOrdinal*, const char*)                                                          \
  MANDATORY(cuDeviceCanAccessPeer, int*, DeviceOrdinal, DeviceOrdinal)                                                   \
  MANDATORY(cuDeviceGetP2PAttribute, int*, PeerAttribute, DeviceOrdinal, DeviceOrdinal)                                  \
  MANDATORY(cuDevicePrimaryCtxRetain, ContextHandle*, DeviceOrdinal)                                                     \
  MANDATORY(cuDevicePrimaryCtxRelease_v2, DeviceOrdinal)                                                                 \
  MANDATORY(cuDevicePrimaryCtxGetState, DeviceOrdinal, unsigned*, int*)                                                  \
  MANDATORY(cuDevicePrimaryCtxReset_v2, DeviceOrdinal)                                                                   \
  MANDATORY(cuCtxCreate_v2, ContextHandle*, unsigned, DeviceOrdinal)                                                     \
  MANDATORY(cuCtxDestroy_v2, ContextHandle)                                                                              \
  MANDATORY(cuCtxPushCurrent_v2, ContextHandle)                                                                          \
  MANDATORY(cuCtxPopCurrent_v2, ContextHandle*)                                                                          \
  MANDATORY(cuCtxGetCurrent, ContextHandle*)                                                                             \
  MANDATORY(cuCtxSetCurrent, ContextHandle)                                                                              \
  MANDATORY(cuCtxGetDevice, DeviceOrdinal*)                                                                              \
  MANDATORY(cuCtxGetId, ContextHandle, unsigned long long*)                                                              \
  MANDATORY(cuCtxSynchronize)                                                                                            \
  MANDATORY(cuCtxEnablePeerAccess, ContextHandle, unsigned)                                                              \
  MANDATORY(cuMemAlloc_v2, DevicePointer*, std::size_t)                                                                  \
  MANDATORY(cuMemFree_v2, DevicePointer)                                                                                 \
  MANDATORY(cuMemAllocAsync, DevicePointer*, std::size_t, StreamHandle)                                                  \
  MANDATORY(cuMemFreeAsync, DevicePointer, StreamHandle)                                                                 \
  MANDATORY(cuMemAllocManaged, DevicePointer*, std::size_t, unsigned)                                                    \
  MANDATORY(cuMemHostAlloc, void**, std::size_t, unsigned)                                                               \
  MANDATORY(cuMemFreeHost, void*)                                                                                        \
  MANDATORY(cuMemHostRegister_v2, void*, std::size_t, unsigned)                                                          \
  MANDATORY(cuMemHostUnregister, void*)                                                                                  \
  MANDATORY(cuMemHostGetDevicePointer_v2, DevicePointer*, void*, unsigned)                                               \
  MANDATORY(cuMemGetAddressRange_v2, DevicePointer*, std::size_t*, DevicePointer)                                        \
  MANDATORY(cuMemGetInfo_v2, std::size_t*, std::size_t*)                                                                 \
  MANDATORY(cuPointerGetAttribute, void*, PointerAttribute, DevicePointer)                                               \
  MANDATORY(cuPointerGetAttributes, unsigned, PointerAttribute*, void**, DevicePointer)                                  \
  MANDATORY(cuPointerSetAttribute, const void*, PointerAttribute, DevicePointer)                                         \
  MANDATORY(cuMemcpyAsync, DevicePointer, DevicePointer, std::size_t, StreamHandle)                                      \
  MANDATORY(cuMemcpyHtoDAsync_v2, DevicePointer, const void*, std::size_t, StreamHandle)                                 \
  MANDATORY(cuMemcpyDtoHAsync_v2, void*, DevicePointer, std::size_t, StreamHandle)                                       \
  MANDATORY(cuMemcpyDtoDAsync_v2, DevicePointer, DevicePointer, std::size_t, StreamHandle)                               \
  MANDATORY(cuMemcpyPeerAsync, DevicePointer, ContextHandle, DevicePointer, ContextHandle, std::size_t, StreamHandle)    \
  MANDATORY(cuMemsetD8Async, DevicePointer, unsigned char, std::size_t, StreamHandle)                                    \
  MANDATORY(cuMemsetD32Async, DevicePointer, unsigned, std::size_t, StreamHandle)                                        \
  MANDATORY(cuMemGetAllocationGranularity, std::size_t*, const AllocationProperties*, Granularity)                       \
  MANDATORY(cuMemCreate, AllocationHandle*, std::size_t, const AllocationProperties*, unsigned long long)                \
  MANDATORY(cuMemRelease, AllocationHandle)                                                                              \
  MANDATORY(cuMemAddressReserve, DevicePointer*, std::size_t, std::size_t, DevicePointer, unsigned long long)            \
  MANDATORY(cuMemAddressFree, DevicePointer, std::size_t)                                                                \
  MANDATORY(cuMemMap, DevicePointer, std::size_t, std::size_t, AllocationHandle, unsigned long long)                     \
  MANDATORY(cuMemUnmap, DevicePointer, std::size_t)                                                                      \
  MANDATORY(cuMemSetAccess, DevicePointer, std::size_t, const AccessDescription*, std::size_t)                           \
  MANDATORY(cuMemGetAccess, unsigned long long*, const MemoryLocation*, DevicePointer)                                   \
  MANDATORY(cuMemExportToShareableHandle, void*, AllocationHandle, ShareableType, unsigned long long)                    \
  MANDATORY(cuMemImportFromShareableHandle, AllocationHandle*, void*, ShareableType)                                     \
  MANDATORY(cuMemRetainAllocationHandle, AllocationHandle*, void*)                                                       \
  MANDATORY(cuMemGetAllocationPropertiesFromHandle, AllocationProperties*, AllocationHandle)                             \
  MANDATORY(cuMemGetHandleForAddressRange, void*, DevicePointer, std::size_t, RangeHandleType, unsigned long long)       \
  MANDATORY(cuIpcGetMemHandle, IpcMemoryHandle*, DevicePointer)                                                          \
  MANDATORY(cuIpcOpenMemHandle_v2, DevicePointer*, IpcMemoryHandle, unsigned)                                            \
  MANDATORY(cuIpcCloseMemHandle, DevicePointer)                                                                          \
  MANDATORY(cuStreamCreateWithPriority, StreamHandle*, unsigned, int)                                                    \
  MANDATORY(cuStreamDestroy_v2, StreamHandle)                                                                            \
  MANDATORY(cuStreamQuery, StreamHandle)                                                                                 \
  MANDATORY(cuStreamSynchronize, StreamHandle)                                                                           \
  MANDATORY(cuStreamWaitEvent, StreamHandle, EventHandle, unsigned)                                                      \
  MANDATORY(cuStreamGetCtx, StreamHandle, ContextHandle*)                                                                \
  MANDATORY(cuStreamGetId, StreamHandle, unsigned long long*)                                                            \
  MANDATORY(cuStreamGetCaptureInfo_v2, StreamHandle, CaptureStatus*, std::uint64_t*, GraphHandle*,                       \
            const GraphNodeHandle**, std::size_t*)                                                                       \
  MANDATORY(cuStreamBeginCapture_v2, StreamHandle, CaptureMode)                                                          \
  MANDATORY(cuStreamEndCapture, StreamHandle, GraphHandle*)                                                              \
  MANDATORY(cuStreamUpdateCaptureDependencies, StreamHandle, GraphNodeHandle*, std::size_t, unsigned)                    \
  MANDATORY(cuStreamWaitValue32_v2, StreamHandle, DevicePointer, std::uint32_t, unsigned)                                \
  MANDATORY(cuStreamWaitValue64_v2, StreamHandle, DevicePointer, std::uint64_t, unsigned)                                \
  MANDATORY(cuStreamWriteValue32_v2, StreamHandle, DevicePointer, std::uint32_t, unsigned)                               \
  MANDATORY(cuStreamWriteValue64_v2, StreamHandle, DevicePointer, std::uint64_t, unsigned)                               \
  MANDATORY(cuStreamBatchMemOp_v2, StreamHandle, unsigned, MemOp*, unsigned)                                             \
  MANDATORY(cuThreadExchangeStreamCaptureMode, CaptureMode*)                                                             \
  MANDATORY(cuEventCreate, EventHandle*, unsigned)                                                                       \
  MANDATORY(cuEventDestroy_v2, EventHandle)                                                                              \
  MANDATORY(cuEventRecord, EventHandle, StreamHandle)                                                                    \
  MANDATORY(cuEventRecordWithFlags, EventHandle, StreamHandle, unsigned)                                                 \
  MANDATORY(cuEventQuery, EventHandle)                                                                                   \
  MANDATORY(cuEventSynchronize, EventHandle)                                                                             \
  MANDATORY(cuEventElapsedTime, float*, EventHandle, EventHandle)                                                        \
  MANDATORY(cuLaunchHostFunc, StreamHandle, HostFunction, void*)                                                         \
  MANDATORY(cuGraphInstantiateWithFlags, GraphExecHandle*, GraphHandle, unsigned long long)                              \
  MANDATORY(cuGraphLaunch, GraphExecHandle, StreamHandle)                                                                \
  MANDATORY(cuGraphDestroy, GraphHandle)                                                                                 \
  MANDATORY(cuGraphExecDestroy, GraphExecHandle)                                                                         \
  MANDATORY(cuGraphRetainUserObject, GraphHandle, UserObjectHandle, unsigned, unsigned)                                  \
  MANDATORY(cuUserObjectCreate, UserObjectHandle*, void*, HostFunction, unsigned, unsigned)                              \
  MANDATORY(cuUserObjectRelease, UserObjectHandle, unsigned)                                                             \
  MANDATORY(cuLibraryLoadData, LibraryHandle*, const void*, unsigned*, void**, unsigned, unsigned*, void**, unsigned)    \
  MANDATORY(cuLibraryUnload, LibraryHandle)                                                                              \
  MANDATORY(cuLibraryGetKernel, KernelHandle*, LibraryHandle, const char*)                                               \
  MANDATORY(cuKernelGetFunction, FunctionHandle*, KernelHandle)                                                          \
  MANDATORY(cuFuncGetAttribute, int*, FunctionAttribute, FunctionHandle)                                                 \
  MANDATORY(cuFuncSetAttribute, FunctionHandle, FunctionAttribute, int)                                                  \
  MANDATORY(cuOccupancyMaxActiveBlocksPerMultiprocessor, int*, FunctionHandle, int, std::size_t)                         \
  MANDATORY(cuLaunchKernel, FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
            StreamHandle, void**, void**)                                                                                \
  MANDATORY(cuLaunchKernelEx, const LaunchConfig*, FunctionHandle, void**, void**)                                       \
  MANDATORY(cuFlushGPUDirectRDMAWrites, FlushTarget, FlushScope)                                                         \
  OPTIONAL(cuFuncLoad, FunctionHandle)                                                                                   \
  OPTIONAL(cuMemcpyBatchAsync, DevicePointer*, DevicePointer*, std::size_t*, std::size_t, CopyAttributes*, std::size_t*, \
           std::size_t, std::size_t*, StreamHandle)
