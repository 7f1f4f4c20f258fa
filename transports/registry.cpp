#include "transports/registry.h"

#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace tutti {

std::vector<const tutti_transport*> builtin_transports() {
  return {
      shm::transport(),
      &tcp_transport(),
  };
}

}  // namespace tutti
