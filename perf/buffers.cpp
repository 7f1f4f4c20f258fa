#include "perf/buffers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tutti/tutti.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kGuard = 256;  // bytes that are looked at on either side
constexpr std::byte kKnown{0x5a};

void free_host(std::byte* memory) { std::free(memory); }
void free_registered(std::byte* memory) { static_cast<void>(tutti_memory_free(memory)); }

}  // namespace

GuardedBuffer GuardedBuffer::allocate(uint64_t bytes, MemoryKind kind) {
  GuardedBuffer buffer;
  if (bytes > SIZE_MAX - 4 * kPage) return buffer;
  const uint64_t total = (bytes + kPage - 1) / kPage * kPage + 2 * kPage;
  void* memory = nullptr;
  const bool had = kind == MemoryKind::registered ? tutti_memory_alloc(&memory, total) == TUTTI_SUCCESS
                                                  : posix_memalign(&memory, kPage, total) == 0;
  if (!had) return buffer;
  buffer.memory_ = {static_cast<std::byte*>(memory), kind == MemoryKind::registered ? free_registered : free_host};
  if (kind == MemoryKind::cuda) {
    if (tutti_memory_alloc_kind(&memory, total, TUTTI_MEMORY_CUDA, 0) != TUTTI_SUCCESS) return GuardedBuffer();
    buffer.twin_ = {static_cast<std::byte*>(memory), free_registered};
  }
  buffer.data_ = buffer.memory_.get() + kPage;
  buffer.bytes_ = bytes;
  buffer.guard(bytes);
  return buffer;
}

void GuardedBuffer::guard(uint64_t used) {
  used_ = std::min(used, bytes_);
  std::memset(data_ - kGuard, static_cast<int>(kKnown), kGuard);
  std::memset(data_ + used_, static_cast<int>(kKnown), kGuard);
}

std::string GuardedBuffer::copy_in(program::RankDevice& device) const {
  return device.copy_in(for_calls(data_) - kGuard, data_ - kGuard, used_ + 2 * kGuard);
}

std::string GuardedBuffer::copy_out(program::RankDevice& device) const {
  return device.copy_out(data_ - kGuard, for_calls(data_) - kGuard, used_ + 2 * kGuard);
}

uint64_t GuardedBuffer::trespasses() const {
  const auto touched = [](const std::byte* from) {
    return std::count_if(from, from + kGuard, [](std::byte b) { return b != kKnown; });
  };
  return static_cast<uint64_t>(touched(data_ - kGuard) + touched(data_ + used_));
}

}  // namespace tutti::perf
