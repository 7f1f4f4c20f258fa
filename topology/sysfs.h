// Small files of /proc and /sys, read under a root that tests replace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// Reads the small text files that the kernel shows. Copies of it are cheap; thread safe.
class Sysfs {
 public:
  /// root: put before every path; empty for the machine itself.
  explicit Sysfs(std::string root = {}) : root_(std::move(root)) {}

  /// The file's text (at most 1 MiB) without white space at its ends; nothing where it cannot be read.
  std::optional<std::string> text(const std::string& path) const;
  /// The whole number that the file begins with, decimal or, after 0x, hexadecimal.
  std::optional<std::int64_t> number(const std::string& path) const;
  /// Names in a folder, sorted as people count ("cpu2" before "cpu10"), without "." and "..".
  std::vector<std::string> entries(const std::string& path) const;
  /// Where a path leads after all symbolic links, without the root; empty where it leads nowhere.
  std::string resolved(const std::string& path) const;
  bool exists(const std::string& path) const;

  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

/// "0-3,8" as 0 1 2 3 8, sorted, each once; nothing where it is no such list. Empty text is the empty list. Numbers are at
/// most 2^20.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text);

/// The other way round.
std::string cpu_list_text(const std::vector<int>& cpus);

}  // namespace tutti
