#include "transports/shm/machine.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/unique_fd.h"

namespace tutti::shm {

namespace {

Status unreadable(const char* file) {
  const int number = errno;
  return system_error(std::string("cannot read ") + file, number,
                      is_shortage(number) ? "" : "Mount /proc, or use the tcp transport");
}

}  // namespace

Result<EndpointAddress> machine_identity() {
  EndpointAddress address;
  const char* boot_file = "/proc/sys/kernel/random/boot_id";
  const UniqueFd boot(::open(boot_file, O_RDONLY | O_CLOEXEC));
  if (!boot || ::read(boot.get(), address.boot.data(), 36) != 36) {
    return unreadable(boot_file);
  }
  struct stat network{};
  if (::stat("/proc/self/ns/net", &network) != 0) {
    return unreadable("/proc/self/ns/net");
  }
  address.network_device = network.st_dev;
  address.network_inode = network.st_ino;
  address.pid = static_cast<std::uint32_t>(::getpid());
  return address;
}

Result<EndpointAddress> parse_address(const void* descriptor, std::size_t length) {
  EndpointAddress address;
  const EndpointAddress ours;
  if (descriptor == nullptr || length != sizeof address) {
    return Status(TUTTI_INVALID_ARGUMENT, "a descriptor of " + std::to_string(length) + " bytes is not one of shm's (" +
                                              std::to_string(sizeof address) + " bytes)");
  }
  std::memcpy(&address, descriptor, sizeof address);
  if (address.magic != ours.magic)
    return Status(TUTTI_INVALID_ARGUMENT, "the descriptor is not one of this version of shm");
  return address;
}

std::string unreachable(const EndpointAddress& here, const EndpointAddress& there) {
  if (here.boot != there.boot) return "it runs on another machine";
  if (here.network_device != there.network_device || here.network_inode != there.network_inode) {
    return "it runs in another network namespace of this machine, where its socket cannot be reached";
  }
  return {};
}

}  // namespace tutti::shm
