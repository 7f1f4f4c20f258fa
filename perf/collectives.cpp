#include "perf/collectives.h"

#include <algorithm>

namespace tutti::perf {
namespace {

tutti_status all_reduce(const Arguments& a) {
  return tutti_all_reduce(a.send, a.recv, a.count, a.type, a.op, a.comm, a.stream, a.call);
}

tutti_status reduce(const Arguments& a) {
  return tutti_reduce(a.send, a.recv, a.count, a.type, a.op, a.root, a.comm, a.stream, a.call);
}

tutti_status broadcast(const Arguments& a) {
  return tutti_broadcast(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream, a.call);
}

tutti_status all_gather(const Arguments& a) {
  return tutti_all_gather(a.send, a.recv, a.count, a.type, a.comm, a.stream, a.call);
}

tutti_status reduce_scatter(const Arguments& a) {
  return tutti_reduce_scatter(a.send, a.recv, a.count, a.type, a.op, a.comm, a.stream, a.call);
}

tutti_status all_to_all(const Arguments& a) {
  return tutti_all_to_all(a.send, a.recv, a.count, a.type, a.comm, a.stream, a.call);
}

tutti_status gather(const Arguments& a) {
  return tutti_gather(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream, a.call);
}

tutti_status scatter(const Arguments& a) {
  return tutti_scatter(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream, a.call);
}

// As nccl-tests' sendrecv: around a ring, each rank to the next.
tutti_status send_recv(const Arguments& a) {
  const int next = (a.rank + 1) % a.ranks;
  const int previous = (a.rank + a.ranks - 1) % a.ranks;
  tutti_status status = tutti_group_start();
  if (status != TUTTI_SUCCESS) return status;
  status = tutti_recv(a.recv, a.count, a.type, previous, a.comm, a.stream, a.call);
  if (status == TUTTI_SUCCESS) status = tutti_send(a.send, a.count, a.type, next, a.comm, a.stream, a.call);
  const tutti_status end = tutti_group_end(nullptr);
  return status != TUTTI_SUCCESS ? status : end;
}

tutti_status barrier(const Arguments& a) { return tutti_barrier(a.comm, a.stream, a.call); }

std::vector<tutti_block> equal_blocks(void* base, const Arguments& a) {
  std::vector<tutti_block> blocks(static_cast<size_t>(a.ranks));
  const size_t bytes = a.count * tutti_type_size(a.type);
  for (size_t r = 0; r < blocks.size(); ++r) blocks[r] = {static_cast<std::byte*>(base) + r * bytes, a.count};
  return blocks;
}

tutti_status all_gather_v(const Arguments& a) {
  return tutti_all_gather_v(a.send, a.count, equal_blocks(a.recv, a).data(), a.type, a.comm, a.stream, a.call);
}

tutti_status reduce_scatter_v(const Arguments& a) {
  return tutti_reduce_scatter_v(equal_blocks(a.send, a).data(), a.recv, a.count, a.type, a.op, a.comm, a.stream, a.call);
}

tutti_status all_to_all_v(const Arguments& a) {
  const std::vector<tutti_block> send = equal_blocks(a.send, a);
  return tutti_all_to_all_v(send.data(), equal_blocks(a.recv, a).data(), a.type, a.comm, a.stream, a.call);
}

Source folded(int, int, int, uint64_t, uint64_t) { return {true, 0, 0}; }
Source folded_own_block(int rank, int, int, uint64_t count, uint64_t) {
  return {true, 0, static_cast<uint64_t>(rank) * count};
}
Source from_root(int, int, int root, uint64_t, uint64_t) { return {false, root, 0}; }
Source own_block_of_root(int rank, int, int root, uint64_t count, uint64_t) {
  return {false, root, static_cast<uint64_t>(rank) * count};
}
Source block_of_its_rank(int, int, int, uint64_t, uint64_t block) { return {false, static_cast<int>(block), 0}; }
Source own_block_of_each(int rank, int, int, uint64_t count, uint64_t block) {
  return {false, static_cast<int>(block), static_cast<uint64_t>(rank) * count};
}
Source from_previous(int rank, int ranks, int, uint64_t, uint64_t) { return {false, (rank + ranks - 1) % ranks, 0}; }

// The factors of nccl-tests' PERFORMANCE.md.
double twice_the_others(int ranks) { return 2.0 * (ranks - 1) / ranks; }
double the_others(int ranks) { return static_cast<double>(ranks - 1) / ranks; }
double once(int) { return 1; }

}  // namespace

const std::vector<BenchedCollective>& collectives() {
  constexpr Role kAll = Role::kAll;
  constexpr Role kRoot = Role::kRoot;
  static const std::vector<BenchedCollective> table = {
      // name, blocks, senders, receivers, reduces, in place, call, source, busbw
      {"all_reduce", Blocks::kNone, kAll, kAll, true, true, all_reduce, folded, twice_the_others},
      {"all_gather", Blocks::kRecv, kAll, kAll, false, true, all_gather, block_of_its_rank, the_others},
      {"reduce_scatter", Blocks::kSend, kAll, kAll, true, true, reduce_scatter, folded_own_block, the_others},
      {"broadcast", Blocks::kNone, kRoot, kAll, false, true, broadcast, from_root, once},
      {"reduce", Blocks::kNone, kAll, kRoot, true, true, reduce, folded, once},
      {"all_to_all", Blocks::kBoth, kAll, kAll, false, true, all_to_all, own_block_of_each, the_others},
      {"gather", Blocks::kRecv, kAll, kRoot, false, true, gather, block_of_its_rank, the_others},
      {"scatter", Blocks::kSend, kRoot, kAll, false, true, scatter, own_block_of_root, the_others},
      {"send_recv", Blocks::kNone, kAll, kAll, false, false, send_recv, from_previous, once},
      {"barrier", Blocks::kNone, Role::kNobody, Role::kNobody, false, false, barrier, from_root, once},
      {"all_gather_v", Blocks::kRecv, kAll, kAll, false, false, all_gather_v, block_of_its_rank, the_others},
      {"reduce_scatter_v", Blocks::kSend, kAll, kAll, true, false, reduce_scatter_v, folded_own_block, the_others},
      {"all_to_all_v", Blocks::kBoth, kAll, kAll, false, false, all_to_all_v, own_block_of_each, the_others},
  };
  return table;
}

uint64_t BenchedCollective::send_blocks(int ranks) const {
  return blocks == Blocks::kSend || blocks == Blocks::kBoth ? static_cast<uint64_t>(ranks) : 1;
}

uint64_t BenchedCollective::recv_blocks(int ranks) const {
  return blocks == Blocks::kRecv || blocks == Blocks::kBoth ? static_cast<uint64_t>(ranks) : 1;
}

const BenchedCollective* find_collective(const std::string& given) {
  struct Alias {
    const char* theirs;
    const char* ours;
  };
  constexpr Alias kAliases[] = {{"alltoall", "all_to_all"}, {"alltoallv", "all_to_all_v"}, {"sendrecv", "send_recv"}};
  constexpr std::string_view kProgram = "_perf";
  std::string name = given;
  if (name.ends_with(kProgram)) name.resize(name.size() - kProgram.size());
  for (const Alias& alias : kAliases) {
    if (name == alias.theirs) name = alias.ours;
  }
  for (const BenchedCollective& collective : collectives()) {
    if (name == collective.name) return &collective;
  }
  return nullptr;
}

uint64_t count_for(const BenchedCollective& collective, uint64_t bytes, tutti_type type, int ranks) {
  if (collective.senders == Role::kNobody) return 0;
  return bytes / tutti_type_size(type) / std::max(collective.send_blocks(ranks), collective.recv_blocks(ranks));
}

uint64_t bytes_for(const BenchedCollective& collective, uint64_t count, tutti_type type, int ranks) {
  return count * tutti_type_size(type) * std::max(collective.send_blocks(ranks), collective.recv_blocks(ranks));
}

}  // namespace tutti::perf
