// Descriptors passed from process to process with messages over a Unix socket, and doorbells, which are such.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "src/base/unique_fd.h"

namespace tutti::near {

/// A descriptor that messages and their owner hold together.
using SharedFd = std::shared_ptr<const UniqueFd>;

/// What became of sending or receiving.
enum class SocketResult {
  kDone,
  kAgain,    ///< not now; a part may have gone
  kEnded,    ///< the peer is gone
  kRefused,  ///< it cannot be sent, and errno says why
};

/// A message of fixed length with up to two descriptors. Message: plain bytes.
template <typename Message>
struct DescriptorMessage {
  Message message{};
  std::array<SharedFd, 2> descriptors;
  bool lost = false;  ///< received: some of them did not arrive, as this process has no free ones
};

/// Sends `message` from byte `begun` on, which moves on; descriptors (two at most, empty ones left out) go with its first
/// byte. Never waits.
SocketResult send_message(int fd, std::span<const std::byte> message, std::span<const SharedFd> descriptors,
                          std::size_t& begun);
/// Receives into `message`, of which `begun` bytes are there already. kDone: it is complete. Descriptors fill empty places.
/// `lost` is set where some did not arrive. Never waits.
SocketResult receive_message(int fd, std::span<std::byte> message, std::span<SharedFd> descriptors, bool& lost,
                             std::size_t& begun);

/// Whether what a peer passed to be rung by is an event descriptor that never blocks.
bool is_doorbell(const UniqueFd& passed);
/// Wakes who sleeps on that event descriptor.
void ring_doorbell(const UniqueFd& doorbell);

}  // namespace tutti::near
