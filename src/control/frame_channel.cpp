#include "src/control/frame_channel.h"

#include <errno.h>
#include <sys/socket.h>

#include <array>

#include "src/base/byte_codec.h"

namespace tutti {

void FrameChannel::send(std::uint8_t type, std::span<const std::byte> payload) {
  ByteWriter header;
  header.u32(static_cast<std::uint32_t>(payload.size() + 1));
  header.u8(type);
  // Without memory nothing of the frame is queued: a part of it would be read together with the next one.
  out_.reserve(out_.size() + header.bytes().size() + payload.size());
  out_.insert(out_.end(), header.bytes().begin(), header.bytes().end());
  out_.insert(out_.end(), payload.begin(), payload.end());
  flush();
}

bool FrameChannel::flush() {
  while (open() && pending()) {
    const ssize_t n = ::send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
      // What cannot be sent is dropped; reading tells the owner that the connection has ended, and what came before.
      out_.clear();
      sent_ = 0;
      return false;
    }
    if (n < 0) return true;
    sent_ += static_cast<std::size_t>(n);
  }
  out_.clear();
  sent_ = 0;
  return true;
}

void FrameChannel::finish() {
  if (open()) ::shutdown(fd(), SHUT_WR);
}

bool FrameChannel::receive(const Take& take) {
  std::array<std::byte, 16384> buffer;
  while (open()) {
    if (!parse(take)) return false;  // before anything else: what was left where `take` stopped
    const ssize_t n = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (n <= 0) return false;
    in_.insert(in_.end(), buffer.begin(), buffer.begin() + n);
  }
  return false;
}

bool FrameChannel::parse(const Take& take) {
  for (;;) {
    const auto rest = std::span<const std::byte>(in_).subspan(parsed_);
    ByteReader reader(rest);
    const std::uint32_t length = reader.u32();
    if (!reader.ok()) break;
    if (length == 0 || length > kMaxFrame) return false;
    if (reader.left() < length) break;
    const std::uint8_t type = reader.u8();
    parsed_ += 4 + length;
    if (!take(type, reader.raw(length - 1))) return false;
    if (!open()) return false;
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(parsed_));
  parsed_ = 0;
  return true;
}

}  // namespace tutti
