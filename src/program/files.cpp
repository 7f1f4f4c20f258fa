#include "src/program/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

namespace tutti::program {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

// Ctrl-C between draft and rename would leave the draft behind: it waits until the file has its name. The library's own
// threads block all signals, so that none of them is hit instead.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    ::sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&held, signal);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

/// Returns 0, or the errno. sync: a file of a disk, whose name must not lead to an empty file after a crash of the machine.
int write_all(const std::string& path, std::string_view bytes, bool sync) {
  const File file(std::fopen(path.c_str(), "wbe"));
  if (!file) return errno;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size() &&
                       std::fflush(file.get()) == 0 && (!sync || ::fsync(fileno(file.get())) == 0);
  return written ? 0 : errno;
}

bool same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == "-" || b == "-") return false;
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(a, error);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) return false;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const auto whole = [&error](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return whole(a) == whole(b);
}

}  // namespace

std::string overwritten(std::span<const NamedFile> written, std::span<const NamedFile> read) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (const NamedFile& other : written.subspan(i + 1)) {
      if (same_file(written[i].path, other.path))
        return fmt::format("{} and {} name the same file; give each its own", written[i].option, other.option);
    }
    for (const NamedFile& other : read) {
      if (same_file(written[i].path, other.path))
        return fmt::format("{} would overwrite the file that {} reads; name another", written[i].option, other.option);
    }
  }
  return "";
}

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

int write_file(const std::string& path, std::string_view bytes) {
  struct stat info;
  // What a link leads to may be what others have open, as /dev/stdout is: it stays the file that it is.
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return write_all(path, bytes, false);
  const SignalsHeld held;
  const std::string draft = fmt::format("{}.part-{}", path, ::getpid());
  int error = write_all(draft, bytes, true);
  if (error == 0 && std::rename(draft.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) std::remove(draft.c_str());
  return error;
}

}  // namespace tutti::program
