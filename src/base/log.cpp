#include "src/base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <mutex>
#include <set>

#include "src/base/made_once.h"
#include "src/base/unique_fd.h"

namespace tutti {
namespace {

/// A forked child goes on with it.
struct Sink {
  UniqueFd file;  ///< none: stderr
  bool was_read = false;
};
Sink& sink() {
  static constinit MadeOnce<Sink> the_sink;
  return the_sink.get();
}

/// Guards the sink. Another thread may hold it at a fork: the child has one of its own.
std::mutex& sink_mutex() {
  static constinit PerProcess<std::mutex> mutex;
  return mutex.get();
}

/// Of log_once. The texts are few, since they tell of this process and not of what it handles.
struct Said {
  std::mutex mutex;
  std::set<std::string> texts;
};

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

/// %p becomes the process's number, %h the host's name.
std::string expanded(std::string_view pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'p') path += std::to_string(getpid());
    if (next == 'h') path += host_name();
    if (next == 'p' || next == 'h') {
      ++i;
    } else {
      path += pattern[i];
    }
  }
  return path;
}

Status open_sink(const std::string& pattern, UniqueFd& out) {
  if (pattern.empty()) return out.reset(), Status();
  const std::string path = expanded(pattern);
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!file)
    return system_error(fmt::format("cannot append the log to {}", path), errno,
                        "Set TUTTI_LOG_FILE to a file that can be written");
  out = std::move(file);
  return Status();
}

/// The process that loaded the library, for what a process forked from it must not do.
const pid_t loading_process = ::getpid();

/// Seconds that local time is ahead of UTC. A forked child keeps what it was at the fork: localtime_r takes a lock, which
/// another thread may have held then, and so does gmtime_r.
long utc_offset() {
  static constinit std::atomic<long> known{0};  // relaxed: a number by itself
  if (::getpid() == loading_process) {
    const std::time_t now = std::time(nullptr);
    tm parts{};
    if (localtime_r(&now, &parts) != nullptr) known.store(parts.tm_gmtoff, std::memory_order_relaxed);
  }
  return known.load(std::memory_order_relaxed);
}
/// Refused for want of memory only; then a child has the offset of its parent's last line, or none.
[[maybe_unused]] const int told_of_forks = ::pthread_atfork([] { utc_offset(); }, nullptr, nullptr);

std::string time_of_day() {
  timeval now{};
  gettimeofday(&now, nullptr);
  constexpr long day = 86'400;
  const long second = (((now.tv_sec + utc_offset()) % day) + day) % day;
  return fmt::format("{:02}:{:02}:{:02}.{:06}", second / 3600, second / 60 % 60, second % 60, now.tv_usec);
}

const char* level_name(Level level) {
  static constexpr std::array<const char*, 5> names = {"error", "warn", "info", "debug", "trace"};
  return names[static_cast<std::size_t>(level)];
}

std::string line_of(Level level, std::string_view text) {
  std::string line = fmt::format("tutti {} {}:{} {}: {}", time_of_day(), host_name(), getpid(), level_name(level), text);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return line += '\n';
}

void write_line(const Sink& to, const std::string& line) {
  const int fd = to.file ? to.file.get() : STDERR_FILENO;
  // One write, so that lines of several processes do not mix; a log that cannot be written must not stop the program.
  while (::write(fd, line.data(), line.size()) < 0 && errno == EINTR) {
  }
}

}  // namespace

int detail::read_log_settings() {
  Sink& s = sink();
  const std::lock_guard lock(sink_mutex());
  if (s.was_read) return log_threshold.load(std::memory_order_relaxed);
  const Settings settings = tolerant_settings(nullptr);
  const Level level = settings.log;
  const Status opened = open_sink(settings.log_file, s.file);
  // Relaxed: the sink's mutex orders everything but the level itself, which stands alone.
  log_threshold.store(static_cast<int>(level), std::memory_order_relaxed);
  s.was_read = true;  // last: who is forked meanwhile reads them, too
  if (!opened.ok()) write_line(s, line_of(Level::warn, opened.text()));
  return static_cast<int>(level);
}

void log(Level level, std::string_view text) {
  if (!log_enabled(level)) return;
  const std::string line = line_of(level, text);
  Sink& s = sink();
  const std::lock_guard lock(sink_mutex());
  write_line(s, line);
}

void log_once(Level level, const std::string& text) {
  if (!log_enabled(level)) return;
  static constinit PerProcess<Said> process;
  Said& said = process.get();
  {
    const std::lock_guard lock(said.mutex);
    if (!said.texts.insert(text).second) return;
  }
  log(level, text);
}

Status set_log(Level level, const std::string& file) {
  Sink& s = sink();
  const std::lock_guard lock(sink_mutex());
  if (Status status = open_sink(file, s.file); !status.ok()) return status;
  s.was_read = true;
  // Relaxed: as in read_log_settings.
  detail::log_threshold.store(static_cast<int>(level), std::memory_order_relaxed);
  return Status();
}

}  // namespace tutti
