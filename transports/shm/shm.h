// The shared-memory transport: ranks of one machine read each other's slots and registered regions directly.
//
//     Unix socket (abstract, authenticated)  one per pair of ranks: passes descriptors, tells death
//     link's memfd, the sender's             control page | slot 0 | slot 1 | …   read by the receiver where it lies
//     endpoint's page                        one memfd per endpoint: "I sleep", "look at your sockets"
//     doorbell                               one eventfd per endpoint, rung only for those who sleep
//
// Nothing has a name in a file system, so nothing is left behind when a process is killed.
#pragma once

#include "include/tutti/transport.h"

namespace tutti::shm {

/// The transport's table; static, valid for the life of the process.
const tutti_transport* transport();

}  // namespace tutti::shm
