// Line plots as SVG or PNG, drawn by gnuplot.
#pragma once

#include <string>
#include <vector>

namespace tutti::program {

struct Series {
  std::string label;
  std::vector<double> x;
  std::vector<double> y;  ///< as many as x; values that are not finite leave a gap
};

struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;  ///< base 2, ticks in K, M and G
  bool log_y = false;  ///< base 10
  std::vector<Series> series;
};

/// Whether `file` ends with .svg or .png and can be written, and, on rank 0, which draws, whether gnuplot is in PATH.
/// Returns an empty string, or a sentence for kWrongUse.
std::string check_plot_file(const std::string& file);

/// Draws `plot` into `file` (.svg or .png), whole or not at all (write_file in files.h); needs no folder for temporary
/// files. Returns an empty string, or the sentence that says why it could not: no gnuplot, a file that cannot be written.
/// Waits for gnuplot at most 60 s. Thread safe.
std::string draw_plot(const Plot& plot, const std::string& file);

}  // namespace tutti::program
