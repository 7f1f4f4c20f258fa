#include "transports/near/local_address.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/random.h"
#include "src/base/unique_fd.h"

namespace tutti::near {

namespace {

Status unreadable(const char* file) {
  const int number = errno;
  return system_error(std::string("cannot read ") + file, number,
                      is_shortage(number) ? "" : "Mount /proc, or use the tcp transport");
}

}  // namespace

SocketAddress LocalAddress::socket() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "tutti-";
  for (const unsigned char byte : name) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return SocketAddress::abstract(text);
}

Result<LocalAddress> new_local_address(const Service& service, int rank) {
  LocalAddress address;
  address.service = service;
  const char* boot_file = "/proc/sys/kernel/random/boot_id";
  const UniqueFd boot(::open(boot_file, O_RDONLY | O_CLOEXEC));
  if (!boot || ::read(boot.get(), address.boot.data(), 36) != 36) return unreadable(boot_file);
  struct stat network{};
  if (::stat("/proc/thread-self/ns/net", &network) != 0) return unreadable("/proc/thread-self/ns/net");
  address.network_device = network.st_dev;
  address.network_inode = network.st_ino;
  random_bytes(address.name);
  address.rank = rank;
  address.pid = static_cast<std::uint32_t>(::getpid());
  return address;
}

Result<LocalAddress> parse_local_address(const Service& service, const void* bytes, std::size_t length) {
  LocalAddress address;
  if (bytes == nullptr || length != sizeof address) {
    return Status(TUTTI_INVALID_ARGUMENT, "a descriptor of " + std::to_string(length) +
                                              " bytes is not one of this transport's (" + std::to_string(sizeof address) +
                                              " bytes)");
  }
  std::memcpy(&address, bytes, sizeof address);
  if (address.service == service) return address;
  return Status(TUTTI_INVALID_ARGUMENT, "the descriptor is not one of this version of the transport");
}

std::string unreachable(const LocalAddress& here, const LocalAddress& there) {
  if (here.boot != there.boot) return "it runs on another machine";
  if (here.network_device != there.network_device || here.network_inode != there.network_inode) {
    return "it runs in another network namespace of this machine, where its socket cannot be reached";
  }
  return {};
}

}  // namespace tutti::near
