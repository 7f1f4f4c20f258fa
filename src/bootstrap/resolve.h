// A host's name turned into addresses, within a caller's patience.
#pragma once

#include <functional>
#include <vector>

#include "src/base/addresses.h"
#include "src/control/wait_limits.h"

namespace tutti {

/// Answers for a host that is no number; may block for long. Called on threads of the library's own.
using Resolver = std::function<Lookup(const HostPort&)>;

/// The addresses at which `place` is, with scopes where they need one. The resolver is asked in the background, since
/// nothing ends its waits: one whose answer comes after the patience has ended goes on by itself and is heard by nobody.
/// Where it says that it cannot tell now (a name server that does not answer, a name that is not there yet), it is asked
/// again until the deadline. Errors: TUTTI_INVALID_ARGUMENT (the host is unknown, or has no address of use; as
/// numeric_address), TUTTI_TIMEOUT, TUTTI_SYSTEM_ERROR, TUTTI_ABORTED by `wait_limits`.
Result<std::vector<SocketAddress>> resolve(const HostPort& place, const WaitLimits& wait_limits, const Resolver& resolver);

}  // namespace tutti
