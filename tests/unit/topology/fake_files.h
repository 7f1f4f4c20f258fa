// A folder that looks like a machine's /proc and /sys, removed with its object.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "topology/sysfs.h"

namespace tutti {

/// Owns a new folder below the temporary one. Not thread safe.
class FakeFiles {
 public:
  FakeFiles() {
    std::string pattern = testing::TempDir() + "/tutti_fake_XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "cannot make " << pattern;
    root_ = pattern;
  }
  ~FakeFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  FakeFiles(const FakeFiles&) = delete;
  FakeFiles& operator=(const FakeFiles&) = delete;

  /// Writes a file with a final newline, making its folders.
  FakeFiles& file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << '\n';
    return *this;
  }
  FakeFiles& folder(const std::string& path) {
    std::filesystem::create_directories(root_ + path);
    return *this;
  }
  /// A symbolic link at `path` to `target`, a path of the machine.
  FakeFiles& link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::filesystem::create_symlink(root_ + target, root_ + path);
    return *this;
  }
  Sysfs files() const { return Sysfs(root_); }

 private:
  std::string root_;
};

}  // namespace tutti
