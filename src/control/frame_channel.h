// A connection that carries frames: u32 length of what follows, u8 type, payload. Non-blocking, used after a handshake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/base/unique_fd.h"

namespace tutti {

/// One end of a framed connection. Not thread safe.
class FrameChannel {
 public:
  /// Longest frame that is believed; a longer one breaks the channel.
  static constexpr std::uint32_t kMaxFrame = 1u << 28;
  /// Called for each whole frame; the payload is valid during the call. Returns false to stop reading.
  using Take = std::function<bool(std::uint8_t type, std::span<const std::byte> payload)>;

  FrameChannel() = default;
  explicit FrameChannel(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

  /// Queues a frame and sends what the socket takes now. One that throws for want of memory has queued nothing.
  void send(std::uint8_t type, std::span<const std::byte> payload);
  /// Sends what the socket takes now. False where the connection is broken.
  bool flush();
  /// True where bytes wait for the socket: watch for writability.
  bool pending() const { return sent_ < out_.size(); }
  /// Says that nothing more will be sent; the peer reads to the end of what was.
  void finish();

  /// Reads all that has arrived. False where `take` stopped it (the rest is kept for the next call), and once the stream
  /// has ended, failed or carried nonsense; frames that came before are taken all the same.
  bool receive(const Take& take);

 private:
  bool parse(const Take& take);

  UniqueFd fd_;
  std::vector<std::byte> in_;
  std::size_t parsed_ = 0;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;
};

}  // namespace tutti
