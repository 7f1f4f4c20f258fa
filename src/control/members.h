// Who belongs to a communicator, who is whose neighbour in its control graph, and how errors travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/addresses.h"
#include "src/base/byte_codec.h"
#include "src/base/status.h"

namespace tutti {

/// One rank's process, as all ranks know it.
struct Member {
  int rank = -1;
  int global = -1;  ///< its rank among all that its caller knows, -1: not said
  int pid = 0;
  std::string host;
  std::uint64_t machine = 0;         ///< machine_id(): equal where two members share a kernel
  std::uint64_t pid_namespace = 0;   ///< pids mean the same where this and `machine` are equal
  int activity_fd = -1;              ///< descriptor of its activity page there, -1: none
  std::uint64_t activity_inode = 0;  ///< and the file's number, as another file may have the descriptor later
  std::vector<std::byte> blob;       ///< what the member's transports said of themselves

  /// "rank 3 (node7, pid 8812)", or "rank 3 (global 7, node7, pid 8812)" where the two differ.
  std::string text() const;
  Guilty guilty() const;
  bool same_pids(const Member& other) const { return machine == other.machine && pid_namespace == other.pid_namespace; }
  bool same_process(const Member& other) const { return same_pids(other) && pid == other.pid; }
};

/// A member and where its control listener is: what a neighbour needs to reach it.
struct Introduction {
  Member member;
  std::vector<SocketAddress> addresses;
};

/// This process as `rank`.
Member this_member(int rank);

void pack_member(ByteWriter& out, const Member& member);
Member unpack_member(ByteReader& in);
void pack_introduction(ByteWriter& out, const Introduction& introduction);
Introduction unpack_introduction(ByteReader& in);
void pack_error(ByteWriter& out, const Error& error);
/// An error is never a success: a status that is none's, or nobody's here, becomes TUTTI_REMOTE_ERROR.
Error unpack_error(ByteReader& in);

/// The ranks at distance ±2^k on the ring of `ranks`, ascending, without `rank`: at most 2·log2(ranks). Symmetric: who is
/// my neighbour has me as one. Any message is at its target after at most log2(ranks) hops.
std::vector<int> neighbours(int rank, int ranks);

/// Hops between a and b around the ring, the shorter way.
int ring_distance(int a, int b, int ranks);

/// "ranks 0, 3-5" or "rank 7"; `ranks` ascending.
std::string rank_list(std::span<const int> ranks);

}  // namespace tutti
