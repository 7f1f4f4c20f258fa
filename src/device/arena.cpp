#include "src/device/arena.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "src/base/made_once.h"

namespace tutti {
namespace {

constexpr std::size_t least_block = 256;
constexpr std::size_t step = std::size_t{64} << 10;

constexpr std::size_t multiple_of(std::size_t unit, std::size_t bytes) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

DeviceBlock& DeviceBlock::operator=(DeviceBlock&& other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBlock::~DeviceBlock() {
  if (arena_ != nullptr) arena_->give_back(address_, bytes_);
}

void DeviceBlock::keep_for_good() && {
  static constinit std::mutex mutex;
  static constinit MadeOnce<std::vector<DeviceBlock>> kept;
  const std::lock_guard lock(mutex);
  kept.get().push_back(std::move(*this));
}

/// Few sizes, so that what is given back serves again.
std::size_t DeviceArena::rounded(std::size_t bytes) {
  if (bytes >= large_block) return multiple_of(large_block, bytes);
  return bytes > step ? multiple_of(step, bytes) : std::max(least_block, std::bit_ceil(bytes));
}

Result<DeviceBlock> DeviceArena::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  Blocks& known = blocks_[size];
  if (known.free.empty()) {
    known.free.reserve(known.made + 1);  // for its return, which may not fail
    if (rest_.bytes < size) {
      if (Status status = grow(size); !status.ok()) return status;
    }
    ++known.made;
    return DeviceBlock(shared_from_this(), rest_.cut(size), size);
  }
  const cuda::DevicePointer address = known.free.back();
  known.free.pop_back();
  return DeviceBlock(shared_from_this(), address, size);
}

Result<cuda::DevicePointer> DeviceArena::allocate_zeros(std::size_t bytes, const SetUpLimit& limit) {
  const std::size_t size = multiple_of(least_block, bytes);
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      const auto fits = std::find_if(zeros_.begin(), zeros_.end(), [size](const Rest& each) { return each.bytes >= size; });
      if (fits != zeros_.end()) return fits->cut(size);
    }
    if (Status status = add_zeros(size, limit); !status.ok()) return status;
  }
}

cuda::DevicePointer DeviceArena::Rest::cut(std::size_t wanted) {
  const cuda::DevicePointer address = next;
  next += wanted;
  bytes -= wanted;
  return address;
}

Result<cuda::MappedMemory> DeviceArena::map(std::size_t bytes) {
  const auto scope = DeviceScope::enter(*runtime_);
  if (!scope.ok()) return scope.status();
  const cuda::Context& context = runtime_->context();
  const auto granule = cuda::PhysicalMemory::granularity(context);
  if (!granule.ok()) return granule.status();
  const auto memory = cuda::PhysicalMemory::create(context, multiple_of(std::max(*granule, large_block), bytes));
  if (!memory.ok()) return memory.status();
  auto mapped = cuda::MappedMemory::map(*memory);
  if (!mapped.ok()) return mapped.status();
  for (const int device : others_) {
    if (Status status = mapped->allow(device); !status.ok()) return status;
  }
  mapped_bytes_.fetch_add(mapped->bytes(), std::memory_order_relaxed);  // relaxed: see mapped_bytes
  return mapped;
}

/// With the lock.
Status DeviceArena::grow(std::size_t bytes) {
  auto mapped = map(bytes);
  if (!mapped.ok()) return mapped.status();
  rest_ = {mapped->address(), mapped->bytes()};
  chunks_.push_back(std::move(*mapped));
  return {};
}

/// Without the lock: the device may be busy with a launch that waits for a rank which is about to allocate.
Status DeviceArena::add_zeros(std::size_t bytes, const SetUpLimit& limit) {
  auto mapped = map(bytes);
  if (!mapped.ok()) return mapped.status();
  const Rest fresh{mapped->address(), mapped->bytes()};
  {
    const std::lock_guard lock(mutex_);
    chunks_.push_back(std::move(*mapped));
  }
  const DeviceWrite zeros[] = {{fresh.next, nullptr, fresh.bytes}};
  if (Status status = runtime_->write(zeros, limit); !status.ok()) {
    {
      const std::lock_guard lock(mutex_);
      Blocks& known = blocks_[fresh.bytes];  // it may come back as one of them
      known.free.reserve(++known.made);
    }
    DeviceBlock(shared_from_this(), fresh.next, fresh.bytes).keep_for_good();
    return status;
  }
  const std::lock_guard lock(mutex_);
  zeros_.push_back(fresh);
  return {};
}

void DeviceArena::give_back(cuda::DevicePointer address, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  // It was made with the block, and has room for it.
  blocks_.find(bytes)->second.free.push_back(address);
}

}  // namespace tutti
