#include "src/bootstrap/id_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/base/addresses.h"
#include "src/base/random.h"
#include "src/base/unique_fd.h"
#include "src/control/members.h"

namespace tutti {

namespace {

constexpr std::string_view kFirstLine = "tutti-rendezvous 1";
constexpr std::size_t kMostBytes = 4096;

// Clock ticks after boot at which the process started: field 22 of its stat, the 20th after the name, which may hold
// spaces and ends at the last parenthesis. 0: there is none, or it has ended and only waits to be reaped.
std::uint64_t start_time_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(text.substr(end + 1));
  std::string field;
  for (int i = 0; i < 20 && fields; ++i) {
    fields >> field;
    if (i == 0 && (field == "Z" || field == "X")) return 0;
  }
  return fields ? std::strtoull(field.c_str(), nullptr, 10) : 0;
}

std::string file_text(const UniqueIdContents& contents) {
  const Member self = this_member(0);
  std::ostringstream out;
  out << kFirstLine << "\nid " << id_to_text(pack_unique_id(contents)) << "\npid " << self.pid << "\nstart "
      << start_time_of(self.pid) << "\nmachine " << self.machine << "\nnamespace " << self.pid_namespace << "\nhost "
      << self.host << "\n";
  return out.str();
}

std::optional<IdRecord> parse(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  if (!std::getline(in, line) || line != kFirstLine) return std::nullopt;
  IdRecord record;
  record.text = text;
  std::string word;
  std::string id;
  in >> word >> id >> word >> record.pid >> word >> record.start_time >> word >> record.machine >> word >>
      record.pid_namespace >> word >> record.host;
  if (!in) return std::nullopt;
  const auto bytes = id_from_text(id);
  if (!bytes) return std::nullopt;
  auto contents = unpack_unique_id(*bytes);
  if (!contents) return std::nullopt;
  record.contents = std::move(contents).value();
  return record;
}

bool write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

// A file without a name yet, so that nothing is left of a process that dies while it writes; where the file system has
// none of these, one with another name. Its name is empty or that.
UniqueFd open_unnamed(const std::string& path, std::string& temporary) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == 0 ? "/" : path.substr(0, slash);
  UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (file) return file;
  temporary = path + "." + std::to_string(random_u64()) + ".tmp";
  return UniqueFd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
}

// Gives it its name, unless somebody else has that (EEXIST).
bool give_name(const UniqueFd& file, const std::string& temporary, const std::string& path) {
  if (temporary.empty()) {
    const std::string opened = "/proc/self/fd/" + std::to_string(file.get());
    return ::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
  }
  if (::link(temporary.c_str(), path.c_str()) == 0) {
    ::unlink(temporary.c_str());
    return true;
  }
  // A file system without links, which say so by several numbers, gives no name only to one: the last of several wins.
  return errno != EEXIST && ::rename(temporary.c_str(), path.c_str()) == 0;
}

Status in_use(const std::string& path, const IdRecord& by) {
  const std::string where = by.machine == machine_id() ? "" : ", another machine or before this one's last start";
  return Status(TUTTI_INVALID_USAGE, path + " is in use by another creation (" + by.writer() + where + ")",
                "Give each job a path of its own; remove the file if that process has ended or has nothing to do with it");
}

// Somebody has taken the name since this process looked.
Status lost_race(const std::string& path) {
  const auto there = read_id_file(path);
  if (there && *there) return in_use(path, **there);
  return Status(TUTTI_INVALID_USAGE, path + " is in use by another creation, which began at the same moment",
                "Give each job a path of its own");
}

}  // namespace

bool IdRecord::stale() const {
  const Member self = this_member(0);
  if (machine != self.machine || pid_namespace != self.pid_namespace) return false;
  if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
  return start_time != 0 && start_time_of(pid) != start_time;  // 0: its writer could not read its own
}

Result<std::string> write_id_file(const std::string& path, const UniqueIdContents& contents) {
  auto there = read_id_file(path);
  if (!there) return there.status();  // not ours: whatever it is, somebody may still want it
  if (*there && !(*there)->stale()) return in_use(path, **there);
  std::string text = file_text(contents);
  std::string temporary;
  const UniqueFd file = open_unnamed(path, temporary);
  if (!file)
    return system_error("Writing " + path + " failed", errno, "Choose a path in a folder that all ranks can write");
  bool written = write_all(file.get(), text);
  if (written && *there) remove_id_file(path, (*there)->text);  // the stale one, and no other that has come since
  written = written && give_name(file, temporary, path);
  if (!written) {
    const int number = errno;
    if (!temporary.empty()) ::unlink(temporary.c_str());
    if (number == EEXIST) return lost_race(path);
    return system_error("Writing " + path + " failed", number, "Choose a path in a folder that all ranks can write");
  }
  return text;  // moved: nothing may fail any more
}

Result<std::optional<IdRecord>> read_id_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ENOENT) return std::optional<IdRecord>();
  if (!file && errno == ELOOP) return Status(TUTTI_INVALID_ARGUMENT, path + " is a symbolic link", "Choose another path");
  if (!file) return system_error("Reading " + path + " failed", errno);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return system_error("Reading " + path + " failed", errno);
  const auto refuse = [&](const std::string& why) {
    return Status(TUTTI_INVALID_ARGUMENT, path + " " + why, "Remove it, or choose another path");
  };
  if (!S_ISREG(info.st_mode)) return refuse("is no file");
  if (info.st_uid != ::geteuid()) return refuse("belongs to another user (uid " + std::to_string(info.st_uid) + ")");
  std::string text(kMostBytes, '\0');
  const ssize_t n = ::read(file.get(), text.data(), text.size());
  if (n < 0) return system_error("Reading " + path + " failed", errno);
  text.resize(static_cast<std::size_t>(n));
  auto record = parse(text);
  if (!record) return refuse("is no rendezvous file of Tutti");
  if ((info.st_mode & 077) != 0) return refuse("can be read or written by other users, so its key is no secret");
  return record;
}

void remove_id_file(const std::string& path, const std::string& text) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return;
  char there[kMostBytes];  // no allocation: what there is no memory for ends here, too
  const ssize_t n = ::read(file.get(), there, sizeof there);
  if (n >= 0 && std::string_view(there, static_cast<std::size_t>(n)) == text) ::unlink(path.c_str());
}

Result<std::string> private_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const char* temporary = std::getenv("TMPDIR");
  std::string folder = temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
  struct stat info{};
  const bool has_runtime = runtime != nullptr && *runtime != '\0' && ::stat(runtime, &info) == 0 &&
                           info.st_uid == ::geteuid() && ::access(runtime, W_OK) == 0;
  folder = has_runtime ? std::string(runtime) + "/tutti" : folder + "/tutti-" + std::to_string(::geteuid());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error("Making the folder " + folder + " failed", errno,
                        "Set TMPDIR to a folder that can be written, or TUTTI_COMM_ID on all ranks");
  if (::lstat(folder.c_str(), &info) != 0) return system_error("Looking at the folder " + folder + " failed", errno);
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return Status(TUTTI_SYSTEM_ERROR, folder + " is not a folder of this user's alone (mode 700)",
                  "Remove it or correct its mode, or set XDG_RUNTIME_DIR, TUTTI_SECRET or TUTTI_COMM_ID");
  }
  return folder;
}

void sweep_private_folder() {
  const auto folder = private_folder();
  if (!folder) return;
  std::error_code refused;
  std::filesystem::directory_iterator entry(*folder, refused);
  for (const std::filesystem::directory_iterator end; !refused && entry != end; entry.increment(refused)) {
    const std::string path = entry->path().string();
    const auto record = read_id_file(path);
    if (record && *record && (*record)->stale()) remove_id_file(path, (*record)->text);
  }
}

Result<std::string> private_path(std::string_view job) {
  auto folder = private_folder();
  if (!folder) return folder;
  // The folder may be shared with other machines, which know nothing of each other's processes, and with containers of this
  // one, whose networks have the same addresses.
  const Key name = key_from_secret("rendezvous file of " + std::string(job) + " on machine " +
                                   std::to_string(machine_id()) + " in network " + std::to_string(network_namespace()));
  char digits[33];
  for (std::size_t i = 0; i < 16; ++i) std::snprintf(digits + 2 * i, 3, "%02x", name[i]);
  return *folder + "/" + digits;
}

}  // namespace tutti
