// What tutti-perf measures: the collectives of src/tables/collectives.h, and what it makes of them besides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/tables/collectives.h"
#include "tutti/tutti.h"

namespace tutti::perf {

/// What a v-variant takes in the place of a buffer and a count.
struct BlockLists {
  std::vector<tutti_block> send;  ///< empty where the input is one block, and of an all_reduce_v in place
  std::vector<tutti_block> recv;  ///< empty where the result is one block
  uint64_t own = 0;               ///< elements of a buffer that is one block
};

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
  const BlockLists* lists = nullptr;  ///< of a v-variant
};

struct BenchedCollective : CollectiveInfo {
  bool in_place;        ///< has an in-place form
  bool point_to_point;  ///< messages between two ranks each: no algorithm is chosen
  tutti_status (*call)(const Arguments& arguments);
  bool takes_lists = false;  ///< is a v-variant: its blocks have lengths of their own
  bool in_pieces = false;    ///< a v-variant whose blocks are pieces of one buffer: piece_count of them
  bool fuses = false;        ///< calls of a group may be one operation, see tutti_group_end
};

/// Blocks of either list of an all_reduce_v.
inline constexpr int piece_count = 16;

/// All of them, in the order of --help.
const std::vector<BenchedCollective>& collectives();

/// The row of that name, or of nccl-tests' ("alltoall", "all_reduce_perf"), or nullptr.
const BenchedCollective* find_collective(const std::string& given);

/// The API's count for a size as nccl-tests means it: `bytes` is the larger of a rank's two buffers. Rounded down.
uint64_t count_for(const BenchedCollective& collective, uint64_t bytes, tutti_type type, int ranks);

/// The reverse: the bytes that a line of the report is about.
uint64_t bytes_for(const BenchedCollective& collective, uint64_t count, tutti_type type, int ranks);

}  // namespace tutti::perf
