#include "src/program/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tutti::program {

std::string check_writable(const std::string& option, const std::string& path) {
  struct stat info;
  const bool there = ::stat(path.c_str(), &info) == 0;
  if (there && S_ISDIR(info.st_mode)) {
    return fmt::format("{} was given '{}', which is a folder; give the name of a file", option, path);
  }
  if (there && ::access(path.c_str(), W_OK) != 0) {
    return fmt::format("{} was given '{}', which cannot be written: {}; name another file", option, path,
                       std::strerror(errno));
  }
  if (there && !S_ISREG(info.st_mode)) return "";  // a device, a pipe
  // Checkpoints are written beside and renamed: the folder counts where the file is there, too. What root may do there is
  // known only by doing it.
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  std::string probe = folder + ".tutti-XXXXXX";
  const int fd = ::mkostemp(probe.data(), O_CLOEXEC);
  if (fd < 0) {
    return fmt::format(
        "{} was given '{}', which cannot be written: the folder '{}': {}; name a file in a folder that "
        "this user may write to",
        option, path, folder.empty() ? "." : folder, std::strerror(errno));
  }
  ::close(fd);
  ::unlink(probe.c_str());
  return "";
}

}  // namespace tutti::program
