#include "src/program/plot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>
#include <thread>

#include "src/program/files.h"
#include "src/program/launcher_detection.h"
#include "src/tables/units.h"

namespace tutti::program {
namespace {

constexpr char kGnuplot[] = "gnuplot";
constexpr char kInstall[] = "install gnuplot-nox";

// Inside gnuplot's single quotes, the quote is doubled and nothing else is special.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\n' || c == '\r') continue;
    result += c;
    if (c == '\'') result += c;
  }
  return result + "'";
}

std::string size_ticks(const Plot& plot) {
  double low = std::numeric_limits<double>::infinity();
  double high = 1;
  for (const Series& series : plot.series) {
    for (const double x : series.x) {
      if (x >= 1) low = std::min(low, x);
      high = std::max(high, x);
    }
  }
  std::string ticks;
  // At most about a dozen labels fit under the axis.
  const int octaves = low < high ? static_cast<int>(std::log2(high / low)) : 0;
  const int step = std::max(1, (octaves + 11) / 12);
  for (int i = 0; i < 63; i += step) {
    const uint64_t size = uint64_t{1} << i;
    if (static_cast<double>(size) < low || static_cast<double>(size) > high) continue;
    ticks += fmt::format("{}'{}' {}", ticks.empty() ? "" : ", ", size_text(size), size);
  }
  return ticks;
}

bool drawn(const Plot& plot, double x, double y) {
  return std::isfinite(y) && (!plot.log_x || x > 0) && (!plot.log_y || y > 0);
}

bool anything_drawn(const Plot& plot) {
  for (const Series& series : plot.series) {
    for (size_t p = 0; p < std::min(series.x.size(), series.y.size()); ++p) {
      if (drawn(plot, series.x[p], series.y[p])) return true;
    }
  }
  return false;
}

// Without "set output" gnuplot draws on its stdout.
std::string script(const Plot& plot, bool svg) {
  std::string text =
      svg ? "set terminal svg size 900,560 enhanced background 'white'\n" : "set terminal png size 900,560\n";
  text += "set title " + quoted(plot.title) + " noenhanced\n";
  text += "set xlabel " + quoted(plot.x_label) + " noenhanced\nset ylabel " + quoted(plot.y_label) + " noenhanced\n";
  text += "set grid\nset key left top noenhanced\nset datafile missing '?'\n";
  const std::string ticks = plot.log_x ? size_ticks(plot) : "";
  if (plot.log_x) text += "set logscale x 2\n";
  if (!ticks.empty()) text += "set xtics (" + ticks + ")\n";
  if (plot.log_y) text += "set logscale y 10\nset format y '%.6g'\n";
  std::string draw;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    text += fmt::format("$series{} << EOD\n", i);
    const Series& series = plot.series[i];
    for (size_t p = 0; p < std::min(series.x.size(), series.y.size()); ++p) {
      text += drawn(plot, series.x[p], series.y[p]) ? fmt::format("{} {}\n", series.x[p], series.y[p])
                                                    : fmt::format("{} ?\n", series.x[p]);
    }
    text += "EOD\n";
    draw += fmt::format("{} $series{} using 1:2 with linespoints linewidth 2 title {}", draw.empty() ? "" : ",", i,
                        quoted(series.label));
  }
  return text + "plot" + draw + "\n";
}

bool write_all(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

// The exit status of `pid`, or -1 after 60 s, when it is killed. 0, too, where it has ended and nobody knows how (the
// system tells nothing where SIGCHLD is ignored, except that there is no such child any more): what it drew shows.
int wait_for(pid_t pid) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  int status = 0;
  pid_t news = 0;
  while ((news = waitpid(pid, &status, WNOHANG)) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (news < 0) return 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A file without a name, of this process' memory: no folder need be writable, nothing can be left over, and neither side
// waits for the other.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : fd_(memfd_create(name, MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int fd() const { return fd_; }
  /// For whoever reads from the beginning. False where there is no file, or no room in it; errno says why.
  bool fill(const std::string& text) const { return fd_ >= 0 && write_all(fd_, text) && lseek(fd_, 0, SEEK_SET) == 0; }
  /// All that is there; less where it cannot be read.
  std::string content() const;

 private:
  const int fd_;
};

std::string MemoryFile::content() const {
  struct stat info;
  if (fstat(fd_, &info) != 0) return "";
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  for (ssize_t n = 1; done < bytes.size() && n > 0; done += n > 0 ? static_cast<size_t>(n) : 0) {
    n = pread(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
  }
  bytes.resize(done);
  return bytes;
}

// gnuplot takes a disk that is full for a success: whether it drew all shows at the end alone.
bool whole(const std::string& drawn, bool svg) {
  if (!svg) return drawn.ends_with(std::string_view("IEND\xae\x42\x60\x82", 8));
  return std::string_view(drawn).substr(0, drawn.find_last_not_of(" \n") + 1).ends_with("</svg>");
}

// As posix_spawnp looks for it.
bool has_gnuplot() {
  const char* const path = std::getenv("PATH");
  std::string_view folders = path != nullptr ? path : "/bin:/usr/bin";
  for (bool more = true; more;) {
    const size_t end = folders.find(':');
    const std::filesystem::path program = std::filesystem::path(folders.substr(0, end)) / kGnuplot;
    std::error_code error;
    if (access(program.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(program, error)) return true;
    more = end != std::string_view::npos;
    if (more) folders.remove_prefix(end + 1);
  }
  return false;
}

// Has gnuplot draw what `script` says. Returns 0 or the errno why it could not be started; then `status` is wait_for's.
int run_gnuplot(const MemoryFile& script, const MemoryFile& drawing, int* status) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, script.fd(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, drawing.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = kGnuplot;
  char* argv[] = {name.data(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, kGnuplot, &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) *status = wait_for(pid);
  return error;
}

}  // namespace

std::string check_plot_file(const std::string& file) {
  if (!file.ends_with(".svg") && !file.ends_with(".png")) {
    return fmt::format("--plot was given '{}', but a plot is an SVG or a PNG; name a file that ends with .svg or .png",
                       file);
  }
  // Rank 0 draws. What others lack, who may be on other machines, is no matter.
  const auto place = detect_launcher().place;
  if ((!place || place->rank == 0) && !has_gnuplot()) {
    return fmt::format("--plot was given '{}', but gnuplot, which would draw it, is not in PATH; {}, or leave --plot out",
                       file, kInstall);
  }
  return check_writable("--plot", file);
}

std::string draw_plot(const Plot& plot, const std::string& file) {
  if (!anything_drawn(plot)) {
    const char* const what = plot.log_x || plot.log_y ? "above 0, as its logarithmic axes need" : "to draw";
    return fmt::format("the plot '{}' was not drawn: there is nothing {}; measure something that is", file, what);
  }
  const bool svg = file.ends_with(".svg");
  const MemoryFile commands("tutti-plot-script");
  const MemoryFile drawing("tutti-plot");
  if (!commands.fill(script(plot, svg)) || drawing.fd() < 0) {
    return fmt::format(
        "there is no memory to draw the plot '{}' in: {}; raise `ulimit -n` or `ulimit -f`, or leave --plot out", file,
        std::strerror(errno));
  }
  int status = 0;
  const int error = run_gnuplot(commands, drawing, &status);
  if (error == ENOENT || status == 127) {
    return fmt::format("the plot '{}' needs gnuplot, which is not installed; {}", file, kInstall);
  }
  if (error != 0) {
    return fmt::format("gnuplot could not be started for '{}': {}; raise `ulimit -u` or `ulimit -v`, or leave --plot out",
                       file, std::strerror(error));
  }
  const std::string drawn = drawing.content();
  if (status != 0 || !whole(drawn, svg)) {
    return fmt::format(
        "gnuplot did not draw the plot '{}' to its end; see whether memory or `ulimit -f` is short, and "
        "whether `gnuplot` itself runs",
        file);
  }
  const int refusal = write_file(file, drawn);
  if (refusal == 0) return "";
  return fmt::format("{} cannot be written: {}; name another file", file, std::strerror(refusal));
}

}  // namespace tutti::program
