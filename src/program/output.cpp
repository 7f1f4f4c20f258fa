#include "src/program/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "src/program/files.h"
#include "src/program/launcher.h"

namespace tutti::program {
namespace {

/// Control characters, of ASCII and those from U+0080 to U+009F, and bytes that are no UTF-8 become "?". As the library's
/// plain_text, which is none of a program's: programs see the public face alone.
std::string without_commands(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const unsigned first = byte(0);
    const size_t bytes = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    bool shown = bytes > 0 && first >= ' ' && first != 0x7f && (first != 0xc2 || byte(1) >= 0xa0);
    for (size_t i = 1; i < bytes; ++i) shown = shown && (byte(i) & 0xc0) == 0x80;
    out += shown ? text.substr(0, bytes) : "?";
    text.remove_prefix(shown ? bytes : 1);
  }
  return out;
}

int take_launcher_pipe() {
  const char* text = std::getenv(kLauncherPipe);
  if (text == nullptr) return -1;
  const int fd = std::atoi(text);
  unsetenv(kLauncherPipe);
  // A descriptor that is not open is a leftover of somebody else's environment.
  if (fd < 3 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return -1;
  return fd;
}

// Where stdout was closed, the next file or socket would become it. This one refuses to be written to.
void take_closed_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free descriptor is fd: those below are taken. Without /dev/null it stays closed.
    if (::open("/dev/null", O_RDONLY) < 0) return;
  }
}

// What nobody caught ends the program with a sentence and a code of the contract, and not by a signal. Memory may be what
// is missing, so nothing is allocated, and nothing of the program's is freed.
[[noreturn]] void end_with_a_sentence() {
  const char* why = "an error of its own";
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    why = "there is not enough memory for this; ask for less, or allow it more";
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
  }
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why);
  std::_Exit(kFailed);
}

}  // namespace

Output::Output(std::string program) : program_(std::move(program)), launcher_fd_(take_launcher_pipe()) {
  std::set_terminate(end_with_a_sentence);
  take_closed_descriptors();
  // A file that may not grow further (`ulimit -f`) is an error of the write, and that a sentence.
  std::signal(SIGXFSZ, SIG_IGN);
}

Output::~Output() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  if (launcher_fd_ >= 0) close(launcher_fd_);
}

void Output::configure(bool json, std::string json_file, bool quiet) {
  const std::lock_guard lock(mutex_);
  json_ = json;
  json_file_ = std::move(json_file);
  quiet_ = quiet;
}

int Output::open() {
  if (rank_ != 0 || launcher_fd_ >= 0) return kGood;
  writes("--json", json_ ? json_file_ : "");
  std::string sentence = overwritten(written_, read_);
  if (sentence.empty()) {
    if (!json_ || json_file_ == "-") return kGood;
    std::FILE* file = std::fopen(json_file_.c_str(), "we");
    if (file != nullptr && std::fclose(file) == 0) return kGood;
    sentence = fmt::format("--json was given '{}', which cannot be written: {}; name another file", json_file_,
                           std::strerror(errno));
  }
  broken_ = true;  // so that the error itself is not written there
  return fail(kWrongUse, sentence);
}

void Output::set_rank(int rank) {
  const std::lock_guard lock(mutex_);
  rank_ = rank;
}

void Output::line(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (json_ || quiet_ || rank_ != 0) return;
  write_out(std::string(text) + '\n');
}

void Output::print(std::string_view text) {
  const std::lock_guard lock(mutex_);
  write_out(text);
}

void Output::write_out(std::string_view text) {
  if (broken_) return;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return;
  tell_broken(fmt::format("stdout cannot be written: {}; free space there, or send it elsewhere", std::strerror(errno)));
}

void Output::tell_broken(const std::string& sentence) {
  if (broken_) return;
  broken_ = true;  // first, so that the error itself is not written there
  fail_locked(rank_, kFailed, sentence);
}

std::string Output::json_refused() const {
  return fmt::format("the JSON lines cannot be written to {}: {}; name a file that can be written",
                     json_file_ == "-" ? "stdout" : "'" + json_file_ + "'", std::strerror(errno));
}

bool Output::write_json(const std::string& text) {
  if (file_ == nullptr && json_file_ == "-") file_ = stdout;
  // The launcher's parent and rank 0 both write to it; open() has emptied it.
  if (file_ == nullptr) file_ = std::fopen(json_file_.c_str(), "ae");
  if (file_ == nullptr) return false;
  return std::fprintf(file_, "%s\n", text.c_str()) >= 0 && std::fflush(file_) == 0;
}

void Output::record(const JsonObject& object) {
  const std::lock_guard lock(mutex_);
  if (!json_ || rank_ != 0 || broken_) return;
  if (!write_json(object.text())) tell_broken(json_refused());
}

void Output::tell(const Failure& failure) {
  std::fprintf(stderr, "%s: %s\n", program_.c_str(), failure.sentence.c_str());
  std::fflush(stderr);
  if (!json_ || broken_ || (json_file_ != "-" && rank_ != 0)) return;
  JsonObject object;
  object.add("error", failure.sentence).add("exit", failure.code);
  broken_ = !write_json(object.text());
}

int Output::fail_locked(int rank, int code, std::string_view said) {
  // It may quote a file, and nothing in a file is to command the terminal.
  std::string sentence = without_commands(said);
  for (const auto& [setting, option] : called_) {
    for (size_t at = 0; (at = sentence.find(setting, at)) != std::string::npos; at += option.size()) {
      sentence.replace(at, setting.size(), option);
    }
  }
  if (launcher_fd_ >= 0) {
    // One write of less than PIPE_BUF bytes is atomic, so that the ranks' lines do not mix.
    const std::string report = fmt::format("{}\t{}\t{}", code, rank, sentence).substr(0, 4000) + "\n";
    const ssize_t written = write(launcher_fd_, report.data(), report.size());
    if (written == static_cast<ssize_t>(report.size())) return code;
  }
  if (collecting_) {
    failures_.push_back({code, rank, sentence});
  } else {
    tell({code, rank, sentence});
  }
  return code;
}

int Output::fail_as(int rank, int code, std::string_view sentence) {
  const std::lock_guard lock(mutex_);
  return fail_locked(rank, code, sentence);
}

int Output::echo_as(int rank, int code, std::string_view sentence) {
  const std::lock_guard lock(mutex_);
  return collecting_ || launcher_fd_ >= 0 ? code : fail_locked(rank, code, sentence);
}

int Output::fail(int code, std::string_view sentence) { return fail_as(rank_, code, sentence); }

int Output::fail(const tutti_comm* comm, tutti_status status) { return fail_as(rank_, comm, status); }

int Output::fail_as(int rank, const tutti_comm* comm, tutti_status status) {
  return fail_as(rank, exit_code(status), error_sentence(comm, status));
}

void Output::call(std::string setting, std::string option) {
  const std::lock_guard lock(mutex_);
  called_.emplace_back(std::move(setting), std::move(option));
}

void Output::collect() {
  const std::lock_guard lock(mutex_);
  collecting_ = true;
}

void Output::collected(int code, int rank, std::string sentence) {
  const std::lock_guard lock(mutex_);
  failures_.push_back({code, rank, std::move(sentence)});
}

bool Output::tell_worst() {
  const std::lock_guard lock(mutex_);
  const Failure* worst = nullptr;
  for (const Failure& failure : failures_) {
    const bool first = worst == nullptr;
    const bool replaces = !first && failure.code != worst->code && worse(worst->code, failure.code) == failure.code;
    const bool lower = !first && failure.code == worst->code && failure.rank < worst->rank;
    if (first || replaces || lower) worst = &failure;
  }
  if (worst != nullptr) tell(*worst);
  return worst != nullptr;
}

int Output::file(const std::string& path, std::string_view bytes) {
  const int error = write_file(path, bytes);
  if (error == 0) return kGood;
  return fail(kFailed, fmt::format("{} cannot be written: {}; name another file", path, std::strerror(error)));
}

int Output::result(int code) {
  const std::lock_guard lock(mutex_);
  if (file_ != nullptr && file_ != stdout && std::fclose(file_) != 0) tell_broken(json_refused());
  file_ = file_ == stdout ? stdout : nullptr;
  return code == kGood && broken_ ? static_cast<int>(kFailed) : code;
}

}  // namespace tutti::program
