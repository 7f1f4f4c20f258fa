// Names and texts of CUresult.
#include <algorithm>
#include <array>

#include "tests/standin/entry.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

struct ResultText {
  DriverResult result;
  const char* name;
  const char* text;
};

constexpr std::array kTexts = {
    ResultText{DriverResult::success, "CUDA_SUCCESS", "no error"},
    ResultText{DriverResult::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    ResultText{DriverResult::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    ResultText{DriverResult::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    ResultText{DriverResult::deinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    ResultText{DriverResult::no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    ResultText{DriverResult::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    ResultText{DriverResult::invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    ResultText{DriverResult::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    ResultText{DriverResult::map_failed, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    ResultText{DriverResult::already_mapped, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
    ResultText{DriverResult::no_binary_for_gpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
               "no kernel image is available for execution on the device"},
    ResultText{DriverResult::ecc_uncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    ResultText{DriverResult::peer_access_unsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
               "peer access is not supported between these two devices"},
    ResultText{DriverResult::nvlink_uncorrectable, "CUDA_ERROR_NVLINK_UNCORRECTABLE",
               "uncorrectable NVLink error detected during the execution"},
    ResultText{DriverResult::operating_system, "CUDA_ERROR_OPERATING_SYSTEM",
               "OS call failed or operation not supported on this OS"},
    ResultText{DriverResult::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    ResultText{DriverResult::illegal_state, "CUDA_ERROR_ILLEGAL_STATE",
               "the operation cannot be performed in the present state"},
    ResultText{DriverResult::not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    ResultText{DriverResult::not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    ResultText{DriverResult::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    ResultText{DriverResult::launch_out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
               "too many resources requested for launch"},
    ResultText{DriverResult::launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    ResultText{DriverResult::peer_access_already_enabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
               "peer access is already enabled"},
    ResultText{DriverResult::peer_access_not_enabled, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
               "peer access has not been enabled"},
    ResultText{DriverResult::primary_context_active, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
               "cannot set while device is active in this process"},
    ResultText{DriverResult::context_is_destroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    ResultText{DriverResult::device_assert, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    ResultText{DriverResult::host_memory_already_registered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
               "part or all of the requested memory range is already mapped"},
    ResultText{DriverResult::host_memory_not_registered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
               "pointer does not correspond to a registered memory region"},
    ResultText{DriverResult::illegal_instruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
               "an illegal instruction was encountered"},
    ResultText{DriverResult::misaligned_address, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    ResultText{DriverResult::launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    ResultText{DriverResult::not_permitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    ResultText{DriverResult::not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    ResultText{DriverResult::capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
               "operation not permitted when stream is capturing"},
    ResultText{DriverResult::capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
               "operation failed due to a previous error during capture"},
    ResultText{DriverResult::capture_merge, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
               "operation would result in a merge of separate capture sequences"},
    ResultText{DriverResult::capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
               "capture was not ended in the same stream as it began"},
    ResultText{DriverResult::capture_unjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    ResultText{DriverResult::capture_isolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
               "dependency created on uncaptured work in another stream"},
    ResultText{DriverResult::capture_implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
               "operation would make the legacy stream depend on a capturing blocking stream"},
    ResultText{DriverResult::captured_event, "CUDA_ERROR_CAPTURED_EVENT",
               "operation not permitted on an event last recorded in a capturing stream"},
    ResultText{DriverResult::capture_wrong_thread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
               "attempt to terminate a thread-local capture sequence from another thread"},
    ResultText{DriverResult::unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

/// Without the lock, which is not to be had in a forked child; these two are legal there.
DriverResult describe(const char* entry, DriverResult result, const char** out, const char* ResultText::* member) {
  // Relaxed: see State::forked.
  if (!state().forked.load(std::memory_order_relaxed)) {
    if (const DriverResult injected = begin_call(entry); injected != DriverResult::success) return injected;
  }
  const auto found =
      std::find_if(kTexts.begin(), kTexts.end(), [&](const ResultText& each) { return each.result == result; });
  if (out == nullptr) return DriverResult::invalid_value;
  *out = found == kTexts.end() ? nullptr : (*found).*member;
  return found == kTexts.end() ? DriverResult::invalid_value : DriverResult::success;
}

}  // namespace

DriverResult cuGetErrorName(DriverResult result, const char** name) {
  return describe(__func__, result, name, &ResultText::name);
}

DriverResult cuGetErrorString(DriverResult result, const char** text) {
  return describe(__func__, result, text, &ResultText::text);
}
