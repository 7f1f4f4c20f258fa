// A program's options: one way of saying them, of explaining them, and of refusing what was given. A thin layer over
// CLI11, which stays out of this header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/program/output.h"
#include "src/tables/names.h"

namespace tutti::program {

/// The options of one program. Declare them, then parse once. Targets keep their value where an option is not given
/// (it is shown as the default in --help) and must outlive parse. `names` is as in "-b,--minbytes"; the long name is the
/// one that errors use. --help, --version, --json[=FILE] and --quiet are there by themselves. Not thread safe.
class Options {
 public:
  Options(std::string program, std::string summary);
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  /// An argument without a name; `allowed`, where it is not empty, lists what it may be.
  void positional(const std::string& name, std::string* value, const std::string& help, bool required = true,
                  std::vector<std::string> allowed = {});
  /// Any text, shown as `shown_as` in --help.
  void text(const std::string& names, std::string* value, const std::string& shown_as, const std::string& help);
  /// One of `allowed`.
  void choice(const std::string& names, std::string* value, std::vector<std::string> allowed, const std::string& help);
  /// A whole number in [min, max]; a default below min is not shown.
  void integer(const std::string& names, int64_t* value, int64_t min, int64_t max, const std::string& help);
  /// A number in [min, max].
  void real(const std::string& names, double* value, double min, double max, const std::string& help);
  /// A size as parse_size takes it.
  void size(const std::string& names, uint64_t* value, const std::string& help);
  /// Present or absent.
  void flag(const std::string& names, bool* value, const std::string& help);
  /// The heading in --help of what is declared from here on.
  void group(const std::string& heading);
  /// A line of the examples at the end of --help.
  void example(const std::string& command, const std::string& meaning);
  /// Free text at the end of --help, after the examples.
  void note(const std::string& text);

  /// Reads the command line and configures `output` by --json and --quiet. Returns nothing where the program should go
  /// on, else the exit code: kGood after --help and --version, kWrongUse after an error (which has been told).
  std::optional<int> parse(int argc, const char* const* argv, Output& output);

  /// Whether the option was on the command line, by its long name with the dashes. After parse.
  bool given(const std::string& long_name) const;
  /// All that take a value and were on the command line, in the order of their declaration. After parse.
  std::vector<std::string> given() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

/// Of `known`, the name that `given` was most likely meant to be; empty where none is near. Thread safe.
std::string nearest_name(std::string_view given, const std::vector<std::string>& known);

/// "a, b and c". Thread safe.
using tutti::listing;

}  // namespace tutti::program
