#include "src/program/plot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
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
#include <thread>

#include "src/program/files.h"
#include "src/program/sizes.h"

namespace tutti::program {
namespace {

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

std::string script(const Plot& plot, const std::string& file) {
  const bool svg = file.ends_with(".svg");
  std::string text =
      svg ? "set terminal svg size 900,560 enhanced background 'white'\n" : "set terminal png size 900,560\n";
  text += "set output " + quoted(file) + "\nset title " + quoted(plot.title) + " noenhanced\n";
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

// The exit status of `pid`, or -1 after 60 s, when it is killed.
int wait_for(pid_t pid) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// gnuplot reads the script from a file without a name, so that neither a full pipe nor a leftover file can be.
int script_file(const std::string& text) {
  char path[] = "/tmp/tutti-plot-XXXXXX";
  const int fd = mkostemp(path, O_CLOEXEC);
  if (fd < 0) return -1;
  unlink(path);
  if (write_all(fd, text) && lseek(fd, 0, SEEK_SET) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

std::string check_plot_file(const std::string& file) {
  if (file.ends_with(".svg") || file.ends_with(".png")) return check_writable("--plot", file);
  return fmt::format("--plot was given '{}', but a plot is an SVG or a PNG; name a file that ends with .svg or .png", file);
}

std::string draw_plot(const Plot& plot, const std::string& file) {
  if (!anything_drawn(plot)) {
    const char* const what = plot.log_x || plot.log_y ? "above 0, as its logarithmic axes need" : "to draw";
    return fmt::format("the plot '{}' was not drawn: there is nothing {}; measure something that is", file, what);
  }
  const int input = script_file(script(plot, file));
  if (input < 0) return fmt::format("no temporary file for the plot '{}': {}", file, std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  char name[] = "gnuplot";
  char* argv[] = {name, nullptr};
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, name, &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(input);
  if (error == ENOENT) return fmt::format("the plot '{}' needs gnuplot, which is not installed; install gnuplot-nox", file);
  if (error != 0) return fmt::format("gnuplot could not be started for '{}': {}", file, std::strerror(error));
  const int status = wait_for(pid);
  std::error_code unknown;
  if (status == 127) return fmt::format("the plot '{}' needs gnuplot, which is not installed; install gnuplot-nox", file);
  if (status != 0 && std::filesystem::file_size(file, unknown) == 0) std::filesystem::remove(file, unknown);
  if (status != 0) return fmt::format("gnuplot could not draw '{}'; check that the file can be written", file);
  return "";
}

}  // namespace tutti::program
