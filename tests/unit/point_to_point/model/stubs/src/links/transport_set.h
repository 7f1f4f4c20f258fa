// In the place of a communicator's transports: links that the model has made.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "src/base/status.h"
#include "src/executors/host/host_link.h"
#include "src/links/waiter.h"

namespace tutti {

enum class TrafficClass : std::uint32_t { collective = 0, point_to_point = 1 };

class Transports {
 public:
  EndpointGroup& endpoints(TrafficClass) { return group_; }
  Result<HostLink*> link(TrafficClass, int peer, int, bool sends) const { return find(peer, sends); }
  tutti_link_result ready(const HostLink& link) const { return broken(link) ? TUTTI_LINK_BROKEN : TUTTI_LINK_OK; }
  static std::string why_broken(const HostLink&) { return "it broke"; }

  std::function<HostLink*(int peer, bool sends)> find;
  std::function<bool(const HostLink&)> broken;

 private:
  EndpointGroup group_;
};

}  // namespace tutti
