// Versions, sizes, names, and memory that peers may map.
#include <sys/mman.h>
#include <unistd.h>

#include <map>

#include "src/api/handles.h"
#include "src/base/types.h"

namespace tutti {
namespace {

/// What tutti_memory_alloc gave out: the file behind each range, for transports that register it.
class Shareable {
 public:
  static Shareable& instance() {
    static Shareable* const self = new Shareable;  // never destroyed: memory may be freed while the process exits
    return *self;
  }
  Result<void*> allocate(std::size_t bytes) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t size = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
    Descriptor file(memfd_create("tutti", MFD_CLOEXEC));
    if (!file) return system_error("memory that peers can map could not be made", errno, "See tutti-doctor.");
    if (ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
      return system_error("memory of " + std::to_string(bytes) + " bytes could not be had", errno, "Free memory.");
    }
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (data == MAP_FAILED) {
      return system_error("memory of " + std::to_string(bytes) + " bytes could not be mapped", errno, "Free memory.");
    }
    const std::lock_guard lock(mutex_);
    ranges_.emplace(data, Range{Mapping(data, size), std::move(file)});
    return data;
  }
  Status free(void* data) {
    const std::lock_guard lock(mutex_);
    if (data == nullptr || ranges_.erase(data) != 0) return {};
    return invalid("tutti_memory_free was given an address that tutti_memory_alloc did not give");
  }

 private:
  struct Range {
    Mapping mapping;
    Descriptor file;
  };
  std::mutex mutex_;
  std::map<void*, Range> ranges_;
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
