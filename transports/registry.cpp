#include "transports/registry.h"

#include <array>

#include "transports/shm/shm.h"

namespace tutti {

std::span<const tutti_transport* const> builtin_transports() {
  static const std::array<const tutti_transport*, 1> transports = {
      shm::transport(),
  };
  return transports;
}

}  // namespace tutti
