#include "transports/registry.h"

#include <array>

#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace tutti {

std::span<const tutti_transport* const> builtin_transports() {
  static const std::array<const tutti_transport*, 2> transports = {
      shm::transport(),
      &tcp_transport(),
  };
  return transports;
}

}  // namespace tutti
