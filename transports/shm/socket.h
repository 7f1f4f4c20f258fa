// Unix sockets in the abstract namespace, and descriptors passed from process to process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "src/base/memory_file.h"
#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "transports/shm/layout.h"

namespace tutti::shm {

using SharedFd = std::shared_ptr<const UniqueFd>;
using SocketName = std::array<unsigned char, 16>;

/// A non-blocking listening socket of that name.
Result<UniqueFd> listen_at(const SocketName& name);
/// A non-blocking connection to that name. `refused` is set where nobody listens there any more; an invalid descriptor
/// without an error means that the listener's queue is full: try later.
Result<UniqueFd> connect_to(const SocketName& name, bool& refused);

enum class SocketResult { kDone, kAgain, kEnded, kRefused };

/// One control message with up to two descriptors.
struct Packet {
  ControlMessage message{};
  std::array<SharedFd, 2> descriptors;
  bool lost = false;  ///< received: some of them did not arrive, as this process has no free ones
};

/// Sends `packet` from byte `begun` of its message on; `begun` moves on. kEnded: the peer is gone. kRefused: it
/// cannot be sent, and errno says why.
SocketResult send_packet(int fd, const Packet& packet, std::size_t& begun);
/// Receives into `packet`, of which `begun` bytes are there already. kDone: it is complete. kEnded: the peer is gone.
SocketResult receive_packet(int fd, Packet& packet, std::size_t& begun);

/// Whether what a peer passed to be rung by is an event descriptor that never blocks.
bool is_doorbell(const UniqueFd& passed);
/// Wakes who sleeps on that event descriptor.
void ring_doorbell(const UniqueFd& doorbell);

}  // namespace tutti::shm
