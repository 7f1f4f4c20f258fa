#include "transports/shm/socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::shm {
namespace {

struct Address {
  sockaddr_un text{};
  socklen_t length = 0;
};

// An abstract name begins with a zero byte; it has no file, and vanishes with its socket.
Address abstract_address(const SocketName& name) {
  static constexpr char kDigits[] = "0123456789abcdef";
  Address address;
  address.text.sun_family = AF_UNIX;
  std::string text = "tutti-shm-";
  for (const unsigned char byte : name) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  std::memcpy(address.text.sun_path + 1, text.data(), text.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

UniqueFd unix_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

// A queue of descriptors in flight that is full (ETOOMANYREFS) empties as the peer reads.
bool try_later(int number) {
  return number == EAGAIN || number == EWOULDBLOCK || number == EINTR || number == ETOOMANYREFS || number == ENOBUFS ||
         number == ENOMEM;
}

}  // namespace

Result<UniqueFd> listen_at(const SocketName& name) {
  UniqueFd fd = unix_socket();
  if (!fd) return system_error("cannot create a Unix socket", errno);
  const Address address = abstract_address(name);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.text), address.length) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    return system_error("cannot listen on an abstract Unix socket", errno);
  }
  return fd;
}

Result<UniqueFd> connect_to(const SocketName& name, bool& refused) {
  refused = false;
  UniqueFd fd = unix_socket();
  if (!fd) return system_error("cannot create a Unix socket", errno);
  const Address address = abstract_address(name);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.text), address.length) == 0) return fd;
  if (errno == EAGAIN || errno == EINTR) return UniqueFd();
  refused = errno == ECONNREFUSED || errno == ENOENT;
  return system_error("cannot connect to its Unix socket", errno);
}

SocketResult send_packet(int fd, const Packet& packet, std::size_t& begun) {
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  std::array<int, 2> fds{};
  std::size_t count = 0;
  for (const SharedFd& d : packet.descriptors) {
    if (d) fds[count++] = d->get();
  }
  ControlMessage copy = packet.message;
  iovec part{reinterpret_cast<char*>(&copy) + begun, sizeof copy - begun};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  // Descriptors go with the first byte; what follows a partial send is bytes only.
  if (begun == 0 && count > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds.data(), count * sizeof(int));
  }
  const ssize_t n = ::sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0) {
    const bool gone = errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN;
    return try_later(errno) ? SocketResult::kAgain : gone ? SocketResult::kEnded : SocketResult::kRefused;
  }
  begun += static_cast<std::size_t>(n);
  return begun == sizeof copy ? SocketResult::kDone : SocketResult::kAgain;
}

namespace {

void take_descriptors(msghdr& header, Packet& packet) {
  packet.lost = packet.lost || (header.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      auto owned = std::make_shared<const UniqueFd>(fd);
      for (SharedFd& d : packet.descriptors) {
        if (owned && !d) d = std::exchange(owned, nullptr);
      }
    }
  }
}

}  // namespace

SocketResult receive_packet(int fd, Packet& packet, std::size_t& begun) {
  for (;;) {
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    iovec part{reinterpret_cast<char*>(&packet.message) + begun, sizeof packet.message - begun};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t n = ::recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A peer that closed without having read all we sent makes the next call fail once with ECONNRESET, in front of what it
    // sent before: that is still to be read.
    if (n < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? SocketResult::kAgain : SocketResult::kEnded;
    if (n == 0) return SocketResult::kEnded;
    take_descriptors(header, packet);
    begun += static_cast<std::size_t>(n);
    if (begun == sizeof packet.message) return SocketResult::kDone;
  }
}

// What a pipe would do with our ring instead: end us, or hold us up.
bool is_doorbell(const UniqueFd& passed) {
  const std::string path = "/proc/self/fd/" + std::to_string(passed.get());
  std::array<char, 64> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  const std::string_view what(target.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return what == "anon_inode:[eventfd]" && (::fcntl(passed.get(), F_GETFL) & O_NONBLOCK) != 0;
}

void ring_doorbell(const UniqueFd& doorbell) {
  const std::uint64_t one = 1;
  // Cannot fail but for a full counter, which is as good as a ring.
  [[maybe_unused]] const ssize_t n = ::write(doorbell.get(), &one, sizeof one);
}

}  // namespace tutti::shm
