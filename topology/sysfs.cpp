#include "topology/sysfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <memory>

#include "src/base/unique_fd.h"

namespace tutti {
namespace {

constexpr std::size_t kLongestFile = 1 << 20;
constexpr int kLargestCpu = 1 << 20;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Digits count as numbers, so that cpu2 comes before cpu10.
bool natural_less(std::string_view a, std::string_view b) {
  const auto digits = [](std::string_view text) {
    std::size_t n = 0;
    while (n < text.size() && is_digit(text[n])) ++n;
    return n;
  };
  while (!a.empty() && !b.empty()) {
    const std::size_t in_a = digits(a);
    const std::size_t in_b = digits(b);
    if (in_a > 0 && in_b > 0 && in_a != in_b) return in_a < in_b;
    if (a.front() != b.front()) return a.front() < b.front();
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.size() < b.size();
}

bool take_number(std::string_view& text, int& out) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || out < 0 || out > kLargestCpu) return false;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return true;
}

}  // namespace

std::optional<std::string> Sysfs::text(const std::string& path) const {
  const UniqueFd file(::open((root_ + path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return std::nullopt;
  std::string all;
  std::array<char, 4096> part;
  while (all.size() < kLongestFile) {
    const ssize_t n = ::read(file.get(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return std::nullopt;  // sysfs answers EINVAL where a value makes no sense, as the speed of a link that is down
    if (n == 0) break;
    all.append(part.data(), static_cast<std::size_t>(n));
  }
  const auto is_space = [](unsigned char c) { return std::isspace(c) != 0; };
  while (!all.empty() && is_space(static_cast<unsigned char>(all.back()))) all.pop_back();
  all.erase(all.begin(), std::find_if_not(all.begin(), all.end(), is_space));
  return all;
}

std::optional<std::int64_t> Sysfs::number(const std::string& path) const {
  const auto content = text(path);
  if (!content) return std::nullopt;
  std::string_view digits = *content;
  const int base = digits.starts_with("0x") ? 16 : 10;
  if (base == 16) digits.remove_prefix(2);
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::vector<std::string> Sysfs::entries(const std::string& path) const {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir((root_ + path).c_str()), &::closedir);
  if (!folder) return names;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

std::string Sysfs::resolved(const std::string& path) const {
  const std::unique_ptr<char, void (*)(void*)> target(::realpath((root_ + path).c_str(), nullptr), &::free);
  if (!target) return {};
  if (root_.empty()) return target.get();
  const std::unique_ptr<char, void (*)(void*)> real_root(::realpath(root_.c_str(), nullptr), &::free);
  const std::string_view all = target.get();
  return real_root && all.starts_with(real_root.get()) ? std::string(all.substr(std::string_view(real_root.get()).size()))
                                                       : std::string();
}

bool Sysfs::exists(const std::string& path) const { return ::access((root_ + path).c_str(), F_OK) == 0; }

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty()) {
    int first = 0;
    if (!take_number(text, first)) return std::nullopt;
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take_number(text, last) || last < first) return std::nullopt;
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (text.empty()) break;
    if (text.front() != ',' || text.size() == 1) return std::nullopt;
    text.remove_prefix(1);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string cpu_list_text(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (end - i > 1) text += '-' + std::to_string(cpus[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace tutti
