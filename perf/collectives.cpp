#include "perf/collectives.h"

#include <array>
#include <string_view>
#include <utility>

namespace tutti::perf {
namespace {

/// The verb of one collective: a function for each, so that a measured call costs no choice between them.
template <Collective kCollective>
tutti_status verb(const Arguments& a) {
  return call_verb(kCollective, {a.send, a.recv, a.count, a.type, a.op, a.root, a.comm, a.stream, a.call});
}

constexpr auto kVerbs = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
  return std::array{&verb<static_cast<Collective>(kIndex)>...};
}(std::make_index_sequence<collective_count>());

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

/// A form of a collective that has other arguments, and no form in place.
BenchedCollective variant(Collective of, const char* name, const char* alias, tutti_status (*call)(const Arguments&)) {
  BenchedCollective made = {info_of(of), false, false, call};
  made.name = name;
  made.alias = alias;
  return made;
}

std::vector<BenchedCollective> all_rows() {
  std::vector<BenchedCollective> rows;
  for (const auto& [collective, info] : tutti::collectives) {
    rows.push_back({info, info.senders != Role::nobody, false, kVerbs[static_cast<size_t>(collective)]});
  }
  rows.push_back({{"send_recv", "sendrecv", nullptr, Role::all, Role::all, BlockSource::previous}, false, true, send_recv});
  rows.push_back(variant(Collective::all_gather, "all_gather_v", nullptr, all_gather_v));
  rows.push_back(variant(Collective::reduce_scatter, "reduce_scatter_v", nullptr, reduce_scatter_v));
  rows.push_back(variant(Collective::all_to_all, "all_to_all_v", "alltoallv", all_to_all_v));
  return rows;
}

}  // namespace

const std::vector<BenchedCollective>& collectives() {
  static const std::vector<BenchedCollective> rows = all_rows();
  return rows;
}

Source BenchedCollective::source_of(int rank, int ranks, int root, uint64_t count, uint64_t block) const {
  const BlockOrigin from = origin(rank, ranks, root, static_cast<uint32_t>(block));
  return {from.fold, from.rank, from.block * count};
}

const BenchedCollective* find_collective(const std::string& given) {
  constexpr std::string_view kProgram = "_perf";
  std::string_view name = given;
  if (name.ends_with(kProgram)) name.remove_suffix(kProgram.size());
  for (const BenchedCollective& collective : collectives()) {
    if (name == collective.name || (collective.alias != nullptr && name == collective.alias)) return &collective;
  }
  return nullptr;
}

uint64_t count_for(const BenchedCollective& collective, uint64_t bytes, tutti_type type, int ranks) {
  if (collective.senders == Role::nobody) return 0;
  return bytes / tutti_type_size(type) / collective.largest_blocks(ranks);
}

uint64_t bytes_for(const BenchedCollective& collective, uint64_t count, tutti_type type, int ranks) {
  return count * tutti_type_size(type) * collective.largest_blocks(ranks);
}

}  // namespace tutti::perf
