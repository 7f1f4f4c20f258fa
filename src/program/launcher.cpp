#include "src/program/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "src/program/signals.h"

namespace tutti::program {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kInterrupted = std::chrono::seconds(2);  // what ranks get after a signal from outside
constexpr auto kLast = std::chrono::seconds(1);         // between SIGTERM and SIGKILL

// The signals that the loop in watch waits for, blocked. SIGCHLD has its default besides: whoever ignores it, as may be
// inherited, has the system forget how children ended.
class WatchedSignals {
 public:
  WatchedSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGCHLD);
    for (const int signal : kEndingSignals) {
      struct sigaction now = {};
      sigaction(signal, nullptr, &now);
      if (now.sa_handler != SIG_IGN)
        sigaddset(&set_, signal);  // what is ignored, as by nohup, stays so: a wait would take it
    }
    sigprocmask(SIG_BLOCK, &set_, &mask_);
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &usual, &child_ends_);
  }
  ~WatchedSignals() { restore(); }
  WatchedSignals(const WatchedSignals&) = delete;
  WatchedSignals& operator=(const WatchedSignals&) = delete;

  const sigset_t& set() const { return set_; }
  /// As they were before. Safe in a signal handler.
  void restore() const {
    sigaction(SIGCHLD, &child_ends_, nullptr);
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
  }

 private:
  sigset_t set_;
  sigset_t mask_;
  struct sigaction child_ends_;
};

std::vector<std::string> child_environment(int rank, int ranks, const char* id, int pipe) {
  std::vector<std::string> variables = {fmt::format("TUTTI_RANK={}", rank), fmt::format("TUTTI_RANKS={}", ranks),
                                        fmt::format("TUTTI_LOCAL_RANK={}", rank), fmt::format("TUTTI_COMM_ID={}", id),
                                        fmt::format("{}={}", kLauncherPipe, pipe)};
  const size_t own = variables.size();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name(*entry, static_cast<size_t>(std::strcspn(*entry, "=")));
    bool replaced = false;
    for (size_t i = 0; i < own; ++i) replaced = replaced || variables[i].compare(0, variables[i].find('='), name) == 0;
    if (!replaced) variables.emplace_back(*entry);
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// The file of this program, or an empty string.
std::string own_path() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 && length < static_cast<ssize_t>(sizeof(path)) ? std::string(path, static_cast<size_t>(length)) : "";
}

// Between vfork and exec only what is safe in a signal handler, and nothing is written but what is the child's own.
[[noreturn]] void become_rank(pid_t parent, int pipe, const WatchedSignals& signals, const char* program, char** argv,
                              char** environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kPeerLost);  // it died before the line above
  fcntl(pipe, F_SETFD, 0);
  signals.restore();
  // By its own name, which tools like ps and pkill then show; by the link where the file has been replaced meanwhile.
  execve(program, argv, environment);
  execve("/proc/self/exe", argv, environment);
  _exit(127);
}

// By vfork: it asks no handlers of fork's, which other libraries register and which may wait for threads of theirs
// (OpenBLAS's waits for ever for a pool that found no memory), and copies no page tables.
pid_t begin_rank(pid_t parent, int pipe, const WatchedSignals& signals, const char* program, char** argv,
                 char** environment) {
  const pid_t pid = vfork();
  if (pid == 0) become_rank(parent, pipe, signals, program, argv, environment);
  return pid;
}

// Whether whoever read our stdout has closed the pipe.
bool reader_is_gone() {
  pollfd out = {STDOUT_FILENO, 0, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

class RankProcesses {
 public:
  RankProcesses(int ranks, Output& output, std::chrono::milliseconds grace)
      : output_(output), grace_(grace), pids_(static_cast<size_t>(ranks), 0), stopped_(static_cast<size_t>(ranks), 0) {}
  ~RankProcesses() {
    signal_all(SIGKILL);
    for (const pid_t pid : pids_) {
      if (pid > 0) waitpid(pid, nullptr, 0);
    }
    for (const int fd : pipe_) {
      if (fd >= 0) close(fd);
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  int start(char** argv, const char* id, const WatchedSignals& signals);
  int watch(const WatchedSignals& signals);
  int interrupted() const { return interrupted_; }

 private:
  bool any_alive() const;
  /// Whether somebody is, and whoever is has been stopped (as by SIGSTOP): they have nothing to tell.
  bool only_stopped_alive() const;
  void signal_all(int signal) const;
  void end_by(Clock::time_point deadline) { deadline_ = std::min(deadline_, deadline); }
  void reap();
  void ended(int rank, int status);
  void vanished(int rank);
  void enforce();
  void drain();
  void take_report(std::string_view line);

  Output& output_;
  const std::chrono::milliseconds grace_;
  std::vector<pid_t> pids_;    // 0 once it has ended
  std::vector<char> stopped_;  // 1 while it is
  int pipe_[2] = {-1, -1};
  std::string pending_;
  int code_ = kGood;
  int interrupted_ = 0;
  bool terminated_ = false;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point only_stopped_since_ = Clock::now();
};

int RankProcesses::start(char** argv, const char* id, const WatchedSignals& signals) {
  if (pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) {
    return output_.fail(kFailed,
                        fmt::format("no pipe for {} ranks: {}; raise `ulimit -n`", pids_.size(), std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const std::string program = own_path();
  for (size_t rank = 0; rank < pids_.size(); ++rank) {
    std::vector<std::string> variables =
        child_environment(static_cast<int>(rank), static_cast<int>(pids_.size()), id, pipe_[1]);
    const std::vector<char*> environment = pointers(variables);
    const pid_t pid = begin_rank(parent, pipe_[1], signals, program.c_str(), argv, const_cast<char**>(environment.data()));
    if (pid < 0) {
      return output_.fail(
          kFailed, fmt::format("rank {} of {} could not be started: {}; ask for fewer ranks or raise `ulimit -u`", rank,
                               pids_.size(), std::strerror(errno)));
    }
    pids_[rank] = pid;
  }
  close(pipe_[1]);
  pipe_[1] = -1;
  return kGood;
}

bool RankProcesses::any_alive() const {
  for (const pid_t pid : pids_) {
    if (pid > 0) return true;
  }
  return false;
}

bool RankProcesses::only_stopped_alive() const {
  for (size_t rank = 0; rank < pids_.size(); ++rank) {
    if (pids_[rank] > 0 && stopped_[rank] == 0) return false;
  }
  return any_alive();
}

void RankProcesses::signal_all(int signal) const {
  for (const pid_t pid : pids_) {
    if (pid > 0) kill(pid, signal);
  }
}

void RankProcesses::ended(int rank, int status) {
  const pid_t pid = pids_[static_cast<size_t>(rank)];
  pids_[static_cast<size_t>(rank)] = 0;
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    if (code == kGood) return;
    code_ = worse(code_, code == 127 ? static_cast<int>(kFailed) : code);
  } else {
    const int signal = WTERMSIG(status);
    const bool ours = terminated_ || interrupted_ != 0;
    code_ = worse(code_, kPeerLost);
    if (!ours && signal == SIGPIPE && reader_is_gone()) {
      // It wrote for all of us: we end as it did, and quietly.
      interrupted_ = SIGPIPE;
      signal_all(SIGTERM);
    } else if (!ours) {
      output_.collected(kPeerLost, rank,
                        fmt::format("rank {} (pid {}) was ended by signal {} ({}), and the job with it; run it again once "
                                    "the cause is gone",
                                    rank, pid, signal, strsignal(signal)));
    }
  }
  end_by(Clock::now() + grace_);
}

// It has ended, and somebody else has taken how. Its pid may be a stranger's by now.
void RankProcesses::vanished(int rank) {
  const pid_t pid = std::exchange(pids_[static_cast<size_t>(rank)], 0);
  code_ = worse(code_, kFailed);
  output_.collected(kFailed, rank,
                    fmt::format("rank {} (pid {}) ended, but nobody knows how: something in this process ignores SIGCHLD "
                                "or waits for children that are not its own; leave that out",
                                rank, pid));
  end_by(Clock::now() + grace_);
}

void RankProcesses::reap() {
  for (size_t rank = 0; rank < pids_.size(); ++rank) {
    while (pids_[rank] > 0) {
      int status = 0;
      const pid_t news = waitpid(pids_[rank], &status, WNOHANG | WUNTRACED | WCONTINUED);
      if (news == 0) break;
      if (news < 0) {
        vanished(static_cast<int>(rank));  // ECHILD: with WNOHANG there is no other error
      } else if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
        stopped_[rank] = WIFSTOPPED(status) ? 1 : 0;
      } else {
        ended(static_cast<int>(rank), status);
      }
    }
  }
}

void RankProcesses::enforce() {
  // Who stays stopped is not waited for once somebody has failed: a signal that they may catch would only wait with them.
  const auto now = Clock::now();
  const bool stopped = deadline_ != Clock::time_point::max() && only_stopped_alive();
  if (!stopped) only_stopped_since_ = now;
  const bool stay_stopped = stopped && now - only_stopped_since_ >= kLast;
  if ((now < deadline_ && !stay_stopped) || !any_alive()) return;
  signal_all(terminated_ || stay_stopped ? SIGKILL : SIGTERM);
  terminated_ = true;
  deadline_ = now + kLast;
}

void RankProcesses::take_report(std::string_view line) {
  const size_t first = line.find('\t');
  const size_t second = line.find('\t', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return;
  if (interrupted_ != 0) return;  // that others were ended a moment before it is no news
  int code = kFailed;
  int rank = 0;
  std::from_chars(line.data(), line.data() + first, code);
  std::from_chars(line.data() + first + 1, line.data() + second, rank);
  output_.collected(code, rank, std::string(line.substr(second + 1)));
}

void RankProcesses::drain() {
  char bytes[4096];
  ssize_t n = 0;
  while ((n = read(pipe_[0], bytes, sizeof(bytes))) > 0) pending_.append(bytes, static_cast<size_t>(n));
  size_t end = 0;
  while ((end = pending_.find('\n')) != std::string::npos) {
    take_report(std::string_view(pending_).substr(0, end));
    pending_.erase(0, end + 1);
  }
}

int RankProcesses::watch(const WatchedSignals& signals) {
  while (any_alive()) {
    // Woken by SIGCHLD; the period is for the deadlines alone.
    const timespec period = {0, 100'000'000};
    const int signal = sigtimedwait(&signals.set(), nullptr, &period);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) {
      drain();  // what ranks saw before
      interrupted_ = signal;
      signal_all(signal);
      end_by(Clock::now() + kInterrupted);
    }
    drain();
    reap();
    enforce();
  }
  drain();
  return code_;
}

}  // namespace

int launch_local(int ranks, char** argv, Output& output, std::chrono::milliseconds grace) {
  // Blocked before the library makes its threads, which inherit it: the signals are for the loop in watch alone.
  const WatchedSignals signals;
  tutti_unique_id id;
  char text[TUTTI_UNIQUE_ID_TEXT];
  tutti_status status = tutti_get_unique_id(&id);
  if (status == TUTTI_SUCCESS) status = tutti_unique_id_to_text(&id, text);
  if (status != TUTTI_SUCCESS) return output.fail(nullptr, status);

  output.collect();
  RankProcesses processes(ranks, output, grace);
  int code = processes.start(argv, text, signals);
  if (code == kGood) code = processes.watch(signals);
  // Where the reader of stdout has gone, that its writer is lost is no news.
  if (processes.interrupted() != SIGPIPE && !output.tell_worst() && code != kGood && processes.interrupted() == 0) {
    output.collected(code, 0, fmt::format("a rank ended with exit code {} and did not say why", code));
    output.tell_worst();
  }
  if (processes.interrupted() != 0) {
    // Whoever started us sees that a signal ended it, as if we had not been between.
    end_by_signal(processes.interrupted());
  }
  return code;
}

}  // namespace tutti::program
