// In the place of the control plane: nobody knows anything of a peer.
#pragma once

#include <vector>

#include "src/base/status.h"

namespace tutti {

struct PeerReport {};

class ControlPlane {
 public:
  class Inquiry {
   public:
    static bool over() { return true; }
    static std::vector<PeerReport> reports() { return std::vector<PeerReport>(1); }
  };
};

}  // namespace tutti
