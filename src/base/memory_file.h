// Memory that is a file without a name, so that other processes can map it.
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/base/unique_fd.h"

namespace tutti {

/// A new memory file of `bytes`, zero, that can neither shrink nor grow. Errors: TUTTI_SYSTEM_ERROR (no descriptor, no
/// memory, longer than RLIMIT_FSIZE lets files be).
Result<UniqueFd> create_memory(const char* label, std::uint64_t bytes);
/// Maps `bytes` at `offset` of `fd`, to read and write (or to read only).
/// Errors: TUTTI_INVALID_ARGUMENT where the file is shorter, or could still shrink (F_SEAL_SHRINK), so that whoever has it
/// could end us by SIGBUS; TUTTI_SYSTEM_ERROR.
Result<Mapping> map_memory(int fd, std::uint64_t offset, std::uint64_t bytes, bool writable);

}  // namespace tutti
