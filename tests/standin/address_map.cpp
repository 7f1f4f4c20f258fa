#include "tests/standin/address_map.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tests/standin/pool.h"

namespace standin {
namespace {

/// Whether a context may use this range: its own device's, all devices', or a peer's that it has been let into.
bool lets(const Range& range, const Context& context, Use use) {
  const int device = context.device->ordinal;
  const bool write = use == Use::write || use == Use::copy_to;
  const bool copy = use == Use::copy_from || use == Use::copy_to;
  switch (range.kind) {
    case RangeKind::managed:
    case RangeKind::pinned:
    case RangeKind::registered:
      return true;
    case RangeKind::mapped: {
      const auto access = range.access.find(device);
      if (access == range.access.end() || access->second == AccessFlags::none) return false;
      return !write || access->second == AccessFlags::read_write;
    }
    case RangeKind::async:
      return range.device == device && !range.freed;  // a pool's memory is its device's alone
    default:
      return copy || range.device == device || context.peers.contains(range.device);
  }
}

}  // namespace

Physical::~Physical() {
  ::close(descriptor);
  if (device != nullptr) device->used_bytes -= bytes;
}

AddressMap& address_map() {
  static AddressMap& only = *new AddressMap;
  return only;
}

std::shared_ptr<Range> AddressMap::find(std::uintptr_t address) const {
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return nullptr;
  const auto& range = std::prev(next)->second;
  return address - range->base < range->bytes ? range : nullptr;
}

void AddressMap::add(std::shared_ptr<Range> range) {
  range->id = state().next_id++;
  const std::uintptr_t base = range->base;
  ranges_[base] = std::move(range);
}

void AddressMap::remove(std::uintptr_t base) { ranges_.erase(base); }

bool AddressMap::overlaps(std::uintptr_t address, std::size_t bytes) const {
  return find(address) != nullptr || !within(address, bytes).empty();
}

std::vector<std::shared_ptr<Range>> AddressMap::within(std::uintptr_t address, std::size_t bytes) const {
  std::vector<std::shared_ptr<Range>> found;
  for (auto next = ranges_.lower_bound(address); next != ranges_.end() && next->first - address < bytes; ++next) {
    found.push_back(next->second);
  }
  return found;
}

void AddressMap::drop(const Context& context) {
  std::vector<std::shared_ptr<Range>> doomed;
  for (const auto& [base, range] : ranges_) {
    if (range->context.get() == &context && range->kind != RangeKind::mapped) doomed.push_back(range);
  }
  for (const auto& range : doomed) free_range(range);
}

void free_range(const std::shared_ptr<Range>& range) {
  Device& device = *state().devices[static_cast<std::size_t>(range->device)];
  if (range->kind == RangeKind::device || range->kind == RangeKind::async) device.used_bytes -= range->bytes;
  address_map().remove(range->base);
  if (range->kind == RangeKind::registered) return;
  const bool own_file = range->kind != RangeKind::imported;
  // An importer's next access then faults (SIGBUS), as a GPU's does on memory that its owner has freed.
  if (range->descriptor >= 0 && own_file && ::ftruncate(range->descriptor, 0) != 0) ::abort();
  if (pool().contains(range->base)) {
    pool().give_back(range->base, range->bytes);
  } else {
    ::munmap(reinterpret_cast<void*>(range->base), round_up(range->bytes, kPage));
  }
  if (range->descriptor >= 0) ::close(range->descriptor);
}

DriverResult may_access(const Context& context, std::uintptr_t address, std::size_t bytes, Use use) {
  const bool copy = use == Use::copy_from || use == Use::copy_to;
  for (std::size_t done = 0; done < bytes;) {
    const auto range = address_map().find(address + done);
    if (range == nullptr) {
      const bool host = copy && !pool().contains(address + done);
      return host ? DriverResult::success : DriverResult::illegal_address;
    }
    if (!lets(*range, context, use)) return DriverResult::illegal_address;
    done = range->base + range->bytes - address;
  }
  return DriverResult::success;
}

}  // namespace standin
