// What a unique id holds: a key, and where the process that made it listens.
//
//     bytes 0-3    "TUT1"
//     bytes 4-35   key
//     bytes 36-123 addresses, the best first: family (4 or 6; 0: no more), address, port; as many as fit
//     bytes 124-127 checksum of all before
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/base/addresses.h"
#include "src/base/handshake.h"
#include "src/base/status.h"

namespace tutti {

/// The content of a unique id.
struct UniqueIdContents {
  Key key{};
  std::vector<SocketAddress> addresses;
};

/// Addresses beyond those that fit (4 to 12) are left out. Pure.
tutti_unique_id pack_unique_id(const UniqueIdContents& contents);
/// Errors: TUTTI_INVALID_ARGUMENT where the bytes are no id or were altered.
Result<UniqueIdContents> unpack_unique_id(const tutti_unique_id& id);

/// "tutti1:" and 256 hexadecimal digits.
std::string id_to_text(const tutti_unique_id& id);
/// Surrounding white space is allowed. Errors: TUTTI_INVALID_ARGUMENT saying what is wrong with the text.
Result<tutti_unique_id> id_from_text(std::string_view text);

}  // namespace tutti
