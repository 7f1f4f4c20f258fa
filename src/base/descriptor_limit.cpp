#include "src/base/descriptor_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <string>

namespace tutti {

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  // Where this fails the old limit stands, and a connection that meets it says so.
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

Status check_descriptors_left(const UniqueFd& newest, std::uint64_t least) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return {};
  // The system gives out the lowest free number, so that all below it are taken.
  const auto taken = static_cast<std::uint64_t>(newest.get());
  if (taken + least <= limit.rlim_max) return {};
  return system_error("it may have " + std::to_string(limit.rlim_max) + " files open, has " + std::to_string(taken) +
                          " and needs " + std::to_string(least) + " more",
                      EMFILE, "Raise the limit of open files (`ulimit -n`)");
}

}  // namespace tutti
