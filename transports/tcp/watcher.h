// Who is called when epoll has something for a descriptor.
#pragma once

#include <cstdint>

namespace tutti::tcp {

class Watcher {
 public:
  virtual ~Watcher() = default;
  /// events: as epoll gave them. May not destroy itself.
  virtual void ready(std::uint32_t events) = 0;
};

}  // namespace tutti::tcp
