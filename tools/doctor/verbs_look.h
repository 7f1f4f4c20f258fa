// What `tutti-doctor verbs` says: each port of each InfiniBand or RoCE device, and whether this process can use one.
#pragma once

#include <vector>

#include "src/base/status.h"
#include "tools/doctor/checks.h"
#include "topology/sysfs.h"

namespace tutti::verbs {
struct VerbsApi;
}

namespace tutti::doctor {

struct VerbsLook {
  Status usable;               ///< success, or what is missing first, with its remedy
  std::vector<Finding> ports;  ///< named "mlx5_0:1"; a device that tells of no port is one finding by its name
};

/// Asks libibverbs, and /sys of `files` for what that does not tell. Thread safe. A build without libibverbs' headers looks
/// at nothing: TUTTI_UNSUPPORTED, and no port.
VerbsLook look_at_verbs_ports(const Sysfs& files);
/// The same by a library of the caller's; NULL: there is none.
VerbsLook look_at_verbs_ports(const Sysfs& files, const verbs::VerbsApi* api);

}  // namespace tutti::doctor
