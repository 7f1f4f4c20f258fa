#include "src/selection/msccl_files.h"

#include <fmt/format.h>

#include <utility>

namespace tutti {

Result<MscclFiles> MscclFiles::read(std::span<const std::string> paths) {
  MscclFiles out;
  for (const std::string& path : paths) {
    auto file = read_msccl(path);
    if (!file.ok()) return file.status();
    out.files_.push_back(std::make_shared<const MscclAlgorithm>(std::move(*file)));
  }
  return out;
}

const MscclAlgorithm* MscclFiles::find(const Problem& problem, std::string_view wish) const {
  for (const auto& file : files_) {
    if (wish.empty() ? file->fits(problem) : wish == file->name && file->is_for(problem)) return file.get();
  }
  return nullptr;
}

std::string MscclFiles::digest() const {
  std::string out;
  for (const auto& file : files_) out += fmt::format("{}{:016x}", out.empty() ? "" : ",", file->digest);
  return out;
}

}  // namespace tutti
