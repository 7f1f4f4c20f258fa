// Schedules that a user names in files, beside the registered algorithms: `TUTTI_MSCCL`.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/msccl_xml.h"

namespace tutti {

/// The files of one communicator, in the order in which they were named. A value; copies share what was read.
class MscclFiles {
 public:
  /// Reads and proves all. Errors: TUTTI_INVALID_ARGUMENT naming the file, and what is wrong where in it.
  static Result<MscclFiles> read(std::span<const std::string> paths);

  /// The schedule for a problem: with a wish (may be empty), the first of that name that is for its collective, ranks and
  /// root, whatever its bytes; else the first that fits, too, in bytes. nullptr where there is none. It lives as long as
  /// any copy of this.
  const MscclAlgorithm* find(const Problem& problem, std::string_view wish) const;
  /// 16 digits for each file, empty where there is none: what ranks compare.
  std::string digest() const;

 private:
  std::vector<std::shared_ptr<const MscclAlgorithm>> files_;
};

}  // namespace tutti
