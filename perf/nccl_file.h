// The files that nccl-tests writes, for the scripts that read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/report.h"

namespace tutti::perf {

/// What a file says of a run besides its rows.
struct NcclRun {
  const Request* request;
  const std::vector<RankLocation>* locations;
  std::string begun;
  std::string ended;
  double average_GBps;
  uint64_t wrong;
};

/// The content of request->output_file by its ending: a JSON document with nccl-tests' keys, or its table as CSV below
/// three lines of heads.
std::string nccl_file(const NcclRun& run, const std::vector<Row>& rows);

}  // namespace tutti::perf
