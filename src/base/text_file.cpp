#include "src/base/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/unique_fd.h"
#include "src/tables/units.h"

namespace tutti {
namespace {

Status refusal(const std::string& why) { return Status(TUTTI_INVALID_ARGUMENT, why); }

}  // namespace

Result<std::string> read_text_file(const std::string& path, std::size_t longest) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  struct stat facts = {};
  if (!file || ::fstat(file.get(), &facts) != 0) return refusal(std::strerror(errno));
  if (S_ISDIR(facts.st_mode)) return refusal("it is a folder");
  if (S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode)) return refusal("it is a device");
  std::string text;
  std::array<char, 65536> part;
  while (text.size() <= longest) {
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return refusal(std::strerror(errno));
    if (count == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  return refusal("it is longer than " + bytes_text(longest));
}

}  // namespace tutti
