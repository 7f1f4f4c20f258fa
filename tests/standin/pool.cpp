#include "tests/standin/pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace standin {
namespace {

constexpr std::size_t kFilled = std::size_t{64} << 10;
constexpr unsigned char kGarbage = 0xA5;  // as a float, and as an index, a value that no test expects

void* pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Pool& pool() {
  static Pool& only = *new Pool;
  return only;
}

bool Pool::reserve() {
  void* const base = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return false;
  base_ = reinterpret_cast<std::uintptr_t>(base);
  next_ = base_;
  key_ = ::pkey_alloc(0, PKEY_DISABLE_ACCESS);
  return true;
}

/// Next fit: an address that was freed is not used again soon, so that a use after free faults.
std::uintptr_t Pool::take(std::size_t bytes, std::size_t alignment) {
  const std::size_t room = round_up(bytes, kPage) + kPage;  // a page behind that stays unmapped
  for (const std::uintptr_t from : {next_, base_}) {
    std::uintptr_t at = round_up(from, alignment);
    for (auto next = taken_.lower_bound(from); next != taken_.end() && at + room > next->first; ++next) {
      at = round_up(next->first + next->second, alignment);
    }
    if (at + room > base_ + kBytes) continue;
    taken_[at] = room;
    next_ = at + room;
    return at;
  }
  return 0;
}

void Pool::give_back(std::uintptr_t address, std::size_t bytes) {
  unmap(address, bytes);
  taken_.erase(address);
}

bool Pool::map(std::uintptr_t address, std::size_t bytes, int descriptor, std::size_t offset, int protection) {
  void* const at = ::mmap(pointer(address), round_up(bytes, kPage), protection, MAP_SHARED | MAP_FIXED, descriptor,
                          static_cast<off_t>(offset));
  if (at == MAP_FAILED) return false;
  ::madvise(at, round_up(bytes, kPage), MADV_DONTFORK);  // a child has no device memory
  return protect(address, bytes, protection);
}

void Pool::unmap(std::uintptr_t address, std::size_t bytes) {
  ::mmap(pointer(address), round_up(bytes, kPage), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
}

bool Pool::protect(std::uintptr_t address, std::size_t bytes, int protection) {
  const std::size_t pages = round_up(bytes, kPage);
  if (key_ < 0) return ::mprotect(pointer(address), pages, protection) == 0;
  return ::pkey_mprotect(pointer(address), pages, protection, key_) == 0;
}

void Pool::let_this_thread_in(bool in) const {
  if (key_ >= 0) ::pkey_set(key_, in ? 0 : PKEY_DISABLE_ACCESS);
}

int make_memory_file(std::size_t bytes) {
  const int file = ::memfd_create("standin-device-memory", MFD_CLOEXEC);
  if (file < 0) return -1;
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    ::close(file);
    return -1;
  }
  const std::vector<unsigned char> garbage(std::min(bytes, kFilled), kGarbage);
  const off_t last = static_cast<off_t>(bytes - garbage.size());
  for (const off_t at : {off_t{0}, last}) {
    if (::pwrite(file, garbage.data(), garbage.size(), at) < 0) continue;  // zeros do, too
  }
  return file;
}

}  // namespace standin
