#include "src/program/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "src/program/launcher.h"

namespace tutti::program {
namespace {

int take_launcher_pipe() {
  const char* text = std::getenv(kLauncherPipe);
  if (text == nullptr) return -1;
  const int fd = std::atoi(text);
  unsetenv(kLauncherPipe);
  // A descriptor that is not open is a leftover of somebody else's environment.
  if (fd < 3 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return -1;
  return fd;
}

bool guilty(const tutti_error& error, int rank) {
  const uint32_t kept = std::min<uint32_t>(error.guilty_count, std::size(error.guilty));
  for (uint32_t i = 0; i < kept; ++i) {
    if (error.guilty[i].rank == rank) return true;
  }
  return false;
}

// Errors that ranks share are told by the lowest one that is not to blame; an error of this rank alone, by itself.
bool speaks(const tutti_comm* comm, tutti_status status, int rank) {
  if (status == TUTTI_SYSTEM_ERROR || status == TUTTI_INTERNAL_ERROR) return true;
  tutti_error error = {};
  error.size = sizeof(error);
  if (tutti_error_get(comm, &error) != TUTTI_SUCCESS) return rank == 0;
  int lowest = 0;
  while (lowest < rank && guilty(error, lowest)) ++lowest;
  return lowest == rank;
}

}  // namespace

Output::Output(std::string program) : program_(std::move(program)), launcher_fd_(take_launcher_pipe()) {}

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
  if (!json_ || json_file_ == "-" || rank_ != 0 || launcher_fd_ >= 0) return kGood;
  std::FILE* file = std::fopen(json_file_.c_str(), "we");
  if (file != nullptr && std::fclose(file) == 0) return kGood;
  const std::string sentence = fmt::format("--json was given '{}', which cannot be written: {}; name another file",
                                           json_file_, std::strerror(errno));
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
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
  if (std::fflush(stdout) != 0) broken_ = true;
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
  if (write_json(object.text())) return;
  broken_ = true;
  const std::string sentence = fmt::format("the JSON lines cannot be written to '{}': {}; name a file that can be written",
                                           json_file_, std::strerror(errno));
  std::fprintf(stderr, "%s: %s\n", program_.c_str(), sentence.c_str());
}

void Output::tell(const Failure& failure) {
  std::fprintf(stderr, "%s: %s\n", program_.c_str(), failure.sentence.c_str());
  std::fflush(stderr);
  if (!json_ || broken_) return;
  JsonObject object;
  object.add("error", failure.sentence).add("exit", failure.code);
  broken_ = !write_json(object.text());
}

int Output::fail_as(int rank, int code, std::string_view sentence, bool speak) {
  const std::lock_guard lock(mutex_);
  if (launcher_fd_ >= 0) {
    // One write of less than PIPE_BUF bytes is atomic, so that the ranks' lines do not mix.
    const std::string report = fmt::format("{}\t{}\t{}", code, rank, sentence).substr(0, 4000) + "\n";
    const ssize_t written = write(launcher_fd_, report.data(), report.size());
    if (written == static_cast<ssize_t>(report.size())) return code;
  }
  if (collecting_) {
    failures_.push_back({code, rank, std::string(sentence)});
  } else if (rank == 0 || speak) {
    tell({code, rank, std::string(sentence)});
  }
  return code;
}

int Output::fail(int code, std::string_view sentence, bool speak) { return fail_as(rank_, code, sentence, speak); }

int Output::fail(const tutti_comm* comm, tutti_status status) { return fail_as(rank_, comm, status); }

int Output::fail_as(int rank, const tutti_comm* comm, tutti_status status) {
  const bool speak = speaks(comm, status, rank);
  const std::string sentence = error_sentence(comm, status);
  // Rank 0, where it is itself to blame, does not speak over the rank that noticed.
  return fail_as(rank, exit_code(status), sentence, speak);
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

int Output::result(int code) {
  const std::lock_guard lock(mutex_);
  if (file_ != nullptr && file_ != stdout && std::fclose(file_) != 0) broken_ = true;
  file_ = file_ == stdout ? stdout : nullptr;
  return code == kGood && broken_ ? static_cast<int>(kFailed) : code;
}

}  // namespace tutti::program
