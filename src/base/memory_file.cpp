#include "src/base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

namespace tutti {

Result<UniqueFd> create_memory(const char* label, std::uint64_t bytes) {
  // Asked beforehand: the system answers a file that is too long with SIGXFSZ, which ends the process.
  rlimit longest{};
  if (::getrlimit(RLIMIT_FSIZE, &longest) == 0 && longest.rlim_cur != RLIM_INFINITY && bytes > longest.rlim_cur) {
    return system_error("shared memory of " + std::to_string(bytes) + " bytes is longer than files may be (" +
                            std::to_string(longest.rlim_cur) + " bytes)",
                        EFBIG, "Raise the limit of file sizes (`ulimit -f`)");
  }
  UniqueFd fd(::memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) {
    const int number = errno;
    return system_error("cannot create shared memory (memfd_create)", number,
                        is_shortage(number) ? "" : "Allow memfd_create, as in the seccomp profile of a container");
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error("cannot set " + std::to_string(bytes) + " bytes as the size of shared memory", errno);
  }
  return fd;
}

Result<Mapping> map_memory(int fd, std::uint64_t offset, std::uint64_t bytes, bool writable) {
  struct stat file{};
  if (::fstat(fd, &file) != 0) return system_error("cannot examine passed memory", errno);
  const auto size = static_cast<std::uint64_t>(file.st_size);
  if (bytes == 0 || offset > size || bytes > size - offset) {
    return Status(TUTTI_INVALID_ARGUMENT, "passed memory has " + std::to_string(size) + " bytes, not the " +
                                              std::to_string(bytes) + " at " + std::to_string(offset) + " that were named");
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Status(TUTTI_INVALID_ARGUMENT, "passed memory is not sealed against shrinking");
  }
  constexpr std::uint64_t page = 4096;
  const std::uint64_t within = offset % page;
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = ::mmap(nullptr, bytes + within, protection, MAP_SHARED, fd, static_cast<off_t>(offset - within));
  if (data == MAP_FAILED) {
    return system_error("cannot map " + std::to_string(bytes) + " bytes of shared memory", errno,
                        "Raise the limit of address space (`ulimit -v`), or end what uses memory");
  }
  return Mapping(data, bytes + within);
}

}  // namespace tutti
