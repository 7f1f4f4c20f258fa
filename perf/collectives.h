// What tutti-perf measures: the collectives of src/tables/collectives.h, and what it makes of them besides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/tables/collectives.h"
#include "tutti/tutti.h"

namespace tutti::perf {

/// The arguments of one call.
struct Arguments {
  void* send;
  void* recv;
  size_t count;  ///< the API's: elements of a block where there are blocks
  tutti_type type;
  tutti_op op;
  int root;
  int rank;
  int ranks;
  tutti_comm* comm;
  const tutti_call* call;
  tutti_stream stream = {TUTTI_STREAM_BLOCKING, nullptr};
};

/// Where the elements of a block of the result come from: element k is element `index` + k of rank `rank`'s send
/// buffer, or, with `fold`, the fold over that element of every rank's.
struct Source {
  bool fold;
  int rank;
  uint64_t index;
};

struct BenchedCollective : CollectiveInfo {
  bool in_place;        ///< has an in-place form
  bool point_to_point;  ///< messages between two ranks each: no algorithm is chosen
  tutti_status (*call)(const Arguments& arguments);

  /// Source of block `block` of the result on a rank that receives.
  Source source_of(int rank, int ranks, int root, uint64_t count, uint64_t block) const;
};

/// All of them, in the order of --help.
const std::vector<BenchedCollective>& collectives();

/// The row of that name, or of nccl-tests' ("alltoall", "all_reduce_perf"), or nullptr.
const BenchedCollective* find_collective(const std::string& given);

/// The API's count for a size as nccl-tests means it: `bytes` is the larger of a rank's two buffers. Rounded down.
uint64_t count_for(const BenchedCollective& collective, uint64_t bytes, tutti_type type, int ranks);

/// The reverse: the bytes that a line of the report is about.
uint64_t bytes_for(const BenchedCollective& collective, uint64_t count, tutti_type type, int ranks);

}  // namespace tutti::perf
