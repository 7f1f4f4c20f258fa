// What tutti-perf knows of each collective: how to call it, how its bytes are counted, and what every element of its
// result must be. One row of the table each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

/// Which buffer holds a block for each rank.
enum class Blocks { kNone, kSend, kRecv, kBoth };

/// Who reads send and who writes recv.
enum class Role { kAll, kRoot, kNobody };

struct BenchedCollective {
  const char* name;
  Blocks blocks;
  Role senders;
  Role receivers;
  bool reduces;   ///< takes an operator
  bool in_place;  ///< has an in-place form
  tutti_status (*call)(const Arguments& arguments);
  /// Source of block `block` of the result on a rank that receives.
  Source (*source)(int rank, int ranks, int root, uint64_t count, uint64_t block);
  /// What nccl-tests multiplies the algorithm bandwidth by.
  double (*bus_factor)(int ranks);

  /// Messages between two ranks each: no algorithm is chosen.
  bool point_to_point() const { return std::string_view(name) == "send_recv"; }
  bool rooted() const { return senders == Role::kRoot || receivers == Role::kRoot; }
  bool sends(int rank, int root) const { return senders == Role::kAll || (senders == Role::kRoot && rank == root); }
  bool receives(int rank, int root) const { return receivers == Role::kAll || (receivers == Role::kRoot && rank == root); }
  /// Blocks in either buffer.
  uint64_t send_blocks(int ranks) const;
  uint64_t recv_blocks(int ranks) const;
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
