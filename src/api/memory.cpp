// Versions, sizes, names, and memory.
#include <cstdint>
#include <memory>
#include <string>

#include "src/api/handles.h"
#include "src/device/device_allocations.h"
#include "src/links/registered_memory.h"
#include "src/tables/element_types.h"

int tutti_version(void) { return TUTTI_VERSION; }

size_t tutti_type_size(tutti_type type) { return tutti::element_bytes(type); }

const char* tutti_status_string(tutti_status status) {
  switch (status) {
    case TUTTI_SUCCESS:
      return "success";
    case TUTTI_UNHANDLED_CUDA_ERROR:
      return "unhandled CUDA error";
    case TUTTI_SYSTEM_ERROR:
      return "system error";
    case TUTTI_INTERNAL_ERROR:
      return "internal error";
    case TUTTI_INVALID_ARGUMENT:
      return "invalid argument";
    case TUTTI_INVALID_USAGE:
      return "invalid usage";
    case TUTTI_REMOTE_ERROR:
      return "remote error";
    case TUTTI_IN_PROGRESS:
      return "in progress";
    case TUTTI_TIMEOUT:
      return "timeout";
    case TUTTI_MISMATCH:
      return "mismatch";
    case TUTTI_ABORTED:
      return "aborted";
    case TUTTI_UNSUPPORTED:
      return "unsupported";
  }
  return "unknown status";
}

tutti_status tutti_memory_alloc(void** ptr, size_t bytes) {
  return tutti::guarded([&] {
    if (ptr == nullptr) return tutti::invalid("tutti_memory_alloc needs a place for the address");
    *ptr = nullptr;
    auto memory = tutti::RegisteredMemory::instance().allocate(bytes);
    if (!memory.ok()) return memory.status();
    *ptr = *memory;
    return tutti::Status();
  });
}

tutti_status tutti_memory_alloc_kind(void** ptr, size_t bytes, tutti_memory_kind kind, int32_t device) {
  if (kind == TUTTI_MEMORY_HOST) return tutti_memory_alloc(ptr, bytes);
  return tutti::guarded([&]() -> tutti::Status {
    if (ptr == nullptr) return tutti::invalid("tutti_memory_alloc_kind needs a place for the address");
    *ptr = nullptr;
    if (kind != TUTTI_MEMORY_CUDA && kind != TUTTI_MEMORY_MANAGED) {
      return tutti::invalid("tutti_memory_alloc_kind cannot give memory of kind " + std::to_string(static_cast<int>(kind)),
                            "Name TUTTI_MEMORY_HOST, _CUDA or _MANAGED.");
    }
    if (device < 0) return tutti::invalid("a device's number is below 0", "Pass it plus 1, or 0 for the current one.");
    auto memory = tutti::DeviceAllocations::instance().allocate(bytes, kind, device - 1);
    if (!memory.ok()) return memory.status();
    *ptr = *memory;
    return {};
  });
}

tutti_status tutti_memory_register(tutti_comm* comm, void* memory, uint64_t bytes, tutti_registration** registration) {
  return tutti::guarded([&]() -> tutti::Status {
    if (registration == nullptr) return tutti::invalid("tutti_memory_register needs a place for the registration");
    *registration = nullptr;
    if (memory == nullptr || bytes == 0 || bytes > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(memory)) {
      return tutti::invalid("tutti_memory_register was given " + std::to_string(bytes) + " bytes at " +
                                (memory == nullptr ? "NULL"
                                 : bytes == 0      ? "an address, so nothing"
                                                   : "an address behind which there are fewer"),
                            "Pass memory that operations will use.");
    }
    const auto communicator = tutti::usable(comm);
    if (!communicator.ok()) return communicator.status();
    if (tutti::Status legal = (*communicator)->legal(); !legal.ok()) return legal;
    auto made = std::make_unique<tutti_registration>();
    // Devices reach their memory anyway.
    const bool on_device = !(*communicator)->refuse_device_memory(memory, "tutti_memory_register").ok();
    if (!on_device) made->id = tutti::RegisteredMemory::instance().add(static_cast<std::byte*>(memory), bytes);
    *registration = made.release();
    return {};
  });
}

tutti_status tutti_memory_unregister(tutti_registration* registration) {
  return tutti::guarded([&]() -> tutti::Status {
    const std::unique_ptr<tutti_registration> given(registration);
    if (given != nullptr) tutti::RegisteredMemory::instance().withdraw(given->id);
    return {};
  });
}

tutti_status tutti_memory_free(void* ptr) {
  return tutti::guarded([&]() -> tutti::Status {
    // Host memory first: that lock is free in a forked child.
    const tutti::Status host = tutti::RegisteredMemory::instance().free(ptr);
    if (host.code() != TUTTI_INVALID_ARGUMENT) return host;
    return tutti::DeviceAllocations::instance().free(ptr) ? tutti::Status() : host;
  });
}
