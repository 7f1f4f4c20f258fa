// Versions, sizes, names, and memory.
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "src/api/handles.h"
#include "src/base/descriptor.h"
#include "src/base/types.h"

namespace tutti {
namespace {

/// What tutti_memory_alloc gave out: pages that forked children share, and that nothing else knows of. Transports that
/// register memory with their peers will find the ranges here; until one does, it is memory like any other.
class Shareable {
 public:
  static Shareable& instance() {
    static Shareable* const self = new Shareable;  // never destroyed: memory may be freed while the process exits
    return *self;
  }
  Result<void*> allocate(std::size_t bytes) {
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      return system_error("memory of " + std::to_string(bytes) + " bytes could not be mapped", errno, "Free memory.");
    }
    Mapping mapping(data, size);
    const std::lock_guard lock(mutex_);
    ranges_.emplace(data, std::move(mapping));
    return data;
  }
  Status free(void* data) {
    const std::lock_guard lock(mutex_);
    if (data == nullptr || ranges_.erase(data) != 0) return {};
    return invalid("tutti_memory_free was given an address that tutti_memory_alloc did not give");
  }

 private:
  std::mutex mutex_;
  std::map<void*, Mapping> ranges_;
};

}  // namespace
}  // namespace tutti

int tutti_version(void) { return TUTTI_VERSION; }

size_t tutti_type_size(tutti_type type) { return tutti::element_bytes(type); }

const char* tutti_status_string(tutti_status status) {
  switch (status) {
    case TUTTI_SUCCESS: return "success";
    case TUTTI_UNHANDLED_CUDA_ERROR: return "unhandled CUDA error";
    case TUTTI_SYSTEM_ERROR: return "system error";
    case TUTTI_INTERNAL_ERROR: return "internal error";
    case TUTTI_INVALID_ARGUMENT: return "invalid argument";
    case TUTTI_INVALID_USAGE: return "invalid usage";
    case TUTTI_REMOTE_ERROR: return "remote error";
    case TUTTI_IN_PROGRESS: return "in progress";
    case TUTTI_TIMEOUT: return "timeout";
    case TUTTI_MISMATCH: return "mismatch";
    case TUTTI_ABORTED: return "aborted";
    case TUTTI_UNSUPPORTED: return "unsupported";
  }
  return "unknown status";
}

tutti_status tutti_memory_alloc(void** ptr, size_t bytes) {
  return tutti::guarded([&] {
    if (ptr == nullptr) return tutti::invalid("tutti_memory_alloc needs a place for the address");
    *ptr = nullptr;
    auto memory = tutti::Shareable::instance().allocate(bytes);
    if (!memory.ok()) return memory.status();
    *ptr = *memory;
    return tutti::Status();
  });
}

tutti_status tutti_memory_free(void* ptr) {
  return tutti::guarded([&] { return tutti::Shareable::instance().free(ptr); });
}
