// Legacy handles by which another process maps memory of cuMemAlloc.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/standin/address_map.h"
#include "tests/standin/capture.h"
#include "tests/standin/configuration.h"
#include "tests/standin/entry.h"
#include "tests/standin/pool.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

constexpr std::uint64_t kMagic = 0x6970632d6d656d31;
constexpr int kWatchMs = 20;

/// What a handle says: whose file, which of its descriptors, and how to know that it is still the same file.
struct Ticket {
  std::uint64_t magic;
  std::int32_t pid;
  std::int32_t descriptor;
  std::uint64_t inode;
  std::uint64_t bytes;
  std::int32_t device;
};
static_assert(sizeof(Ticket) <= sizeof(IpcMemoryHandle));

std::uint64_t inode_of(int descriptor) {
  struct stat about{};
  return ::fstat(descriptor, &about) == 0 ? about.st_ino : 0;
}

/// The owner's file; -1 where the owner or the memory is gone.
int open_file(const Ticket& ticket) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/fd/%d", ticket.pid, ticket.descriptor);
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  if (file < 0 || inode_of(file) == ticket.inode) return file;
  ::close(file);
  return -1;
}

/// Takes imported memory away when its owner dies, as the real driver does: what uses it then faults.
void watch_owner(int owner, const std::weak_ptr<Range>& imported) {
  pollfd waited{owner, POLLIN, 0};
  while (true) {
    const bool died = ::poll(&waited, 1, kWatchMs) > 0;
    const Lock lock(state().lock);
    const auto range = imported.lock();
    if (range == nullptr || died) {
      if (range != nullptr) pool().unmap(range->base, range->bytes);
      ::close(owner);
      return;
    }
  }
}

DriverResult map_import(const std::shared_ptr<Context>& context, const Ticket& ticket, int file, DevicePointer& out) {
  const std::uintptr_t base = pool().take(ticket.bytes, kPage);
  if (base == 0) return DriverResult::map_failed;
  if (!pool().map(base, ticket.bytes, file, 0, PROT_READ | PROT_WRITE)) {
    pool().give_back(base, ticket.bytes);
    return DriverResult::map_failed;
  }
  auto range = std::make_shared<Range>();
  range->base = base;
  range->bytes = ticket.bytes;
  range->kind = RangeKind::imported;
  range->device = ticket.device;
  range->context = context;
  range->descriptor = file;
  address_map().add(range);
  const int owner = static_cast<int>(::syscall(SYS_pidfd_open, ticket.pid, 0));
  if (owner >= 0) std::thread(watch_owner, owner, std::weak_ptr<Range>(range)).detach();
  out = base;
  return DriverResult::success;
}

}  // namespace

DriverResult cuIpcGetMemHandle(IpcMemoryHandle* out, DevicePointer address) {
  return enter(__func__, Needs::context, [&](Call&) {
    const auto range = address_map().find(address);
    if (out == nullptr || range == nullptr || range->kind != RangeKind::device) return DriverResult::invalid_value;
    const Ticket ticket{kMagic, ::getpid(), range->descriptor, inode_of(range->descriptor), range->bytes, range->device};
    *out = {};
    std::memcpy(out->reserved, &ticket, sizeof(ticket));
    return DriverResult::success;
  });
}

DriverResult cuIpcOpenMemHandle_v2(DevicePointer* out, IpcMemoryHandle handle, unsigned flags) {
  return enter(__func__, Needs::context, [&](Call& call) {
    if (out == nullptr || flags != kIpcLazyPeerAccess) return DriverResult::invalid_value;
    if (const DriverResult refused = refuse_unsafe(); refused != DriverResult::success) return refused;
    Ticket ticket{};
    std::memcpy(&ticket, handle.reserved, sizeof(ticket));
    if (ticket.magic != kMagic) return DriverResult::invalid_value;
    if (ticket.pid == ::getpid()) return DriverResult::invalid_context;  // a process cannot open its own
    const int own = call.context->device->ordinal;
    if (!linked(state().configuration, own, ticket.device)) return DriverResult::peer_access_unsupported;
    const int file = open_file(ticket);
    if (file < 0) return DriverResult::map_failed;
    // Lazily enabled peer access: what the flag stands for.
    if (own != ticket.device) call.context->peers.insert(ticket.device);
    const DriverResult result = map_import(call.context, ticket, file, *out);
    if (result != DriverResult::success) ::close(file);
    return result;
  });
}

DriverResult cuIpcCloseMemHandle(DevicePointer address) {
  return enter(__func__, Needs::context, [&](Call&) {
    const auto range = address_map().find(address);
    if (range == nullptr || range->kind != RangeKind::imported) return DriverResult::invalid_value;
    free_range(range);
    return DriverResult::success;
  });
}
