// What a failed path is told as: from the status of a work request, and from what is known besides, to the cause and what
// mends it. A status alone is a riddle ("error 12"): the port, the peer's process and its answers tell which it is.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"
#include "transports/verbs/api.h"

namespace tutti::verbs {

/// What is known of a path when it fails.
struct PathTrouble {
  ibv_wc_status status = IBV_WC_SUCCESS;
  std::uint32_t vendor_error = 0;
  std::string peer;            ///< "rank 7 (node4, pid 8812)"
  std::string device;          ///< "mlx5_0:1"
  std::string own_address;     ///< the GID's text, or the LID
  std::string other_address;   ///< likewise
  bool port_is_active = true;  ///< ours, now
  std::string port_state;      ///< "down (physically polling)", where it is not
  bool peer_answers = true;    ///< its process does, over the lifeline
  bool other_is_down = false;  ///< it said so of its port
  std::uint64_t tried_ns = 0;  ///< how long a way has been looked for
  std::uint32_t traffic_class = 0;
  bool is_device_memory = false;  ///< the work request was of a GPU's memory
};

/// The error that a link fails with, once no path is left to try. Status: TUTTI_REMOTE_ERROR where the peer or the way to
/// it is at fault, TUTTI_SYSTEM_ERROR where this machine is, TUTTI_INTERNAL_ERROR where the library is.
Status why_path_failed(const PathTrouble& trouble);

}  // namespace tutti::verbs
