#include "transports/registry.h"

#include <array>

#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace tutti {

std::span<const tutti_transport* const> builtin_transports() {
  static const auto transports = std::to_array<const tutti_transport*>({
      shm::transport(),
      &tcp_transport(),
  });
  return transports;
}

}  // namespace tutti
