// Versions, sizes, names, and memory.
#include "src/api/handles.h"
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

tutti_status tutti_memory_free(void* ptr) {
  return tutti::guarded([&] { return tutti::RegisteredMemory::instance().free(ptr); });
}
