#include "transports/near/descriptor_message.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::near {
namespace {

// A queue of descriptors in flight that is full (ETOOMANYREFS) empties as the peer reads.
bool try_later(int number) {
  return number == EAGAIN || number == EWOULDBLOCK || number == EINTR || number == ETOOMANYREFS || number == ENOBUFS ||
         number == ENOMEM;
}

}  // namespace

SocketResult send_message(int fd, std::span<const std::byte> message, std::span<const SharedFd> descriptors,
                          std::size_t& begun) {
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  std::array<int, 2> fds{};
  std::size_t count = 0;
  for (const SharedFd& d : descriptors) {
    if (d && count < fds.size()) fds[count++] = d->get();
  }
  iovec part{const_cast<std::byte*>(message.data()) + begun, message.size() - begun};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  // Descriptors go with the first byte; what follows a partial send is bytes only.
  if (begun == 0 && count > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(count * sizeof(int));
    auto* const c = reinterpret_cast<cmsghdr*>(control);
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
  return begun == message.size() ? SocketResult::kDone : SocketResult::kAgain;
}

namespace {

void take_descriptors(msghdr& header, std::span<SharedFd> descriptors) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      auto owned = std::make_shared<const UniqueFd>(fd);
      for (SharedFd& d : descriptors) {
        if (owned && !d) d = std::exchange(owned, nullptr);
      }
    }
  }
}

}  // namespace

SocketResult receive_message(int fd, std::span<std::byte> message, std::span<SharedFd> descriptors, bool& lost,
                             std::size_t& begun) {
  for (;;) {
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    iovec part{message.data() + begun, message.size() - begun};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t n = ::recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A peer that closed without having read all we sent makes the next call fail once with ECONNRESET. What it sent before
    // comes behind that, and is still to be read.
    if (n < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? SocketResult::kAgain : SocketResult::kEnded;
    if (n == 0) return SocketResult::kEnded;
    lost = lost || (header.msg_flags & MSG_CTRUNC) != 0;
    take_descriptors(header, descriptors);
    begun += static_cast<std::size_t>(n);
    if (begun == message.size()) return SocketResult::kDone;
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

}  // namespace tutti::near
